"""The watcher's side of a view: what the ranks of its host do, when the head asks. Otherwise nothing is read."""

from __future__ import annotations

import time
from collections.abc import Mapping

from paceline.guard.hosts.classes.told_states import is_large
from paceline.guard.hosts.viewing.view_messages import (
    MOST_ARRIVALS,
    MOST_GLANCES,
    MOST_GROUPS,
    MOST_SITES,
    GlanceReport,
    RankGlance,
    WantGlances,
)
from paceline.guard.observe.glances import Arrival, CallShares, Glance, glance_at
from paceline.guard.observe.local_rings import HeldRing, LocalRings, rank_of

_WANTED_SECONDS = 3.0  # after the last question, in which more questions are expected
_MOST_SITE, _MOST_NAME = 1000, 200  # characters


class ToldGlances:
    """What is told of the ranks of one host."""

    def __init__(self, rings: LocalRings) -> None:
        self._rings = rings
        self._shares = CallShares()
        self._wanted_at: float | None = None
        self._sampled_at = 0.0

    def sample(self) -> None:
        """Note which ranks are inside a call now, if somebody looks."""
        now = time.monotonic()
        if self._wanted_at is None or now - self._wanted_at > _WANTED_SECONDS:
            self._wanted_at = None
            return
        for held in self._rings.held_rings():
            process = rank_of(held).process
            if not process.ended_ns:
                is_inside = rank_of(held).reader.is_inside()
                self._shares.add(process.pid, is_inside=is_inside, seconds=now - self._sampled_at)
        self._sampled_at = now

    def answer(self, want: WantGlances, *, shift_ns: int, error_ns: int) -> GlanceReport | None:
        """Return what ranks do, with times moved to the head's clock; None if there is none to tell of."""
        if self._wanted_at is None:
            self._shares, self._sampled_at = CallShares(), time.monotonic()
        self._wanted_at = time.monotonic()
        report = GlanceReport({}, [], error_ns)
        for held in self._rings.held_rings()[:MOST_GLANCES]:
            if rank_of(held).process.ended_ns:
                continue
            if not is_large(held):
                report.glances[rank_of(held).process.pid] = self._glance(held, shift_ns)
                continue
            ((world, rank),) = held.names.items()
            if rank in want.ranks.get(world, ()):
                report.sampled.append((world, rank, self._glance(held, shift_ns)))
        return report if report.glances or report.sampled else None

    def _glance(self, held: HeldRing, shift_ns: int) -> RankGlance:
        glance = glance_at(rank_of(held).reader, num_calls=MOST_ARRIVALS)
        return _as_message(glance, self._shares.share(rank_of(held).process.pid), shift_ns)


def _as_message(glance: Glance, share: float | None, shift_ns: int) -> RankGlance:
    groups: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for arrival in glance.arrivals:
        entries = groups.setdefault((arrival.communicator[:_MOST_NAME], arrival.size), [])
        entries.append((arrival.sequence, max(0, arrival.entered_ns + shift_ns)))
    return RankGlance(
        call=glance.call[:_MOST_NAME],
        site=glance.site[-_MOST_SITE:],
        entered_ns=max(0, glance.entered_ns + shift_ns),
        share=None if share is None else min(1.0, share),
        counts=[(site[-_MOST_SITE:], count) for site, count in _last(glance.counts)],
        arrivals=[(name, size, entries) for (name, size), entries in list(groups.items())[-MOST_GROUPS:]],
    )


def _last(counts: Mapping[str, int] | None) -> list[tuple[str, int]]:
    return list((counts or {}).items())[-MOST_SITES:]


def read_glance(message: RankGlance, error_ns: int) -> Glance:
    """Return what a host has told of a rank, with times that may be wrong by so much."""
    return Glance(
        call=message.call, site=message.site, entered_ns=message.entered_ns, counts=dict(message.counts),
        share_in_calls=message.share, error_ns=error_ns,
        arrivals=tuple(
            Arrival(communicator=name, size=size, sequence=sequence, entered_ns=entered_ns)
            for name, size, entries in message.arrivals
            for sequence, entered_ns in entries
        ),
    )  # fmt: skip
