"""How to read what torch.distributed's collectives exchange by pairs: split sizes and lists of tensors.

TABLES says which functions have a table, and which method reads it from the arguments, just as the user gave them and
under torch's names. What cannot be read is left to torch: then there is no table, and nothing is compared.
"""

# ruff: noqa: D102 (the methods are entries of a table: each is named after the function whose arguments it reads)

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.count_tables import (
    TableRead,
    all_gather_table,
    amount,
    gather_table,
    reduce_scatter_table,
    scatter_table,
)
from paceline.guard.rank.torch.torch_module import TorchWatch, member_number
from paceline.guard.shared_memory.operations import DTYPE_CODES
from paceline.guard.shared_memory.pair_board import UNKNOWN_AMOUNT, Table

_UNREADABLE = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, RuntimeError)
# torch exchanges complex numbers as real ones, and lets one side give these
_REAL = {
    DTYPE_CODES["c4"]: DTYPE_CODES["f2"],
    DTYPE_CODES["c8"]: DTYPE_CODES["f4"],
    DTYPE_CODES["c16"]: DTYPE_CODES["f8"],
}


class TorchTableReader:
    """Reads tables for one torch.distributed."""

    __slots__ = ("_size",)

    def __init__(self, watch: TorchWatch) -> None:
        self._size = watch.size

    def of(self, name: str) -> TableRead | None:
        """Return what reads the table of a function from its arguments; None if the function has none."""
        method, is_reduction = TABLES.get(name), name == "reduce_scatter"
        if method is None:
            return None

        def read(communicator: Communicator, *args: Any, **named: Any) -> Table | None:
            try:
                table = method(self, communicator, *args, **named)
            except _UNREADABLE:
                return None
            if table is not None:  # what a rank keeps for itself torch compares by itself, in the call
                table[is_reduction][communicator.member] = UNKNOWN_AMOUNT
            return table

        return read

    def all_to_all_single(
        self, communicator: Communicator, output: Any, input: Any, output_split_sizes: Any = None,
        input_split_sizes: Any = None, group: Any = None, async_op: bool = False,
    ) -> Table | None:  # fmt: skip
        num_members = len(communicator.ranks)
        if not output_split_sizes and not input_split_sizes:
            return None  # equal parts: how large they are is compared without a table
        self._check_types(input, output)
        return self._split(input, input_split_sizes, num_members), self._split(output, output_split_sizes, num_members)

    def all_to_all(
        self, communicator: Communicator, output_tensor_list: Any, input_tensor_list: Any, group: Any = None,
        async_op: bool = False,
    ) -> Table:  # fmt: skip
        num_members = len(communicator.ranks)
        self._check_types(*input_tensor_list, *output_tensor_list)
        return self._amounts(input_tensor_list, num_members), self._amounts(output_tensor_list, num_members)

    def all_gather(
        self, communicator: Communicator, tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False
    ) -> Table:
        self._check_types(tensor, *tensor_list)
        return all_gather_table(self._amount(tensor), self._amounts(tensor_list, len(communicator.ranks)))

    def reduce_scatter(
        self, communicator: Communicator, output: Any, input_list: Any, op: Any = None, group: Any = None,
        async_op: bool = False,
    ) -> Table:  # fmt: skip
        self._check_types(output, *input_list)
        return reduce_scatter_table(self._amounts(input_list, len(communicator.ranks)), self._amount(output))

    def gather(
        self, communicator: Communicator, tensor: Any, gather_list: Any = None, dst: Any = None, group: Any = None,
        async_op: bool = False, group_dst: Any = None,
    ) -> Table | None:  # fmt: skip
        root = member_number(communicator, dst, group_dst)
        if not 0 <= root < len(communicator.ranks):
            return None
        is_root = communicator.member == root
        self._check_types(tensor, *(gather_list or ()))
        expects = self._amounts(gather_list, len(communicator.ranks)) if is_root else None
        return gather_table(communicator, root, self._amount(tensor), expects)

    def scatter(
        self, communicator: Communicator, tensor: Any, scatter_list: Any = None, src: Any = None, group: Any = None,
        async_op: bool = False, group_src: Any = None,
    ) -> Table | None:  # fmt: skip
        root = member_number(communicator, src, group_src)
        if not 0 <= root < len(communicator.ranks):
            return None
        is_root = communicator.member == root
        self._check_types(tensor, *(scatter_list or ()))
        sends = self._amounts(scatter_list, len(communicator.ranks)) if is_root else None
        return scatter_table(communicator, root, sends, self._amount(tensor))

    def _check_types(self, *tensors: Any) -> None:
        """Raise for tensors of different types: torch refuses them on this rank alone, whatever the others give.

        A table of such a call would let it be told in two ways, by who is faster: torch, or a rank that compares.
        """
        if len({tensor.dtype for tensor in tensors}) > 1:
            types = [self._size(tensor)[0] for tensor in tensors]
            if len({_REAL.get(dtype, dtype) for dtype in types}) > 1:
                raise ValueError("torch refuses tensors of different types")

    def _amount(self, tensor: Any) -> int:
        dtype, num_bytes, _ = self._size(tensor)
        return amount(_REAL.get(dtype, dtype), num_bytes)

    def _amounts(self, tensors: Any, num_members: int) -> list[int]:
        amounts = [self._amount(tensor) for tensor in tensors]
        if len(amounts) != num_members:
            raise ValueError("torch refuses lists of another length")
        return amounts

    def _split(self, tensor: Any, sizes: Any, num_members: int) -> list[int]:
        """Return the parts of a tensor that is split along its first dimension; equal ones, if no sizes are given."""
        dtype, num_bytes, _ = self._size(tensor)
        num_rows = tensor.shape[0]
        if num_bytes < 0:
            raise ValueError("how much it holds is not known")
        rows = [operator.index(size) for size in sizes] if sizes else [num_rows // num_members] * num_members
        if len(rows) != num_members or sum(rows) != num_rows:
            raise ValueError("torch refuses splits that are not those of the tensor")
        row_bytes = num_bytes // num_rows if num_rows else 0
        return [amount(_REAL.get(dtype, dtype), size * row_bytes) for size in rows]


TABLES: dict[str, Callable[..., Table | None]] = {
    "all_to_all_single": TorchTableReader.all_to_all_single,
    "all_to_all": TorchTableReader.all_to_all,
    "all_gather": TorchTableReader.all_gather,
    "reduce_scatter": TorchTableReader.reduce_scatter,
    "gather": TorchTableReader.gather,
    "scatter": TorchTableReader.scatter,
}
