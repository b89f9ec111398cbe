"""WebDataset, tar files as streams: `torchrun --nproc-per-node 2 examples/ecosystem/webdataset_stream.py`.

WebDataset gives each rank its own tar files. They are never of the same length, so `in_step` lets the ranks stop
together, and every sample is used.
"""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import webdataset
from problem import Points

from paceline import connect, in_step

NUM_SHARDS = 3  # one rank reads two of them


def write_shards(folder: Path) -> list[str]:
    """Write the samples into tar files, as a user has them."""
    points, names = Points(), [str(folder / f"{shard}.tar") for shard in range(NUM_SHARDS)]
    for shard, name in enumerate(names):
        with webdataset.TarWriter(name) as writer:
            for sample in range(shard, len(points), NUM_SHARDS):
                writer.write({"__key__": f"{sample:04}", "x.pth": points[sample]["x"], "y.pth": points[sample]["y"]})
    return names


dist.init_process_group("gloo")
comm = connect()
with tempfile.TemporaryDirectory() as folder:
    shards = write_shards(Path(folder))
    stream = webdataset.WebDataset(shards, nodesplitter=webdataset.split_by_node, shardshuffle=False).decode()
    counts = torch.zeros(2)
    with in_step(stream, comm, tail="pad", empty=lambda: None) as steps:
        for sample in steps:
            counts += torch.tensor([1.0, sample is not None])
dist.all_reduce(counts)
if comm.rank == 0:
    print(f"stream: {int(counts[1])} samples in {int(counts[0]) // comm.world_size} steps on every rank")
dist.destroy_process_group()
