"""A Lightning Trainer on two ranks: `python examples/ecosystem/lightning_trainer.py`.

Lightning takes the loader as it is, calls `set_epoch` on its sampler, and averages gradients by DDP. A callback says
how even the work of the ranks is, and which of them is waited for.
"""

import gc
from typing import Any

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from problem import EPOCHS, GLOBAL_BATCH, Points, loss_sum, make_model

from paceline import Loader, connect, mean_loss
from paceline.frameworks.lightning import WorkReport

NUM_RANKS = 2


class Line(lightning.LightningModule):
    """The model, and the loss that fits batches with padding."""

    def __init__(self) -> None:
        super().__init__()
        self.model = make_model()

    def train_dataloader(self) -> Loader:
        """Make the loader when the ranks have started."""
        self.comm = connect()
        self.loader = Loader(Points(), batch_size=GLOBAL_BATCH // self.comm.world_size, seed=0)
        return self.loader

    def on_train_epoch_start(self) -> None:
        """Reset the sums of the epoch."""
        self.total = torch.zeros(1)

    def training_step(self, batch: Any, _: int) -> Any:
        """Return the loss: the mean over the real rows of all ranks."""
        loss = loss_sum(self.model, batch)
        self.total += loss.detach()
        return mean_loss(loss, batch.num_real, self.comm)

    def on_train_epoch_end(self) -> None:
        """Print the results of the epoch."""
        total = self.comm.all_reduce(self.total)
        used = len(self.loader.dataset)
        if self.comm.rank == 0:
            print(f"epoch {self.current_epoch}: {used} samples, loss {total.item() / used:.6f}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimiser."""
        return torch.optim.SGD(self.model.parameters(), lr=0.1)


if __name__ == "__main__":
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=NUM_RANKS,
        strategy=DDPStrategy(process_group_backend="gloo"),
        max_epochs=EPOCHS,
        use_distributed_sampler=False,
        callbacks=[WorkReport()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Line())
    del trainer
    gc.collect()  # a group that its model outlives, or that nobody ends, may fail at exit (torch 2.13)
    torch.distributed.destroy_process_group()
