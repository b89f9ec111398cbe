"""Hugging Face's Trainer: `torchrun --nproc-per-node 2 examples/ecosystem/hf_trainer.py`.

`get_train_dataloader` is the Trainer's own hook for loaders, and `compute_loss` the one for losses. `--stop-after 3`
stops in the middle of an epoch; `--resume` continues from there on any number of ranks that divides the global batch:
the plan deals the same samples to each step, and the Trainer skips the steps that are done.
"""

import argparse
import gc
import tempfile
from pathlib import Path
from typing import Any

import torch
from problem import EPOCHS, GLOBAL_BATCH, Points, make_model
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from paceline import Collate, PlanSampler, connect, mean_loss


class Line(PreTrainedModel):
    """The model in the form that the Trainer saves and loads."""

    config_class = PretrainedConfig

    def __init__(self, config: PretrainedConfig) -> None:
        super().__init__(config)
        self.model = make_model()
        self.post_init()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return what is predicted."""
        return self.model(inputs)

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Keep the weights that `make_model` has made."""


class PlannedLoader(DataLoader):
    """A loader whose epoch the Trainer sets."""

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch."""
        self.batch_sampler.set_epoch(epoch)


class PaddedRows:
    """Makes batches of equal shape, in the form that the Trainer hands on: a dict."""

    def __init__(self, num_rows: int, example: Any) -> None:
        self.collate = Collate(num_rows, example=example)

    def __call__(self, samples: list[Any]) -> dict[str, Any]:
        """Make a batch of the samples of one step."""
        batch = self.collate(samples)
        return {"x": batch["x"], "y": batch["y"], "num_real": batch.num_real}


class PlannedTrainer(Trainer):
    """A Trainer whose ranks make equal steps, and whose loss counts each sample once."""

    totals = torch.zeros(2)  # losses and samples

    def get_train_dataloader(self) -> DataLoader:
        """Make the loader when the ranks have started."""
        self.comm = connect()
        rows = self.args.per_device_train_batch_size
        sampler = PlanSampler(self.train_dataset, batch_size=rows, seed=0)
        padded = PaddedRows(rows, self.train_dataset[0])
        return PlannedLoader(self.train_dataset, batch_sampler=sampler, collate_fn=padded)

    def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> torch.Tensor:
        """Return the loss: the mean over the real rows of all ranks."""
        losses = functional.mse_loss(model(inputs["x"]).squeeze(-1), inputs["y"], reduction="none")
        loss, num_real = losses[: inputs["num_real"]].sum(), inputs["num_real"]
        self.totals += torch.tensor([loss.item(), num_real])
        return mean_loss(loss, num_real, self.comm)


class Report(TrainerCallback):
    """Prints the results of each epoch, and stops early if that is asked for."""

    def __init__(self, stop_after: int | None) -> None:
        self.trainer: Any = None
        self.stop_after = stop_after

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save and stop in the middle of an epoch."""
        if state.global_step == self.stop_after:
            control.should_save = control.should_training_stop = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Print the loss of the epoch, which ranks have in parts."""
        total, used = self.trainer.comm.all_reduce(self.trainer.totals).tolist()
        self.trainer.totals = torch.zeros(2)
        if self.trainer.comm.rank == 0 and state.epoch == round(state.epoch):
            print(f"epoch {round(state.epoch) - 1}: {used:.0f} samples, loss {total / used:.6f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--stop-after", type=int)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--out", default=str(Path(tempfile.gettempdir()) / "hf-trainer-out"))
    options = parser.parse_args()
    arguments = TrainingArguments(
        output_dir=options.out, use_cpu=True, ddp_backend="gloo",
        ddp_find_unused_parameters=False, num_train_epochs=EPOCHS,
        optim="sgd", learning_rate=0.1, lr_scheduler_type="constant", max_grad_norm=0.0,
        save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    arguments.per_device_train_batch_size = GLOBAL_BATCH // arguments.world_size
    report = Report(options.stop_after)
    report.trainer = PlannedTrainer(
        model=Line(PretrainedConfig()), args=arguments, train_dataset=Points(), callbacks=[report]
    )
    report.trainer.train(resume_from_checkpoint=options.resume)
    del report
    gc.collect()  # a group that its model outlives, or that nobody ends, may fail at exit (torch 2.13)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
