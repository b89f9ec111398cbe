"""A reduction of the program's own is made in every step; mpi4py has room for 32."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: 32

from mpi4py import MPI

comm = MPI.COMM_WORLD
for step in range(20):
    larger = MPI.Op.Create(lambda a, b, _: None)  # <- here
    comm.allreduce(step, op=MPI.MAX)
    # fixed: larger.Free()
