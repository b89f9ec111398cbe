"""A package with a module that is run by `python -m`."""
