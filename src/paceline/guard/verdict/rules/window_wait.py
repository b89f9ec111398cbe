"""The rule of windows: a lock that its holder does not release, an epoch in which a partner takes no part.

Only where the holder or partner itself waits for the rank that it keeps waiting: otherwise something else is why it
cannot move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from paceline.guard.shared_memory.layout import ANY, POST_TOKEN
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingKind, explained_finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, EndKind
from paceline.guard.verdict.waits.waited_for import directly_needed, first_unmet
from paceline.guard.verdict.waits.window_waits import lock_holders, partners_without_token
from paceline.guard.verdict.wording import call_name, member_rank, name_rank, name_ranks, verb

_TAKES_LOCK = ("Win.Lock", "Win.Lock_all")


def find_window_wait(inspection: Inspection, stuck: frozenset[int]) -> Finding | None:
    """Find a stuck rank that waits for a lock or for the partner of an epoch, if that is why it is stuck."""
    calls = _calls(inspection, stuck)
    for rank, call in calls.items():
        state = inspection.state(rank)
        if state is None or call.family not in (Family.LOCK, Family.EPOCH):
            continue
        is_lock = call.family is Family.LOCK
        needed = (lock_holders if is_lock else partners_without_token)(inspection.snapshot, state, call)
        at_fault = _at_fault(inspection, calls, rank, needed)
        if not is_lock:  # why a partner has ended is told by the rule of ended ranks
            at_fault = [other for other in at_fault if other in calls]
        if at_fault:
            gone = all(inspection.has_ended(other) for other in at_fault)
            kind = FindingKind.PEER_GONE if gone else FindingKind.DEADLOCK
            explanation = (_explain_lock if is_lock else _explain_epoch)(inspection, calls, rank, at_fault)
            return explained_finding(kind, explanation, rank_groups(inspection))
    return None


def _calls(inspection: Inspection, stuck: Iterable[int]) -> dict[int, Call]:
    """Return what each stuck rank waits for."""
    calls = {}
    for rank in sorted(stuck):
        state = inspection.state(rank)
        if state is not None:
            calls[rank] = first_unmet(inspection, state, next(state.waiting))
    return calls


def _at_fault(inspection: Inspection, calls: Mapping[int, Call], rank: int, others: Iterable[int]) -> list[int]:
    """Return those of the others that have exited, or wait for this rank themselves."""
    return [other for other in others if _has_exited(inspection, other) or rank in _reached(inspection, calls, other)]


def _has_exited(inspection: Inspection, rank: int) -> bool:
    state = inspection.state(rank)
    return state is not None and state.end is not None and state.end.kind is EndKind.EXITED


def _reached(inspection: Inspection, calls: Mapping[int, Call], begin: int) -> set[int]:
    """Return the ranks that a stuck rank waits for, and those that these wait for, and so on."""
    reached: set[int] = set()
    ahead = [begin]
    while ahead:
        rank = ahead.pop()
        state = inspection.state(rank)
        if state is not None and rank in calls:
            found = directly_needed(inspection, state, calls[rank]) - reached
            reached |= found
            ahead += found
    return reached


def _explain_lock(inspection: Inspection, calls: Mapping[int, Call], rank: int, holders: list[int]) -> Explanation:
    call = calls[rank]
    of = f"the lock of {member_rank(inspection, call, call.peer)}" if call.peer != ANY else "the locks of all ranks"
    taken = _lock_call(inspection, holders[0], call)
    where = f" at {taken.site}" if taken is not None else ""
    held = f"{name_ranks(holders)} took it{where} and {verb(holders, 'does', 'do')} not release it"
    return Explanation(
        ranks=tuple(sorted(holders)),
        summary=f"{name_rank(rank)} waits in {call_name(call)} at {call.site} for {of} in "
        f"{inspection.name(call.communicator)}; {held}: {_doing(inspection, calls, holders)}",
        cause=Cause.LOCK_NOT_RELEASED,
        advice=f"let {name_ranks(holders)} call Unlock after the Lock{where} before {verb(holders, 'it', 'they')} "
        f"{verb(holders, 'waits', 'wait')} for other ranks or {verb(holders, 'ends', 'end')}",
    )


def _lock_call(inspection: Inspection, holder: int, call: Call) -> Call | None:
    """Return the call by which a rank took the lock, if it is remembered."""
    state = inspection.state(holder)
    for past in reversed(state.history if state is not None else ()):
        same = past.communicator == call.communicator and (ANY in (past.peer, call.peer) or past.peer == call.peer)
        if past.operation in _TAKES_LOCK and same:
            return past
    return None


def _explain_epoch(inspection: Inspection, calls: Mapping[int, Call], rank: int, partners: list[int]) -> Explanation:
    call, window = calls[rank], inspection.name(calls[rank].communicator)
    if call.tag == POST_TOKEN:
        needs, advice = f"to Post {window}", (
            "let every target Post the window to the ranks that Start an epoch with it; a rank that does both must "
            "Post before it Starts"
        )  # fmt: skip
    else:
        needs, advice = f"to Complete an epoch on {window}", (
            "let every rank in the group of the Post call Start and Complete, or leave it out of that group"
        )  # fmt: skip
    return Explanation(
        ranks=tuple(sorted(partners)),
        summary=f"{name_rank(rank)} waits in {call_name(call)} at {call.site} for {name_ranks(partners)} {needs}, but "
        f"{_doing(inspection, calls, partners)}",
        cause=Cause.UNMATCHED_EPOCH,
        advice=advice,
    )


def _doing(inspection: Inspection, calls: Mapping[int, Call], ranks: list[int]) -> str:
    """Say what the first of these ranks does instead."""
    rank = ranks[0]
    call = calls.get(rank)
    if call is None:
        return f"{name_rank(rank)} has ended"
    on = f" on {inspection.name(call.communicator)}" if call.is_collective else ""
    return f"{name_rank(rank)} is in {call_name(call)}{on} at {call.site}"
