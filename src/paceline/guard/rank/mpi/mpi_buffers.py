"""What an mpi4py buffer argument holds: element type, bytes, number of elements. It may always be unknown."""

from __future__ import annotations

import operator
from typing import Any

from paceline.guard.rank.buffer_size import UNKNOWN_SIZE, Size
from paceline.guard.shared_memory.operations import DTYPE_CODES

NOTHING_HELD: Size = (0, 0, 0)  # no elements fit into a receive of any type
_RAW = {"S1", "V1", "c"}  # bytes as such; they may carry anything
_MEMORY_FORMATS = {"d": "f8", "f": "f4", "q": "i8", "l": "i8", "i": "i4", "Q": "u8", "L": "u8", "I": "u4"}


class Buffers:
    """Reads buffer arguments for one mpi4py."""

    def __init__(self, mpi: Any) -> None:
        self._datatype = mpi.Datatype
        self._raw = [mpi.BYTE, mpi.PACKED, mpi.CHAR]
        self._in_place, self._bottom = mpi.IN_PLACE, mpi.BOTTOM
        self.array: Any = None  # numpy's ndarray, once one has been seen: numpy is not ours to import
        self._by_dtype: dict[Any, int] = {}  # numpy's dtype -> code

    def size(self, spec: Any) -> Size:
        """Return what a buffer argument holds."""
        if spec.__class__ is self.array:  # nearly always: kept short
            code = self._by_dtype.get(spec.dtype)
            return (self._add_dtype(spec.dtype) if code is None else code, spec.nbytes, spec.size)
        return self._size_of_other(spec)

    def is_array(self, spec: Any) -> bool:
        """Say whether a buffer argument is an array of numpy itself, of which a size has been read."""
        return spec.__class__ is self.array

    def _size_of_other(self, spec: Any) -> Size:
        kind = type(spec)
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            self.array = kind
            return self.size(spec)
        if spec is None or spec is self._in_place or spec is self._bottom:
            return UNKNOWN_SIZE
        return self._size_of_list(spec) if isinstance(spec, list | tuple) else _size_of_memory(spec)

    def _add_dtype(self, dtype: Any) -> int:
        code = self._by_dtype[dtype] = dtype_code(dtype.str[1:])
        return code

    def _size_of_list(self, spec: Any) -> Size:
        """Read `[data, type]`, `[data, count, type]`, `[data, counts, displacements, type]` and the like."""
        parts = list(spec)
        datatype = next((part for part in parts[1:] if isinstance(part, self._datatype)), None)
        inner = self.size(parts[0]) if parts else UNKNOWN_SIZE
        if len(parts) > 1:
            count = None if isinstance(parts[1], str | self._datatype) else parts[1]
            if inner[1] == 0 if count is None else _is_zero(count):
                return NOTHING_HELD
            if isinstance(count, list) and count and _is_zero(count[0]):
                return UNKNOWN_SIZE  # counts for all ranks, or a count of 0 and where it begins: the call knows which
        if datatype is None:
            named = next((part for part in parts[1:] if isinstance(part, str)), None)
            code = dtype_code(named) if named else inner[0]
            return (code, -1, -1) if len(parts) > 1 else inner
        code, item = self.code_and_bytes(datatype)
        numbers = [part for part in parts[1:] if isinstance(part, int)]
        if len(parts) == 2 and not datatype.is_predefined:
            return UNKNOWN_SIZE  # it may have gaps, so how many fit into the data depends on its extent
        if len(parts) == 2:
            return (code, inner[1], inner[1] // item if item and inner[1] >= 0 else -1)
        if len(numbers) == 1 and len(parts) == 3:
            return (code, numbers[0] * item, numbers[0])
        return (code, -1, -1)

    def code_and_bytes(self, datatype: Any) -> tuple[int, int]:
        """Return the code of an element type and the bytes of one element, without gaps."""
        if not datatype.is_predefined:
            return 0, datatype.Get_size()  # a type of the user's own may match any other
        # mpi4py 3 does not say what a type holds
        code = 0 if any(datatype == raw for raw in self._raw) else dtype_code(getattr(datatype, "typestr", ""))
        return code, datatype.Get_size()


def dtype_code(name: str) -> int:
    """Return the number of an element type given as kind and size; 0 for what is not told apart."""
    return 0 if name in _RAW else DTYPE_CODES.get(name, 0)


def _is_zero(count: Any) -> bool:
    """Say whether a count is 0, or all counts are: a number, numbers for all ranks, or a tuple of that and offsets.

    >>> _is_zero(0), _is_zero([0, 0]), _is_zero(([0, 0], [3, 4])), _is_zero([0, 1]), _is_zero((1, 0)), _is_zero(None)
    (True, True, True, False, False, False)
    """
    if isinstance(count, tuple) and len(count) == 2:
        count = count[0]
    try:
        return operator.index(count) == 0
    except TypeError:
        pass
    try:
        return all(operator.index(one) == 0 for one in count)
    except TypeError:  # None, or something that mpi4py will refuse
        return False


def _size_of_memory(spec: Any) -> Size:
    try:
        view = memoryview(spec)
    except TypeError:  # a device array, or no buffer at all: mpi4py will say so
        return UNKNOWN_SIZE
    kind = _MEMORY_FORMATS.get(view.format)
    return (dtype_code(kind) if kind else 0, view.nbytes, view.nbytes // max(1, view.itemsize))
