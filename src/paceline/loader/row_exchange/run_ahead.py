"""Runs what ranks do together ahead of the step that needs it, while the step before computes.

Everything that communicates runs in one thread on communicators of its own, in the order in which it was started. So it
cannot be mixed up with the user's collectives, and ranks may finish what they started in any order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

from paceline.batch.batch import Batch
from paceline.comm import Comm, CommError
from paceline.errors import InputError, whole_number
from paceline.loader.agreement.background import Background, Closeable
from paceline.loader.agreement.must_agree import DisagreementError

_cuda: Any = torch.cuda
_T = TypeVar("_T")


class Finishable(Protocol):
    """Something that was started, and has a result."""

    def finish(self) -> Any:
        """Return the result; wait for it if need be."""


_F = TypeVar("_F", bound=Finishable)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Done(Generic[_T]):
    """A result, and when the work for it was done."""

    value: _T
    start: float
    end: float
    ready: Any = None  # an event of the side stream, on a GPU


class WorkAhead(Generic[_T]):
    """Work that was started. Times are known once it was waited for."""

    def __init__(self, work: Future[_Done[_T]], batches_of: Callable[[_T], Iterable[Batch]], blocked: float) -> None:
        self._work, self._batches_of = work, batches_of
        self._blocked = blocked  # seconds for which the caller has waited already
        self._asked: float | None = None  # when the caller first asked for the result
        self.seconds_hidden: float | None = None
        self.seconds_waited = 0.0

    @property
    def is_done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._work.done()

    def is_done_within(self, seconds: float) -> bool:
        """Wait until `wait` would return at once, for some seconds at the most; return whether it would."""
        self._asked = self._asked or time.perf_counter()
        return bool(futures.wait([self._work], seconds).done)

    def wait(self) -> _T:
        """Return the result; wait for it if need be. May be called again."""
        asked = self._asked or time.perf_counter()
        done = self._work.result()
        waited = time.perf_counter() - asked + self._blocked
        if done.ready is not None:
            for batch in self._batches_of(done.value):
                stream = _cuda.current_stream(batch.device)
                stream.wait_event(done.ready)
                batch.record_stream(stream)
        if self.seconds_hidden is None:
            self.seconds_hidden = 0.0 if self._blocked else max(0.0, min(done.end, asked) - done.start)
            self.seconds_waited = waited
        return done.value


class RunAhead(Closeable):
    """Runs work for batches, in order, in a thread of its own.

    Errors that all ranks raise end that work alone; after any other error nothing more is run, since other ranks may be
    in the middle of it.

    Args:
        comm: The ranks. Work gets a duplicate of it. All ranks make this at the same time.
        name: What the thread is called.
    """

    def __init__(self, comm: Comm, name: str) -> None:
        self.comm = comm.duplicate()
        # some MPIs take calls from one thread only: then there is nothing to overlap
        self._background = Background(name) if comm.is_thread_safe else None
        self._stream: Any = None
        self._broken: BaseException | None = None
        self._is_closed = False

    def start(
        self, batch: Batch, work: Callable[[], _T], batches_of: Callable[[_T], Iterable[Batch]]
    ) -> WorkAhead[_T]:  # fmt: skip
        """Begin some work; returns at once.

        Args:
            batch: What the work reads: it must not be used for something else before the work is done.
            work: What to do, in the thread.
            batches_of: Returns the batches of a result: on a GPU, the caller's stream must wait for them.
        """
        ready = self._mark(batch)
        if self._background is not None:
            return WorkAhead(self._background.submit(self._run, batch, work, ready), batches_of, 0.0)
        future: Future[_Done[_T]] = Future()
        start = time.perf_counter()
        try:
            future.set_result(self._run(batch, work, ready))
        except Exception as error:
            future.set_exception(error)
        return WorkAhead(future, batches_of, time.perf_counter() - start)

    def close(self, *, wait: bool = True) -> None:
        """End the thread after what is under way; or abandon it, if peers may never come."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._background is not None:
            self._background.close(wait=wait)
        if wait:
            self.comm.free()

    def _run(self, batch: Batch, work: Callable[[], _T], ready: Any) -> _Done[_T]:
        if self._broken is not None:
            raise CommError(f"an earlier batch failed on this rank alone: {self._broken}") from self._broken
        try:
            return self._run_now(batch, work, ready)
        except (DisagreementError, InputError):
            raise  # every rank has raised it, so all continue with the next batch
        except BaseException as error:
            self._broken = error  # others may be in the middle of this batch: another one must not be mixed up with it
            raise

    def _run_now(self, batch: Batch, work: Callable[[], _T], ready: Any) -> _Done[_T]:
        start = time.perf_counter()
        if ready is None:
            value = work()
            return _Done(value=value, start=start, end=time.perf_counter())
        with _cuda.stream(self._stream):
            self._stream.wait_event(ready)
            value = work()
            batch.record_stream(self._stream)
            done = _cuda.Event()
            done.record(self._stream)
        return _Done(value=value, start=start, end=time.perf_counter(), ready=done)

    def _mark(self, batch: Batch) -> Any:
        """On a GPU: note how far the caller's stream must have come before the batch may be read."""
        if batch.device.type != "cuda":
            return None
        if self._stream is None:
            self._stream = _cuda.Stream(batch.device)
        event = _cuda.Event()
        event.record(_cuda.current_stream(batch.device))
        return event


def finished_ahead(start: Callable[[Batch], _F], batches: Iterable[Batch], ahead: int) -> Iterator[tuple[_F, Any]]:
    """Start work for each batch, a few ahead of the one that is finished; yield the work with its result.

    Args:
        start: Starts the work for a batch.
        batches: The same number on every rank.
        ahead: Batches under way besides the one in use.
    """
    ahead = whole_number("ahead", ahead, least=0)
    pending: deque[_F] = deque()
    for batch in batches:
        if not isinstance(batch, Batch):
            raise InputError(f"batches must be of type Batch, got {type(batch).__name__}: as_batch makes one of a dict")
        pending.append(start(batch))
        if len(pending) > ahead:
            yield (first := pending.popleft()), first.finish()
    while pending:
        yield (first := pending.popleft()), first.finish()
