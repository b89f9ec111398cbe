"""How ranks, calls and counts read in a finding."""

from __future__ import annotations

from collections.abc import Iterable

from paceline.errors import name_ranks
from paceline.guard.shared_memory.layout import ANY, NOTHING
from paceline.guard.shared_memory.nobody import decode_outsider
from paceline.guard.shared_memory.operations import Family, shown_name
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call

_MAX_SITES = 3


def verb(ranks: Iterable[int], one: str, many: str) -> str:
    """Return the form of a verb that goes with the number of ranks."""
    return one if len(list(ranks)) == 1 else many


def nth(number: int) -> str:
    """Return an ordinal number.

    >>> nth(1), nth(2), nth(3), nth(5), nth(11), nth(22)
    ('1st', '2nd', '3rd', '5th', '11th', '22nd')
    """
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def call_name(call: Call) -> str:
    """Return the operation's name as the user writes it."""
    return shown_name(call.operation)


def member_rank(inspection: Inspection, call: Call, member: int) -> str:
    """Name a peer or a root of a call by its rank in the job; one that does not exist as the user wrote it."""
    if member == ANY:
        return "any rank"
    outsider = decode_outsider(member)
    if outsider is not None:
        return f"rank {outsider}"
    known = inspection.communicator(call.communicator)
    rank = known.rank_of(member) if known is not None else None
    return f"rank {member if rank is None else rank}"


def tag_text(tag: int) -> str:
    """Name a tag."""
    outsider = decode_outsider(tag)
    return "any tag" if tag == ANY else f"tag {tag if outsider is None else outsider}"


def size_text(call: Call) -> str:
    """Name the elements of a call: 8 x f4, as far as known."""
    if call.num_bytes < 0 and call.dtype == "any":
        return ""
    count = call.count if call.count >= 0 else call.num_bytes
    unit = call.dtype if call.dtype != "any" else "bytes"
    return f"{count} x {unit}" if count >= 0 else unit


def new_group_text(inspection: Inspection, call: Call) -> str:
    """Name the ranks that a new group is to have."""
    ranks = inspection.snapshot.new_groups.get(call.members_hash)
    return f"of {name_ranks(ranks)}" if ranks is not None else ""


def call_detail(inspection: Inspection, call: Call) -> str:
    """Name what a call asks for: peer and tag, root, reduction, size."""
    parts = []
    if call.family is Family.SEND:
        parts.append(f"to {member_rank(inspection, call, call.peer)}, {tag_text(call.tag)}")
    elif call.family in (Family.RECEIVE, Family.PROBE):
        parts.append(f"from {member_rank(inspection, call, call.peer)}, {tag_text(call.tag)}")
    elif call.family is Family.EXCHANGE:
        parts.append(f"to {member_rank(inspection, call, call.peer)}, {tag_text(call.tag)}")
        parts.append(f"from {member_rank(inspection, call, call.source)}, {tag_text(call.source_tag)}")
    elif call.root != NOTHING and call.traits.rooted:
        parts.append(f"root {member_rank(inspection, call, call.root).removeprefix('rank ')}")
    if call.reduction not in ("none", "unknown"):
        parts.append(call.reduction)
    parts.append(new_group_text(inspection, call) if call.members_hash else size_text(call))
    return ", ".join(part for part in parts if part)


def call_place(call: Call, other: Call) -> str:
    """Name the line of a call such that it is not taken for another's: with its caller, if both are at one line.

    A library may make both calls for one line of the user: then its functions tell them apart.
    """
    if call.site != other.site:
        return f"at {call.site}"
    callers = zip(call.callers, other.callers, strict=False)
    caller = next((one for one, another in callers if one != another), None)
    if caller is not None:
        return f"at {call.site} (called from {caller})"
    library = zip(call.library, other.library, strict=False)
    function = next((one for one, another in library if one != another), None)
    function = function or next(iter(call.library[len(other.library) :]), None)
    return f"at {call.site}" + (f", in {function}" if function is not None else "")


def sites_text(calls: Iterable[Call]) -> str:
    """Name the sites of calls, at most three of them."""
    return " and ".join(sorted({call.site for call in calls})[:_MAX_SITES])


__all__ = [
    "call_detail",
    "call_name",
    "call_place",
    "member_rank",
    "name_ranks",
    "new_group_text",
    "nth",
    "sites_text",
    "size_text",
    "tag_text",
    "verb",
]
