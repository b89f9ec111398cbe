"""Ray Train on two workers of a local cluster: `python examples/ecosystem/ray_train.py`.

Ray connects its workers by torch.distributed, so their loop is that of DDP. Started under `paceline run`, the workers
are watched too: they inherit what the driver has in its environment.
"""

import ray
import ray.train
import torch
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model
from ray.train.torch import TorchConfig, TorchTrainer
from torch.nn.parallel import DistributedDataParallel

from paceline import Loader, connect, mean_loss

NUM_RANKS = 2


def train() -> None:
    """Train on one worker; each of them calls it."""
    comm = connect()
    model = DistributedDataParallel(make_model())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with Loader(Points(), batch_size=GLOBAL_BATCH // comm.world_size, seed=0, comm=comm) as loader:
        for epoch in range(EPOCHS):
            loader.set_epoch(epoch)
            total = torch.zeros(1)
            for batch in loader:
                loss = loss_sum(model, batch)
                optimiser.zero_grad()
                mean_loss(loss, batch.num_real, comm).backward()
                optimiser.step()
                total += loss.detach()
            used = loader.summary.num_used
            mean = comm.all_reduce(total).item() / used
            ray.train.report({"epoch": epoch, "samples": used, "loss": mean})
            if comm.rank == 0:
                print(f"epoch {epoch}: {used} samples, loss {mean:.6f}", flush=True)


if __name__ == "__main__":
    ray.init(num_cpus=NUM_RANKS)
    trainer = TorchTrainer(
        train,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=NUM_RANKS),
    )
    trainer.fit()
    ray.shutdown()
