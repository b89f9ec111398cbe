"""Trains two epochs with a real Lightning Trainer and writes down the ids that this rank saw in each."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from torch.utils.data import DataLoader, Dataset

from paceline import PlanSampler

NUM_SAMPLES = 53


class Ids(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


class Model(lightning.LightningModule):  # type: ignore[misc]  # its types are skipped: they take a minute
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: dict[int, list[list[int]]] = {}

    def training_step(self, batch: torch.Tensor, step: int) -> torch.Tensor:
        self.seen.setdefault(self.current_epoch, []).append(batch.tolist())
        loss: torch.Tensor = self.layer(batch.float()[:, None]).sum() * 0
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(out: Path) -> None:
    environment = TorchElasticEnvironment()
    rank, world_size = environment.global_rank(), environment.world_size()
    sampler = PlanSampler(NUM_SAMPLES, batch_size=4, seed=1, stand_in=0)
    assert (sampler.rank, sampler.num_replicas) == (rank, world_size)
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=world_size,
        strategy="ddp",
        max_epochs=2,
        use_distributed_sampler=False,  # the loader is already sharded
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        plugins=[environment],
    )
    trainer.fit(model, DataLoader(Ids(), batch_sampler=sampler))
    real = [sampler.num_real(step) for step in range(len(sampler))]
    (out / f"{rank}.json").write_text(json.dumps({"seen": list(model.seen.values()), "real": real}))
    del trainer, model
    gc.collect()  # a group that its model outlives, or that nobody ends, may fail at exit (torch 2.13)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
