"""What people write without a benchmark: torch's DataLoader over npz files, and in each step a pause and a barrier.

With a workload as the last argument, files are read by the benchmark's own reader instead of numpy's.
"""

import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from mpi4py import MPI
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FOLDER, NUM_FILES, BATCH, EPOCHS, WORKERS = sys.argv[1], *map(int, sys.argv[2:6])
COMPUTE, RESULT, WORKLOAD = float(sys.argv[6]), Path(sys.argv[7]), (*sys.argv[8:], None)[0]


class SameReader(Dataset):
    """The files of a workload, by the benchmark's own reader."""

    def __init__(self, workload):
        from paceline.bench.data.store import store_of
        from paceline.bench.training.samples import Samples
        from paceline.bench.workload.workload import load_workload

        described = load_workload(workload).workload
        self.samples = Samples(described, "train", store_of(described))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, sample):
        return torch.from_numpy(self.samples[sample]["x"])


class Files(Dataset):
    """One npz file for each sample."""

    def __init__(self):
        width = len(str(NUM_FILES - 1))
        self.paths = [f"{FOLDER}/train/img_{file:0{width}}_of_{NUM_FILES}.npz" for file in range(NUM_FILES)]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, sample):
        with np.load(self.paths[sample]) as archive:
            return torch.from_numpy(archive["x_0"])


def main():
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    comm = MPI.COMM_WORLD
    dataset = SameReader(WORKLOAD) if WORKLOAD else Files()
    sampler = DistributedSampler(dataset, comm.size, comm.rank, seed=123, drop_last=True)
    loader = DataLoader(dataset, BATCH, sampler=sampler, num_workers=WORKERS, drop_last=True)
    first, seconds, cpu = None, [], 0.0
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        began = time.perf_counter()
        batches = iter(loader)
        while True:
            cpu_before = time.process_time()
            batch = next(batches, None)
            cpu += time.process_time() - cpu_before
            if batch is None:
                break
            if first is None:
                first = time.time() - float(os.environ["BEGAN"])
            assert len(batch) == BATCH
            if COMPUTE:
                time.sleep(COMPUTE)
            comm.Barrier()
        seconds.append(time.perf_counter() - began)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)  # they end with each epoch
    told = comm.gather((first, seconds, cpu + workers.ru_utime + workers.ru_stime))
    if comm.rank == 0:
        slowest = [max(each[1][epoch] for each in told) for epoch in range(EPOCHS)]
        samples = NUM_FILES // (comm.size * BATCH) * comm.size * BATCH
        result = {
            "first": max(each[0] for each in told),
            "rates": [samples / each for each in slowest],
            "cpu_us_per_sample": 1e6 * sum(each[2] for each in told) / samples / EPOCHS,
        }
        RESULT.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
