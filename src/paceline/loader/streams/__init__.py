"""Streams of unknown length, kept in step."""
