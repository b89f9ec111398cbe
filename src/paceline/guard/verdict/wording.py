"""How ranks, calls and counts are said in a finding."""

from __future__ import annotations

from collections.abc import Iterable

from paceline.errors import name_ranks
from paceline.guard.shared_memory.layout import ANY, NOTHING
from paceline.guard.shared_memory.operations import Family, shown_name
from paceline.guard.verdict.match import received_half
from paceline.guard.verdict.snapshot import Call, Snapshot


def verb(ranks: Iterable[int], one: str, many: str) -> str:
    """Return the form of a verb that goes with the number of ranks."""
    return one if len(list(ranks)) == 1 else many


def nth(number: int) -> str:
    """Say a position.

    >>> nth(1), nth(2), nth(3), nth(5), nth(11), nth(22)
    ('1st', '2nd', '3rd', '5th', '11th', '22nd')
    """
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def call_name(call: Call) -> str:
    """Return the operation's name as the user writes it."""
    return shown_name(call.operation)


def member_rank(snapshot: Snapshot, call: Call, member: int) -> str:
    """Name a peer or a root of a call by its rank in the job."""
    if member == ANY:
        return "any rank"
    group = snapshot.groups.get(call.communicator)
    if group is None or not 0 <= member < len(group.ranks):
        return f"rank {member if member >= 0 else member + 1000}"
    return f"rank {group.ranks[member]}"


def tag_text(tag: int) -> str:
    """Say a tag."""
    return "any tag" if tag == ANY else f"tag {tag}"


def size_text(call: Call) -> str:
    """Say the elements of a call: 8 x f4, as far as known."""
    if call.num_bytes < 0 and call.dtype == "any":
        return ""
    count = call.count if call.count >= 0 else call.num_bytes
    unit = call.dtype if call.dtype != "any" else "bytes"
    return f"{count} x {unit}" if count >= 0 else unit


def new_group_text(snapshot: Snapshot, call: Call) -> str:
    """Say which ranks a new group is to have."""
    ranks = snapshot.new_groups.get(call.num_bytes)
    return f"of {name_ranks(ranks)}" if ranks is not None else ""


def call_detail(snapshot: Snapshot, call: Call) -> str:
    """Say what a call asks for: peer and tag, root, reduction, size."""
    parts = []
    family = call.facts.family
    if family is Family.SEND:
        parts.append(f"to {member_rank(snapshot, call, call.root)}, {tag_text(call.tag)}")
    elif family in (Family.RECEIVE, Family.PROBE):
        parts.append(f"from {member_rank(snapshot, call, call.root)}, {tag_text(call.tag)}")
    elif family is Family.EXCHANGE:
        source, tag = received_half(call)[:2]
        parts.append(f"to {member_rank(snapshot, call, call.root)}, {tag_text(call.tag)}")
        parts.append(f"from {member_rank(snapshot, call, source)}, {tag_text(tag)}")
    elif call.root != NOTHING and call.facts.rooted:
        parts.append(f"root {member_rank(snapshot, call, call.root).removeprefix('rank ')}")
    if call.reduction not in ("none", "unknown"):
        parts.append(call.reduction)
    size = size_text(call)
    if call.operation.endswith("new_group"):
        parts.append(new_group_text(snapshot, call))
    elif size:
        parts.append(size)
    return ", ".join(parts)


__all__ = [
    "call_detail",
    "call_name",
    "member_rank",
    "name_ranks",
    "new_group_text",
    "nth",
    "size_text",
    "tag_text",
    "verb",
]
