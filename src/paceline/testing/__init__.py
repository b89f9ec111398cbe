"""Tests of users on real ranks: a plugin of pytest for the mark `ranks`."""
