"""Watches mpi4py inside a rank. It imports no mpi4py: the hooks get the module once the script has it."""
