"""Numbers come back from their ranges as they were, in few ranges where they are regular."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.guard.shared_memory.number_ranges import from_ranges, to_ranges

REGULAR = st.builds(
    lambda begin, num, step: list(range(begin, begin + num * step, step)),
    st.integers(-5, 100), st.integers(1, 20), st.sampled_from([-8, -1, 1, 2, 8]),
)  # fmt: skip


@given(
    st.lists(st.integers(-5, 30)) | st.lists(REGULAR).map(lambda parts: [number for part in parts for number in part])
)
def test_numbers_come_back_in_their_order(numbers: list[int]) -> None:
    ranges = to_ranges(numbers)
    assert from_ranges(ranges, most=len(numbers)) == tuple(numbers)
    assert len(ranges) <= len(numbers)


@given(REGULAR.filter(lambda numbers: len(numbers) != 2))
def test_regular_numbers_are_one_range(numbers: list[int]) -> None:
    assert len(to_ranges(numbers)) == 1


@pytest.mark.parametrize(
    "wrong", [[(0, 5)], [(0, 5, 0)], [(0, 1 << 40, 1)], [(0, 10**30, 1)], [("0", 5, 1)], [(0, 3, 1), (0, 8, 1)]]
)
def test_what_is_not_a_range_or_too_long_is_refused(wrong: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"range|more than"):
        from_ranges(wrong, most=10)
