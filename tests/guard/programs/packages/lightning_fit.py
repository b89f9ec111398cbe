"""A Lightning Trainer whose ranks read shards of their own; without `even` rank 1 has one batch less.

Without a launcher, Lightning starts the second rank by itself.
"""

import gc
import os
import sys

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(4, 1)

    def train_dataloader(self):
        uneven = self.trainer.global_rank == 1 and "even" not in sys.argv
        return DataLoader(TensorDataset(torch.randn(12 if uneven else 16, 4)), batch_size=4)

    def training_step(self, batch, _):
        loss = self.model(batch[0]).square().mean()
        self.log("loss", loss, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.1)


trainer = lightning.Trainer(
    accelerator="cpu", devices=int(os.environ.get("WORLD_SIZE", "2")),
    strategy=DDPStrategy(process_group_backend="gloo"), max_epochs=1, use_distributed_sampler=False,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Line())  # <- here
print("rank", trainer.global_rank, "trained")
del trainer
gc.collect()  # a group that its model outlives, or that nobody ends, may fail at exit (torch 2.13)
torch.distributed.destroy_process_group()
