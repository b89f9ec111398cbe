"""One half opens a port, the other connects to it; then both part."""
# ranks: 4

import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
serves = comm.rank < 2
half = comm.Split(color=int(serves), key=comm.rank)
port = comm.bcast(MPI.Open_port() if comm.rank == 0 else None)
if serves:
    time.sleep(0.3 * comm.rank)
    bridge = half.Accept(port, root=0)
else:
    bridge = half.Connect(port, root=0)
print("rank", comm.rank, bridge.remote_size, bridge.allgather(half.rank))
if serves:
    bridge.send("word", dest=half.rank, tag=1)
else:
    time.sleep(0.3)
    print(bridge.recv(source=half.rank, tag=1))
bridge.Disconnect()
comm.Barrier()
if comm.rank == 0:
    MPI.Close_port(port)
