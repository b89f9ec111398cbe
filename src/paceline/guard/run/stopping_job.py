"""A job that somebody stops: signals to us go on to its launcher, and ranks get time to save their work."""

from __future__ import annotations

import signal
import time
from types import FrameType

from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.run.started_launcher import StartedLauncher
from paceline.launch.local_ranks import SAVE_SECONDS
from paceline.launch.terminal import is_foreground

_SAME_SECONDS = 0.5  # within which a signal that comes twice was sent once: to us, and to the group of processes
_HANG_SECONDS = 3.0  # how long all ranks may stay inside the same calls after the signal


class ForwardedSignals:
    """Signals to us are for the job. The terminal sends Ctrl-C to its whole group; other senders reach only us."""

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

    def __init__(self) -> None:
        self.received: int | None = None  # the first one
        self.is_repeated = False
        self._first = 0.0
        self._before: dict[int, object] = {}
        self._is_forwarded = False

    def __enter__(self) -> ForwardedSignals:
        for number in self._NUMBERS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # nohup stays nohup
                self._before[number] = before
                signal.signal(number, self._receive)
        return self

    def __exit__(self, *args: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    @property
    def numbers(self) -> list[int]:
        """The signals that are received."""
        return list(self._before)

    def note(self, number: int) -> None:
        """Note a signal that has come."""
        if self.received is None:
            self.received, self._first = number, time.monotonic()
        elif time.monotonic() - self._first > _SAME_SECONDS:
            self.is_repeated = True

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.note(number)

    def forward(self, launcher: StartedLauncher) -> bool:
        """Send the first signal to the launcher; return whether that was done now."""
        assert self.received is not None
        if self._is_forwarded:
            return False
        self._is_forwarded = True
        if self.received not in (signal.SIGINT, signal.SIGQUIT) or not is_foreground():
            launcher.send_signal(self.received)
        return True


class StoppingJob:
    """Decides how long a job may take to end: ranks that save something get some time, those that hang get little."""

    def __init__(self, rings: LocalRings) -> None:
        self._rings = rings
        self._marks: dict[str, dict[int, tuple[int, ...]]] = {}
        self._still_since = time.monotonic()
        self._stopped_at: float | None = None  # when the job was told to end

    def is_hopeless(self) -> bool:
        """Say whether every living rank hangs in a call, where it sees no signal."""
        jobs = self._rings.jobs()
        marks = {job.name: job.marks() for job in jobs}
        if marks != self._marks or not all(_all_wait(job) for job in jobs):
            self._marks, self._still_since = marks, time.monotonic()
        return bool(jobs) and time.monotonic() - self._still_since > _HANG_SECONDS

    def is_late(self) -> bool:
        """Say whether the time is up. The first question is asked when the job is told to end."""
        self._stopped_at = self._stopped_at or time.monotonic()
        return time.monotonic() - self._stopped_at > SAVE_SECONDS


def _all_wait(job: WatchedJob) -> bool:
    states = [state for state in job.snapshot(history=0).ranks if state is not None and state.end is None]
    return bool(states) and all(state.waits for state in states)
