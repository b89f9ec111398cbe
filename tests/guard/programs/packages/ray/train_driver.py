"""A driver of Ray Train that knows nothing of Paceline: correct, or broken as its argument says. The last rank is odd.

`python train_driver.py KIND FOLDER`
"""

import os
import signal
import sys
import time
from pathlib import Path

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train.torch import TorchConfig, TorchTrainer


def train(config: dict[str, str]) -> None:
    """Train on one worker; each of them calls it."""
    kind, is_odd = config["kind"], dist.get_rank() == dist.get_world_size() - 1
    mark = Path(config["folder"], "restarted")
    is_first_time = not mark.exists()  # before a call that all make together
    values = torch.ones(4)
    for _ in range(3):
        dist.all_reduce(values)
    if kind == "mismatch" and is_odd:
        dist.broadcast(values, src=0)  # <- mismatch
    elif kind == "raises" and is_odd:
        raise ValueError("bad sample")  # <- raises
    elif kind == "killed" and is_odd:
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "returns" and is_odd:
        return
    elif kind == "slow":
        time.sleep(45.0)
    elif kind == "restarted" and is_first_time:
        if is_odd:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600.0)  # nobody waits for it in a call, and Ray starts all again
    dist.all_reduce(values)  # <- others


if __name__ == "__main__":
    kind, folder = sys.argv[1:]
    ray.init()
    TorchTrainer(
        train,
        train_loop_config={"kind": kind, "folder": folder},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(
            num_workers=3, resources_per_worker={"CPU": 0.5}, placement_strategy="SPREAD"
        ),
        run_config=ray.train.RunConfig(
            storage_path=folder, failure_config=ray.train.FailureConfig(max_failures=int(kind == "restarted"))
        ),
    ).fit()
    print("runtime environment:", ray.get_runtime_context().runtime_env)
    print("the driver came to its end")
