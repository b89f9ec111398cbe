"""Ray Train with workers that read shards of their own: the second has one batch less."""

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train.torch import TorchConfig, TorchTrainer
from torch.nn.parallel import DistributedDataParallel


def train() -> None:
    """Train on the shard of one worker."""
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    for inputs in torch.ones(10 - dist.get_rank(), 2, 3):
        model(inputs).sum().backward()  # <- here
    dist.barrier()


if __name__ == "__main__":
    ray.init(num_cpus=2)
    TorchTrainer(
        train, torch_config=TorchConfig(backend="gloo"), scaling_config=ray.train.ScalingConfig(num_workers=2)
    ).fit()
