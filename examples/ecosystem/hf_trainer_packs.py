"""Packs in Hugging Face's Trainer: `torchrun --nproc-per-node 2 examples/ecosystem/hf_trainer_packs.py`.

The sampler hands the packs of a step to the dataset, which makes a row of tokens of each. The loss is the mean over the
tokens of all packs of all ranks.
"""

import gc
import tempfile
from pathlib import Path
from typing import Any

import torch
from texts import BUDGET, GLOBAL_PACKS, LENGTHS, NextToken, Packs, token_losses
from torch.utils.data import DataLoader
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from paceline import PackPlan, PlanSampler, connect, mean_loss


class Language(PreTrainedModel):
    """The model in the form that the Trainer saves and loads."""

    config_class = PretrainedConfig

    def __init__(self, config: PretrainedConfig) -> None:
        super().__init__(config)
        self.model = NextToken()
        self.post_init()

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the scores of all words."""
        return self.model(*inputs)

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Keep the weights that the model has made."""


class PlannedLoader(DataLoader):
    """A loader whose epoch the Trainer sets."""

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch."""
        self.batch_sampler.set_epoch(epoch)


class PackTrainer(Trainer):
    """A Trainer whose loader hands out packs."""

    totals = torch.zeros(2)

    def get_train_dataloader(self) -> DataLoader:
        """Return a loader of the packs of this rank."""
        self.comm = connect()
        ranks = self.comm.world_size
        plan = PackPlan(LENGTHS, world_size=ranks, max_tokens=BUDGET, packs_per_step=GLOBAL_PACKS // ranks)
        return PlannedLoader(Packs(), batch_sampler=PlanSampler.of(plan))

    def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> torch.Tensor:
        """Return the loss: the mean over the tokens of all ranks."""
        loss, num_tokens = token_losses(model, inputs)
        self.totals += torch.tensor([loss.item(), num_tokens])
        return mean_loss(loss, num_tokens, self.comm)


class Report(TrainerCallback):
    """Prints the results of each epoch."""

    trainer: Any = None

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Print the loss of the epoch, which ranks have in parts."""
        loss, num_tokens = self.trainer.comm.all_reduce(self.trainer.totals).tolist()
        self.trainer.totals = torch.zeros(2)
        if self.trainer.comm.rank == 0:
            print(f"epoch {round(state.epoch) - 1}: {num_tokens:.0f} tokens, loss {loss / num_tokens:.6f}", flush=True)


if __name__ == "__main__":
    arguments = TrainingArguments(
        output_dir=str(Path(tempfile.gettempdir()) / "hf-trainer-out"), use_cpu=True, ddp_backend="gloo",
        ddp_find_unused_parameters=False, num_train_epochs=2,
        optim="sgd", learning_rate=0.5, lr_scheduler_type="constant", max_grad_norm=0.0,
        save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    report = Report()
    report.trainer = PackTrainer(
        model=Language(PretrainedConfig()), args=arguments, train_dataset=Packs(), callbacks=[report]
    )
    report.trainer.train()
    del report
    gc.collect()  # a group that its model outlives, or that nobody ends, may fail at exit (torch 2.13)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
