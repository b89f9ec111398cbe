"""Whole numbers as ranges (begin, end, step): the members of a large communicator in a few numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NumberRange = tuple[int, int, int]

_LARGEST = 1 << 31  # no rank is beyond it, and the length of a range must fit into a word


def to_ranges(numbers: Sequence[int]) -> list[NumberRange]:
    """Return numbers as ranges, in their order. A range of one number has the step 1.

    >>> to_ranges([0, 1, 2, 3]), to_ranges([0, 8, 16, 3]), to_ranges([5])
    ([(0, 4, 1)], [(0, 24, 8), (3, 4, 1)], [(5, 6, 1)])
    """
    ranges: list[NumberRange] = []
    at, num = 0, len(numbers)
    while at < num:
        begin = numbers[at]
        step = numbers[at + 1] - begin if at + 1 < num else 1
        end = at + 1
        while step and end < num and numbers[end] == begin + (end - at) * step:
            end += 1
        if end == at + 2 < num and abs(step) != 1:  # two numbers alone say little of a step: the next may fit better
            end, step = at + 1, 1
        ranges.append((begin, begin + (end - at) * (step or 1), step or 1) if end > at + 1 else (begin, begin + 1, 1))
        at = end
    return ranges


def from_ranges(ranges: Iterable[Sequence[int]], *, most: int) -> tuple[int, ...]:
    """Return the numbers of ranges.

    Raises:
        ValueError: They are not ranges, or have more than `most` numbers.
    """
    numbers: list[int] = []
    for given in ranges:
        if len(given) != 3 or not all(map(_is_number, given)) or given[2] == 0:
            raise ValueError(f"not a range of numbers: {str(given)[:100]}")
        found = range(*given)
        if len(numbers) + len(found) > most:
            raise ValueError(f"more than {most:,} numbers")
        numbers += found
    return tuple(numbers)


def _is_number(value: object) -> bool:
    return type(value) is int and abs(value) <= _LARGEST
