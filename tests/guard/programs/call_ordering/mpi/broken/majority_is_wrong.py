"""Three of four ranks read a setting that switches the averaging off; only rank 0 still averages."""
# ranks: 4
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call
# says: config['average']

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
config = {"average": comm.rank == 0, "steps": 4}  # fixed: config = {"average": True, "steps": 4}
weights = np.full(8, float(comm.rank))
for _step in range(config["steps"]):
    gradient = weights * 0.1
    comm.Allreduce(MPI.IN_PLACE, gradient)
    weights -= gradient
    if config["average"]:
        mean = comm.allreduce(float(weights.mean()))  # <- here
comm.Barrier()
print("rank", comm.rank, "done")
