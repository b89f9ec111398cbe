"""The rule of pairs: one member of a communicator sends another amount than the other expects, in one collective.

Tables of counts need not be equal on all ranks: what one sends to another must be what that one expects from it. Both
are written down before the call, so it is an error whatever the timing, also where a library would let it pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.errors import group_ranks
from paceline.guard.verdict.causes.deviation import find_deviation
from paceline.guard.verdict.causes.explain_deviation import explain_deviation
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.first_difference import find_first_difference, line_of, shown_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_facts.count_table import Amount, CountTable, UnequalPair, unequal_pairs
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.rules.mismatch import compare, minority
from paceline.guard.verdict.snapshot import Call, Position
from paceline.guard.verdict.wording import call_name, name_rank

_ADVICE = {
    "alltoallv": "let the ranks tell each other the counts before the call at {site}: receive_counts = "
    "comm.alltoall(send_counts)",
    "gatherv": "let the root learn the counts before the call at {site}: counts = comm.gather(len(data), root=root)",
    "scatterv": "let every rank learn its count from the root before the call at {site}: count = "
    "comm.scatter(counts, root=root)",
    "allgatherv": "let all ranks use one list of counts in the call at {site}: counts = comm.allgather(len(data))",
    "neighbours": "let every rank work out what comes from a neighbour by the rule by which that one sends, at {site}",
    "reduce_scatter": "every rank must give the same counts in the call at {site}, and bring as much for each rank",
    "torch.all_to_all_single": "let the ranks tell each other their split sizes before the call at {site}, with an "
    "all_to_all_single of the counts, and use what comes as output_split_sizes",
    "torch.all_to_all": "let the ranks tell each other the sizes before the call at {site}, with an all_to_all_single "
    "of the counts, and make the output tensors by them",
    "torch.all_gather": "let all ranks learn the sizes before the call at {site}, with an all_gather of the counts, "
    "and make the output tensors by them",
    "torch.gather": "let the rank that gathers learn the sizes before the call at {site}, and make its list by them",
    "torch.scatter": "make each tensor at {site} as large as the part that the source has for that rank",
    "torch.reduce_scatter": "every rank must bring tensors of the same sizes in the call at {site}",
}
_ALIASES = {"alltoallw": "alltoallv"}
_SAME_TABLES = {"allgatherv", "torch.all_gather", "reduce_scatter", "torch.reduce_scatter"}  # all ranks give one table
_BRINGS_PARTS = {"reduce_scatter", "torch.reduce_scatter"}  # what is sent is added up on the way


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unequal:
    """What does not fit at one position."""

    position: Position
    calls: dict[int, Call]  # by rank
    tables: dict[int, CountTable]  # by rank; the entries of each by member
    pairs: list[UnequalPair]  # with ranks instead of members


def find_unequal_pair(inspection: Inspection) -> Finding | None:
    """Find a pair of ranks of which one sends another amount than the other expects."""
    for position in sorted(inspection.snapshot.tables, key=lambda position: (position.sequence, position.communicator)):
        found = _unequal_at(inspection, position)
        if found is not None and not _waits_for_tables(found):
            return _finding(inspection, found)
    return None


def _waits_for_tables(found: _Unequal) -> bool:
    """Say whether it is open who is out of line, and a rank is in the call whose table comes in the next moment."""
    in_call = {rank for rank, call in found.calls.items() if not call.left_ns}
    return bool(in_call - found.tables.keys()) and 2 * len(_odd_ranks(found)) >= len(found.tables)


def _unequal_at(inspection: Inspection, position: Position) -> _Unequal | None:
    known = inspection.communicator(position.communicator)
    calls = inspection.calls_at(position)
    if known is None or compare(calls) is not None:  # calls that differ are compared by another rule
        return None
    tables = {
        member: table
        for member, table in inspection.snapshot.tables[position].items()
        if known.rank_of(member) in calls and len(table.sends) == len(known.ranks)
    }
    pairs = [
        pair._replace(sender=known.ranks[pair.sender], receiver=known.ranks[pair.receiver])
        for pair in unequal_pairs(tables)
    ]
    by_rank = {known.ranks[member]: table for member, table in tables.items()}
    return _Unequal(position=position, calls=calls, tables=by_rank, pairs=pairs) if pairs else None


def _finding(inspection: Inspection, found: _Unequal) -> Finding:
    odd = _odd_ranks(found)
    shown = next(pair for pair in found.pairs if {pair.sender, pair.receiver} & set(odd))
    differing = find_first_difference(inspection, found.position)
    explanations = [_explain(inspection, found, odd, shown)]
    if _come_from_other_lines(inspection, found):
        # If it is known how ranks went different ways before, that tables do not fit is only where it shows. Different
        # lines alone tell nothing: each side of a condition may have an exchange of its own.
        deviation = find_deviation(inspection, differing)
        ways = explain_deviation(inspection, deviation) if deviation is not None else []
        explanations = [way for way in ways if way.cause is not Cause.DIFFERENT_COLLECTIVES] + explanations
    return explained_finding(
        FindingKind.MISMATCH, explanations, rank_groups(inspection, found.calls),
        field=FindingField.DTYPE if shown.sent.has_other_type(shown.expected) else FindingField.COUNT,
        first_difference=shown_difference(inspection, differing),
    )  # fmt: skip


def _come_from_other_lines(inspection: Inspection, found: _Unequal) -> bool:
    """Say whether ranks call from different lines, and not only because the root has a line of its own."""
    known = inspection.communicator(found.position.communicator)
    calls = dict(found.calls)
    call = next(iter(calls.values()))
    if known is not None and call.traits.rooted:
        calls.pop(known.rank_of(call.root) or 0, None)
    return len({line_of(call) for call in calls.values()}) > 1


def _odd_ranks(found: _Unequal) -> tuple[int, ...]:
    """Return the ranks out of line: one that contradicts several others, or itself; otherwise both of a pair."""
    pairs = [{pair.sender, pair.receiver} for pair in found.pairs]
    kind = _kind(next(iter(found.calls.values())))
    if kind in _SAME_TABLES:
        tables = {rank: table.sends if kind in _BRINGS_PARTS else table.expects for rank, table in found.tables.items()}
        groups = [ranks for _, ranks in group_ranks(tables)]
        few = set(minority(groups)) if len(groups) > 1 else set()
        if few and len(few) < len(tables) and all(pair & few for pair in pairs):
            return tuple(sorted(few))
    with_itself = {rank for pair in pairs if len(pair) == 1 for rank in pair}
    if with_itself and all(pair & with_itself for pair in pairs):
        return tuple(sorted(with_itself))
    return _fewest_in_all(pairs)


def _fewest_in_all(pairs: Sequence[set[int]]) -> tuple[int, ...]:
    """Return ranks of which one is in every pair: first those that are in most; both where one is as likely.

    >>> _fewest_in_all([{0, 2}, {1, 2}, {2, 3}]), _fewest_in_all([{0, 1}]), _fewest_in_all([{0, 2}, {1, 2}, {4, 5}])
    ((2,), (0, 1), (2, 4, 5))
    """
    left = {frozenset(pair) for pair in pairs}
    odd: set[int] = set()
    while left:
        counts = Counter(rank for pair in left for rank in pair)
        most = max(counts.values())
        odd |= {rank for rank, count in counts.items() if count == most}
        left = {pair for pair in left if not pair & odd}
    return tuple(sorted(odd))


def _explain(inspection: Inspection, found: _Unequal, odd: tuple[int, ...], shown: UnequalPair) -> Explanation:
    call, receiving = found.calls[shown.sender], found.calls[shown.receiver]
    sent, expected = _amount_texts(shown.sent, shown.expected)
    sends, to, expects = ("brings", "for", "takes") if _kind(call) in _BRINGS_PARTS else ("sends", "to", "expects")
    if shown.sender == shown.receiver:
        text = f"{name_rank(shown.sender)} {sends} {sent} {to} itself at {call.site}, but {expects} {expected}"
    else:
        text = (
            f"{name_rank(shown.sender)} {sends} {sent} {to} {name_rank(shown.receiver)} at {call.site}, "
            f"{name_rank(shown.receiver)} {expects} {expected} at {receiving.site}"
        )
    others = len(found.pairs) - 1
    more = f"; {others} more {'pair does' if others == 1 else 'pairs do'} not fit" if others else ""
    is_type = shown.sent.has_other_type(shown.expected)
    site = found.calls[odd[0]].site
    advice = (
        f"convert to one element type before the call at {site}: libraries read the bytes as they come"
        if is_type
        else _ADVICE[_kind(call)].format(site=site)
    )
    return Explanation(
        ranks=odd,
        summary=f"{text}{more} ({call_name(call)}, {inspection.text(found.position)})",
        cause=Cause.DTYPE if is_type else Cause.SPLITS,
        advice=advice,
    )


def _amount_texts(sent: Amount, expected: Amount) -> tuple[str, str]:
    """Name both amounts in one unit.

    >>> _amount_texts(Amount("f8", 16), Amount("f8", 8)), _amount_texts(Amount("f8", 8), Amount("any", 4))
    (('2 elements', '1'), ('8 bytes', '4'))
    >>> _amount_texts(Amount("f8", 16), Amount("f4", 8))
    ('2 x f8', '2 x f4')
    """
    if sent.has_other_type(expected):
        return _typed_text(sent), _typed_text(expected)
    if sent.num_elements is None or expected.num_elements is None:
        return f"{sent.num_bytes} bytes", f"{expected.num_bytes}"
    return f"{sent.num_elements} {'element' if sent.num_elements == 1 else 'elements'}", f"{expected.num_elements}"


def _typed_text(amount: Amount) -> str:
    return f"{amount.num_elements} x {amount.dtype}"


def _kind(call: Call) -> str:
    """Return the operation without its form: blocking, started or prepared, and in which library's spelling.

    >>> [_kind(Call(operation=name)) for name in ("Ialltoallw", "Gatherv_init", "torch.gather")]
    ['alltoallv', 'gatherv', 'torch.gather']
    """
    name = call.operation.lower().removesuffix("_init")
    name = name.removeprefix("i") if name not in _ADVICE else name
    return "neighbours" if name.startswith("neighbor_") else _ALIASES.get(name, name)
