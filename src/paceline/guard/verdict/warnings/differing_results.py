"""results-differ: ranks got different results from a collective that gives all the same. Only with `--results`.

Each rank tells the first difference that it sees on a communicator, with the checksums that were there. The first of
these calls is the one to look at: what comes after it follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.guard.shared_memory.operations import shown_name
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.snapshot import Remark
from paceline.guard.verdict.wording import name_ranks


def find_differing_results(inspection: Inspection, ended_well: bool) -> list[JobWarning]:
    """Return the first call of each communicator whose results differed."""
    by_communicator: dict[str, list[Remark]] = {}
    for state in inspection.states():
        for remark in state.remarks:
            if remark.about == WarningCause.RESULTS_DIFFER:
                by_communicator.setdefault(str(remark.facts["on"]), []).append(remark)
    found = (_warning(inspection, name, remarks) for name, remarks in sorted(by_communicator.items()))
    return [warning for warning in found if warning is not None]


def _warning(inspection: Inspection, name: str, remarks: list[Remark]) -> JobWarning | None:
    communicator = inspection.communicator(name)
    first = min(int(remark.facts["call"]) for remark in remarks)
    told = [remark for remark in remarks if int(remark.facts["call"]) == first]
    sums: dict[int, int] = {}
    for remark in told:
        for member, checksum in remark.facts["sums"]:
            rank = communicator.rank_of(member) if communicator is not None else None
            if rank is not None:
                sums[rank] = checksum
    groups = _groups(sums)
    if len(groups) < 2:
        return None
    sites = tuple(dict.fromkeys(remark.site for remark in told))
    usual, *others = groups
    is_clear = len(usual) > len(others[0])
    odd = sorted(rank for group in others for rank in group) if is_clear else sorted(sums)
    call = f"{shown_name(told[0].what)} at {sites[0]}"
    where = f"call {first} on {inspection.name(name)}"
    if is_clear:
        summary = f"{call} gave {name_ranks(odd)} a different result than {name_ranks(usual)} ({where})"
    else:
        parts = "; ".join(name_ranks(group) for group in groups)
        summary = f"{call} did not give the same result to all ranks ({where}; those that agree: {parts})"
    return JobWarning(
        cause=WarningCause.RESULTS_DIFFER, ranks=tuple(odd), summary=summary,
        advice="make sure that nothing else writes to the result, that a reduction of your own does the same on all "
        "ranks, and that all ranks use the same library; if another rank is odd the next time, suspect its memory",
        sites=sites,
    )  # fmt: skip


def _groups(sums: Mapping[int, int]) -> list[list[int]]:
    """Return the ranks that agree, the largest group first."""
    by_sum: dict[int, list[int]] = {}
    for rank, checksum in sorted(sums.items()):
        by_sum.setdefault(checksum, []).append(rank)
    return sorted(by_sum.values(), key=lambda group: (-len(group), group))
