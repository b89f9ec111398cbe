"""buffer-in-use, for windows: two ranks reached for the same bytes of a window, one to write, and nothing orders them.

Ranks notice it themselves, when an epoch ends: see guard/rank/remarks/window_log.py.
"""

from __future__ import annotations

from paceline.guard.shared_memory.operations import shown_name
from paceline.guard.shared_memory.ring_texts import UNKNOWN_SITE
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.rank_names import name_rank
from paceline.guard.verdict.snapshot import Remark
from paceline.guard.verdict.wording import name_ranks

_READS = ("Win.Get",)
_Side = tuple[str, str]  # line, operation


def find_window_conflicts(inspection: Inspection, ended_well: bool) -> list[JobWarning]:
    """Return the lines that reached for the same bytes of a window in one epoch."""
    by_lines: dict[tuple[_Side, _Side], dict[_Side, set[int]]] = {}
    targets: dict[tuple[_Side, _Side], set[int]] = {}
    for state in inspection.states():
        for remark in state.remarks:
            if remark.about == WarningCause.BUFFER_IN_USE and "pair" in remark.facts:
                _add(remark, by_lines, targets)
    return [_warning(lines, ranks, targets[lines]) for lines, ranks in sorted(by_lines.items())]


def _add(
    remark: Remark,
    by_lines: dict[tuple[_Side, _Side], dict[_Side, set[int]]],
    targets: dict[tuple[_Side, _Side], set[int]],
) -> None:
    """Add a remark to those of the same two lines, the one that writes first."""
    sides = [((line, name), rank) for rank, line, name in remark.facts["pair"]]
    if any(line == UNKNOWN_SITE for (line, _), _ in sides):
        return  # it is read at the next look
    first, second = sorted((side for side, _ in sides), key=lambda side: (side[1] in _READS, side))
    ranks = by_lines.setdefault((first, second), {})
    for side, rank in sides:
        ranks.setdefault(side, set()).add(rank)
    targets.setdefault((first, second), set()).add(int(remark.facts["target"]))


def _warning(lines: tuple[_Side, _Side], ranks: dict[_Side, set[int]], targets: set[int]) -> JobWarning:
    everybody = sorted({rank for some in ranks.values() for rank in some})
    whose = name_rank(min(targets)) if len(targets) == 1 else f"one of {name_ranks(sorted(targets))}"
    bytes_text = f"the same bytes of the window of {whose}"
    if lines[0] == lines[1]:
        ((line, name), _) = lines
        verb_text = "access" if len(everybody) > 1 else "accesses more than once"
        summary = f"{name_ranks(everybody)} {verb_text} {bytes_text} by {shown_name(name)} at {line}"
    else:
        calls = [f"{shown_name(name)} at {line} ({name_ranks(sorted(ranks[line, name]))})" for line, name in lines]
        summary = f"{calls[0]} and {calls[1]} access {bytes_text}"
    return JobWarning(
        cause=WarningCause.BUFFER_IN_USE, ranks=tuple(everybody),
        summary=f"{summary}, not only to read them, and nothing that the guard sees orders these accesses",
        advice="give each a place of its own, or order them, by a fence or by exclusive locks; where several ranks "
        "must change one place, use Accumulate or Fetch_and_op with one operator on all",
        sites=tuple(dict.fromkeys(line for line, _ in lines)),
    )  # fmt: skip
