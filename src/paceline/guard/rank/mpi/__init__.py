"""Watches mpi4py inside a rank. It never imports mpi4py: the hooks get the module once the script has imported it."""
