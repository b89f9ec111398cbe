"""A program without COMM_WORLD: one rank leaves out a barrier of the communicator that it made from a session."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: skipped-call | rank-conditional-call

import mpi4py
import numpy as np

mpi4py.rc.initialize = False
from mpi4py import MPI  # noqa: E402

session = MPI.Session.Init()
everybody = session.Create_group("mpi://WORLD")
comm = MPI.Intracomm.Create_from_group(everybody, "example.barriers")
total = np.zeros(2)
comm.Barrier()
if comm.rank != 1:  # fixed: if True:
    comm.Barrier()  # <- here
comm.Allreduce(np.ones(2), total)  # <- here
comm.Free()
everybody.Free()
session.Finalize()
