"""One rank makes one sum less on the copy of the communicator that Idup has made."""
# ranks: 3
# finding: deadlock
# out of line: 1
# cause: uneven-steps | skipped-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
copy, request = comm.Idup()
request.Wait()
for step in range(4):
    if step == 3 and copy.rank == 1:  # fixed: if False:
        break
    copy.allreduce(step)  # <- here
comm.Barrier()  # <- here
copy.Free()
