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
        if not self._watching.finding:
            return None
        finding = finding_from_json(json.loads(self._watching.finding))
        self._watching.close()
        return finding
