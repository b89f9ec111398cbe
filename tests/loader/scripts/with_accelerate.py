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


def main(out: Path, *, undivided: bool, num_workers: int) -> None:
    accelerator = Accelerator(cpu=True)
    sampler = PlanSampler(NUM_SAMPLES, batch_size=4, seed=1, stand_in=0)
    loader = DataLoader(
        TensorDataset(torch.arange(NUM_SAMPLES)),
        batch_sampler=sampler.undivided() if undivided else sampler,
        num_workers=num_workers,
    )
    prepared = accelerator.prepare(loader)
    seen = []
    for epoch in range(2):
        prepared.set_epoch(epoch)
        seen.append([batch[0].tolist() for batch in prepared])
    real = [sampler.num_real(step) for step in range(len(sampler))]
    (out / f"{accelerator.process_index}.json").write_text(json.dumps({"seen": seen, "real": real}))
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]), undivided=sys.argv[2] == "undivided", num_workers=int(sys.argv[3]))
