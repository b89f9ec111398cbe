"""A single communicator is made and not freed, which the standard asks for; the job ends well all the same."""
# ranks: 2
# not found: the guard speaks of a leak only when handles grow in number, because programs keep a few until the end

from mpi4py import MPI

comm = MPI.COMM_WORLD
half = comm.Dup()  # <- here
half.Barrier()
# fixed: half.Free()
