"""Which ranks of a large job stand for the others: enough of each state, and never the wrong majority."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.guard.hosts.classes.rank_table import MOST_FOLLOWED, RankTable, representatives

SIZES = st.lists(st.integers(1, 12) | st.integers(1, 100_000), min_size=1, max_size=6)


@given(SIZES)
def test_who_is_the_odd_one_among_some_is_the_odd_one_among_all(sizes: list[int]) -> None:
    some = representatives(sizes)
    assert all(1 <= num <= size for num, size in zip(some, sizes, strict=True))
    for one, size in enumerate(sizes):
        for other, its_size in enumerate(sizes):
            if size < its_size:
                assert some[one] < some[other]
            elif size == its_size:
                assert some[one] == some[other] or 2 * size > sum(sizes)
        if 2 * size > sum(sizes):
            assert 2 * some[one] > sum(some)


def test_classes_of_a_few_are_followed_whole_and_large_ones_in_part() -> None:
    table = RankTable(1000)
    table.tell(0, 7, [(0, 1000, 1)])
    table.tell(1, 9, [(990, 994, 1)])
    ranks = table.to_follow([], [])
    assert [rank for rank in ranks if 990 <= rank < 994] == [990, 991, 992, 993]
    assert len(ranks) < 12
    assert table.to_follow(ranks, []) == []
    stands_for, rest = table.classes(ranks, [])
    assert {rank: len(others) for rank, others in stands_for.items() if len(others)} == {0: 996 - len(ranks) + 4}
    assert rest.tolist() == []


def test_nobody_stands_for_ranks_that_move_are_distrusted_or_were_never_seen() -> None:
    table = RankTable(100)
    table.tell(0, 7, [(0, 40, 1)])
    table.tell(1, 7, [(40, 80, 1)])
    table.tell(2, 0, [(80, 90, 1)])
    assert table.unseen() == list(range(90, 100))
    table.distrust(1)
    stands_for, rest = table.classes(table.to_follow([], []), [])
    assert rest.tolist() == list(range(40, 100))
    assert sum(map(len, stands_for.values())) == 37
    assert (table.host_of(5), table.host_of(45), table.host_of(95)) == (0, 1, -1)
    assert table.hosts_of([(5, 7), (85, 86)]) == [0, 2]


def test_some_of_each_class_are_followed_in_each_group() -> None:
    """Rows of ten ranks: the first ranks of all rows are late, and nobody of another row shows that."""
    table = RankTable(100)
    table.tell(0, 7, [(0, 100, 1)])
    table.tell(0, 8, [(0, 100, 10)])
    row = range(90, 100)
    ranks = table.to_follow([], [row])
    assert 90 in ranks
    assert len([rank for rank in ranks if rank in row]) >= 3
    stands_for, rest = table.classes(ranks, [row])
    assert rest.tolist() == []
    for rank, others in stands_for.items():
        assert all((rank in row) == (other in row) for other in others.tolist())


def test_no_more_ranks_are_followed_than_there_is_room_for() -> None:
    table = RankTable(10_000)
    for rank in range(600):
        table.tell(0, rank + 1, [(rank, rank + 1, 1)])
    assert table.to_follow([], []) == []  # so many different states are a job that goes on
    table.tell(0, 5, [(0, 10_000, 1)])
    table.tell(0, 6, [(0, 8, 1)])
    assert table.to_follow(range(9000, 9000 + MOST_FOLLOWED - 3), []) == [0, 1, 2]


@pytest.mark.parametrize("wrong", [(0, 101, 1), (-1, 5, 1), (5, 5, 1), (0, 5, 0), (7, 5, -1)])
def test_ranks_that_the_job_does_not_have_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="does not have"):
        RankTable(100).tell(0, 1, [wrong])


def test_a_group_that_names_ranks_outside_the_world_is_taken_for_those_inside() -> None:
    table = RankTable(100)
    table.tell(0, 7, [(0, 100, 1)])
    damaged, meant = [[-3, 4, 50, 100, 1 << 40]], [[4, 50]]
    followed = table.to_follow([], damaged)
    assert followed == table.to_follow([], meant)
    assert {rank: others.tolist() for rank, others in table.classes(followed, damaged)[0].items()} == {
        rank: others.tolist() for rank, others in table.classes(followed, meant)[0].items()
    }
