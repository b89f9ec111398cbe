"""What a Get brings is sent on before the lock is given back, which would complete the Get."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
value = np.zeros(1)
comm.Barrier()
if comm.rank == 1:
    window.Lock(0)
    window.Get(value, 0)
    # fixed: window.Flush(0)
    comm.Send(value, dest=0)  # <- here
    window.Unlock(0)
else:
    comm.Recv(value, source=1)
comm.Barrier()
window.Free()
