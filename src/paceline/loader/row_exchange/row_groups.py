"""Row groups of an exchange: which rank gets which rows of the global batch, and whether any row is lost."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.errors import InputError
from paceline.plan.order import Ids


def read_groups(groups: Sequence[Any], world_size: int, batch_size: int) -> tuple[list[Ids], str]:
    """Return the groups as arrays, and what is wrong with them: nothing is raised before all ranks know."""
    nothing = [np.zeros(0, dtype=np.int64)] * world_size
    try:
        arrays = [np.asarray(group) for group in groups]
        if any(group.size and group.dtype.kind not in "iu" for group in arrays):
            return nothing, "groups must be lists of rows: they hold something other than whole numbers"
        table = [group.astype(np.int64).reshape(-1) for group in arrays]
    except (TypeError, ValueError, OverflowError) as error:
        return nothing, f"groups must be lists of rows: {error}"
    if len(table) != world_size:
        return nothing, f"groups must be one for each of {world_size} ranks, got {len(table)}"
    rows, num_rows = np.concatenate(table), world_size * batch_size
    # as unsigned numbers, negative ones are far beyond the last row
    counts = np.bincount(np.minimum(rows.view(np.uint64), num_rows).view(np.int64), minlength=num_rows + 1)
    if counts[-1]:
        wrong = rows[(rows < 0) | (rows >= num_rows)][0]
        return nothing, f"groups must hold rows from 0 to {num_rows - 1}, got {wrong}"
    if counts.max() > 1:
        return nothing, f"groups are not a partition: row {counts.argmax()} is named {counts.max()} times"
    return table, ""


def check_each_real_row_once(table: list[Ids], num_real: list[int], batch_size: int) -> None:
    """Refuse groups that lose a real row or give a rank too many. All ranks know the same: all raise, or none."""
    if sum(group.size for group in table) == len(num_real) * batch_size and all(g.size <= batch_size for g in table):
        return  # every row is named, and each but once
    real = (np.arange(batch_size) < np.array(num_real)[:, None]).reshape(-1)
    named = np.zeros(real.size, dtype=bool)
    named[np.concatenate(table)] = True
    lost = np.flatnonzero(real & ~named)
    if lost.size:
        rank, row = divmod(int(lost[0]), batch_size)
        raise InputError(
            f"groups are not a partition: {lost.size} real rows are in none of them, first row {row} of rank {rank}"
        )
    for rank, group in enumerate(table):
        count = int(real[group].sum())
        if count > batch_size:
            raise InputError(f"group {rank} has {count} real rows, more than batch_size {batch_size}")


def digest_of(table: list[Ids]) -> int:
    """Return a number that is equal for equal groups and for hardly any others."""
    sizes = np.array([group.size for group in table])
    return int.from_bytes(hashlib.blake2b(np.concatenate([sizes, *table]).tobytes(), digest_size=7).digest(), "little")
