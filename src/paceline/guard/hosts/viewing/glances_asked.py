"""The head's side of a view: while somebody looks, hosts are asked once a second what their ranks do."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from paceline.guard.hosts.classes.rank_table import RankTable
from paceline.guard.hosts.remote_process import process_number
from paceline.guard.hosts.viewing.glances_told import read_glance
from paceline.guard.hosts.viewing.view_messages import MOST_ARRIVALS, GlanceReport
from paceline.guard.observe.glances import Glance, glance_at
from paceline.guard.observe.watched_rank import WatchedRank

_ASK_SECONDS = 1.0  # between two questions
_VIEWED_SECONDS = 3.0  # after the last look, when nobody looks any more
_MOST_HERE = 256  # ranks of this host that are read whenever others are asked


class AskedGlances:
    """What hosts have told of their ranks, as long as somebody looks."""

    def __init__(self) -> None:
        self._viewed_at: float | None = None
        self._asked_at = 0.0
        self._ranks: dict[int, WatchedRank] = {}  # by the number of their process, when hosts were last asked
        self._sampled: dict[str, dict[int, Glance]] = {}  # of large jobs: by world and rank
        self._told_at: dict[tuple[str, int], float] = {}  # when that was told
        self._wanted: Mapping[str, Sequence[int]] = {}

    def note_viewer(self) -> None:
        """Somebody looks now."""
        self._viewed_at = time.monotonic()

    def is_due(self) -> bool:
        """Say whether hosts are to be asked now; what is old is dropped if nobody looks any more."""
        now = time.monotonic()
        if self._viewed_at is not None and now - self._viewed_at >= _VIEWED_SECONDS:
            self._forget()
        return self._viewed_at is not None and now - self._asked_at >= _ASK_SECONDS

    def begin(self, ranks: Iterable[WatchedRank], wanted: Mapping[str, Sequence[int]]) -> None:
        """Hosts are asked now, of large jobs for these ranks. Note what ranks here do at the same moment."""
        self._asked_at, self._wanted = time.monotonic(), wanted
        self._ranks = {rank.process.pid: rank for rank in ranks}
        here = [rank for rank in self._ranks.values() if not rank.process.host]
        for rank in here[:_MOST_HERE]:
            rank.glance = glance_at(rank.reader, num_calls=MOST_ARRIVALS)
        self._sampled = {
            world: {rank: glance for rank, glance in self._sampled.get(world, {}).items() if self._is_told(world, rank)}
            for world in wanted
        }

    def _is_told(self, world: str, rank: int) -> bool:
        """Say whether a rank is still to be shown, and its host has told of it lately: it may have ended."""
        return rank in self._wanted[world] and time.monotonic() - self._told_at[world, rank] < _VIEWED_SECONDS

    def take(self, host: int, report: GlanceReport, tables: Mapping[str, RankTable]) -> None:
        """Take in what a host has told of its own ranks.

        Args:
            host: The number of the host.
            report: What it tells.
            tables: Of large jobs: they say which ranks are its own.
        """
        for pid, told in report.glances.items():
            rank = self._ranks.get(process_number(host, pid))
            if rank is not None:
                rank.glance = read_glance(told, report.error_ns)
        for world, number, told in report.sampled:
            if number in self._wanted.get(world, ()) and tables[world].host_of(number) == host:
                self._sampled[world][number] = read_glance(told, report.error_ns)
                self._told_at[world, number] = time.monotonic()

    def sampled(self, world: str) -> Mapping[int, Glance]:
        """Return what hosts have told of ranks of a large job."""
        return self._sampled.get(world, {})

    def _forget(self) -> None:
        self._viewed_at, self._wanted = None, {}
        for rank in self._ranks.values():
            rank.glance = None
        self._ranks, self._sampled, self._told_at = {}, {}, {}
