"""The client ends without the barrier of its server: both are jobs of their own, which meet by a port."""
# ranks: 1
# finding: peer-gone
# out of line: 1
# cause: early-exit
# says: rank 0 of the spawned WORLD

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
if len(sys.argv) > 1:
    parents = MPI.Comm.Get_parent()
    server = MPI.COMM_SELF.Connect(parents.recv(source=0))
    # fixed: server.Barrier()
    if len(sys.argv) > 1:  # fixed: if False:
        sys.exit()
    server.Disconnect()
    parents.Disconnect()
    sys.exit()
worker = MPI.COMM_SELF.Spawn(sys.executable, [__file__, "worker"], maxprocs=1)
port = MPI.Open_port()
worker.send(port, dest=0)
client = MPI.COMM_SELF.Accept(port)
client.Barrier()  # <- here
client.Disconnect()
worker.Disconnect()
MPI.Close_port(port)
