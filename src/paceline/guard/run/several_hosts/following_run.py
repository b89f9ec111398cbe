"""A run on one node of a job whose head is on another: what the head finds is said here too.

Nothing is judged here as long as the head is heard of, except by the user's time limit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import finding_from_json

_SILENT_SECONDS = 10.0  # without an answer of the head, after which this host is judged alone
_LAST_SECONDS = 2.0  # for the head to say what it has found, once the launcher has failed or the time limit is over


class FollowingRun(JudgedRun):
    """The watching of one node, with what a judged run can do besides judging."""

    def __init__(
        self,
        rings: LocalRings,
        folder: Path,
        options: WatchOptions,
        command: Sequence[str],
        address: str,
        secret: bytes,
        part: str = "",
    ) -> None:
        super().__init__(rings, folder, options, command)
        self._watching = Watching(rings, [address], secret, part=part)
        self._address, self._began, self._has_told = address, time.monotonic(), False
        self._late_since: float | None = None  # since when the time limit is over

    def look(self) -> Finding | None:
        """Tell the head what has changed; return what it has found. Without a head judge this host alone."""
        finding = self.unless_at_fault(self._follow)
        if finding is not None:
            return finding
        if time.monotonic() - self._began > _SILENT_SECONDS and not self._is_led():
            self._tell_silence()
            return super().look()
        self._problems.look()
        return self._pass_limit()

    def look_back(self, *, failed: bool, code: int | None = None) -> Finding | None:
        """After the launcher has ended: tell the last, and hear what the head makes of it if the job has failed."""
        deadline = time.monotonic() + _LAST_SECONDS
        finding = self.unless_at_fault(self._follow)
        while failed and finding is None and self.fault is None and time.monotonic() < deadline:
            self._watching.wait()
            finding = self.unless_at_fault(self._follow)
        if finding is None and not self._is_led():
            if failed:
                self._tell_silence()
            finding = super().look_back(failed=failed, code=code)
        self._watching.close()
        return finding

    def _is_led(self) -> bool:
        return self._watching.was_heard_within(_SILENT_SECONDS)

    def _follow(self) -> Finding | None:
        self._watching.look()
        if not self._watching.finding:
            return None
        finding = finding_from_json(json.loads(self._watching.finding))
        self._watching.close()
        self.was_heard = True
        return finding

    def _pass_limit(self) -> Finding | None:
        """Return a finding if the user's time limit is over and the head, which knows more, says nothing about it."""
        jobs, now = self.jobs(), time.monotonic()
        self._limit.note(jobs)
        finding = self._limit.passed(jobs, why="the head, which judges all hosts, has found nothing")
        self._late_since = None if finding is None else self._late_since or now
        return finding if self._late_since is not None and now - self._late_since > _LAST_SECONDS else None

    def _tell_silence(self) -> None:
        """Say once that this host is judged alone."""
        jobs = self._rings.known_jobs()
        if self._has_told or (jobs and all(job.world_size == 1 for job in jobs)):  # nobody else is to be judged
            return
        self._has_told = True
        if self._watching.was_known:
            text = f"the head at {self._address} no longer answers: the ranks of this host are judged alone"
        else:
            text = (
                f"nobody answers at {self._address}, so the ranks of this host are judged alone: does Paceline run "
                "there too, with the same key (~/.config/paceline/key, or PACELINE_KEY), and within reach?"
            )
        self._options.on_unseen(text)
