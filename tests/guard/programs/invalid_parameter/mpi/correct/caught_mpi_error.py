"""A rank that does not exist: the script catches the error and goes on."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
try:
    comm.Send(np.ones(1), dest=comm.size + 3)
except MPI.Exception as error:
    print("rank", comm.rank, "caught", error.Get_error_class() == MPI.ERR_RANK)
try:
    comm.bcast(1, root=-7)
except MPI.Exception as error:
    print("rank", comm.rank, "caught", error.Get_error_class() == MPI.ERR_ROOT)
comm.Barrier()
print("rank", comm.rank, comm.allreduce(1))
