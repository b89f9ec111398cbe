"""Follows communicators that join two jobs: parents and the ranks that they have spawned, or a server and its clients.

Neither job knows who is on the other side, and asking would take a message that nobody may answer. So each follows its
own half: members of the other job are listed, as strangers, where both jobs count them. The judge sees both jobs and
puts the halves together (observe/worlds/bridges.py). The side that spawns or accepts is the first one.
"""

from __future__ import annotations

from typing import Any

from paceline.guard.rank.communicator import Communicator, Half
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.layout import BRIDGE_PREFIX, INTER_PREFIX, OF_OTHER_JOB

_FIRST = "0"  # origin of the communicator by which two jobs have met


def follow_bridge(watch: MpiWatch, new: Any, bridge: str, label: str, *, is_first: bool) -> None:
    """Follow the intercommunicator by which this job and another have met; `bridge` is the same on this side."""
    own, others = watch.sides(new)
    if any(rank >= 0 for rank in others) or any(rank < 0 for rank in own):
        return  # sides that overlap with both jobs: whose members are strangers is not the same for all of them
    strangers = (OF_OTHER_JOB,) * len(others)
    sides = (own, strangers) if is_first else (strangers, own)
    _follow_sides(watch, new, Half(bridge, _FIRST), label, sides, is_first=is_first)


def follow_made_from(watch: MpiWatch, new: Any, on: Any, parent: Communicator, sequence: int, label: str) -> None:
    """Follow a communicator that a call on another one has made, which joins two jobs."""
    assert parent.half is not None
    if not new:
        return
    with watch.group_of(new) as group:
        own = _numbers_of(watch, group, on, parent)
    if not watch.mpi.Comm.Is_inter(new):
        half = Half(parent.half.bridge, identity_of(parent.half.origin, sequence, own))
        ranks = tuple(parent.ranks[number] for number in own)
        _follow(watch, new, half, label, ranks, watch.mpi.Comm.Get_rank(new), prefix="")
        return
    with watch.group_of(new, remote=True) as group:
        others = _numbers_of(watch, group, on, parent)
    is_first = own < others
    numbers = (own, others) if is_first else (others, own)
    half = Half(parent.half.bridge, identity_of(parent.half.origin, sequence, numbers))
    first, second = (tuple(parent.ranks[number] for number in side) for side in numbers)
    _follow_sides(watch, new, half, label, (first, second), is_first=is_first)


def _numbers_of(watch: MpiWatch, group: Any, on: Any, known: Communicator) -> tuple[int, ...]:
    """Return which members of a communicator with one side or two the processes of a group are."""
    with watch.group_of(on) as own_group:
        numbers = watch.numbers_in(own_group, group)
    if not known.num_remote:
        return numbers
    own_begin = 0 if known.remote_begin else known.num_remote
    with watch.group_of(on, remote=True) as remote_group:
        others = watch.numbers_in(remote_group, group)
    return tuple(
        own_begin + number if number >= 0 else known.remote_begin + other
        for number, other in zip(numbers, others, strict=True)
    )


def _follow_sides(
    watch: MpiWatch, new: Any, half: Half, label: str, sides: tuple[tuple[int, ...], tuple[int, ...]], *, is_first: bool
) -> None:
    first, second = sides
    begin, remote_begin = (0, len(first)) if is_first else (len(first), 0)
    member = begin + watch.mpi.Comm.Get_rank(new)
    prefix = f"{INTER_PREFIX}{len(first)}-"
    communicator = _follow(watch, new, half, label, (*first, *second), member, prefix=prefix)
    if communicator is not None:
        communicator.remote_begin, communicator.num_remote = remote_begin, len(second if is_first else first)


def _follow(
    watch: MpiWatch, new: Any, half: Half, label: str, ranks: tuple[int, ...], member: int, *, prefix: str
) -> Communicator | None:
    if SESSION.recorder is None:
        return None
    identity = f"{prefix}{BRIDGE_PREFIX}{half.bridge}-{half.origin}"
    communicator = SESSION.recorder.communicator(identity, label, ranks, member)
    if communicator is not None:
        communicator.half = half
        (watch.intercommunicators if prefix else watch.communicators)[watch.handle_of(new)] = communicator
    return communicator
