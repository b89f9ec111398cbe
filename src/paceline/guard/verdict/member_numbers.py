"""Gives members of communicators other numbers in what is known of a rank. Values in, values out.

It is for a large job, of which only some ranks are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from paceline.guard.verdict.snapshot import Call, Channel, RankState, Stop, Waiting

LEFT_OUT = 1 << 32  # the numbers of members that are left out begin here: they exist, and nobody has them

Renumber = Callable[[str, int], int]  # communicator and number of a member -> its new number; special values stay


class MembersLeft(NamedTuple):
    """Who is left of a communicator."""

    numbers: tuple[int, ...]  # of the ranks, in the order of members
    new: Mapping[int, int]  # number of a member, by the one that it has among all

    def renumber(self, member: int) -> int:
        """Return the number that a member has now; that of one who is left out is higher than any.

        >>> left = MembersLeft((0, 1), {0: 0, 7: 1})
        >>> left.renumber(7), left.renumber(3) - LEFT_OUT
        (1, 3)
        """
        return member if member < 0 else self.new.get(member, LEFT_OUT + member)


def members_left(ranks: Sequence[int], numbers: Mapping[int, int], rest: Set[int], number_of_rest: int) -> MembersLeft:
    """Return who is left of a communicator.

    Args:
        ranks: Its members; a range if they are the first ranks of the job, in order.
        numbers: The numbers of the ranks that are looked at, by their rank in the job, rising.
        rest: The ranks for which nobody stands: if one of them is a member, they are one more member together.
        number_of_rest: The number that stands for them.
    """
    if isinstance(ranks, range):
        kept = [(rank, number) for rank, number in numbers.items() if rank in ranks]
    else:
        kept = [(member, numbers[rank]) for member, rank in enumerate(ranks) if rank in numbers]
    more = (number_of_rest,) if rest and not rest.isdisjoint(ranks) else ()
    new = {member: number for number, (member, _) in enumerate(kept)}
    return MembersLeft((*(number for _, number in kept), *more), new)


def with_member_numbers(state: RankState, renumber: Renumber) -> RankState:
    """Return a state in which roots, peers, channels and neighbours are other numbers."""
    return replace(
        state,
        threads=tuple(None if waiting is None else _waiting(waiting, renumber) for waiting in state.threads),
        sent=_channels(state.sent, renumber),
        received=_channels(state.received, renumber),
        given=_channels(state.given, renumber),
        taken=_channels(state.taken, renumber),
        held=_channels(state.held, renumber),
        neighbours={
            name: tuple(renumber(name, member) for member in members) for name, members in state.neighbours.items()
        },
        edges={},  # both ends of one are seldom among the ranks that are looked at
        posted=tuple(_call(call, renumber) for call in state.posted),
        stop=None if state.stop is None else _stop(state.stop, renumber),
        history=tuple(_call(call, renumber) for call in state.history),
    )


def _waiting(waiting: Waiting, renumber: Renumber) -> Waiting:
    return replace(
        waiting,
        call=_call(waiting.call, renumber),
        requests=tuple(_call(call, renumber) for call in waiting.requests),
    )


def _stop(stop: Stop, renumber: Renumber) -> Stop:
    return replace(stop, call=_call(stop.call, renumber))


def _channels(counts: Mapping[Channel, int], renumber: Renumber) -> dict[Channel, int]:
    return {(name, renumber(name, peer), tag): count for (name, peer, tag), count in counts.items()}


def _call(call: Call, renumber: Renumber) -> Call:
    if call.root < 0 and call.peer < 0 and call.source < 0:
        return call
    name = call.communicator
    return replace(
        call, root=renumber(name, call.root), peer=renumber(name, call.peer), source=renumber(name, call.source)
    )
