"""A run on one node of a job whose head is on another: nothing is judged here, and what the head finds is said."""

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

_SILENT_SECONDS = 30.0  # without an answer of the head, before that is told
_LAST_SECONDS = 2.0  # for the head to say what it has found, once the launcher here has failed


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
    ) -> None:
        super().__init__(rings, folder, options, command)
        self._watching = Watching(rings, [address], secret)
        self._address, self._began, self._has_told = address, time.monotonic(), False

    def look(self) -> Finding | None:
        """Tell the head what has changed; return what it has found, if anything."""
        self._problems.look()
        return self.unless_at_fault(self._follow)

    def look_back(self, *, failed: bool) -> Finding | None:
        """After the launcher has ended: tell the last, and hear what the head makes of it if the job has failed."""
        deadline = time.monotonic() + _LAST_SECONDS
        finding = self.unless_at_fault(self._follow)
        while failed and finding is None and self.fault is None and time.monotonic() < deadline:
            self._watching.wait()
            finding = self.unless_at_fault(self._follow)
        self._watching.close()
        return finding

    def _follow(self) -> Finding | None:
        self._watching.look()
        self._tell_silence()
        if not self._watching.finding:
            return None
        finding = finding_from_json(json.loads(self._watching.finding))
        self._watching.close()
        return finding

    def _tell_silence(self) -> None:
        """Say once that nobody judges, if the head does not answer."""
        silent = not self._watching.was_known and time.monotonic() - self._began > _SILENT_SECONDS
        if silent and not self._has_told:
            self._has_told = True
            self._options.on_unseen(
                f"nobody answers at {self._address}, so the ranks of this host are not judged: is `paceline run` "
                "started there too, with the same key (~/.config/paceline/key, or PACELINE_KEY), and within reach?"
            )
