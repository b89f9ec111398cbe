"""What a buffer or a tensor holds, as three numbers that a record has room for. Any of them may be unknown."""

from __future__ import annotations

from collections.abc import Iterable

Size = tuple[int, int, int]  # code of the element type (0: any), bytes (-1: not known), elements (-1: not known)
UNKNOWN_SIZE: Size = (0, -1, -1)


def dtype_only(size: Size) -> Size:
    """Return the element type alone, for calls in which each rank may have a size of its own.

    No elements have no type: libraries compare the types of what is sent.

    >>> dtype_only((12, 8, 2)), dtype_only((12, 0, 0))
    ((12, -1, -1), (0, -1, -1))
    """
    return UNKNOWN_SIZE if size[1] == 0 else (size[0], -1, -1)


def sum_sizes(sizes: Iterable[Size]) -> Size:
    """Return the size of several buffers together. What is unknown of one of them is unknown of all.

    The type is that of the buffers that hold something.

    >>> sum_sizes([(12, 8, 2), (12, 4, 1)]), sum_sizes([(12, 8, 2), (13, 8, 1)]), sum_sizes([(12, 8, 2), (0, -1, -1)])
    ((12, 12, 3), (0, 16, 3), (0, -1, -1))
    """
    dtypes, num_bytes, counts = set(), [], []
    for dtype, size_bytes, count in sizes:
        if size_bytes != 0:
            dtypes.add(dtype)
        num_bytes.append(size_bytes)
        counts.append(count)
    return (
        dtypes.pop() if len(dtypes) == 1 else 0,
        -1 if -1 in num_bytes else sum(num_bytes),
        -1 if -1 in counts else sum(counts),
    )
