"""What every drawing of calls needs to know of them, on the page and in a trace: their kind and their row."""

from __future__ import annotations

import functools

import numpy as np

from paceline.guard.shared_memory.operations import BY_CODE, Family, shown_name
from paceline.report.evidence.call_table import Ints

_KIND_OF_PART = {
    "barrier": "barrier",
    "alltoall": "all-to-all",
    "all_to_all": "all-to-all",
    "reduce": "reduce",  # before gather and scatter: a reduce_scatter reduces
    "scan": "reduce",
    "gather": "gather",
    "bcast": "broadcast",
    "broadcast": "broadcast",
    "scatter": "broadcast",
}


@functools.cache
def kind_of(code: int) -> str:
    """Return the kind of an operation, which decides its colour."""
    operation = BY_CODE[code]
    if operation.family is Family.WAIT:
        return "wait"
    if operation.family is not Family.COLLECTIVE:
        return "message"
    name = shown_name(operation.name).lower()
    return next((kind for part, kind in _KIND_OF_PART.items() if part in name), "other")


def rows_of(entered: Ints, left: Ints) -> Ints:
    """Return a row for each call such that those of one row do not overlap: calls of several threads do.

    >>> rows_of(np.array([0, 5, 12]), np.array([10, 7, 13])).tolist()
    [0, 1, 0]
    """
    rows = np.zeros(len(entered), np.int64)
    order = np.argsort(entered, kind="stable")
    begins, ends = entered[order], left[order]
    if len(order) < 2 or (begins[1:] >= np.maximum.accumulate(ends)[:-1]).all():
        return rows
    free: list[int] = []  # when each row is free
    for index, begin, end in zip(order.tolist(), begins.tolist(), ends.tolist(), strict=True):
        row = next((number for number, at in enumerate(free) if at <= begin), len(free))
        if row == len(free):
            free.append(0)
        free[row] = max(end, begin)
        rows[index] = row
    return rows
