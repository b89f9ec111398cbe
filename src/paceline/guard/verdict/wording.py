"""How ranks, calls and counts read in a finding."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from paceline.guard.shared_memory.layout import ANY, NOBODY, NOTHING
from paceline.guard.shared_memory.nobody import decode_outsider
from paceline.guard.shared_memory.operations import Family, shown_name
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_names import name_rank, name_ranks
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
    if member == NOBODY:
        return "nobody"
    outsider = decode_outsider(member)
    if outsider is not None:
        return f"rank {outsider}"
    known = inspection.communicator(call.communicator)
    rank = known.rank_of(member) if known is not None else None
    return f"rank {member}" if rank is None else name_rank(rank)


def tag_text(tag: int) -> str:
    """Name a tag."""
    outsider = decode_outsider(tag)
    return "any tag" if tag == ANY else f"tag {tag if outsider is None else outsider}"


def size_text(call: Call) -> str:
    """Name the elements of a call: 8 x f4, as far as known."""
    if call.num_bytes < 0 and call.dtype == "any":
        return ""
    if call.dtype == "any":  # such as a type of the user's own, whose elements are not told apart
        return f"{call.num_bytes} bytes"
    count = call.count if call.count >= 0 else call.num_bytes
    return f"{count} x {call.dtype}" if count >= 0 else call.dtype


def mode_of(call: Call) -> int | None:
    """Return the mode that a call on a file was given, which stands where others have their root; None without one."""
    return call.root if call.root != NOTHING and call.operation.startswith("File.") else None


def mode_text(call: Call) -> str:
    """Name the mode that a call on a file was given: a sum of MPI.MODE_*, or a flag."""
    return f"mode {call.root}" if call.operation == "File.Open" else str(bool(call.root))


def _epoch_text(inspection: Inspection, call: Call) -> str:
    """Name the ranks with which a call opens or closes an epoch of a window."""
    known, members = inspection.communicator(call.communicator), inspection.snapshot.new_groups.get(call.members_hash)
    ranks = [known.rank_of(member) for member in members] if known is not None and members is not None else []
    return f"with {name_ranks(rank for rank in ranks if rank is not None)}" if ranks else ""


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
    elif call.family in (Family.REMOTE, Family.ACCESS):
        return f"on {member_rank(inspection, call, call.peer)}"
    elif call.family is Family.EPOCH:
        return _epoch_text(inspection, call)
    elif call.family is Family.LOCK:
        return "of all ranks" if call.peer == ANY else f"of {member_rank(inspection, call, call.peer)}"
    elif call.root != NOTHING and call.traits.rooted:
        parts.append(f"root {member_rank(inspection, call, call.root).removeprefix('rank ')}")
    elif mode_of(call) is not None:
        parts.append(mode_text(call))
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
    "mode_of",
    "mode_text",
    "name_rank",
    "name_ranks",
    "new_group_text",
    "nth",
    "sites_text",
    "size_text",
    "tag_text",
    "verb",
]


def in_part_text(unseen: Collection[int]) -> str:
    """Say why nobody is named.

    >>> in_part_text([2, 3])
    'ranks 2-3 are not seen from here, so who is out of line cannot be told'
    """
    return f"{name_ranks(unseen)} {verb(unseen, 'is', 'are')} not seen from here, so who is out of line cannot be told"
