"""Iterators of unknown length in step: ranks agree ahead of time when to stop, off the critical path.

A thread reads a window of items ahead and tells the other ranks how many it has. While those items are used, the next
window is read and agreed on; windows grow as long as nobody runs dry. So every rank makes the same steps, and the
collectives of the job are never in each other's way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from paceline.batch import Batch
from paceline.comm import Comm
from paceline.errors import InputError, choice, whole_number
from paceline.loader.agreement.background import Background, Closing
from paceline.loader.agreement.meeting import check_facts, fields_of, raise_problem
from paceline.loader.agreement.objects import gather_objects
from paceline.loader.agreement.problem import Problem
from paceline.plan import Tail

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Said:
    """What a rank says of a window."""

    num_items: int
    is_dry: bool
    settings: Mapping[str, str]
    problem: Problem | None
    example: Batch | None = None  # how an item without content looks, if this rank knows; with the first window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Window(Generic[T]):
    """Items of one rank, and on how many of them all ranks agree.

    Attributes:
        items: What was read.
        num_steps: Steps that all ranks make of this window.
        is_last: Whether all stop after them.
        num_left: Items of this rank that are not used because others have none.
        problem: Why all ranks stop with an error after them.
    """

    items: list[T]
    num_steps: int
    is_last: bool
    num_left: int
    problem: Problem | None


class InStep(Closing, Generic[T]):
    """Items of an iterator on every rank, as many on each: see `in_step`.

    Attributes:
        num_steps: Items that were handed out.
        num_padded: How many of them were empty, on this rank.
        num_dropped: Items of this rank that were read and not used, because another had none left. What was not read
            is not counted.
    """

    def __init__(
        self,
        items: Iterable[T],
        comm: Comm,
        tail: Tail,
        empty: Callable[[], T] | None,
        ahead: int,
        epoch: int,
        facts: Mapping[str, str],
        group: Comm | None,
    ) -> None:
        self.num_steps = self.num_padded = self.num_dropped = 0
        self._comm, self._tail, self._empty, self._ahead, self._epoch = comm, tail, empty, ahead, epoch
        self._facts = {**facts, "tail": tail.value, "ahead": f"{ahead}", "empty": "none" if empty is None else "given"}
        self._source, self._is_dry = iter(items), False
        self._example: Any = None  # an item without content
        self._is_own_group = group is None and comm.world_size > 1 and comm.is_whole_job
        self._group = group if group is not None else comm.duplicate() if self._is_own_group else comm
        # some MPIs take calls from one thread only: then there is nothing to overlap
        is_apart = comm.is_thread_safe and (comm.is_whole_job or comm.world_size == 1)
        self._background = Background("paceline-stream") if is_apart else None
        if self._background is not None:
            weakref.finalize(self, self._background.close, wait=False)
        self._steps: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._steps is None:
            self._steps = self._in_turn()
        return next(self._steps)

    def close(self, *, wait: bool = True) -> None:
        """End the thread, after what is under way; or leave it, where peers may never come."""
        if self._background is not None:
            self._background.close(wait=wait)
        if wait and self._is_own_group:
            self._is_own_group = False
            self._group.free()

    def _in_turn(self) -> Iterator[T]:
        size, first_step = 1, 0
        coming = self._begin(size, first_step)
        while True:
            window = coming.result()
            first_step += window.num_steps
            if not window.is_last and window.problem is None:
                size = min(2 * size, self._ahead)
                coming = self._begin(size, first_step)
            for step in range(window.num_steps):
                self.num_steps += 1
                if step < len(window.items):
                    yield window.items[step]
                else:
                    self.num_padded += 1
                    yield self._make_empty()
            self.num_dropped += window.num_left
            raise_problem([window.problem])
            if window.is_last:
                self.close()
                return

    def _begin(self, size: int, first_step: int) -> Future[_Window[T]]:
        if self._background is not None:
            return self._background.submit(self._agree, size, first_step)
        done: Future[_Window[T]] = Future()
        try:
            done.set_result(self._agree(size, first_step))
        except Exception as error:
            done.set_exception(error)
        return done

    def _agree(self, size: int, first_step: int) -> _Window[T]:
        """Read a window and agree on it: one exchange of small messages, whatever its size."""
        items, problem = self._read(size, first_step)
        said = _Said(
            num_items=len(items),
            is_dry=self._is_dry,
            settings=self._facts if first_step == 0 else {},
            problem=problem,
            example=_example_of(items) if first_step == 0 else None,
        )
        told: list[_Said] = gather_objects(self._group, said)
        check_facts([rank_said.settings for rank_said in told])
        counts = [rank_said.num_items for rank_said in told]
        if first_step == 0:
            self._compare([rank_said.example for rank_said in told], has_items=max(counts) > 0)
        if self._tail is Tail.PAD:
            failing = [rank_said.num_items for rank_said in told if rank_said.problem is not None]
            num_steps, is_last = min([max(counts), *failing]), all(rank_said.is_dry for rank_said in told)
        else:
            num_steps, is_last = min(counts), any(rank_said.is_dry for rank_said in told)
        stops = [rank_said.problem for rank_said in told if rank_said.problem and rank_said.num_items <= num_steps]
        return _Window(
            items=items,
            num_steps=num_steps,
            is_last=is_last,
            num_left=max(0, len(items) - num_steps),
            problem=min(stops, key=lambda problem: problem.rank, default=None),
        )

    def _compare(self, examples: list[Batch | None], *, has_items: bool) -> None:
        """Compare the fields of ranks that have batches; learn from them how one without rows looks."""
        self._example = known = next((example for example in examples if example is not None), None)
        if known is not None:
            check_facts([fields_of(known if example is None else example) for example in examples])
            check_facts([{"batch_size": f"{(example or known).batch_size}"} for example in examples])
        elif has_items and self._tail is Tail.PAD and self._empty is None:
            raise InputError("items are not batches: say by `empty` what ranks get that have run dry")

    def _read(self, size: int, first_step: int) -> tuple[list[T], Problem | None]:
        items: list[T] = []
        try:
            while len(items) < size and not self._is_dry:
                items.append(next(self._source))
        except StopIteration:
            self._is_dry = True
        except Exception as error:
            self._is_dry = True
            place = {"rank": self._comm.rank, "epoch": self._epoch, "step": first_step + len(items)}
            return items, Problem.of(error).at(**place)
        return items, None

    def _make_empty(self) -> T:
        if self._empty is not None:
            return self._empty()
        empty: T = self._example.emptied(self._example.batch_size)
        return empty


def _example_of(items: list[Any]) -> Batch | None:
    """Return a batch without real rows: ranks that have none need to know its fields."""
    return items[0].emptied(items[0].batch_size) if items and isinstance(items[0], Batch) else None


def in_step(
    items: Iterable[T],
    comm: Comm,
    *,
    tail: Tail | str = Tail.DROP,
    empty: Callable[[], T] | None = None,
    ahead: int = 8,
    epoch: int = 0,
) -> InStep[T]:
    """Hand out an iterator's items on every rank, as many on each, though nobody knows how many there are.

    >>> from paceline import run_ranks
    >>> def steps(comm):
    ...     with in_step(range(3 + comm.rank), comm, tail="pad", empty=lambda: None) as numbers:
    ...         return list(numbers)
    >>> [outcome.value for outcome in run_ranks(steps, 2, carrier="threads")]
    [[0, 1, 2, None], [0, 1, 2, 3]]

    The iterator is read in a thread of its own, a few items ahead. An error that it raises on one rank is raised on
    all of them, at the same step.

    Args:
        items: This rank's items, such as batches of a DataLoader over an IterableDataset.
        comm: The ranks. What this sends goes over a duplicate of it.
        tail: `drop`: all stop when the first has no more. `pad`: those that have no more go on with empty items until
            all are done.
        empty: Makes an empty item; not needed where items are batches.
        ahead: The most items that are read ahead, and the fewest steps between two agreements far from the end.
        epoch: What errors say.
    """
    tail = choice(Tail, "tail", tail)
    if tail not in (Tail.DROP, Tail.PAD):
        raise InputError(f"the tail of a stream is 'drop' or 'pad', got {tail.value!r}: its length is not known")
    return InStep(items, comm, tail, empty, whole_number("ahead", ahead, least=1), epoch, {}, None)
