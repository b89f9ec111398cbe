"""Compares calls that should fit: members at the same position of a communicator, the two sides of a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.guard.shared_memory.layout import STOP_COLLECTIVE, STOP_MESSAGE
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.snapshot import Call, Snapshot, fits

_FIELDS = ("operation", "root", "reduction", "dtype", "count", "communicator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Calls at one position of a communicator that differ."""

    field: str
    communicator: str
    sequence: int
    calls: Mapping[int, Call]  # rank -> call
    odd_ones: tuple[int, ...]  # the minority, or all if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A message that does not go into its receive."""

    field: str
    sender: int
    receiver: int
    sent: Call | None
    received: Call | None


def _value(call: Call, name: str) -> object:
    """Return what is compared, or None where anything fits."""
    if name == "operation":
        return call.operation
    if name == "root":
        return call.root if call.facts.rooted else None
    if name == "reduction":
        return None if call.reduction == "unknown" else call.reduction
    if name == "dtype":
        return None if call.dtype == "any" else call.dtype
    if name == "communicator":
        return call.num_bytes if _makes_group(call) else None
    return None if call.num_bytes < 0 or _makes_group(call) else call.num_bytes


def _makes_group(call: Call) -> bool:
    """New groups carry a number that stands for their ranks where others carry a size."""
    return call.operation in ("torch.new_group", "torch.split_group")


def compare(calls: Mapping[int, Call]) -> tuple[str, tuple[int, ...]] | None:
    """Compare the calls of ranks at one position; return the field that differs and the minority.

    >>> compare({0: Call(operation="Barrier"), 1: Call(operation="Barrier"), 2: Call(operation="Bcast", root=0)})
    ('operation', (2,))
    """
    for name in _FIELDS:
        groups: dict[object, list[int]] = {}
        for rank, call in calls.items():
            value = _value(call, name)
            if value is not None:
                groups.setdefault(value, []).append(rank)
        if len(groups) > 1:
            return name, minority(list(groups.values()))
    return None


def minority(groups: list[list[int]]) -> tuple[int, ...]:
    """Return the ranks outside the largest group; all of them if there is no largest."""
    sizes = sorted((len(group) for group in groups), reverse=True)
    if len(sizes) > 1 and sizes[0] == sizes[1]:
        return tuple(sorted(rank for group in groups for rank in group))
    largest = max(groups, key=len)
    return tuple(sorted(rank for group in groups if group is not largest for rank in group))


def calls_at(snapshot: Snapshot, communicator: str, sequence: int) -> dict[int, Call]:
    """Return the calls of all members at a position, as far as they are remembered."""
    calls: dict[int, Call] = {}
    group = snapshot.groups.get(communicator)
    for rank in group.ranks if group is not None else ():
        state = snapshot.state(rank)
        if state is None or state.positions.get(communicator, 0) < sequence:
            continue
        for call in reversed(state.history):
            if call.communicator == communicator and call.sequence == sequence and call.is_collective:
                calls[rank] = call
                break
    return calls


def find_mismatch(snapshot: Snapshot) -> Mismatch | None:
    """Find members of a communicator that call differently at the same position.

    Looks where a rank has stopped, and where ranks wait.
    """
    places = set()
    for state in snapshot.ranks:
        if state is None:
            continue
        if state.stop is not None and state.stop.reason == STOP_COLLECTIVE:
            places.add((state.stop.call.sequence, state.stop.call.communicator))
        for waiting in state.threads:
            if waiting is not None and waiting.call.is_collective:
                places.add((waiting.call.sequence, waiting.call.communicator))
    for sequence, communicator in sorted(places):
        found = mismatch_at(snapshot, communicator, sequence)
        if found is not None:
            return found
    return None


def mismatch_at(snapshot: Snapshot, communicator: str, sequence: int) -> Mismatch | None:
    """Compare the members at one position of a communicator."""
    calls = calls_at(snapshot, communicator, sequence)
    compared = compare(calls)
    if compared is None:
        return None
    name, odd_ones = compared
    return Mismatch(field=name, communicator=communicator, sequence=sequence, calls=calls, odd_ones=odd_ones)


def find_misfit(snapshot: Snapshot) -> Misfit | None:
    """Find a message that a rank has stopped at."""
    for state in snapshot.ranks:
        if state is not None and state.stop is not None and state.stop.reason == STOP_MESSAGE:
            found = _misfit(snapshot, state.rank, state.stop.call, state.stop.peer)
            if found is not None:
                return found
    return None


def _misfit(snapshot: Snapshot, rank: int, call: Call, peer: int) -> Misfit | None:
    other_state = snapshot.state(peer)
    group = snapshot.groups.get(call.communicator)
    if other_state is None or group is None:
        return None
    for other in reversed(other_state.history):
        if other.communicator != call.communicator or (other.request and other.failed):
            continue  # on another communicator, or cancelled
        for sender, sent, receiver, received in ((rank, call, peer, other), (peer, other, rank, call)):
            name = _misfit_field(sent, group.member(receiver), received, group.member(sender))
            if name is not None:
                return Misfit(field=name, sender=sender, receiver=receiver, sent=sent, received=received)
    return None


def _misfit_field(sent: Call, receiver: int, received: Call, sender: int) -> str | None:
    """Say in what the n-th message between two members does not fit its receive; None if these are not its sides."""
    if sent.facts.family not in (Family.SEND, Family.EXCHANGE) or sent.root != receiver:
        return None
    source, tag, dtype, num_bytes, sequence = received_half(received)
    if received.facts.family not in (Family.RECEIVE, Family.EXCHANGE):
        return None
    if not (fits(source, sender) and fits(tag, sent.tag)) or (sequence and sent.sequence and sequence != sent.sequence):
        return None  # another message
    if "any" not in (sent.dtype, dtype) and sent.dtype != dtype:
        return "dtype"
    if sent.num_bytes >= 0 and num_bytes >= 0 and sent.num_bytes > num_bytes:
        return "count"
    return None


def received_half(call: Call) -> tuple[int, int, str, int, int]:
    """Return source, tag, element type, bytes and number of what a call receives."""
    if call.facts.family is Family.EXCHANGE:
        return call.source, call.source_tag, call.source_dtype, call.source_bytes, call.source_sequence
    return call.root, call.tag, call.dtype, call.num_bytes, call.sequence
