"""Waits for ranks that are children of this process: when one fails, the others have a moment to say so, then end."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Protocol

_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.02


class RankChild(Protocol):
    """A rank that we have started, as `subprocess.Popen` has it."""

    def poll(self) -> int | None:
        """Return its code if it has ended: negative the signal that killed it."""

    def kill(self) -> None:
        """End it."""

    def wait(self) -> int:
        """Wait until it has ended; return its code."""


class ForkedRank:
    """A rank that was split off this process by `os.fork`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return its code if it has ended: negative the signal that killed it."""
        return self._learn(os.WNOHANG)

    def kill(self) -> None:
        """End it; one that has ended is let alone, for its number may be another's by now."""
        if self._code is None:
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait until it has ended; return its code."""
        code = self._learn(0)
        assert code is not None
        return code

    def _learn(self, options: int) -> int | None:
        if self._code is None:
            ended, status = os.waitpid(self._pid, options)
            self._code = os.waitstatus_to_exitcode(status) if ended else None
        return self._code


def wait_for_ranks(ranks: Sequence[RankChild], *, save_until: Callable[[], float] = lambda: math.inf) -> int:
    """Wait until all ranks have ended, or those that are left have had their moment; return the first failure's code.

    Ranks that still run are left to `end_ranks`.

    Args:
        ranks: The ranks.
        save_until: Once the ranks were told to end, until when they may save what they have. It is asked again and
            again. A rank that fails from then on does not shorten that time: being ended by a signal is not a failure.
    """
    code, end = 0, math.inf
    while any(rank.poll() is None for rank in ranks):
        was_told, now = save_until() < math.inf, time.monotonic()
        if not was_told and not code:
            code = _first_failure(ranks)
            end = now + _GRACE_SECONDS if code else math.inf
        if now > min(end, save_until()):
            break
        time.sleep(_POLL_SECONDS)
    return code or _first_failure(ranks)


def _first_failure(ranks: Sequence[RankChild]) -> int:
    return next((code for rank in ranks if (code := rank.poll())), 0)


def end_ranks(ranks: Sequence[RankChild]) -> None:
    """Kill the ranks that still run, and wait for all, so that none is left behind."""
    for rank in ranks:
        if rank.poll() is None:
            rank.kill()
    for rank in ranks:
        rank.wait()
