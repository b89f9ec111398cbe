"""A receive is posted for a worker that the job does not have."""
# ranks: 3
# finding: argument source
# out of line: 0
# cause: no-such-rank

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
num_workers = 3  # fixed: num_workers = comm.size - 1
rows = np.zeros((num_workers, 4))
if comm.rank == 0:
    requests = [comm.Irecv(rows[number], source=1 + number) for number in range(num_workers)]  # <- here
    MPI.Request.Waitall(requests)
else:
    comm.Send(np.ones(4), dest=0)
comm.Barrier()
