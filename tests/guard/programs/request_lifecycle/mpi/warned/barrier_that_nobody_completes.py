"""A non-blocking barrier is started as a signal, and nobody completes it."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0 1
# says: Ibarrier

from mpi4py import MPI

comm = MPI.COMM_WORLD
signal = comm.Ibarrier()  # <- here
# fixed: signal.Wait()
comm.allreduce(1)
del signal
