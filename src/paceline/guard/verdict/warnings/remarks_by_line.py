"""What ranks have remarked about their own calls, those of one line of the program together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.guard.shared_memory.ring_texts import UNKNOWN_SITE
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Remark


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkedLine:
    """Remarks about one line.

    Attributes:
        site: The line.
        what: The operation or the kind of handle.
        how: What became of it.
        counts: By rank, how often.
        facts: What else is known, from the rank that counted most.
    """

    site: str
    what: str
    how: str
    counts: Mapping[int, int]
    facts: Mapping[str, Any]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that made the remark."""
        return tuple(sorted(self.counts))

    @property
    def num(self) -> int:
        """How often, on all ranks together."""
        return sum(self.counts.values())


def remarked_lines(inspection: Inspection, about: str) -> list[RemarkedLine]:
    """Return the lines that ranks have remarked on, by what they said of them."""
    found: dict[tuple[str, str, str], dict[int, list[Remark]]] = {}
    for state in inspection.states():
        for remark in state.remarks:
            if remark.about == about and remark.site != UNKNOWN_SITE:
                key = (remark.site, remark.what, remark.how)
                found.setdefault(key, {}).setdefault(state.rank, []).append(remark)
    lines = []
    for (site, what, how), remarks in sorted(found.items()):
        # a rank makes one for each way that led to the line
        most = max((remark for told in remarks.values() for remark in told), key=lambda remark: remark.count)
        counts = {rank: sum(remark.count for remark in told) for rank, told in remarks.items()}
        lines.append(RemarkedLine(site=site, what=what, how=how, counts=counts, facts=most.facts))
    return lines
