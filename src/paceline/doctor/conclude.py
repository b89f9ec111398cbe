"""What follows from where ranks are. Values in, values out; a rank that runs is late, never stuck.

Ranks in different collectives are a finding if nothing moves: all ranks of the job are inside calls, or the calls are
on the communicator of all ranks. A rank that has exited is a finding if all others are inside a collective. Everything
else is reported, but is not a finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.doctor.observed_job import Diagnosis, SeenJob
from paceline.doctor.stack_calls import StackPosition, find_position
from paceline.errors import group_ranks, name_ranks
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind, GroupState, RankGroup
from paceline.guard.verdict.wording import verb

_Positions = Mapping[int, StackPosition]


def conclude(job: SeenJob) -> Diagnosis:
    """Return what can be said of a job, and what cannot."""
    positions = {seen.rank: find_position(seen) for seen in job.ranks}
    moved = {seen.rank for seen in job.ranks if seen.has_moved}
    still = {rank: position for rank, position in positions.items() if position.call is not None and rank not in moved}
    groups = _groups(job, positions, moved)
    finding = _mismatch_finding(job, still, groups) or _peer_gone_finding(job, still, groups)
    return Diagnosis(
        job=job, finding=finding, groups=groups,
        says=tuple(_says(job, positions, still, moved, finding)),
        cannot=tuple(_cannot(job, still, finding)),
    )  # fmt: skip


def _groups(job: SeenJob, positions: _Positions, moved: set[int]) -> tuple[RankGroup, ...]:
    alike = {rank: _group_of(position, has_moved=rank in moved) for rank, position in positions.items()}
    groups = [replace(group, ranks=ranks) for group, ranks in group_ranks(alike)]
    if job.missing:
        groups.append(RankGroup(ranks=job.missing, state=GroupState.EXITED, detail="no such process on this machine"))
    for rank, why in job.unseen.items():
        groups.append(RankGroup(ranks=(rank,), state=GroupState.RUNNING, detail=f"could not be looked at: {why}"))
    return tuple(sorted(groups, key=lambda group: (-len(group.ranks), group.ranks)))


def _group_of(position: StackPosition, *, has_moved: bool) -> RankGroup:
    """Describe a rank as all that are like it, without saying which they are."""
    state, detail = GroupState.RUNNING, position.detail
    if position.call is not None:
        state = GroupState.BLOCKED
        moved = "has moved between the looks" if has_moved else "has not moved"
        detail = f"{detail}, {moved}" if detail else moved
    communicator = "WORLD" if position.on_world else None
    return RankGroup(
        ranks=(), state=state, call=position.call, communicator=communicator, site=position.site, detail=detail
    )


def _by_call(still: _Positions) -> list[tuple[int, ...]]:
    """Return the ranks that are in the same collective, the most first."""
    alike = {rank: position.operation_key for rank, position in still.items() if position.is_collective}
    return [ranks for _, ranks in group_ranks(alike)]


def _is_whole(job: SeenJob, still: _Positions) -> bool:
    """Say whether every rank of the job is here, was seen, and is inside a call."""
    is_here = not job.missing and not job.unseen and job.num_elsewhere == 0
    return is_here and len(still) == len(job.ranks) and len(job.ranks) > 1


def _mismatch_finding(job: SeenJob, still: _Positions, groups: Sequence[RankGroup]) -> Finding | None:
    calls = _by_call(still)
    if not _is_whole(job, still):
        # Someone runs or is not seen. Then only calls on all ranks that nobody leaves early are certainly different:
        # the root of a reduction may wait for a late rank while others, who have sent their part, are one call further.
        calls = _by_call(
            {rank: position for rank, position in still.items() if position.on_world and position.needs_all}
        )
    if len(calls) < 2:
        return None
    ordered = calls[::-1]  # the ranks at fault first: the fewest
    odd = ordered[0] if len(ordered[0]) < len(ordered[-1]) else ()
    sides = "; ".join(_side(still, ranks, first=number == 0) for number, ranks in enumerate(ordered))
    return Finding(
        kind=FindingKind.MISMATCH, field=FindingField.OPERATION, ranks=odd or tuple(sorted(still)),
        cause=Cause.DIFFERENT_COLLECTIVES,
        summary=f"{sides}: they are not in the same collective",
        advice="see which condition or loop leads these ranks to different calls; start the job with `paceline run`, "
        "and it names the first call at which they parted",
        groups=tuple(groups),
    )  # fmt: skip


def _side(still: _Positions, ranks: Sequence[int], *, first: bool) -> str:
    position = still[min(ranks)]
    sites = sorted({str(still[rank].site) for rank in ranks if still[rank].site})
    at = f" at {' and '.join(sites[:3])}" if sites else ""
    stand = f" {verb(ranks, 'stands', 'stand')}" if first else ""
    return f"{name_ranks(ranks)}{stand} in {position.call}{at}"


def _peer_gone_finding(job: SeenJob, still: _Positions, groups: Sequence[RankGroup]) -> Finding | None:
    here = len(still) == len(job.ranks) > 0 and not job.unseen and job.num_elsewhere == 0
    if not job.missing or not here or any(not position.is_collective for position in still.values()):
        return None
    waiting = "; ".join(_side(still, ranks, first=True) for ranks in _by_call(still))
    return Finding(
        kind=FindingKind.PEER_GONE, field=None, ranks=job.missing, cause=Cause.EARLY_EXIT,
        summary=f"{name_ranks(job.missing)} {verb(job.missing, 'has', 'have')} exited, while {waiting}",
        advice="see in the output of the job how that rank ended, or start the job with `paceline run`, which says it",
        groups=tuple(groups),
    )  # fmt: skip


def _says(
    job: SeenJob, positions: _Positions, still: _Positions, moved: set[int], finding: Finding | None
) -> list[str]:
    sentences = []
    running = sorted(rank for rank, position in positions.items() if position.call is None)
    calls = _by_call(still)
    collectives = [still[min(ranks)].call for ranks in calls]
    if running and still:
        sentences.append(
            f"{name_ranks(running)} {verb(running, 'runs', 'run')}, so {verb(running, 'it is', 'they are')} late as "
            f"far as can be seen, and {name_ranks(still)} {verb(still, 'waits', 'wait')}"
        )
    elif running:
        sentences.append(f"{name_ranks(running)} {verb(running, 'runs', 'run')}: no rank is seen waiting for another")
    if finding is None and len(calls) > 1:
        sentences.append(
            f"ranks are in different collectives ({', '.join(map(str, collectives))}), maybe of different groups"
        )
    if len(calls) == 1 and finding is None and len(still) > 1:
        sites = {position.site for position in still.values() if position.is_collective}
        if len(sites) > 1:
            sentences.append(
                f"ranks are in the same operation, {collectives[0]}, from different lines: that may be right"
            )
        elif not running and not job.missing:
            sentences.append(f"all that were seen are in the same {collectives[0]} at {next(iter(sites))}")
    messages = sorted(rank for rank, position in still.items() if not position.is_collective)
    if messages and len(messages) == len(job.ranks) > 1 and not moved:
        sentences.append("every rank waits in a message or a request, and none moves: suspicious, but not proof")
    if moved and not finding:
        sentences.append(f"{name_ranks(moved)} {verb(moved, 'has', 'have')} moved between the two looks")
    if job.missing and finding is None:
        sentences.append(f"{name_ranks(job.missing)} {verb(job.missing, 'has', 'have')} no process on this machine")
    return sentences


def _cannot(job: SeenJob, still: _Positions, finding: Finding | None) -> list[str]:
    cannot = []
    seconds = max((seen.seconds for seen in job.ranks), default=0.0)
    calls = [position for position in still.values() if position.is_collective]
    if calls and not all(position.on_world for position in calls):
        cannot.append("on which communicator a call is, so ranks in different calls may belong to different groups")
    if calls:
        cannot.append("which iteration this is: ranks at the same line may be one iteration apart")
        cannot.append(f"whether a long transfer is under way: nothing moved for {seconds:.1f} s is all that was seen")
    if job.num_elsewhere:
        cannot.append(f"what {job.num_elsewhere} ranks on other machines do: look there too")
    if job.world_size is None:
        cannot.append("how many ranks there should be, so a rank that exited would go unnoticed")
    if any(position.call is None for position in map(find_position, job.ranks)):
        cannot.append("whether a rank that runs will ever arrive")
    return cannot
