"""One rank does not take part when the others make a communicator of a session's group."""
# ranks: 3
# finding: deadlock
# out of line: 2
# cause: rank-conditional-call

from mpi4py import MPI

session = MPI.Session.Init()
everybody = session.Create_group("mpi://WORLD")
if MPI.COMM_WORLD.rank != 2:  # fixed: if True:
    comm = MPI.Intracomm.Create_from_group(everybody, "example.group")  # <- here
    comm.Free()
MPI.COMM_WORLD.Barrier()  # <- here
everybody.Free()
session.Finalize()
