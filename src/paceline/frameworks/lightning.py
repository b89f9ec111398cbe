"""A callback for Lightning: how even the work of ranks is, and who is waited for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from paceline.comm import connect
from paceline.errors import whole_number
from paceline.frameworks.step_work import WorkSummary
from paceline.frameworks.work_meter import WorkMeter

if TYPE_CHECKING:
    from lightning.pytorch import Callback
elif "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning import Callback  # the same under its older name, and another class
else:
    from lightning.pytorch import Callback


class WorkReport(Callback):  # type: ignore[misc]
    """Reports, for every few steps and for each epoch, how even the work of ranks is and who is waited for.

    A rank's work is the time from its last synchronised gradients to its next backward pass: the optimiser's step,
    loading and the forward pass, without the time that `mean_loss` and `MeanLoss` wait for other ranks. Backward passes
    count only where gradients are accumulated, since the last one of a step overlaps with the exchange of gradients.

    The first rank prints a line at the end of each epoch. Loggers of the Trainer get `paceline/imbalance`,
    `paceline/waiting_ratio`, `paceline/waited_for` and `paceline/waited_for_seconds`, and the same with `_epoch`.

    Args:
        every: Optimiser steps after which ranks compare: one small gather. The Trainer's `log_every_n_steps` if not
            given.
        prints: Whether to print a line for each epoch.
    """

    def __init__(self, *, every: int | None = None, prints: bool = True) -> None:
        super().__init__()
        self._every = None if every is None else whole_number("every", every, least=1)
        self._prints = prints
        self._meter: WorkMeter | None = None
        self.summary: WorkSummary | None = None  # of the last epoch that has ended; None for one rank

    @property
    def meter(self) -> WorkMeter:
        """What measures; there is one as soon as training has started."""
        assert self._meter is not None, "Lightning calls on_train_start first"
        return self._meter

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Join the ranks: Lightning has connected them by now."""
        every = self._every or max(1, trainer.log_every_n_steps)
        self._meter = WorkMeter(connect(), every=every, device=pl_module.device)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to measure."""
        self.meter.begin_epoch()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Leave validation out of the work of a step."""
        if self._meter is not None:  # a sanity check validates before the training starts
            self._meter.begin_step()

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Note that the forward pass is done."""
        self.meter.arrive()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Note the step: the gradients of all ranks have just been put together."""
        _log(trainer, self.meter.end_step())

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Report on the epoch."""
        self.summary = self.meter.end_epoch()
        _log(trainer, self.summary, suffix="_epoch")
        if self.summary is not None and self._prints and trainer.is_global_zero:
            print(f"paceline: epoch {trainer.current_epoch}: {self.summary}", flush=True)


def _log(trainer: Any, summary: WorkSummary | None, *, suffix: str = "") -> None:
    """Hand it to the loggers. The module's own `log` would ask to average over ranks what all of them know."""
    if summary is None:
        return
    values = {
        "imbalance": summary.imbalance,
        "waiting_ratio": summary.waiting_ratio,
        "waited_for": float(summary.waited_for),
        "waited_for_seconds": summary.seconds,
    }
    for logger in trainer.loggers:
        logger.log_metrics({f"paceline/{name}{suffix}": value for name, value in values.items()}, trainer.global_step)
