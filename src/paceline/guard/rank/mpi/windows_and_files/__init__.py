"""Windows and files of mpi4py, each followed like a communicator of its own."""
