"""Packs the samples of each step between ranks while the step before computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paceline.batch.batch import Batch
from paceline.comm import Comm
from paceline.errors import InputError
from paceline.loader.agreement.background import Closeable
from paceline.loader.row_exchange.pack_step import StepPacks, pack_step
from paceline.loader.row_exchange.run_ahead import RunAhead, WorkAhead, finished_ahead
from paceline.plan.packs.pack_forms import PackCost

_Packed = tuple[list[Batch], StepPacks]


class Packing:
    """A batch whose samples are being packed."""

    def __init__(self, work: WorkAhead[_Packed]) -> None:
        self._work = work

    @property
    def is_done(self) -> bool:
        """Whether `finish` would return at once."""
        return self._work.is_done

    def finish(self) -> list[Batch]:
        """Return the packs of this rank; wait for them if need be. May be called again."""
        return self._work.wait()[0]

    @property
    def step(self) -> StepPacks:
        """The packs of all ranks, and what moved; waits for them if need be."""
        return self._work.wait()[1]

    @property
    def seconds_waited(self) -> float:
        """How long the caller waited for the packs; known once they are finished."""
        return self._work.seconds_waited


class StepPacker(Closeable):
    """Makes packs of what ranks have, step by step, ahead of the step that needs them: `pack_step` in the background.

    >>> from paceline.comm.alone_comm import AloneComm
    >>> import torch
    >>> from paceline import Jagged
    >>> words = Jagged(keys=["word"], values=torch.arange(16), lengths=torch.tensor([5, 3, 6, 2]))
    >>> batches = [Batch({"words": words}, batch_size=4)]
    >>> with StepPacker(AloneComm(), lambda batch: batch["words"].lengths, max_tokens=8) as packer:
    ...     [[pack["words"].lengths.tolist() for pack in packs] for packs in packer.over(batches)]
    [[[6, 2], [5, 3]]]

    All ranks make it at the same time, and start the same number of batches. Errors that all ranks raise end that batch
    alone; after any other error this packer cannot be used again.

    Args:
        comm: The ranks. What this sends goes over a duplicate of it.
        lengths: Returns the tokens of each row of a batch, or of each real one. A rank that has none is not asked.
        max_tokens: Tokens of a pack at the most.
        cost: Returns what samples of given lengths cost, an array for an array; without it, each token costs the same.
    """

    def __init__(
        self, comm: Comm, lengths: Callable[[Batch], Any], *, max_tokens: int, cost: PackCost | None = None
    ) -> None:
        self._lengths, self._max_tokens, self._cost = lengths, max_tokens, cost
        self._ahead = RunAhead(comm, "paceline-packing")

    def start(self, batch: Batch) -> Packing:
        """Begin to pack the samples of a batch; returns at once. Lengths are asked for here, in the caller's thread.

        The batch is read later: its memory must not be used for something else before `finish`.

        Args:
            batch: What this rank has; only its real rows count, and there may be none.
        """
        own: Any = []
        failure: Exception | None = None
        try:
            if batch.num_real:
                own = self._lengths(batch)
        except Exception as error:
            failure = error

        def lengths() -> Any:
            if failure is not None:
                raise failure  # where all ranks learn of it
            if len(own) not in (batch.num_real, batch.batch_size):
                rows = f"each of the batch's {batch.batch_size} rows, or its {batch.num_real} real ones"
                raise InputError(f"lengths must give one number for {rows}, got {len(own)}")
            return own[: batch.num_real]

        def work() -> _Packed:
            comm = self._ahead.comm
            step = pack_step(comm, lengths, max_tokens=self._max_tokens, cost=self._cost, device=batch.device)
            return step.exchange(comm, batch), step

        return Packing(self._ahead.start(batch, work, lambda done: done[0]))

    def over(self, batches: Iterable[Batch], *, ahead: int = 1) -> Iterator[list[Batch]]:
        """Yield the packs of this rank for each batch; while they are used, those of the next `ahead` are made.

        Args:
            batches: The same number on every rank.
            ahead: Batches under way besides the one in use.
        """
        for _, packs in finished_ahead(self.start, batches, ahead):
            yield packs

    def close(self, *, wait: bool = True) -> None:
        """End the thread after what is under way; or abandon it, if peers may never come."""
        self._ahead.close(wait=wait)
