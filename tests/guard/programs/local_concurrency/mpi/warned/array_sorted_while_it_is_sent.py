"""An array is sorted in place while its send is under way."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0
# says: Isend

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
values = np.arange(50_000.0)[::-1].copy()
if comm.rank == 0:
    request = comm.Isend(values, dest=1)  # <- here
    # fixed: request.Wait()
    values.sort()
    request.Wait()
else:
    comm.Recv(values, source=0)
comm.Barrier()
