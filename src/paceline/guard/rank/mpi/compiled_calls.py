"""The compiled forms of watched functions of mpi4py: they do what those in Python do, where arguments are plain.

Python's watched function is what a compiled one falls back to, and stays as it is where nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.compiled_recorder import COMPILED
from paceline.guard.rank.mpi.mpi_collective_arguments import Places
from paceline.guard.rank.mpi.mpi_constants import number_or_outsider
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.operations import Operation


class CompiledCalls:
    """Makes the compiled forms for one mpi4py."""

    def __init__(self, watch: MpiWatch) -> None:
        self._arguments: Any = None
        if COMPILED is not None:
            mpi = watch.mpi
            self._arguments = COMPILED.MpiArguments(
                session=SESSION, communicators=watch.communicators, handle=_handle(mpi, mpi.Comm),
                buffers=watch.buffers, in_place=mpi.IN_PLACE, reductions=watch.constants.predefined_reductions(),
                reduction_of=watch.constants.reduction, number_of=number_or_outsider, any_source=mpi.ANY_SOURCE,
                any_tag=mpi.ANY_TAG, status_type=mpi.Status, posted_type=PostedRequest,
                followed=watch.requests.by_object, request_handle=_handle(mpi, mpi.Request),
                compares=SESSION.compares_buffers(),
            )  # fmt: skip
        self._compares_results = watch.results is not None

    def collective(
        self, in_python: Any, function: Any, operation: Operation, read: Callable[..., Any], places: Places | None
    ) -> Any:
        """Return the compiled form of a blocking collective, or what is there in Python if nothing is compiled."""
        if self._arguments is None or self._compares_results:
            return in_python
        compiled = COMPILED.WatchedCollective(
            self._arguments, function, in_python, operation.code, read, operation.rooted, places
        )
        return named_like(compiled, function)

    def message(
        self, in_python: Any, function: Any, code: int, check_failed: Callable[..., None], *, sends: bool
    ) -> Any:
        """Return the compiled form of a blocking send or receive, in the same way."""
        if self._arguments is None:
            return in_python
        compiled = COMPILED.WatchedMessage(
            self._arguments, function, in_python, code, check_failed, sends, _has_buffer(function), True
        )
        return named_like(compiled, function)

    def posting(self, in_python: Any, function: Any, code: int, *, sends: bool, uses_memory: bool) -> Any:
        """Return the compiled form of a send or receive that returns a request, in the same way."""
        if self._arguments is None:
            return in_python
        compiled = COMPILED.WatchedPosting(
            self._arguments, function, in_python, code, PostedRequest, sends, _has_buffer(function), uses_memory
        )
        return named_like(compiled, function)

    def wait(self, in_python: Any, function: Any, code: int, *, for_all: bool) -> Any:
        """Return the compiled form of a wait for one request or for all of a list, in the same way."""
        if self._arguments is None:
            return in_python
        fail = _fail_wait_for_all if for_all else _fail_wait
        return named_like(COMPILED.WatchedWait(self._arguments, function, in_python, code, fail, for_all), function)


def _handle(mpi: Any, kind: Any) -> Any:
    """Return what reads MPI's handle of an object, as handle_reader has it."""
    return vars(kind).get("handle") or mpi._handleof


def _has_buffer(function: Any) -> bool:
    """Say whether a function takes a buffer; others take objects, whose size is not known."""
    return bool(function.__name__[0].isupper())


def _fail_wait(recorder: Recorder, number: int, posted: list[PostedRequest], error: BaseException) -> None:
    """Say that a wait for one request has raised: it is the call that posted it which failed, and the wait too."""
    recorder.fail(number)
    SESSION.note_failure(error, posted[0].record, was_posted=True)
    recorder.unblock(number)
    posted[0].settle()


def _fail_wait_for_all(recorder: Recorder, number: int, posted: list[PostedRequest], error: BaseException) -> None:
    """Say that a wait for several requests has raised: which of them failed is not known."""
    SESSION.note_failure(error, number, was_posted=True)
    recorder.unblock(number)
    for one in posted:
        one.settle()
