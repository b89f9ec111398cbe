"""Communicators with two sides: groups of one job that talk to each other, and jobs that meet or spawn others."""
