"""A communicator is made of a session's group in every step and never freed."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: communicators made at

import numpy as np
from mpi4py import MPI

session = MPI.Session.Init()
everybody = session.Create_group("mpi://WORLD")
total = np.zeros(1)
for _ in range(100):
    part = MPI.Intracomm.Create_from_group(everybody, "example.step")  # <- here
    part.Allreduce(np.ones(1), total)
    # fixed: part.Free()
everybody.Free()
session.Finalize()
