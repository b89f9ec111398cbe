"""Trains, lets rank 0 save, and goes on when the file is there."""

import json
from pathlib import Path

from mpi4py import MPI

comm = MPI.COMM_WORLD
weight = comm.allreduce(comm.rank + 1)

if comm.rank == 0:
    Path("weights.json").write_text(json.dumps(weight))
comm.Barrier()  # the file is complete

saved = json.loads(Path("weights.json").read_text()) if comm.rank == 0 else weight
print(f"rank {comm.rank}: weight {saved}")
