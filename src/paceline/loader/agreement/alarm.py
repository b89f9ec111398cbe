"""Tells all ranks, without a collective, that one of them cannot make a coming step.

A rank announces this before it hands out the batch of the step before. Any rank that then takes part in a collective
of that step with it, and asks afterwards, sees the announcement. So all ranks stop at the same step, and none of them
waits in a collective of it.
"""

from __future__ import annotations

import struct
import threading
import time
from dataclasses import dataclass

import torch

from paceline.comm import Comm
from paceline.loader.agreement.alarm_boards import AlarmBoard, MpiAlarmBoard, make_board
from paceline.loader.agreement.problem import Problem, first_problem

_TEXT_BYTES, _TRACE_BYTES = 2048, 4096
_POLL_SECONDS = 0.5
_NO_SAMPLE = -1
_NUMBERS = struct.Struct("<q?qqQqI")  # pass, has_left, sample, rank, epoch, step, bytes of the text


class Alarm:
    """The alarm of one loader: its board, which all passes share.

    Args:
        comm: The ranks. All make it at the same time.
        grace: Seconds that a rank has to return to its loader after another has left the loop.
        device: The device to send from.
    """

    def __init__(self, comm: Comm, grace: float, device: torch.device | str = "cpu") -> None:
        self._comm, self._grace, self._board = comm, grace, make_board(comm, device)
        self._num_passes = 0

    def begin(self) -> PassAlarm:
        """Begin a pass: announcements of other passes do not count in it."""
        self._num_passes += 1
        # some MPIs take calls from one thread only
        is_watched = not isinstance(self._board, MpiAlarmBoard) or self._comm.is_thread_safe
        return PassAlarm(self._num_passes, self._board, self._comm, grace=self._grace if is_watched else None)

    def close(self) -> None:
        """Release the board, after all passes."""
        self._board.close()


class PassAlarm:
    """The alarm of one pass: what ranks announce, and which of them have left the loop.

    Args:
        number: The number of the pass, the same on all ranks.
        board: Where ranks announce their problems.
        comm: The ranks.
        grace: Seconds that this rank has to return to its loader after another has left the loop; None: for ever.
    """

    def __init__(self, number: int, board: AlarmBoard, comm: Comm, *, grace: float | None) -> None:
        self._number, self._board, self._comm = number, board, comm
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        if grace is not None:
            self._thread = threading.Thread(target=self._watch, args=(grace,), name="paceline-alarm", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """End the pass."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def announce(self, problem: Problem, *, has_left: bool = False) -> None:
        """Tell all ranks that this one cannot make the step of the problem; later, that it has left the loop."""
        self._board.post(_Announcement(pass_number=self._number, has_left=has_left, problem=problem).to_bytes())

    def problem_at(self, step: int) -> Problem | None:
        """Return the problem because of which all ranks stop at this step, if there is one."""
        return first_problem(each.problem for each in self._announcements() if each.problem.step <= step)

    def _announcements(self) -> list[_Announcement]:
        announcements = [_Announcement.from_bytes(message) for message in self._board.read()]
        return [each for each in announcements if each.pass_number == self._number]

    def _watch(self, grace: float) -> None:
        """End this rank if it does not return after another has left: it may be stuck in a collective for ever."""
        first_seen: float | None = None
        while not self._end.wait(_POLL_SECONDS):
            problems = [each.problem for each in self._announcements() if each.has_left]
            if not problems:
                continue
            first_seen = first_seen or time.monotonic()
            if time.monotonic() - first_seen > grace and all(each.rank != self._comm.rank for each in problems):
                reason = f"this rank did not return to its loader within {grace:.0f} s and was terminated"
                self._comm.abort(f"{problems[0]}; {reason}")
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class _Announcement:
    """One message on the board. Text and traceback are cut, so that it fits into its slot."""

    pass_number: int
    has_left: bool
    problem: Problem

    def to_bytes(self) -> bytes:
        problem = self.problem
        text = problem.text.encode(errors="replace")[:_TEXT_BYTES]
        trace = problem.trace.encode(errors="replace")[-_TRACE_BYTES:]
        sample = _NO_SAMPLE if problem.sample is None else problem.sample
        numbers = (sample, problem.rank, problem.epoch, problem.step, len(text))
        return _NUMBERS.pack(self.pass_number, self.has_left, *numbers) + text + trace

    @classmethod
    def from_bytes(cls, message: bytes) -> _Announcement:
        pass_number, has_left, sample, rank, epoch, step, text_bytes = _NUMBERS.unpack_from(message)
        end = _NUMBERS.size + text_bytes
        problem = Problem(
            text=message[_NUMBERS.size : end].decode(errors="ignore"),  # cut within a letter, maybe
            sample=None if sample == _NO_SAMPLE else sample,
            trace=message[end:].decode(errors="ignore"),
            rank=rank,
            epoch=epoch,
            step=step,
        )
        return cls(pass_number=pass_number, has_left=has_left, problem=problem)
