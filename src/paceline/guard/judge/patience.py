"""Holds a finding back for a moment, for ranks that are on their way: what is wrong may only then be clear.

They may show who is the odd one out where calls differ, and send the message that tells why others wait for ever.
There the moment is one in which those ranks could move: time in which one wanted a processor and had none, because
the machine is busy with other work, does not count, up to a limit. A rank inside a call needs little to leave it: once
it has had that, it stays there because it waits. Who has gone is clear without ranks that compute; only those that are
about to leave a call are waited for so long, since they may go too, and those that may be ending, because somebody may
have ended the whole job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from paceline.guard.verdict.finding import Finding, FindingKind, GroupState

GATHER_SECONDS = 0.5
MOST_SECONDS = 2.0  # however busy the machine is
LEAVE_SECONDS = 0.002  # what a rank that polls needs of a processor to leave a call that is over
_TOLD_BY_OTHERS = (FindingKind.MISMATCH, FindingKind.DEADLOCK)  # findings that other ranks may turn into a better one


@dataclass(slots=True)
class Patience:
    """How long a finding has been held back.

    Attributes:
        held_since: When it was first made; None while there is none.
    """

    held_since: float | None = None
    _starved_then: dict[int, float] = field(default_factory=dict)
    _worked_then: dict[int, float] = field(default_factory=dict)

    def holds_back(
        self,
        finding: Finding,
        coming: Set[int],
        starved: Callable[[int], float],
        inside: Mapping[int, float] | None = None,
        ending: Set[int] = frozenset(),
    ) -> bool:
        """Say whether to wait for ranks that are coming.

        Args:
            finding: What would be said now.
            coming: The ranks that may still tell more.
            starved: Tells for how many seconds in all a rank has wanted a processor and had none.
            inside: For how many seconds in all those that are inside a call have had a processor.
            ending: Ranks that may be ending with those that the finding names.
        """
        coming = coming | ending
        now = time.monotonic()
        if self.held_since is None:
            self.held_since = now
        held = now - self.held_since
        if held > MOST_SECONDS:
            return False
        for rank in coming - self._starved_then.keys():
            self._starved_then[rank] = starved(rank)
        inside = inside or {}
        for rank, worked in inside.items():
            self._worked_then.setdefault(rank, worked)
        lost = 0.0
        if held > GATHER_SECONDS:
            slow = coming if finding.kind in _TOLD_BY_OTHERS else (coming & _ranks_behind(finding)) | ending
            slow -= {rank for rank, worked in inside.items() if worked - self._worked_then[rank] >= LEAVE_SECONDS}
            lost = max((starved(rank) - self._starved_then[rank] for rank in slow), default=0.0)
        return bool(coming) and held - lost <= GATHER_SECONDS

    def forget(self) -> None:
        """There is no finding any more."""
        self.held_since = None
        self._starved_then.clear()
        self._worked_then.clear()


def coming_ranks(finding: Finding) -> set[int]:
    """Return the ranks that may still show who is the odd one out."""
    groups, behind = finding.groups, _ranks_behind(finding)
    if finding.kind is not FindingKind.MISMATCH:
        running = [group for group in groups if group.state is GroupState.RUNNING and group.call is None]
        return behind.union(*(group.ranks for group in running))
    if behind:
        return behind
    odd = set(finding.ranks)
    where = {group.communicator for group in groups if odd & set(group.ranks)}
    there = sum(len(group.ranks) for group in groups if group.communicator in where)
    # the others run, or are in a call on another communicator, such as that in which ranks meet
    elsewhere = [group for group in groups if group.communicator not in where]
    coming = {
        rank for group in elsewhere if group.state in (GroupState.RUNNING, GroupState.BLOCKED) for rank in group.ranks
    }
    return coming if there - len(odd) <= len(odd) + len(coming) else set()


def _ranks_behind(finding: Finding) -> set[int]:
    """Return the ranks in a call before the last one, which all have entered: they leave it in a moment."""
    inside = [(group.sequence, group) for group in finding.groups if group.sequence is not None]
    if not inside:
        return set()
    last, there = max(inside, key=lambda pair: pair[0])
    return {
        rank
        for sequence, group in inside
        if sequence < last and group.communicator == there.communicator and group.state in ("blocked", "running")
        for rank in group.ranks
    }
