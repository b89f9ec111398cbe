"""A message is made ready part by part, more than once, while other ranks wait for the receiver."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
PARTS = 4
request = None
if "Open MPI" not in MPI.Get_library_version():  # 5.0 waits for ever in this program
    try:
        if comm.rank == 0:
            request = comm.Psend_init(np.arange(PARTS, dtype="i4"), PARTS, dest=1, tag=2)
        elif comm.rank == 1:
            request = comm.Precv_init(np.zeros(PARTS, dtype="i4"), PARTS, source=0, tag=2)
    except NotImplementedError:
        pass  # an older MPI
for _ in range(2):
    if request is not None:
        request.Start()
        for part in range(PARTS) if comm.rank == 0 else ():
            time.sleep(0.2)
            request.Pready(part)
        request.Wait()
    comm.Barrier()
if request is not None:
    request.Free()
print("rank", comm.rank)
