"""A ring of cells exchanges its edges; in one step a rank takes its cell for frozen and leaves one exchange out."""
# ranks: 4
# finding: deadlock
# out of line: 3
# cause: receive-without-send

import numpy as np
from mpi4py import MPI

ring = MPI.COMM_WORLD.Create_cart([MPI.COMM_WORLD.size], periods=[True])
left, right = ring.Shift(0, 1)
cells = np.full(12, float(ring.rank))


def exchange(frozen):
    ring.Sendrecv(cells[1:2], dest=left, recvbuf=cells[11:12], source=right)
    if not frozen:
        ring.Sendrecv(cells[10:11], dest=right, recvbuf=cells[0:1], source=left)  # <- here


for step in range(8):
    exchange(ring.rank == 3 and step == 5)  # fixed: exchange(False)
    cells[1:-1] += 0.1 * (cells[2:] - 2 * cells[1:-1] + cells[:-2])
print("rank", ring.rank, cells.mean() > 0)
