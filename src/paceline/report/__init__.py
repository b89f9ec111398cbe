"""Turns values into what people and programs read: text, JSON, a page, a trace, lines at the bottom of a terminal.

It reads the files that a run has left and works out who waited for whom. What is wrong with a job is not decided here.
"""
