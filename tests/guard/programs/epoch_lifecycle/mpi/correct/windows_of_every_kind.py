"""Windows made in every way, of sub-communicators too, several at one time, freed and made again."""
# ranks: 4

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
half = comm.Split(comm.rank % 2)
memory = np.zeros(4)
for step in range(3):
    created = MPI.Win.Create(memory, 8, MPI.INFO_NULL, comm)
    allocated = MPI.Win.Allocate(8 * (comm.rank + 1), disp_unit=1 + comm.rank, comm=half)
    shared = MPI.Win.Allocate_shared(8 if comm.rank == 0 else 0, 8, comm=comm)
    buffer, _ = shared.Shared_query(0)
    shared.Fence()
    if comm.rank == 0:
        np.frombuffer(buffer, dtype="f8")[0] = step
    shared.Fence()
    assert np.frombuffer(buffer, dtype="f8")[0] == step
    dynamic = MPI.Win.Create_dynamic(comm=comm)
    dynamic.Attach(memory)
    if half.rank == step % half.size:
        time.sleep(0.1)
    allocated.Fence(MPI.MODE_NOPRECEDE)
    created.Fence()
    created.Put(np.full(1, comm.rank, dtype="f8"), (comm.rank + 1) % comm.size)
    created.Fence(MPI.MODE_NOSUCCEED)
    allocated.Fence()
    dynamic.Detach(memory)
    dynamic.Free()
    shared.Free()
    allocated.Free()
    created.Free()
alone = MPI.Win.Allocate(8)
alone.Fence()
if comm.rank:
    alone.Fence()
alone.Free()
print("rank", comm.rank, memory)
half.Free()
