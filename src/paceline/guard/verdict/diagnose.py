"""Turns a snapshot into a finding, or into nothing. Certain, or silent; a pure function of its arguments.

The rules, in the order in which they are asked: an argument that names nobody (R0), calls that do not fit (R1), a
rank that others need and that has gone (R3), ranks that can never move (R2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline.guard.shared_memory.layout import ANY, NOBODY, NOTHING, STOP_ARGUMENT
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes import explain_gone, explain_mismatch
from paceline.guard.verdict.finding import Divergence, Finding, RankGroup
from paceline.guard.verdict.first_difference import Parting, find_parting
from paceline.guard.verdict.match import (
    Misfit,
    Mismatch,
    calls_at,
    find_misfit,
    find_mismatch,
    mismatch_at,
    received_half,
)
from paceline.guard.verdict.progress import stuck_ranks
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, EndKind, RankState, Snapshot, Waiting, fits
from paceline.guard.verdict.stuck import explain_stuck
from paceline.guard.verdict.wording import call_name, member_rank, name_ranks, size_text, tag_text

Sources = Callable[[str], str | None]  # file -> its text, if it can be read


def no_sources(path: str) -> str | None:
    """Read no source at all."""
    return None


def find_certain(snapshot: Snapshot, sources: Sources = no_sources) -> Finding | None:
    """Return what is wrong whatever happens next: R0, R1, and R3 for collectives and for messages that failed."""
    if _was_aborted(snapshot):
        return None
    return (
        find_argument(snapshot)
        or _of_misfit(snapshot, find_misfit(snapshot))
        or _of_mismatch(snapshot, find_mismatch(snapshot), sources)
        or find_gone(snapshot, sources)
        or _find_lost_partner(snapshot)
    )


def find_stuck(snapshot: Snapshot, *, cautious: bool, sources: Sources = no_sources) -> Finding | None:
    """Return a finding about ranks that can never move. The snapshot must be a true state of the job."""
    stuck = stuck_ranks(snapshot, cautious=cautious)
    if not stuck or _was_aborted(snapshot):
        return None
    return (
        _of_mismatch(snapshot, find_mismatch(snapshot), sources)
        or find_gone(snapshot, sources)
        or _of_stuck(snapshot, stuck, sources)
    )


def _was_aborted(snapshot: Snapshot) -> bool:
    """Say whether the script itself has called Abort: then everybody has been told, and the launcher ends the job."""
    return any(
        state is not None and state.end is not None and state.end.kind is EndKind.ABORTED for state in snapshot.ranks
    )


# R0


def find_argument(snapshot: Snapshot) -> Finding | None:
    """Find ranks that named a peer, root or tag that does not exist, and stopped or died of it."""
    guilty: dict[int, tuple[Call, str]] = {}
    died = stopped = False
    for state in snapshot.ranks:
        if state is None:
            continue
        call = None
        if state.stop is not None and state.stop.reason == STOP_ARGUMENT:
            call = state.stop.call
        elif state.end is not None and state.end.failed_call is not None:
            call = next((item for item in state.history if item.number == state.end.failed_call), None)
            died = True
        elif state.history and state.history[-1].failed:
            call = state.history[-1]  # it may still be caught, but if another rank died of it, it is as wrong here
        stopped = stopped or state.stop is not None
        name = wrong_argument(snapshot, call) if call is not None else None
        if call is not None and name is not None:
            guilty[state.rank] = call, name
    if not guilty or not (died or stopped):
        return None
    call, name = next(iter(guilty.values()))
    size = len(snapshot.groups[call.communicator].ranks)
    wrong = call.tag if name == "tag" else call.root
    if name == "source" and call.facts.family is Family.EXCHANGE:
        wrong = call.source
    wrong = wrong + 1000 if wrong <= -1000 + 1 else wrong
    what = {"root": "a root", "source": "a rank", "tag": "a tag"}[name]
    where = f"{call_name(call)} at {call.site}"
    limit = f"this communicator has ranks 0 to {size - 1}" if name != "tag" else "tags are 0 or more"
    summary = f"{name_ranks(guilty)} named {what} that does not exist: {wrong} in {where}; {limit}"
    if name == "source":
        # INTERFACES calls the peer of a message its source
        advice = f"check the destination or source of the {call_name(call)} at {call.site}: it must be below {size}"
    else:
        advice = f"check the {name} of the {call_name(call)} at {call.site}"
    return Finding(
        kind="argument", field=name, ranks=tuple(sorted(guilty)), summary=summary, cause="no-such-rank",
        advice=advice, groups=rank_groups(snapshot),
    )  # fmt: skip


def wrong_argument(snapshot: Snapshot, call: Call) -> str | None:
    """Say which argument of a call names nobody."""
    group = snapshot.groups.get(call.communicator)
    if group is None:
        return None
    size, family = len(group.ranks), call.facts.family
    if family is Family.COLLECTIVE:
        return "root" if call.facts.rooted and call.root != NOTHING and not 0 <= call.root < size else None
    if family is Family.WAIT:
        return None
    peers = [call.root] + ([call.source] if family is Family.EXCHANGE else [])
    if any(peer not in (ANY, NOBODY, NOTHING) and not 0 <= peer < size for peer in peers):
        return "source"
    return "tag" if call.tag < NOTHING - 1 else None


# R1


def _of_mismatch(snapshot: Snapshot, mismatch: Mismatch | None, sources: Sources) -> Finding | None:
    if mismatch is None:
        return None
    parting = find_parting(snapshot, mismatch.communicator, mismatch.sequence)
    explained = explain_mismatch(snapshot, mismatch, parting, sources)
    return Finding(
        kind="mismatch", field=mismatch.field, ranks=explained.ranks, summary=explained.summary,
        cause=explained.cause, advice=explained.advice, groups=rank_groups(snapshot, mismatch.calls),
        divergence=_divergence(snapshot, parting),
    )  # fmt: skip


def mismatch_finding(snapshot: Snapshot, communicator: str, sequence: int, sources: Sources) -> Finding | None:
    """Return a finding about one position of a communicator, if members differ there."""
    if communicator not in snapshot.groups:
        return None
    return _of_mismatch(snapshot, mismatch_at(snapshot, communicator, sequence), sources)


def _of_misfit(snapshot: Snapshot, misfit: Misfit | None) -> Finding | None:
    if misfit is None or misfit.sent is None or misfit.received is None:
        return None
    sent, received = misfit.sent, misfit.received
    said = "another element type" if misfit.field == "dtype" else "more than there is room for"
    summary = (
        f"rank {misfit.sender} sends {size_text(sent) or 'bytes'} at {sent.site}, rank {misfit.receiver} receives "
        f"{_room(received)} at {received.site}: {said}"
    )
    advice = (
        f"give the receive at {received.site} the element type and the size of the send at {sent.site}"
        if misfit.field == "dtype"
        else f"make the buffer at {received.site} at least as large as the message sent at {sent.site}"
    )
    return Finding(
        kind="message", field=misfit.field, ranks=tuple(sorted({misfit.sender, misfit.receiver})), summary=summary,
        cause="dtype" if misfit.field == "dtype" else "truncated", advice=advice,
        groups=rank_groups(snapshot, {misfit.sender: sent, misfit.receiver: received}),
    )  # fmt: skip


def _room(call: Call) -> str:
    if call.facts.family is Family.EXCHANGE:
        return f"{call.source_bytes} bytes of {call.source_dtype}"
    return size_text(call) or "bytes"


# R3


def find_gone(snapshot: Snapshot, sources: Sources = no_sources) -> Finding | None:
    """Find ranks that have gone, or left a communicator, without a collective that others have begun."""
    for name, group in snapshot.groups.items():
        gone: list[int] = []
        for rank in group.ranks:
            state = snapshot.state(rank)
            if state is not None and (state.end is not None or name in state.freed):
                gone.append(rank)
        if not gone:
            continue
        behind = min(_position(snapshot, rank, name) for rank in gone)
        needed_at = behind + 1
        posters = [rank for rank in group.ranks if _needs_others(snapshot, rank, name, needed_at)]
        missing = [rank for rank in gone if _position(snapshot, rank, name) < needed_at]
        if posters and missing:
            return _of_gone(snapshot, missing, posters, sources, name, needed_at)
    return None


def _position(snapshot: Snapshot, rank: int, communicator: str) -> int:
    state = snapshot.state(rank)
    return 0 if state is None else state.positions.get(communicator, 0)


def _needs_others(snapshot: Snapshot, rank: int, communicator: str, sequence: int) -> bool:
    """Say whether a rank has begun a collective and has not been told by an error, that it handled, to do without."""
    state = snapshot.state(rank)
    if state is None or state.positions.get(communicator, 0) < sequence:
        return False
    for call in reversed(state.history):
        if call.communicator == communicator and call.sequence == sequence and call.is_collective:
            if call.has_own_timeout:
                return False
            died_of_it = state.end is not None and state.end.failed_call == call.number
            return died_of_it or (not call.failed and not _may_do_without(state, call))
    return True  # it is long past that position


def _may_do_without(state: RankState, call: Call) -> bool:
    """Say whether a call was only started, and the rank does not wait for it, or only for a time of its own."""
    if not call.request or state.end is not None or all(posted.number != call.number for posted in state.posted):
        return False
    return not any(
        waiting is not None
        and not waiting.call.has_own_timeout
        and any(request.number == call.number for request in waiting.requests)
        for waiting in state.threads
    )


def _of_gone(
    snapshot: Snapshot, missing: Sequence[int], posters: Sequence[int], sources: Sources, communicator: str, at: int
) -> Finding:
    parting = find_parting(snapshot, communicator, at)
    explained = explain_gone(snapshot, missing, posters, communicator, at, parting, sources)
    posted = calls_at(snapshot, communicator, at) if communicator else {}
    posted = {rank: call for rank, call in posted.items() if rank in posters}
    return Finding(
        kind="peer-gone", field=None, ranks=explained.ranks, summary=explained.summary, cause=explained.cause,
        advice=explained.advice, groups=rank_groups(_with_victims(snapshot, explained.ranks), posted),
        divergence=_divergence(snapshot, parting),
    )  # fmt: skip


def _with_victims(snapshot: Snapshot, guilty: Sequence[int]) -> Snapshot:
    """Let ranks that ended because of others say no more than that: what their library said is about the others."""

    def told(state: RankState | None) -> RankState | None:
        end = state.end if state is not None else None
        if state is None or end is None or state.rank in guilty:
            return state
        by_launcher = end.kind is EndKind.KILLED and end.signal in (9, 15)
        return replace(state, end=replace(end, detail="afterwards")) if end.by_peer or by_launcher else state

    return replace(snapshot, ranks=[told(state) for state in snapshot.ranks])


def find_first_failure(snapshot: Snapshot) -> Finding | None:
    """After the job has ended: find ranks that failed by themselves, while others were ended because of it."""
    if _was_aborted(snapshot):
        return None
    states = [state for state in snapshot.ranks if state is not None and state.end is not None]
    own = [state for state in states if _failed_by_itself(state)]
    if not own or len(own) == len(snapshot.ranks):
        return None
    first = min(state.end.at_ns for state in own if state.end is not None)
    others = [state for state in states if state not in own and state.end is not None]
    unfinished = [state.rank for state in others if state.end is not None and state.end.kind is not EndKind.EXITED]
    if not unfinished:
        return None
    guilty = [state.rank for state in own if state.end is not None and state.end.at_ns <= first + 50_000_000]
    return _of_gone(snapshot, guilty, [], no_sources, "", 0)


def _find_lost_partner(snapshot: Snapshot) -> Finding | None:
    """Find a rank that has died of a message, because its library noticed that the partner had gone."""
    for state in filter(None, snapshot.ranks):
        partners = _partners_that_had_gone(snapshot, state)
        if partners:
            return _of_gone(snapshot, partners, [state.rank], no_sources, "", 0)
    return None


def _partners_that_had_gone(snapshot: Snapshot, state: RankState) -> list[int]:
    """Return the ranks that had ended before a message with them failed, and this rank with it."""
    end = state.end
    if end is None or not end.by_peer or end.failed_call is None:
        return []
    call = next((past for past in state.history if past.number == end.failed_call), None)
    if call is None or call.is_collective:
        return []
    partners = [snapshot.state(rank) for rank in sorted(_partners(snapshot, state, call))]
    return [
        other.rank
        for other in partners
        if other is not None and other.end is not None and not other.end.by_peer and other.end.at_ns <= end.at_ns
    ]


def _failed_by_itself(state: RankState) -> bool:
    end = state.end
    if end is None or end.by_peer or end.kind is EndKind.ABORTED:
        return False
    if end.kind is EndKind.RAISED:
        return end.failed_call is None or not any(
            call.number == end.failed_call and call.is_collective for call in state.history
        )
    if end.kind is EndKind.KILLED:
        return end.signal not in (None, 15)
    return False


# R2


def _of_stuck(snapshot: Snapshot, stuck: frozenset[int], sources: Sources) -> Finding:
    message = _wrong_message(snapshot, stuck)
    if message is not None:
        return message
    gone = _gone_that_are_needed(snapshot, stuck)
    if gone:
        explained = explain_gone(snapshot, gone, sorted(stuck), "", 0, None, sources)
        return Finding(
            kind="peer-gone", field=None, ranks=explained.ranks, summary=explained.summary, cause=explained.cause,
            advice=explained.advice, groups=rank_groups(snapshot),
        )  # fmt: skip
    communicator, sequence = _latest_position(snapshot, stuck)
    parting = find_parting(snapshot, communicator, sequence) if communicator else None
    explained = explain_stuck(snapshot, stuck, parting, sources)
    return Finding(
        kind="deadlock", field=explained.field, ranks=explained.ranks, summary=explained.summary,
        cause=explained.cause, advice=explained.advice, groups=rank_groups(snapshot),
        divergence=_divergence(snapshot, parting),
    )  # fmt: skip


def _calls_waited_for(waiting: Waiting) -> Sequence[Call]:
    return waiting.requests if waiting.call.facts.family is Family.WAIT else (waiting.call,)


def _gone_that_are_needed(snapshot: Snapshot, stuck: frozenset[int]) -> list[int]:
    """Return gone ranks that stuck ranks exchange messages with, or wait for in a collective."""
    gone: set[int] = set()
    if all(state is None or state.end is None for state in snapshot.ranks):
        return []
    for rank in stuck:
        state = snapshot.state(rank)
        assert state is not None
        for waiting in state.threads:
            if waiting is None:
                continue
            for call in _calls_waited_for(waiting):
                gone |= {other for other in _partners(snapshot, state, call) if _has_ended(snapshot, other)}
    return sorted(gone)


def _has_ended(snapshot: Snapshot, rank: int) -> bool:
    state = snapshot.state(rank)
    return state is not None and state.end is not None


def _partners(snapshot: Snapshot, state: RankState, call: Call) -> set[int]:
    group = snapshot.groups.get(call.communicator)
    if group is None:
        return set()
    if call.facts.family is Family.COLLECTIVE:
        return {rank for rank in group.ranks if _position(snapshot, rank, call.communicator) < call.sequence}
    peers = [call.root] + ([call.source] if call.facts.family is Family.EXCHANGE else [])
    if ANY in peers:
        others = set(group.ranks) - {state.rank}
        return others if all(_has_ended(snapshot, rank) for rank in others) else set()
    return {group.ranks[peer] for peer in peers if 0 <= peer < len(group.ranks)}


def _wrong_message(snapshot: Snapshot, stuck: frozenset[int]) -> Finding | None:
    """Find a receive that waits for a message, while one lies there that no receive of the rank wants."""
    messages = _lying_messages(snapshot)
    for rank in sorted(stuck & messages.keys()):
        state = snapshot.state(rank)
        assert state is not None
        receives = [
            call
            for waiting in state.threads
            for call in (_calls_waited_for(waiting) if waiting is not None else ())
            if call.facts.family in (Family.RECEIVE, Family.PROBE, Family.EXCHANGE)
        ]
        lying = [lie for lie in messages[rank] if not any(_takes(lie, call) for call in receives)]
        for call in receives:
            if lying and not any(_takes(lie, call) for lie in messages[rank]):
                return _of_lying(snapshot, state, call, min(lying, key=lambda lie: _distance(lie, call)))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lying:
    """A message that was sent to a rank and has not been received."""

    communicator: str
    member: int  # the sender's number there
    sender: int
    tag: int


def _lying_messages(snapshot: Snapshot) -> dict[int, list[_Lying]]:
    """Return the messages that have been sent and not received, by the rank they were sent to."""
    found: dict[int, list[_Lying]] = {}
    for sender in snapshot.ranks:
        for (name, peer, tag), count in sender.sent.items() if sender is not None else ():
            group = snapshot.groups.get(name)
            receiver = snapshot.state(group.ranks[peer]) if group is not None and peer < len(group.ranks) else None
            if sender is None or group is None or receiver is None:
                continue
            member = group.member(sender.rank)
            if count > receiver.received.get((name, member, tag), 0):
                lying = _Lying(communicator=name, member=member, sender=sender.rank, tag=tag)
                found.setdefault(receiver.rank, []).append(lying)
    return found


def _takes(lying: _Lying, call: Call) -> bool:
    source, tag = received_half(call)[:2]
    return lying.communicator == call.communicator and fits(source, lying.member) and fits(tag, lying.tag)


def _distance(lying: _Lying, call: Call) -> tuple[bool, bool, bool]:
    """Say how little a message differs from what a receive wants."""
    source, tag = received_half(call)[:2]
    return lying.communicator != call.communicator, not fits(source, lying.member), not fits(tag, lying.tag)


def _of_lying(snapshot: Snapshot, state: RankState, call: Call, lying: _Lying) -> Finding:
    other_group, other_source, _ = _distance(lying, call)
    name = "communicator" if other_group else "source" if other_source else "tag"
    send = _send_of(snapshot, lying, state.rank)
    at = f" at {send.site}" if send is not None else ""
    source, tag = received_half(call)[:2]
    on = f" on {snapshot.groups[lying.communicator].name}" if other_group else ""
    summary = (
        f"rank {state.rank} waits in {call_name(call)} at {call.site} for a message from "
        f"{member_rank(snapshot, call, source)} with {tag_text(tag)}, which nobody sends; "
        f"rank {lying.sender} has sent it one with {tag_text(lying.tag)}{on}{at}"
    )
    calls = {state.rank: call} | ({lying.sender: send} if send is not None else {})
    return Finding(
        kind="message", field=name, ranks=tuple(sorted({state.rank, lying.sender})), summary=summary,
        cause=f"wrong-{name}", advice=f"make the {name} of the receive at {call.site} and of the send{at} the same",
        groups=rank_groups(snapshot, calls),
    )  # fmt: skip


def _send_of(snapshot: Snapshot, lying: _Lying, receiver: int) -> Call | None:
    """Return the call that sent a message, if it is remembered."""
    sender = snapshot.state(lying.sender)
    me = snapshot.groups[lying.communicator].ranks.index(receiver)
    for past in reversed(sender.history if sender is not None else ()):
        sends = past.facts.family in (Family.SEND, Family.EXCHANGE)
        if sends and past.communicator == lying.communicator and past.root == me and past.tag == lying.tag:
            return past
    return None


def _latest_position(snapshot: Snapshot, stuck: frozenset[int]) -> tuple[str, int]:
    best: tuple[str, int] = ("", 0)
    for rank in stuck:
        state = snapshot.state(rank)
        assert state is not None
        for waiting in state.threads:
            for call in _calls_waited_for(waiting) if waiting is not None else ():
                if call.is_collective and call.sequence > best[1]:
                    best = (call.communicator, call.sequence)
    return best


def _divergence(snapshot: Snapshot, parting: Parting | None) -> Divergence | None:
    if parting is None:
        return None
    groups: dict[tuple[str, str], list[int]] = {}
    for rank, call in parting.calls.items():
        groups.setdefault((call_name(call), call.site), []).append(rank)
    made = [
        RankGroup(ranks=tuple(sorted(ranks)), state="blocked", call=name, site=site)
        for (name, site), ranks in groups.items()
    ]
    if len(made) < 2:
        return None  # the lines are the same; what called them is not
    ordered = tuple(sorted(made, key=lambda group: (-len(group.ranks), group.ranks)))
    return Divergence(
        sequence=parting.sequence, communicator=snapshot.groups[parting.communicator].name, groups=ordered
    )


__all__ = ["find_argument", "find_certain", "find_first_failure", "find_stuck", "mismatch_finding"]
