"""Packs in Lightning, on two ranks: `python examples/ecosystem/lightning_packs.py`.

The sampler hands the packs of a step to the dataset, which makes a row of tokens of each. The loss is the mean over the
tokens of all packs of all ranks.
"""

import gc
from typing import Any

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from texts import BUDGET, GLOBAL_PACKS, LENGTHS, NextToken, Packs, token_losses
from torch.utils.data import DataLoader

from paceline import PackPlan, PlanSampler, connect, mean_loss

NUM_RANKS = 2


class Language(lightning.LightningModule):
    """The model, and the loss that fits packs."""

    def __init__(self) -> None:
        super().__init__()
        self.model = NextToken()

    def train_dataloader(self) -> DataLoader:
        """Make plan and loader when the ranks have started."""
        self.comm = connect()
        ranks = self.comm.world_size
        plan = PackPlan(LENGTHS, world_size=ranks, max_tokens=BUDGET, packs_per_step=GLOBAL_PACKS // ranks)
        return DataLoader(Packs(), batch_sampler=PlanSampler.of(plan))

    def on_train_epoch_start(self) -> None:
        """Reset the sums of the epoch."""
        self.total = torch.zeros(2)

    def training_step(self, batch: Any, _: int) -> Any:
        """Return the loss: the mean over the tokens of all ranks."""
        loss, num_tokens = token_losses(self.model, batch)
        self.total += torch.tensor([loss.item(), num_tokens])
        return mean_loss(loss, num_tokens, self.comm)

    def on_train_epoch_end(self) -> None:
        """Print the results of the epoch."""
        loss, num_tokens = self.comm.all_reduce(self.total).tolist()
        if self.comm.rank == 0:
            print(f"epoch {self.current_epoch}: {num_tokens:.0f} tokens, loss {loss / num_tokens:.6f}", flush=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimiser."""
        return torch.optim.SGD(self.model.parameters(), lr=0.5)


if __name__ == "__main__":
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=NUM_RANKS,
        strategy=DDPStrategy(process_group_backend="gloo"),
        max_epochs=2,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Language())
    del trainer
    gc.collect()  # a group that its model outlives, or that nobody ends, may fail at exit (torch 2.13)
    torch.distributed.destroy_process_group()
