"""MosaicML streaming, shards of MDS files: `torchrun --nproc-per-node 2 examples/ecosystem/mosaic_streaming.py`.

A `StreamingDataset` gives any sample by its number, so a plan can deal the samples. If it deals them itself, it repeats
some of them, so that all ranks get the same number; `in_step` takes that stream too.
"""

import shutil
import tempfile

import torch
import torch.distributed as dist
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model
from streaming import MDSWriter, StreamingDataset
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Subset

from paceline import Loader, connect, in_step, mean_loss


def write_shards(folder: str) -> None:
    """Write the samples into MDS files, as a user has them."""
    points = Points()
    with MDSWriter(out=folder, columns={"x": "ndarray:float32:3", "y": "ndarray:float32:1"}) as writer:
        for sample in range(len(points)):
            writer.write({name: value.reshape(-1).numpy() for name, value in points[sample].items()})


class Samples(Subset):
    """The samples by their number, as tensors."""

    def __getitem__(self, sample: int) -> dict[str, torch.Tensor]:
        row = super().__getitem__(sample)
        return {"x": torch.tensor(row["x"]), "y": torch.tensor(row["y"][0])}

    def __getitems__(self, samples: list[int]) -> list[dict[str, torch.Tensor]]:
        return [self[sample] for sample in samples]


dist.init_process_group("gloo")
comm = connect()
folders = [tempfile.mkdtemp()] if comm.rank == 0 else [None]
dist.broadcast_object_list(folders)
if comm.rank == 0:
    write_shards(f"{folders[0]}/mds")
dist.barrier()
stream = StreamingDataset(local=f"{folders[0]}/mds", batch_size=1)
dataset = Samples(stream, range(stream.num_samples))
model = DistributedDataParallel(make_model())
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
with Loader(dataset, batch_size=GLOBAL_BATCH // comm.world_size, seed=0) as loader:
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        total = torch.zeros(1)
        for batch in loader:
            loss = loss_sum(model, batch)
            optimiser.zero_grad()
            mean_loss(loss, batch.num_real, comm).backward()
            optimiser.step()
            total += loss.detach()
        dist.all_reduce(total)
        if comm.rank == 0:
            used = loader.summary.num_used
            print(f"epoch {epoch}: {used} samples, loss {total.item() / used:.6f}")
counts = torch.zeros(2)
with in_step(stream, comm, tail="pad", empty=lambda: None) as steps:
    for sample in steps:
        counts += torch.tensor([1.0, sample is not None])
dist.all_reduce(counts)
if comm.rank == 0:
    print(f"stream: {int(counts[1])} samples in {int(counts[0]) // comm.world_size} steps on every rank")
    shutil.rmtree(folders[0])
del model  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
