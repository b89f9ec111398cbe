"""Iterates two epochs of a loader that went through a real Accelerator, and writes down the ids of this rank."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from paceline import PlanSampler

NUM_SAMPLES = 53


def main(out: Path, mark: bool) -> None:
    accelerator = Accelerator(cpu=True)
    sampler = PlanSampler(NUM_SAMPLES, batch_size=4, seed=1, stand_in=0)
    loader = DataLoader(TensorDataset(torch.arange(NUM_SAMPLES)), batch_sampler=sampler)
    if mark:
        loader._is_accelerate_prepared = True  # already sharded
    prepared = accelerator.prepare(loader)
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        seen.append([batch[0].tolist() for batch in prepared])
    real = [sampler.num_real(step) for step in range(len(sampler))]
    (out / f"{accelerator.process_index}.json").write_text(json.dumps({"seen": seen, "real": real}))
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]), mark=sys.argv[2] == "marked")
