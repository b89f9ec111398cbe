"""Wrong arguments on one rank alone: the library refuses them, the script deals with it, and all go on together."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def refused(function, *arguments, **named):
    """Tell how a call fails."""
    try:
        function(*arguments, **named)
    except (MPI.Exception, ValueError, KeyError, BufferError, OverflowError) as error:
        return type(error).__name__
    return "nothing"


matrix = np.arange(9.0).reshape(3, 3)
if comm.rank == 1:
    print(refused(comm.Send, matrix[:, 1], dest=0))
    print(refused(comm.Send, np.ones(1), dest=0, tag=-7))
    print(refused(comm.Recv, np.ones(1), source=17))
    print(refused(comm.Send, np.array([None]), dest=0))
    print(refused(comm.Get_group().Incl, [5]))
    print(refused(MPI.COMM_NULL.Barrier))
    print(refused(comm.Send, np.ones(1), dest=0, tag=2**40))
total = np.zeros(3)
comm.Allreduce(matrix[1], total)
print("rank", comm.rank, total)
