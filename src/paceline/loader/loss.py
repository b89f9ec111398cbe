"""The loss that fits uneven batches: sums over ranks, divided by the number of real items of all ranks.

A wrapper that averages gradients over ranks (DDP, FSDP) divides by the number of ranks, as if all had the same number
of items. So each rank's sum is multiplied by the number of ranks and divided by the global count: after the averaging,
the gradient is that of one process over the whole global batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import torch

from paceline.comm import Comm
from paceline.errors import InputError, whole_number
from paceline.loader.agreement.background import Background, Closeable


class _Stopwatch:
    """Adds up how long the loop of this process has waited for counts."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time inside."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - began


_IN_COUNTS = _Stopwatch()


def seconds_in_counts() -> float:
    """Return how long this process has waited for the counts of other ranks, in all its losses together."""
    return _IN_COUNTS.seconds


def mean_loss(loss_sum: torch.Tensor, num_items: int, comm: Comm) -> torch.Tensor:
    """Return the loss to call `backward` on, under a wrapper that averages gradients over the ranks of `comm`.

    >>> from paceline.comm.alone_comm import AloneComm
    >>> mean_loss(torch.tensor(6.0), 4, AloneComm())
    tensor(1.5000)

    Args:
        loss_sum: The sum of the losses of this rank's real items; 0 where it has none.
        num_items: How many they are.
        comm: The ranks whose gradients are averaged.

    Raises:
        InputError: The sum is not a tensor: nothing could be differentiated.
    """
    if not isinstance(loss_sum, torch.Tensor):
        raise InputError(f"loss_sum must be a tensor, got {type(loss_sum).__name__}: sum losses without .item()")
    with _IN_COUNTS.running():
        num_items = _count(comm, num_items, loss_sum.device)
    return _scaled(loss_sum, num_items, comm.world_size)


class MeanLoss(Closeable):
    """The same with the count under way while the forward pass computes, and for several micro-batches.

    >>> from paceline.comm.alone_comm import AloneComm
    >>> with MeanLoss(AloneComm()) as losses:
    ...     items = losses.start(3 + 1)  # of both micro-batches, before the first forward pass
    ...     [items.mean(torch.tensor(6.0)), items.mean(torch.tensor(2.0))]
    [tensor(1.5000), tensor(0.5000)]

    Args:
        comm: The ranks whose gradients are averaged. The counts go over a duplicate of it.
        device: Where counts are put together: a GPU if the carrier carries nothing else.
    """

    def __init__(self, comm: Comm, *, device: torch.device | str = "cpu") -> None:
        self._comm, self._device = comm.duplicate(), torch.device(device)
        self._background = Background("paceline-count") if comm.is_thread_safe else None
        self._is_closed = False

    def start(self, num_items: int) -> ItemCount:
        """Begin to count the items of all ranks for one step of the optimiser; returns at once.

        Args:
            num_items: Items of this rank, of all micro-batches of the step together.
        """
        whole_number("num_items", num_items, least=0)
        if self._background is not None:
            return ItemCount(
                self._background.submit(_count, self._comm, num_items, self._device), self._comm.world_size
            )
        counted: Future[int] = Future()
        with _IN_COUNTS.running():
            counted.set_result(_count(self._comm, num_items, self._device))
        return ItemCount(counted, self._comm.world_size)

    def close(self, *, wait: bool = True) -> None:
        """End the thread after what is under way; or abandon it, if peers may never come."""
        if self._background is not None:
            self._background.close(wait=wait)
        if wait and not self._is_closed:
            self._comm.free()
        self._is_closed = True


class ItemCount:
    """The number of items of all ranks, once it is known."""

    def __init__(self, counted: Future[int], world_size: int) -> None:
        self._counted, self._world_size = counted, world_size

    def total(self) -> int:
        """Return the items of all ranks; wait for them if need be."""
        with _IN_COUNTS.running():
            return self._counted.result()

    def mean(self, loss_sum: torch.Tensor) -> torch.Tensor:
        """Return the loss of one micro-batch: the losses of all micro-batches of the step add up to the mean."""
        return _scaled(loss_sum, self.total(), self._world_size)


def _count(comm: Comm, num_items: int, device: torch.device) -> int:
    num_items = whole_number("num_items", num_items, least=0)
    return int(comm.all_reduce(torch.tensor([num_items], dtype=torch.int64, device=device))[0])


def _scaled(loss_sum: torch.Tensor, num_items: int, world_size: int) -> torch.Tensor:
    if num_items == 0:  # nobody has an item: no gradient, and not NaN, but still a graph for the wrapper to walk
        return torch.where(torch.isfinite(loss_sum), loss_sum, torch.zeros_like(loss_sum)) * 0.0
    return loss_sum * (world_size / num_items)
