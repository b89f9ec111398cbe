"""Hugging Face datasets, both kinds: `torchrun --nproc-per-node 2 examples/ecosystem/hf_datasets.py`.

A dataset with a length goes into the loader as it is. An iterable one is divided among ranks by datasets itself, and
`in_step` lets the ranks stop together although their parts differ.
"""

import torch
import torch.distributed as dist
from datasets import Dataset
from datasets.distributed import split_dataset_by_node
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model
from torch.nn.parallel import DistributedDataParallel

from paceline import Loader, connect, in_step, mean_loss

dist.init_process_group("gloo")
comm = connect()
points = Points()
rows = [points[sample] for sample in range(len(points))]
dataset = Dataset.from_dict({name: [row[name].tolist() for row in rows] for name in rows[0]}).with_format("torch")
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
part = split_dataset_by_node(dataset.to_iterable_dataset(num_shards=3), rank=comm.rank, world_size=comm.world_size)
counts = torch.zeros(2)
with in_step(part, comm, tail="pad", empty=lambda: None) as steps:
    for sample in steps:
        counts += torch.tensor([1.0, sample is not None])
dist.all_reduce(counts)
if comm.rank == 0:
    print(f"stream: {int(counts[1])} samples in {int(counts[0]) // comm.world_size} steps on every rank")
del model  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
