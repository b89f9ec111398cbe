"""Messages of mpi4py: what is read of their arguments, and how they are recorded."""
