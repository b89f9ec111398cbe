"""Ranks that wait for messages or on several communicators, compared with ranks that do the same job.

What ranks of one role make from the same lines is what each of them should make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.errors import group_ranks
from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes.lost_messages.misdirected_message import may_receive, tell_misdirected
from paceline.guard.verdict.causes.uneven_loop import advise_on_loop
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, RankState
from paceline.guard.verdict.source.passed_over import (
    is_told_to_pass_over,
    may_come_after_several_rounds,
)
from paceline.guard.verdict.source.related_lines import relate_calls
from paceline.guard.verdict.waits.waited_for import has_arrived
from paceline.guard.verdict.wording import call_name, name_rank, name_ranks, nth, verb

_SENDING = (Family.SEND, Family.EXCHANGE)
_RECEIVING = (Family.RECEIVE, Family.EXCHANGE)


def explain_left_loop_of_messages(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain ranks in a message of a loop that the others have left for a collective behind it."""
    stayed = {rank: call for rank, call in calls.items() if not call.is_collective}
    left = {rank: call for rank, call in calls.items() if call.is_collective}
    if not stayed or not left or len({line_of(call) for call in stayed.values()}) > 1:
        return []
    call, after = next(iter(stayed.values())), next(iter(left.values()))
    numbers = {_num_made(inspection, rank, call, since=after) for rank in left}
    relation = relate_calls(inspection, call, after)
    loop = relation.first_loop if relation is not None else None
    if loop is None or relation is None or 0 in numbers or len(numbers) > 1:
        return []
    may_skip = is_told_to_pass_over(inspection, call, loop, relation.file)
    if may_skip or may_come_after_several_rounds(inspection, after, call):
        return []
    (made,) = numbers
    num_stayed = max(_num_made(inspection, rank, call, since=after) for rank in stayed)
    if num_stayed <= made:
        return []
    sides = sorted((tuple(stayed), tuple(left)), key=len)
    odd = sides[0] if len(sides[0]) < len(sides[1]) else tuple(sorted(calls))
    return [
        Explanation(
            ranks=odd,
            summary=f"{name_ranks(left)} left the loop `{loop.head}` at {loop.file or relation.file}:{loop.line} after "
            f"{made} {'call' if made == 1 else 'calls'} of {call_name(call)} at {call.site}; {name_ranks(stayed)} "
            f"{verb(stayed, 'is', 'are')} in the {nth(num_stayed)} and {verb(stayed, 'waits', 'wait')} for a message",
            cause=Cause.UNEVEN_STEPS,
            advice=advise_on_loop(inspection, call, loop, relation.file),
        )
    ]


def explain_send_that_others_make(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a receive whose sender did not make the send that other ranks make for such a receive."""
    received = _ReceivedSends(inspection)
    for rank, call in sorted(calls.items()):
        known = inspection.communicator(call.communicator)
        is_receive = call.family in (*_RECEIVING, Family.PROBE)
        sender = known.rank_of(call.incoming.source) if known is not None and is_receive else None
        state = inspection.state(rank)
        if known is None or sender is None or sender not in calls or state is None:
            continue
        if has_arrived(inspection, state, call):
            continue
        sends = [made for made in received.at(call).values() if made.keys() - {rank, sender}]
        if len(sends) != 1 or _num_made(inspection, sender, next(iter(sends[0].values()))):
            continue
        makers = sorted(sends[0].keys() - {rank, sender})
        send, place = sends[0][makers[0]], f"{call_name(call)} at {call.site}"
        where, theirs = f"{call_name(send)} at {send.site}", calls[sender]
        return [
            Explanation(
                ranks=(sender,),
                summary=f"{name_rank(sender)} did not make the {where}, as {name_ranks(makers)} did: "
                f"{name_rank(rank)} waits for its message in {place}, while {name_rank(sender)} is in "
                f"{call_name(theirs)} at {theirs.site}",
                cause=Cause.RECEIVE_WITHOUT_SEND,
                advice=f"find the condition that keeps {name_rank(sender)} from the {where}, or let {name_rank(rank)} "
                f"do without the {place}: every receive needs its send",
            )
        ]
    return []


def explain_send_to_others(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a receive whose sender made the send that ends such receives to other ranks, but not to this one."""
    for rank, call in sorted(calls.items()):
        known = inspection.communicator(call.communicator)
        is_receive = known is not None and call.family in (Family.RECEIVE, Family.PROBE)
        sender = known.rank_of(call.peer) if known is not None and is_receive else None
        state = inspection.state(sender) if sender is not None else None
        if known is None or state is None or sender == rank or not _is_remembered(state):
            continue
        sends = [send for send in state.history if send.family in _SENDING and send.communicator == call.communicator]
        to_all = {other: send for send in sends if (other := known.rank_of(send.peer)) is not None}  # the last of each
        last = {
            other: send
            for other, send in to_all.items()
            if other not in (rank, sender) and _would_receive(inspection, other, call, send)
        }
        mine = {line_of(send) for send in sends if known.rank_of(send.peer) == rank}
        lines = {line_of(send) for send in last.values()}
        send = next(iter(last.values()), None)
        if send is None or len(lines) != 1 or lines & mine or call.tag not in (ANY, send.tag):
            continue
        if len(last) == 1 and not may_receive(inspection, min(last), send, known.member(state.rank)):
            told = tell_misdirected(
                send, send.tag, sender=state.rank, receiver=min(last), waiting=[rank], receive=call,
                ranks=(state.rank,), never=True,
            )  # fmt: skip
            return [told]
        where, place = f"{call_name(send)} at {send.site}", f"{call_name(call)} at {call.site}"
        return [
            Explanation(
                ranks=(state.rank,),
                summary=f"{name_rank(state.rank)} made the {where} to {name_ranks(last)}, but not to "
                f"{name_rank(rank)}, which waits in {place} for a message of {name_rank(state.rank)}",
                cause=Cause.RECEIVE_WITHOUT_SEND,
                advice=f"let {name_rank(state.rank)} make the {where} to {name_rank(rank)}, too, or let "
                f"{name_rank(rank)} do without the {place}: every receive needs its send",
            )
        ]
    return []


def _would_receive(inspection: Inspection, rank: int, call: Call, send: Call) -> bool:
    """Say whether a rank receives the message of a send where another waits for one, or nowhere at all."""
    state = inspection.state(rank)
    history = state.history if state is not None else ()
    received = [past for past in history if past.family in (*_RECEIVING, Family.PROBE)]
    there = [past for past in received if line_of(past) == line_of(call)]
    takes = [past for past in received if past.incoming.takes(call.incoming.source, send.tag)]
    return any(past in takes for past in there) or (bool(there) and not takes)


def _is_remembered(state: RankState) -> bool:
    """Say whether a rank remembers all of its calls."""
    return bool(state.history) and state.history[0].number == 0


class _ReceivedSends:
    """The sends whose messages ranks have received, by the line of the receive. Each history is read once."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._receives: dict[Line, dict[tuple[int, int], None]] | None = None  # line -> (receiver, source), in order
        self._sends: dict[int, dict[tuple[str, int], dict[Line, Call]]] = {}  # rank -> (communicator, peer) -> first
        self._known: dict[tuple[str, Line], dict[Line, dict[int, Call]]] = {}

    def at(self, call: Call) -> dict[Line, dict[int, Call]]:
        """Return the sends that were received from the line of a call: by their own line, the first of each maker."""
        key = (call.communicator, line_of(call))
        if key not in self._known:
            self._known[key] = self._find(*key)
        return self._known[key]

    def _find(self, communicator: str, line: Line) -> dict[Line, dict[int, Call]]:
        known = self._inspection.communicator(communicator)
        found: dict[Line, dict[int, Call]] = {}
        for receiver, source in self._receives_from(line) if known is not None else ():
            sender = known.rank_of(source) if known is not None else None
            if known is None or sender is None or not self._inspection.is_member(receiver, communicator):
                continue
            for send_line, send in self._sends_of(sender).get((communicator, known.member(receiver)), {}).items():
                found.setdefault(send_line, {}).setdefault(sender, send)
        return found

    def _receives_from(self, line: Line) -> Mapping[tuple[int, int], None]:
        """Return who has received from this line, and from which member."""
        if self._receives is None:
            self._receives = {}
            for state in self._inspection.states():
                for past in state.history:
                    is_done = past.left_ns or past is not state.history[-1]
                    if is_done and past.family in _RECEIVING and past.incoming.source != ANY:
                        self._receives.setdefault(line_of(past), {})[state.rank, past.incoming.source] = None
        return self._receives.get(line, {})

    def _sends_of(self, rank: int) -> dict[tuple[str, int], dict[Line, Call]]:
        if rank not in self._sends:
            state = self._inspection.state(rank)
            sends: dict[tuple[str, int], dict[Line, Call]] = {}
            for past in state.history if state is not None else ():
                if past.family in _SENDING:
                    sends.setdefault((past.communicator, past.peer), {}).setdefault(line_of(past), past)
            self._sends[rank] = sends
        return self._sends[rank]


def explain_another_order(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a rank that uses communicators in another order than the others, by the lines that all come to."""
    lines = {rank: _lines(inspection, rank) for rank in calls}
    if not all(lines.values()):
        return []
    shortest = min(len(past) for past in lines.values())
    for at in range(shortest):
        groups = group_ranks({rank: line_of(past[at]) for rank, past in lines.items()})
        if len(groups) == 1:
            continue
        (_, usual), (_, odd) = groups[0], groups[1]
        if len(groups) > 2 or len(usual) == len(odd) or at + 1 < len(lines[odd[0]]):
            return []
        call, theirs = lines[odd[0]][at], lines[usual[0]][at]
        return [_explain_order(inspection, usual, odd, call, theirs)]
    return []


def _explain_order(
    inspection: Inspection, usual: Sequence[int], odd: Sequence[int], call: Call, first: Call
) -> Explanation:
    place = f"{call_name(call)} on {inspection.name(call.communicator)} at {call.site}"
    before = f"{call_name(first)} on {inspection.name(first.communicator)} at {first.site}"
    return Explanation(
        ranks=tuple(odd),
        summary=f"{name_ranks(odd)} {verb(odd, 'is', 'are')} in {place} without the {before}, which "
        f"{name_ranks(usual)} {verb(usual, 'makes', 'make')} first",
        cause=Cause.CALL_ORDER,
        advice=f"let {name_ranks(odd)} make the {before} before the {place}, as {name_ranks(usual)} "
        f"{verb(usual, 'does', 'do')}: communicators must be used in the same order on every rank",
    )


def _lines(inspection: Inspection, rank: int) -> list[Call]:
    """Return the collectives of a rank, if all of its calls are remembered."""
    state = inspection.state(rank)
    past = state.history if state is not None else ()
    return [call for call in past if call.is_collective] if past and past[0].number == 0 else []


def _num_made(inspection: Inspection, rank: int, call: Call, *, since: Call | None = None) -> int:
    """Count the calls of a rank from one line, since it last left another."""
    state = inspection.state(rank)
    lines: list[Line] = [line_of(past) for past in (state.history if state is not None else ())]
    if since is not None and line_of(since) in lines[:-1]:  # the last call is the one that it is in
        lines = lines[len(lines) - 1 - lines[-2::-1].index(line_of(since)) :]
    return lines.count(line_of(call))


__all__ = [
    "explain_another_order",
    "explain_left_loop_of_messages",
    "explain_send_that_others_make",
    "explain_send_to_others",
]
