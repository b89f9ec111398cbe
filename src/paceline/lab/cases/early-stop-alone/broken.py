"""Trains until the loss no longer gets better; each rank looks at its own validation data."""

from mpi4py import MPI

LOSSES = (
    (0.9, 0.7, 0.6, 0.55, 0.5, 0.5),
    (0.8, 0.6, 0.5, 0.45, 0.4, 0.4),
    (0.9, 0.8, 0.8, 0.75, 0.7, 0.7),  # the last rank has the hard samples
)

comm = MPI.COMM_WORLD
best = float("inf")
for epoch, loss in enumerate(LOSSES[comm.rank]):
    if loss >= best:
        break  # no better than before
    best = loss
    total = comm.allreduce(loss)
comm.Barrier()
print(f"rank {comm.rank}: stopped after {epoch} epochs, total {total:.2f}")
