"""Row groups of an exchange: which rank gets which rows of the global batch, and whether any row is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.compiled import extension
from paceline.errors import InputError
from paceline.plan.order import Ids

_IDS = np.dtype(np.int64)
_LARGEST = np.iinfo(np.int64).max


@dataclass(slots=True, kw_only=True, eq=False)
class RowGroups:
    """The groups of all ranks, as one rank has read them. It is not frozen, as there is one in each step.

    Attributes:
        table: The rows of each group, as rank * batch_size + row.
        outgoing: Rows of this rank that go to others, rank after rank.
        counts: How many go to each.
        digest: A number that is equal for equal groups and for hardly any others.
        problem: Why the groups cannot be used; nothing is raised before all ranks know.
    """

    table: tuple[Ids, ...]
    outgoing: Ids
    counts: Ids
    digest: int
    problem: str = ""

    def check_each_real_row_once(self, num_real: list[int], batch_size: int) -> None:
        """Refuse groups that lose a real row or give a rank too many. All ranks know the same: all raise, or none."""
        sizes = [group.size for group in self.table]
        if sum(sizes) == len(num_real) * batch_size and max(sizes) <= batch_size:
            return  # every row is named, and each but once
        real = (np.arange(batch_size) < np.array(num_real)[:, None]).reshape(-1)
        named = np.zeros(real.size, dtype=bool)
        named[np.concatenate(self.table)] = True
        lost = np.flatnonzero(real & ~named)
        if lost.size:
            rank, row = divmod(int(lost[0]), batch_size)
            raise InputError(
                f"groups are not a partition: {lost.size} real rows are in none of them, first row {row} of rank {rank}"
            )
        for rank, group in enumerate(self.table):
            count = int(real[group].sum())
            if count > batch_size:
                raise InputError(f"group {rank} has {count} real rows, more than batch_size {batch_size}")

    def order_of(self, rank: int, num_real: list[int], batch_size: int) -> tuple[Ids, Ids]:
        """Return the real rows of a rank's group, and how many of them come from each other rank.

        Rows that stay are given by their number. Those that come are counted from batch_size on: first what the first
        rank sends, in the order of the group, then the next rank's.
        """
        group = self.table[rank]
        counts, order = np.empty(len(num_real), np.int64), np.empty(group.size, np.int64)
        size = extension.order_group(group, np.array(num_real), rank, batch_size, counts, order)
        return order[:size], counts


def read_groups(groups: Sequence[Any], *, rank: int, world_size: int, batch_size: int, num_real: int) -> RowGroups:
    """Read what was given as groups.

    Args:
        groups: What was given.
        rank: This rank.
        world_size: The number of ranks.
        batch_size: Rows of a rank.
        num_real: Real rows of this rank.
    """
    try:
        table = tuple(_numbers_of(group) for group in groups)
    except Exception as error:  # of objects that turn into an array in their own way, too
        return _unusable(world_size, f"groups must be lists of rows: {error}")
    if len(table) != world_size:
        return _unusable(world_size, f"groups must be one for each of {world_size} ranks, got {len(table)}")
    outgoing, counts = np.empty(num_real, np.int64), np.empty(world_size, np.int64)
    routes = extension.route_rows(table, rank, batch_size, num_real, outgoing, counts)
    if routes is None:
        return _unusable(world_size, _what_is_wrong(np.concatenate(table), world_size * batch_size))
    return RowGroups(table=table, outgoing=outgoing[: routes[0]], counts=counts, digest=routes[1])


def _numbers_of(group: Any) -> Ids:
    array = np.asarray(group)
    if array.dtype is not _IDS and array.size and array.dtype.kind not in "iu":
        raise TypeError("they hold something other than whole numbers")
    if array.dtype.kind == "u" and array.size and array.max() > _LARGEST:
        raise OverflowError(f"no rank has a row {array.max()}")
    numbers = np.ascontiguousarray(array.reshape(-1), np.int64)
    return numbers if numbers.flags.aligned else numbers.copy()  # it may lie anywhere in a mapped file


def _unusable(world_size: int, problem: str) -> RowGroups:
    nothing = np.zeros(0, np.int64)
    counts = np.zeros(world_size, np.int64)
    return RowGroups(table=(nothing,) * world_size, outgoing=nothing, counts=counts, digest=0, problem=problem)


def _what_is_wrong(rows: Ids, num_rows: int) -> str:
    outside = rows[(rows < 0) | (rows >= num_rows)]
    if outside.size:
        return f"groups must hold rows from 0 to {num_rows - 1}, got {outside[0]}"
    counts = np.bincount(rows)
    return f"groups are not a partition: row {counts.argmax()} is named {counts.max()} times"
