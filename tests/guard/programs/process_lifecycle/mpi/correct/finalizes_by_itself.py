"""The script initialises and finalises MPI by itself, and works on afterwards."""
# ranks: 3

import mpi4py

mpi4py.rc.initialize = False
mpi4py.rc.finalize = False

from mpi4py import MPI  # noqa: E402

MPI.Init()
comm = MPI.COMM_WORLD
rank, total = comm.rank, comm.allreduce(1)
comm.Barrier()
MPI.Finalize()
print("rank", rank, total)
