"""Every rank finds a different number of peaks and gathers them with a call that wants equal sizes."""
# ranks: 3
# finding: mismatch count
# cause: shape

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
signal = np.random.default_rng(7 + comm.rank).normal(size=400)
peaks = np.flatnonzero(signal > 1.0 + 0.2 * comm.rank).astype(np.int64)
# fixed: peaks = np.resize(peaks, 16)
everything = np.empty(comm.size * len(peaks), dtype=np.int64)
comm.Allgather(peaks, everything)  # <- here
print("rank", comm.rank, len(everything) > 0)
