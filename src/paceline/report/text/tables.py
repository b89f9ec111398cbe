"""Plain text for people: tables and lists of ranks. It prints nothing."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import name_ranks


def groups_text(values: Sequence[object]) -> str:
    """Return which ranks have which value; values are in the order of ranks.

    >>> groups_text([5, 5, 5, 3])
    '5 on ranks 0-2; 3 on rank 3'
    >>> groups_text([3, 3])
    '3 on every rank'
    """
    ranks: dict[object, list[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(value, []).append(rank)
    if len(ranks) == 1:
        return f"{values[0]} on every rank"
    return "; ".join(f"{value} on {name_ranks(members)}" for value, members in ranks.items())


def table_text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lay cells out in columns: numbers to the right, texts to the left, nothing cut off.

    >>> print(table_text(["tail", "steps"], [["pad", 5], ["drop", 14]]))
    tail  steps
    pad       5
    drop     14
    """
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    is_number = [all(isinstance(row[column], int) for row in rows) for column in range(len(header))]
    lines = (
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in cells
    )
    return "\n".join(lines)
