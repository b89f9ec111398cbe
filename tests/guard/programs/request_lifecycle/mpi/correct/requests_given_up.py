"""Requests that are cancelled and waited for, and sends that are freed: MPI completes those by itself."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank
for tag in range(20):
    data = np.ones(2)
    request = comm.Isend(data, dest=other, tag=tag)
    comm.Recv(np.empty(2), source=other, tag=tag)
    request.Free()
unneeded = comm.Irecv(np.empty(2), source=other, tag=99)
unneeded.Cancel()
unneeded.Wait()
again = comm.Recv_init(np.empty(2), source=other, tag=98)
for _ in range(3):
    again.Start()
    again.Cancel()
    again.Wait()
again.Free()
comm.Barrier()
print("rank", comm.rank)
