"""One rule, one file: how it is found, how it reads, what to change. diagnose.py has their order."""
