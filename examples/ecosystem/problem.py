"""The model that the examples train: a line through points, small enough to see every number."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

NUM_SAMPLES = 53  # does not divide by anything: the last step is padded
GLOBAL_BATCH = 8
EPOCHS = 2


class Points:
    """Samples of three numbers, and a target for each."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self._x = torch.randn(NUM_SAMPLES, 3, generator=generator)
        self._y = self._x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(NUM_SAMPLES, generator=generator)

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, sample: int) -> dict[str, torch.Tensor]:
        return {"x": self._x[sample], "y": self._y[sample]}


def make_model() -> nn.Module:
    """Make the model, with the same weights on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def loss_sum(model: Any, batch: Any) -> torch.Tensor:
    """Return the sum of the losses of the real rows."""
    predicted = model(batch["x"]).squeeze(-1)  # of padding too: every rank uses every parameter
    losses = functional.mse_loss(predicted, batch["y"], reduction="none")
    return losses[: batch.num_real].sum()
