"""Which accesses to a window conflict, against a model that looks at every byte; and the board that shows them."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from paceline.guard.rank.remarks.window_conflicts import conflict, find_conflicts, find_conflicts_among, is_unordered
from paceline.guard.shared_memory.access_board import (
    BY_FENCE,
    BY_GROUP,
    BY_LOCK,
    NUM_ACCESSES,
    READS,
    UPDATES,
    WRITES,
    Access,
    AccessBoard,
)
from paceline.guard.shared_memory.operations import DTYPE_CODES, REDUCTION_CODES

SUM, PROD, NO_OP = (REDUCTION_CODES[name] for name in ("SUM", "PROD", "NO_OP"))


@st.composite
def accesses(draw: st.DrawFn, *, origins: tuple[int, ...] = (0, 1, 2)) -> Access:
    """Return an access of one of three ranks to one of two, in one of two epochs, with one of three operators."""
    begin, does = draw(st.integers(0, 12)), draw(st.sampled_from((READS, WRITES, UPDATES)))
    return Access(
        origin=draw(st.sampled_from(origins)), target=draw(st.integers(0, 1)), begin=begin,
        end=begin + draw(st.integers(1, 6)), does=does,
        reduction=draw(st.sampled_from((SUM, PROD, NO_OP))) if does == UPDATES else 0,
        content=draw(st.integers(0, 2)) if does == WRITES else 0,
        site=draw(st.integers(1, 3)), first=(epoch := draw(st.integers(1, 2))), last=epoch,
    )  # fmt: skip


def model(one: Access, other: Access) -> bool:
    """Say whether two accesses of different ranks conflict: by bytes, who writes, the epoch and the operators."""
    shared = set(range(one.begin, one.end)) & set(range(other.begin, other.end))
    both_update = one.does == other.does == UPDATES
    same_operator = one.reduction == other.reduction or NO_OP in (one.reduction, other.reduction)
    same_place = (one.begin, one.end) == (other.begin, other.end)
    same_content = 0 in (one.content, other.content) or one.content == other.content
    write_the_same = one.does == other.does == WRITES and same_place and same_content
    writes = {one.does, other.does} != {READS}
    return (
        one.target == other.target and bool(shared) and writes and one.first == other.first
        and not write_the_same and not (both_update and (same_operator or one.origin == other.origin))
    )  # fmt: skip


@given(accesses(), accesses())
def test_two_conflict_if_and_only_if_they_share_bytes_in_one_epoch_and_the_order_matters(
    one: Access, other: Access
) -> None:
    assert conflict(one, other) == conflict(other, one) == model(one, other)


def lines_of(pairs: list[tuple[Access, Access]]) -> set[tuple[int, int, int]]:
    return {(one.site, other.origin, other.site) for one, other in pairs}


@given(
    st.lists(accesses(origins=(0,)), max_size=12),
    st.lists(accesses(origins=(1, 2)), max_size=12),
)
def test_every_pair_of_lines_with_a_conflict_is_found_once(mine: list[Access], others: list[Access]) -> None:
    found = find_conflicts(mine, others)
    assert lines_of(found) == lines_of([(one, other) for one in mine for other in others if model(one, other)])
    assert len(lines_of(found)) == len(found)
    assert all(model(one, other) for one, other in found)


@given(st.lists(accesses(), max_size=12))
def test_accesses_of_one_epoch_are_compared_with_each_other(some: list[Access]) -> None:
    some = [access._replace(first=1, last=1) for access in some]
    found = {(one.origin, one.site, other.origin, other.site) for one, other in find_conflicts_among(some)}
    expected = [pair for pair in combinations(some, 2) if model(*pair)]
    assert found == {(one.origin, one.site, other.origin, other.site) for one, other in expected}


def test_updates_of_several_types_by_one_operator_conflict() -> None:
    one = Access(origin=1, target=0, begin=0, end=8, does=UPDATES, reduction=SUM, dtype=DTYPE_CODES["f8"])
    assert not conflict(one, one._replace(origin=2))
    assert conflict(one, one._replace(origin=2, dtype=DTYPE_CODES["i8"]))
    assert not conflict(one, one._replace(origin=2, dtype=DTYPE_CODES["any"]))


def locked(first: int, last: int, *, is_last_word: bool) -> Access:
    return Access(
        origin=1, target=0, begin=0, end=8, does=UPDATES, order=BY_LOCK, first=first, last=last,
        is_last_word=is_last_word,
    )  # fmt: skip


def test_under_locks_only_what_no_collective_and_no_message_can_order_is_unordered() -> None:
    one = locked(4, 4, is_last_word=True)
    assert is_unordered(one, locked(4, 4, is_last_word=True))  # both between the same two barriers
    assert not is_unordered(one, locked(4, 4, is_last_word=False))  # the other may have told us by a message
    assert not is_unordered(one, locked(5, 5, is_last_word=True))  # a barrier lies between them
    assert is_unordered(locked(4, 6, is_last_word=False), locked(5, 5, is_last_word=True))  # still under way by then
    assert not is_unordered(one, one._replace(order=BY_FENCE))
    assert not is_unordered(one._replace(order=BY_GROUP), one._replace(order=BY_GROUP, first=5))


def test_members_read_what_others_have_shown_once_and_how_large_their_parts_are(tmp_path: Path) -> None:
    first, second = (AccessBoard(tmp_path / "accesses", member, 2) for member in range(2))
    assert first.part(1) == (0, 0)
    second.open_part(800, 8)
    assert first.part(1) == (800, 8)
    shown = Access(
        origin=1, target=0, begin=1 << 40, end=(1 << 40) + 8, does=UPDATES, reduction=SUM, dtype=3, site=70_000,
        operation=230, order=BY_LOCK, first=5, last=1 << 33, is_last_word=True, content=1 << 32,
    )  # fmt: skip
    second.show(shown)
    assert second.news() == []
    assert first.news() == [shown]
    assert first.news() == []


def test_accesses_that_others_have_overwritten_are_missed(tmp_path: Path) -> None:
    first, second = (AccessBoard(tmp_path / "accesses", member, 2) for member in range(2))
    for number in range(NUM_ACCESSES + 3):
        second.show(Access(origin=1, target=0, begin=number, end=number + 1, does=WRITES))
    assert [access.begin for access in first.news()] == list(range(3, NUM_ACCESSES + 3))
