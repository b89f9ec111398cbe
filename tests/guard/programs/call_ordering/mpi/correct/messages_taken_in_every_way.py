"""Messages to oneself and to nobody, buffered ones, probes that take a message, exchanges, and late receives."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank
MPI.Attach_buffer(bytearray(1 << 16))
comm.Send(np.ones(2), dest=MPI.PROC_NULL)
comm.Bsend(np.ones(2), dest=other, tag=1)
comm.bsend("text", dest=other, tag=2)
own = comm.isend("to myself", dest=comm.rank, tag=3)
comm.Sendrecv(np.ones(3), dest=other, sendtag=4, recvbuf=np.empty(3), source=MPI.ANY_SOURCE, recvtag=4)
comm.Sendrecv_replace(np.ones(3), dest=other, sendtag=5, source=other, recvtag=5)
print("rank", comm.rank, comm.recv(source=comm.rank, tag=3))
own.wait()
while (message := comm.Improbe(source=other, tag=1)) is None:
    pass
message.Recv(np.empty(2))
print(comm.mprobe(tag=2).recv())
part = comm.Dup()
late = part.Irecv(np.empty(2), source=other)
sent = part.Isend(np.ones(2), dest=other)
part.Free()  # what is under way completes all the same
MPI.Request.Waitall([late, sent])
comm.Barrier()
MPI.Detach_buffer()
