"""torchdata's StatefulDataLoader with our sampler, on two ranks.

`torchrun --nproc-per-node 2 examples/ecosystem/stateful_dataloader.py`: it is stopped in the middle of the first
epoch, and goes on from its own state in a new loader.
"""

from typing import Any

import torch
import torch.distributed as dist
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model
from torch.nn.parallel import DistributedDataParallel
from torchdata.stateful_dataloader import StatefulDataLoader

from paceline import Collate, PlanSampler, connect, mean_loss

STOP_AFTER = 3


def make_loader() -> StatefulDataLoader:
    """Make the loader, as the job does at every start."""
    sampler = PlanSampler(Points(), batch_size=batch_size, seed=0)
    return StatefulDataLoader(
        Points(), batch_sampler=sampler, collate_fn=Collate(batch_size, example=Points()[0]), num_workers=1
    )


def train_on(batch: Any, model: torch.nn.Module) -> torch.Tensor:
    """Make one step."""
    loss = loss_sum(model, batch)
    optimiser.zero_grad()
    mean_loss(loss, batch.num_real, comm).backward()
    optimiser.step()
    return loss.detach()


dist.init_process_group("gloo")
comm = connect()
batch_size = GLOBAL_BATCH // comm.world_size
model = DistributedDataParallel(make_model())
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.zeros(2)  # losses and samples
loader = make_loader()
for step, batch in enumerate(loader, start=1):
    total += torch.tensor([train_on(batch, model), batch.num_real])
    if step == STOP_AFTER:
        break
state = loader.state_dict()  # into the checkpoint, one for each rank
loader = make_loader()
loader.load_state_dict(state)
for epoch in range(EPOCHS):
    loader.batch_sampler.set_epoch(epoch)
    for batch in loader:
        total += torch.tensor([train_on(batch, model), batch.num_real])
    dist.all_reduce(total)
    if comm.rank == 0:
        print(f"epoch {epoch}: {int(total[1])} samples, loss {total[0] / total[1]:.6f}")
    total.zero_()
del model  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
