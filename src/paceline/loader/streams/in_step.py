"""Iterators of unknown length in step: ranks agree ahead of time when to stop, off the critical path.

A thread reads a window of items ahead and tells the other ranks how many it has. While those items are used, the next
window is read and agreed on; windows grow until a rank runs out of items. So every rank makes the same steps, and
nothing gets in the way of the collectives of the job.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from paceline.batch import Batch
from paceline.comm import Comm
from paceline.errors import InputError, choice, whole_number
from paceline.loader.agreement.background import Background, Closeable
from paceline.loader.agreement.batch_form import BatchForm, agreed_form
from paceline.loader.agreement.first_message import gather_json
from paceline.loader.agreement.must_agree import MustAgree, check_agreement
from paceline.loader.agreement.problem import Problem, first_problem, raise_problem
from paceline.loader.streams.reads_until_exit import ReadsUntilExit
from paceline.plan import Tail

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """How a stream is brought into step.

    Attributes:
        tail: `drop`: all stop when the first has no more. `pad`: ranks without items continue with empty ones.
        ahead: The most items that are read ahead.
        epoch: What errors say.
        must_agree: What else must be the same on all ranks, as a reader sees it.
    """

    tail: Tail
    ahead: int
    epoch: int
    must_agree: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """What a rank says of a window.

    Attributes:
        num_items: Items that it has read.
        is_dry: Whether it has no more.
        must_agree: What must be the same on all ranks; with the first window.
        problem: Why it could not read more.
        form: The fields of its items, if they are batches; with the first window.
        num_rows: The rows of its first batch, if it has one; with the first window.
        device: The kind of device its first batch is on.
    """

    num_items: int
    is_dry: bool
    must_agree: MustAgree
    problem: Problem | None
    form: BatchForm | None = None
    num_rows: int = 0
    device: str = "cpu"

    def to_json(self) -> dict[str, Any]:
        """Return it in a form that travels."""
        return {
            "num_items": self.num_items,
            "is_dry": self.is_dry,
            "must_agree": self.must_agree.to_json(),
            "problem": None if self.problem is None else self.problem.to_json(),
            "form": None if self.form is None else self.form.to_json(),
            "num_rows": self.num_rows,
            "device": self.device,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> WindowReport:
        """Return what `to_json` was made of."""
        return cls(
            num_items=content["num_items"],
            is_dry=content["is_dry"],
            must_agree=MustAgree.from_json(content["must_agree"]),
            problem=Problem.from_json(content["problem"]),
            form=BatchForm.from_json(content["form"]),
            num_rows=content["num_rows"],
            device=content["device"],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamWindow(Generic[T]):
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


class InStep(Closeable, Generic[T]):
    """Items of an iterator, the same number on every rank: see `in_step`.

    Args:
        items: This rank's items.
        comm: The ranks.
        settings: How they are brought into step.
        empty: Makes an empty item; not needed if items are batches.
        stream_comm: The same ranks on a communicator for the messages of streams; made if not given.

    Attributes:
        num_steps: Items that were handed out.
        num_padded: How many of them were empty, on this rank.
        num_dropped: Items that this rank read but did not hand out, because another had none left. Items that were not
            read are not counted.
    """

    def __init__(
        self,
        items: Iterable[T],
        comm: Comm,
        settings: StreamSettings,
        *,
        empty: Callable[[], T] | None = None,
        stream_comm: Comm | None = None,
    ) -> None:
        self.num_steps = self.num_padded = self.num_dropped = 0
        self._comm, self._settings, self._empty = comm, settings, empty
        self._source, self._is_dry = iter(items), False
        self._padding: Any = None  # a batch of padding, if items are batches
        self._owns_comm = stream_comm is None and comm.world_size > 1 and comm.is_whole_job
        self._stream_comm = stream_comm or (comm.duplicate() if self._owns_comm else comm)
        # some MPIs take calls from one thread only: then there is nothing to overlap
        is_apart = comm.is_thread_safe and (comm.is_whole_job or comm.world_size == 1)
        self._background = Background("paceline-stream") if is_apart else None
        self._reads = ReadsUntilExit()
        if self._background is not None:
            weakref.finalize(self, self._background.close, wait=False)
            self._reads.watch_exit()
        self._steps: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._steps is None:
            self._steps = self._make_steps()
        return next(self._steps)

    def close(self, *, wait: bool = True) -> None:
        """End the thread after what is under way; or abandon it, if peers may never come."""
        if wait:
            self._reads.end()
        if self._background is not None:
            self._background.close(wait=wait)
        if wait and self._owns_comm:
            self._owns_comm = False
            self._stream_comm.free()

    def _make_steps(self) -> Iterator[T]:
        size, first_step = 1, 0
        coming = self._begin(size, first_step)
        while True:
            self._reads.allow()  # the loop may be one of an exit handler
            window = coming.result()
            first_step += window.num_steps
            if not window.is_last and window.problem is None:
                size = min(2 * size, self._settings.ahead)
                coming = self._begin(size, first_step)
            for step in range(window.num_steps):
                self.num_steps += 1
                if step < len(window.items):
                    yield window.items[step]
                else:
                    self.num_padded += 1
                    yield self._make_empty()
            self.num_dropped += window.num_left
            raise_problem([window.problem], rank=self._comm.rank)
            if window.is_last:
                self.close()
                return

    def _begin(self, size: int, first_step: int) -> Future[StreamWindow[T]]:
        if self._background is not None:
            return self._background.submit(self._agree, size, first_step)
        done: Future[StreamWindow[T]] = Future()
        try:
            done.set_result(self._agree(size, first_step))
        except Exception as error:
            done.set_exception(error)
        return done

    def _agree(self, size: int, first_step: int) -> StreamWindow[T]:
        """Read a window and agree on it: one exchange of small messages, whatever its size."""
        items, problem = self._read(size, first_step)
        report = self._report(items, problem, is_first=first_step == 0)
        contents = gather_json(self._stream_comm, report.to_json())
        reports = [WindowReport.from_json(content) for content in contents]
        check_agreement([each.must_agree for each in reports])
        if first_step == 0:
            self._learn_padding(reports)
        counts = [each.num_items for each in reports]
        if self._settings.tail is Tail.PAD:
            # a rank with a problem stops all ranks after its last item
            failing = [each.num_items for each in reports if each.problem is not None]
            num_steps, is_last = min([max(counts), *failing]), all(each.is_dry for each in reports)
        else:
            num_steps, is_last = min(counts), any(each.is_dry for each in reports)
        return StreamWindow(
            items=items,
            num_steps=num_steps,
            is_last=is_last,
            num_left=max(0, len(items) - num_steps),
            problem=first_problem(each.problem for each in reports if each.num_items <= num_steps),
        )

    def _report(self, items: list[T], problem: Problem | None, *, is_first: bool) -> WindowReport:
        """Return what this rank says of a window. Only with the first it says what must agree."""
        report = WindowReport(
            num_items=len(items), is_dry=self._is_dry, must_agree=MustAgree(chosen={}), problem=problem
        )
        if not is_first:
            return report
        chosen = {
            **self._settings.must_agree,
            "tail": self._settings.tail.value,
            "ahead": f"{self._settings.ahead}",
            "empty": "none" if self._empty is None else "given",
        }
        report = replace(report, must_agree=MustAgree(chosen=chosen))
        batch = items[0] if items else None
        if not isinstance(batch, Batch):
            return report
        return replace(report, form=BatchForm.of(batch), num_rows=batch.batch_size, device=batch.device.type)

    def _learn_padding(self, reports: list[WindowReport]) -> None:
        """Compare the fields of ranks that have batches; learn from them what a batch without rows looks like."""
        form = agreed_form([each.form for each in reports])
        if form is None:
            has_items = any(each.num_items for each in reports)
            if has_items and self._settings.tail is Tail.PAD and self._empty is None:
                raise InputError("items are not batches: pass `empty` to say what a rank that has run out should yield")
            return
        known = next(each for each in reports if each.form is not None)
        own = reports[self._comm.rank] if reports[self._comm.rank].form is not None else known
        check_agreement([MustAgree(chosen={"batch_size": f"{each.num_rows or known.num_rows}"}) for each in reports])
        self._padding = form.padding_rows(known.num_rows, own.device)

    def _read(self, size: int, first_step: int) -> tuple[list[T], Problem | None]:
        items: list[T] = []
        try:
            while len(items) < size and not self._is_dry:
                with self._reads.reading():
                    items.append(next(self._source))
        except StopIteration:
            self._is_dry = True
        except Exception as error:
            self._is_dry = True
            step = first_step + len(items)
            return items, Problem.of(error).at(rank=self._comm.rank, epoch=self._settings.epoch, step=step)
        return items, None

    def _make_empty(self) -> T:
        if self._empty is not None:
            return self._empty()
        empty: T = self._padding.emptied(self._padding.batch_size)  # one of its own: the loop may change it
        return empty


def in_step(
    items: Iterable[T],
    comm: Comm,
    *,
    tail: Tail | str = Tail.DROP,
    empty: Callable[[], T] | None = None,
    ahead: int = 8,
    epoch: int = 0,
) -> InStep[T]:
    """Hand out the same number of an iterator's items on every rank, though nobody knows how many there are.

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
        tail: `drop`: all stop when the first has no more. `pad`: ranks that have no more continue with empty items
            until all are done.
        empty: Makes an empty item; not needed if items are batches.
        ahead: The most items that are read ahead, and the fewest steps between two agreements far from the end.
        epoch: What errors say.
    """
    tail = choice(Tail, "tail", tail)
    if tail not in (Tail.DROP, Tail.PAD):
        raise InputError(f"the tail of a stream is 'drop' or 'pad', got {tail.value!r}: its length is not known")
    settings = StreamSettings(tail=tail, ahead=whole_number("ahead", ahead, least=1), epoch=epoch)
    return InStep(items, comm, settings, empty=empty)
