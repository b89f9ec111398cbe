"""Tells a job that hangs from one that is slow, by the files that `run_script` writes for each rank.

A job hangs when for some seconds no rank has printed, ended, or moved to another line, and none is still importing.
Processor time says nothing: MPI ranks poll while they wait.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from paceline.process.procfs import is_alive
from paceline.process.stacks import OF_STARTER, StackFrame, parse_stacks

_ASK_SECONDS = 0.3
_LEAVE_SECONDS = 15.0  # for ranks whose scripts are over to leave


class RankFiles:
    """What one rank of a case has written so far, in the folder that all of them share."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank

    def text(self, kind: str) -> str:
        """Return what it wrote to a file of its own: `out`, `err` or `stack`; empty if there is none."""
        return read_text(self._folder / f"{self._rank}.{kind}")

    @property
    def pid(self) -> int | None:
        """Its process, once it has said so."""
        text = self.text("pid")
        return int(text) if text else None

    @property
    def lives(self) -> bool:
        """Whether it has begun and not ended."""
        return self.pid is not None and is_alive(self.pid)

    @property
    def is_ready(self) -> bool:
        """Whether it has imported torch, or started MPI."""
        return (self._folder / f"{self._rank}.ready").exists()

    @property
    def is_over(self) -> bool:
        """Whether its script is over; Python, or MPI, may still be ending."""
        return (self._folder / f"{self._rank}.over").exists()

    def last_stack(self) -> tuple[StackFrame, ...]:
        """Return the last stack that was surely written whole: the last but one."""
        stacks = parse_stacks(self.text("stack"))
        return stacks[-2] if len(stacks) > 1 else ()


def read_text(path: Path) -> str:
    """Return the text of a file, or an empty one if it is not there."""
    return path.read_text(errors="replace") if path.is_file() else ""


class HangDetector:
    """Knows since when no rank of a job has moved; asks ranks for their stacks while nothing else is heard of them."""

    def __init__(self, ranks: list[RankFiles]) -> None:
        self._ranks = ranks
        self._last: list[object] = []  # the state of each rank at the last look
        self._began = self._since = self._asked = time.monotonic()
        self._start_seconds: float | None = None  # how long it took until all ranks were past their imports
        self._written: dict[int, str] = {}  # all stacks of each rank, when it was last asked
        self._in_c: set[int] = set()  # ranks that did not answer, and have not moved since

    def more_patience(self) -> float:
        """Return by how much longer to wait: as the machine is slow to start ranks, or while all of them leave."""
        leaving = all(rank.is_over for rank in self._ranks)
        return (self._start_seconds or 0.0) / 2 + (_LEAVE_SECONDS if leaving else 0.0)

    def quiet_seconds(self) -> float:
        """Look, and say for how long nothing has moved."""
        now = [_state(rank) for rank in self._ranks]
        if self._start_seconds is None and all(rank.is_ready for rank in self._ranks):
            self._start_seconds = time.monotonic() - self._began
        if now != self._last or any(state is None for state in now):
            self._last, self._since = now, time.monotonic()
        if time.monotonic() - self._asked > _ASK_SECONDS:
            self._ask()
        return time.monotonic() - self._since

    def _ask(self) -> None:
        """Ask ranks that run the script where they are, and do not wait for the answer: the next look reads it."""
        self._asked = time.monotonic()
        for number, rank in enumerate(self._ranks):
            pid = rank.pid
            if pid is None or not rank.is_ready or rank.is_over or not is_alive(pid):
                continue
            written = rank.text("stack")
            if self._written.get(number) == written:  # it has not answered the last question: it is in compiled code
                self._in_c.add(number)
            elif not _stands(written):
                self._in_c.discard(number)
            self._written[number] = written
            with suppress(ProcessLookupError):
                os.kill(pid, OF_STARTER.urgent if number in self._in_c else OF_STARTER.gentle)


def _state(rank: RankFiles) -> object:
    """Return what changes when a rank moves; None while it starts."""
    stack = rank.last_stack()
    is_importing = any("importlib" in frame.file for frame in stack)
    is_at_work = rank.is_over or (rank.is_ready and stack and not is_importing)
    if rank.pid is None or (rank.lives and not is_at_work):
        return None
    return len(rank.text("out")), len(rank.text("err")), rank.is_over, stack, rank.lives


def _stands(written: str) -> bool:
    """Say whether the last two stacks are alike, as far as there are two."""
    stacks = parse_stacks(written)
    return len(stacks) < 2 or stacks[-1] == stacks[-2]
