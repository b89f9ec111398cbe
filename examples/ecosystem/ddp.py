"""A plain loop with DistributedDataParallel: `torchrun --nproc-per-node 2 examples/ecosystem/ddp.py`."""

import torch
import torch.distributed as dist
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model
from torch.nn.parallel import DistributedDataParallel

from paceline import Loader, connect, mean_loss

dist.init_process_group("gloo")
comm = connect()
model = DistributedDataParallel(make_model())
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
with Loader(Points(), batch_size=GLOBAL_BATCH // comm.world_size, seed=0) as loader:
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
            print(
                f"epoch {epoch}: {loader.summary.num_used} samples, loss {total.item() / loader.summary.num_used:.6f}"
            )
del model  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
