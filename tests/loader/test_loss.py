"""The loss under a wrapper that averages gradients: that of one process over the whole global batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from paceline import mean_loss, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.comm.torch_comm import TorchComm
from paceline.errors import InputError
from paceline.launch import Outcome
from paceline.loader import MeanLoss

# items of each micro-batch of each rank: uneven, with ranks that have none
MICRO = [[5, 0], [1, 3], [0, 0]]


def values(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.traceback for outcome in outcomes if not outcome.ok] == []
    return [outcome.value for outcome in outcomes]


def make_model() -> torch.nn.Linear:
    torch.manual_seed(7)
    return torch.nn.Linear(4, 1, dtype=torch.float64)


def items(rank: int, micro: int, num: int) -> torch.Tensor:
    return torch.randn(num, 4, generator=torch.Generator().manual_seed(10 * rank + micro), dtype=torch.float64)


def loss_sum(model: Any, x: torch.Tensor) -> Any:
    return (model(x) ** 2).sum()


def gradient(ranks: list[int], micros: list[int]) -> list[float]:
    """What one process gets over all items."""
    model = make_model()
    x = torch.cat([items(rank, micro, MICRO[rank][micro]) for rank in ranks for micro in micros])
    backward((model(x) ** 2).mean())
    assert model.weight.grad is not None
    return [float(value) for value in model.weight.grad.ravel()]


def backward(loss: Any) -> None:
    loss.backward()


def of(model: torch.nn.Module) -> list[float]:
    return [float(value) for parameter in model.parameters() for value in parameter.grad.ravel()][:4]  # type: ignore[union-attr]


def train(comm: Comm) -> dict[str, list[float]]:
    """One step each: plain, with the count under way, with micro-batches, on a group, with no item at all."""
    found = {}
    rank = comm.rank

    plain = DistributedDataParallel(make_model())
    backward(mean_loss(loss_sum(plain, items(rank, 0, MICRO[rank][0])), MICRO[rank][0], comm))
    found["plain"] = of(plain)

    with MeanLoss(comm) as losses:
        early = DistributedDataParallel(make_model())
        count = losses.start(MICRO[rank][0])
        backward(count.mean(loss_sum(early, items(rank, 0, MICRO[rank][0]))))
        found["early"] = of(early)
        assert count.total() == sum(row[0] for row in MICRO)

        accumulated = DistributedDataParallel(make_model())
        count = losses.start(sum(MICRO[rank]))
        with accumulated.no_sync():
            backward(count.mean(loss_sum(accumulated, items(rank, 0, MICRO[rank][0]))))
        backward(count.mean(loss_sum(accumulated, items(rank, 1, MICRO[rank][1]))))
        found["accumulated"] = of(accumulated)

    pair = dist.new_group([0, 1])
    if rank < 2:
        grouped = DistributedDataParallel(make_model(), process_group=pair)
        backward(mean_loss(loss_sum(grouped, items(rank, 0, MICRO[rank][0])), MICRO[rank][0], TorchComm(pair)))
        found["grouped"] = of(grouped)

    nothing = DistributedDataParallel(make_model())
    backward(mean_loss(loss_sum(nothing, items(rank, 0, 0)) / 0, 0, comm))
    found["nothing"] = of(nothing)
    return found


def test_the_gradient_is_that_of_one_process() -> None:
    for rank, found in enumerate(values(run_ranks(train, 3, carrier="torch"))):
        assert found["plain"] == pytest.approx(gradient([0, 1, 2], [0]))
        assert found["early"] == pytest.approx(gradient([0, 1, 2], [0]))
        assert found["accumulated"] == pytest.approx(gradient([0, 1, 2], [0, 1]))
        assert rank == 2 or found["grouped"] == pytest.approx(gradient([0, 1], [0]))
        assert found["nothing"] == [0.0] * 4


def count(comm: Comm) -> list[float]:
    """Counts beyond what a float32 can tell apart."""
    return [float(mean_loss(torch.tensor(1.0, dtype=torch.float64), 2**30 + comm.rank, comm))]


@pytest.mark.parametrize("carrier", ["threads", "mpi"])
def test_counts_are_whole_numbers_on_every_carrier(carrier: str) -> None:
    assert values(run_ranks(count, 2, carrier=carrier)) == [[2 / (2**31 + 1)]] * 2


@pytest.mark.parametrize("num_items", [-1, 1.5, True])
def test_a_count_that_is_none_is_refused(num_items: Any) -> None:
    with pytest.raises(InputError, match="num_items"):
        mean_loss(torch.tensor(1.0), num_items, AloneComm())
