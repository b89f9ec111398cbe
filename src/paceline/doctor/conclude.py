"""What follows from where ranks are. Values in, values out; a rank that runs is late, never stuck.

Ranks in different collectives are a finding if nothing moves: all ranks of the job are inside calls, or the calls are
on the communicator of all ranks. A rank that has exited or is exiting is a finding if all others are inside calls that
it alone could end. Everything else is reported, but is not a finding. Ranks are named as out of line only where the
calls show who it is; otherwise all are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.doctor.observed_job import Diagnosis, SeenJob
from paceline.doctor.stack_calls import StackPosition, find_position
from paceline.errors import group_ranks, name_ranks
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind, GroupState, RankGroup
from paceline.guard.verdict.wording import verb

_Positions = Mapping[int, StackPosition]


def conclude(job: SeenJob) -> Diagnosis:
    """Return what can be said of a job, and what cannot."""
    positions = {seen.rank: find_position(seen) for seen in job.ranks}
    left = {rank: position for rank, position in positions.items() if position.way_out is not None}
    moved = {seen.rank for seen in job.ranks if seen.has_moved} - left.keys()
    still = {rank: position for rank, position in positions.items() if position.call is not None and rank not in moved}
    groups = _groups(job, positions, moved)
    finding = _mismatch_finding(job, still, groups) or _peer_gone_finding(job, still, left, groups)
    return Diagnosis(
        job=job, finding=finding, groups=groups,
        says=tuple(_says(job, positions, still, moved, finding)),
        cannot=tuple(_cannot(job, positions, still, finding)),
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
    if position.way_out is not None:
        return RankGroup(ranks=(), state=GroupState.EXITED, site=position.site, detail=position.way_out.one)
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
    """Say whether every rank of the job is here, was seen, and stands in a call."""
    alone = not job.missing and not job.unseen and job.num_elsewhere == 0
    waits = all(position.role is not None for position in still.values())  # else it may be computing, or a GPU for it
    return alone and waits and len(still) == len(job.ranks) and len(job.ranks) > 1


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
    ordered = calls[::-1]  # the fewest first
    # Those who have passed a call that they may leave early stand in the next one, and are right: then the fewest are
    # not those at fault.
    holds_all = all(still[rank].needs_all for ranks in calls for rank in ranks)
    fewer = tuple(sorted(rank for ranks in calls[1:] for rank in ranks))
    odd = fewer if holds_all and len(fewer) < len(calls[0]) else ()
    sides = "; ".join(_side(still, ranks, first=number == 0) for number, ranks in enumerate(ordered))
    return Finding(
        kind=FindingKind.MISMATCH, field=FindingField.OPERATION, ranks=odd or tuple(sorted(still)),
        cause=Cause.DIFFERENT_COLLECTIVES,
        summary=f"{sides}: they are not in the same collective",
        advice="see which condition or loop leads these ranks to different calls; start the job with `paceline run`, "
        "which names the first call at which they differ",
        groups=tuple(groups),
    )  # fmt: skip


def _side(still: _Positions, ranks: Sequence[int], *, first: bool) -> str:
    position = still[min(ranks)]
    sites = sorted({str(still[rank].site) for rank in ranks if still[rank].site})
    at = f" at {' and '.join(sites[:3])}" if sites else ""
    stand = f" {verb(ranks, 'stands', 'stand')}" if first else ""
    return f"{name_ranks(ranks)}{stand} in {position.call}{at}"


def _peer_gone_finding(
    job: SeenJob, still: _Positions, left: _Positions, groups: Sequence[RankGroup]
) -> Finding | None:
    gone = tuple(sorted({*job.missing, *left}))
    is_seen = len(still) + len(left) == len(job.ranks) and not job.unseen and job.num_elsewhere == 0
    if not gone or not still or not is_seen or not _wait_for_others(still):
        return None
    waiting = "; ".join(_side(still, ranks, first=True) for _, ranks in group_ranks(_operation_keys(still)))
    # A rank that ended without leaving MPI is at fault. One that has left in order may be right, and those who wait for
    # it may have made a call too many: the fewest are at fault if anybody is, and in doubt nobody is named.
    is_plain = not left or (len(gone) < len(still) and len(_calls_of_all(still)) < 2)
    return Finding(
        kind=FindingKind.PEER_GONE, field=None, ranks=gone if is_plain else tuple(sorted({*gone, *still})),
        cause=Cause.EARLY_EXIT,
        summary=f"{_exits(job, left)}, while {waiting}",
        advice=_exit_advice(gone, tuple(sorted(still)), is_plain=is_plain),
        groups=tuple(groups),
    )  # fmt: skip


def _wait_for_others(still: _Positions) -> bool:
    """Say whether none of these ranks can end the wait of another: only one that has gone could."""
    roles = {position.role for position in still.values()}
    is_one_kind = roles in ({Family.COLLECTIVE}, {Family.SEND}) or roles <= {Family.RECEIVE, Family.PROBE}
    return is_one_kind or (len(still) == 1 and None not in roles)


def _operation_keys(still: _Positions) -> dict[int, str]:
    return {rank: position.operation_key for rank, position in still.items()}


def _calls_of_all(still: _Positions) -> set[str]:
    """Return the different collectives among those that nobody leaves before all have come."""
    return {position.operation_key for position in still.values() if position.is_collective and position.needs_all}


def _exits(job: SeenJob, left: _Positions) -> str:
    ways = group_ranks({rank: position.way_out for rank, position in left.items()})
    texts = [f"{name_ranks(ranks)} {verb(ranks, way.one, way.many)}" for way, ranks in ways if way is not None]
    if job.missing:
        texts.append(f"{name_ranks(job.missing)} {verb(job.missing, 'has', 'have')} exited")
    return "; ".join(texts)


def _exit_advice(gone: Sequence[int], waiting: Sequence[int], *, is_plain: bool) -> str:
    end = "start the job with `paceline run`, and it says which call is missing, and how each rank ended"
    if is_plain:
        return f"see in the output of the job how {name_ranks(gone)} ended, and why before the others; {end}"
    return (
        f"see whether {name_ranks(gone)} ended too early, or {name_ranks(waiting)} {verb(waiting, 'makes', 'make')} a "
        f"call that the others do not make; {end}"
    )


def _says(
    job: SeenJob, positions: _Positions, still: _Positions, moved: set[int], finding: Finding | None
) -> list[str]:
    sentences = []
    left = {rank: position for rank, position in positions.items() if position.way_out is not None}
    running = sorted(rank for rank, position in positions.items() if position.call is None and rank not in left)
    if running and still:
        sentences.append(
            f"{name_ranks(running)} {verb(running, 'runs', 'run')}, so {verb(running, 'it is', 'they are')} late as "
            f"far as can be seen, and {name_ranks(still)} {verb(still, 'waits', 'wait')}"
        )
    elif running:
        sentences.append(f"{name_ranks(running)} {verb(running, 'runs', 'run')}: no rank is seen waiting for another")
    if finding is None:
        sentences += _calls_seen(job, still)
    if moved and not finding:
        sentences.append(f"{name_ranks(moved)} {verb(moved, 'has', 'have')} moved between the two looks")
    if (job.missing or left) and finding is None:
        sentences.append(_exits(job, left))
    return sentences


def _calls_seen(job: SeenJob, still: _Positions) -> list[str]:
    """Say how the calls of ranks that stand go together, where that is not a finding."""
    calls = _by_call(still)
    collectives = [str(still[min(ranks)].call) for ranks in calls]
    others = {rank: position for rank, position in still.items() if not position.is_collective}
    if others and len(still) > 1:
        together = [ranks for _, ranks in group_ranks(_operation_keys(others))] + calls
        sides = "; ".join(_side(still, ranks, first=True) for ranks in together)
        end = ", and none moves: suspicious, but not proof" if len(still) == len(job.ranks) else ""
        return [f"{sides}{end}"]
    if len(calls) > 1:
        return [f"ranks are in different collectives ({', '.join(collectives)}), maybe of different groups"]
    if not calls or len(still) < 2:
        return []
    sites = {position.site for position in still.values()}
    if len(sites) > 1:
        return [f"ranks are in the same operation, {collectives[0]}, from different lines: that may be right"]
    if len(still) < len(job.ranks) or job.missing:
        return []
    if len({position.path for position in still.values()}) > 1:
        return [f"ranks are in {collectives[0]} at {next(iter(sites))}, reached in different ways: {_ways(still)}"]
    group = "" if all(position.on_world for position in still.values()) else "; whether on the same group is not seen"
    return [f"all that were seen are in {collectives[0]} at {next(iter(sites))}{group}"]


def _ways(still: _Positions) -> str:
    """Say by which lines ranks came to the same line: the innermost ones that differ."""
    paths = {rank: position.path for rank, position in still.items()}
    depths = range(max(map(len, paths.values())))
    depth = next(depth for depth in depths if len({path[depth : depth + 1] for path in paths.values()}) > 1)
    callers = group_ranks({rank: path[depth] if depth < len(path) else "no line" for rank, path in paths.items()})
    return "; ".join(f"{name_ranks(ranks)} from {caller}" for caller, ranks in callers) + ": that may be right"


def _cannot(job: SeenJob, positions: _Positions, still: _Positions, finding: Finding | None) -> list[str]:
    cannot = []
    if finding is not None and {*still, *job.missing} <= set(finding.ranks):
        cannot.append("who is out of line: all that is seen is that these ranks do not do the same")
    seconds = max((seen.seconds for seen in job.ranks), default=0.0)
    calls = [position for position in still.values() if position.is_collective]
    if calls and not all(position.on_world for position in calls):
        cannot.append("on which communicator a call is, so ranks in different calls may belong to different groups")
    if calls:
        cannot.append("which iteration this is: ranks at the same line may be one iteration apart")
        cannot.append(f"whether a long transfer is under way: nothing moved for {seconds:.1f} s is all that was seen")
    if any(position.role not in (Family.COLLECTIVE, None) for position in still.values()):
        cannot.append("between which ranks a message goes, and whether one is under way")
    if job.num_elsewhere:
        cannot.append(f"what {job.num_elsewhere} ranks on other machines do: look there too")
    if job.world_size is None:
        cannot.append("how many ranks there should be, so a rank that exited would go unnoticed")
    if any(position.call is None and position.way_out is None for position in positions.values()):
        cannot.append("whether a rank that runs will ever arrive")
    return cannot
