"""The extra barrier stands under an `if rank == 0`; the failure comes much later."""
# ranks: 4
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
for epoch in range(4):
    for _ in range(20):
        comm.Barrier()
    if comm.rank == 0 and epoch == 1:  # fixed: if epoch == 1:
        print("checkpoint", flush=True)
        comm.Barrier()  # <- here
best = comm.bcast(0.5 if comm.rank == 0 else None, root=0)
print("rank", comm.rank, best)
