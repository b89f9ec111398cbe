"""A client connects to its server for each request; neither disconnects."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: communicators made at

from mpi4py import MPI

comm = MPI.COMM_WORLD
port = comm.bcast(MPI.Open_port() if comm.rank == 0 else None)
meet = MPI.COMM_SELF.Accept if comm.rank == 0 else MPI.COMM_SELF.Connect
for request in range(80):
    bridge = meet(port)  # <- here
    if comm.rank == 0:
        bridge.send(request, dest=0)
    else:
        bridge.recv(source=0)
    # fixed: bridge.Disconnect()
comm.Barrier()
if comm.rank == 0:
    MPI.Close_port(port)
