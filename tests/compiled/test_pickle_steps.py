"""The steps of a pickle are counted as Python's own tools count them, and what asks for too much is refused."""

from __future__ import annotations

import pickle
import pickletools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.compiled import extension

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
DATA = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner))
MANY = 10_000_000


def as_python_counts(data: bytes) -> int:
    return sum(1 for _ in pickletools.genops(data))


@given(DATA, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_steps_are_counted_as_python_counts_them(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    steps = as_python_counts(data)
    assert extension.count_pickle_steps(data, steps) == steps
    assert extension.count_pickle_steps(data + b"what follows is not looked at", MANY) == steps


@given(DATA, st.integers(0, pickle.HIGHEST_PROTOCOL), st.integers(1, 1 << 30))
def test_a_pickle_that_is_cut_off_or_has_too_many_steps_is_refused(value: object, protocol: int, cut: int) -> None:
    data = pickle.dumps(value, protocol)
    with pytest.raises(ValueError, match="cut off"):
        extension.count_pickle_steps(data[: -1 - cut % len(data)], MANY)
    with pytest.raises(ValueError, match="more than"):
        extension.count_pickle_steps(data, as_python_counts(data) - 1)


def argument(opcode: pickletools.OpcodeInfo) -> bytes:
    """Return the shortest argument that a step can have."""
    if opcode.arg is None:
        return b""
    if opcode.arg.n in (pickletools.UP_TO_NEWLINE, pickletools.TAKEN_FROM_ARGUMENT1):
        texts = {"decimalnl_short": b"0\n", "decimalnl_long": b"0L\n", "floatnl": b"0.0\n", "stringnl": b"''\n"}
        return texts.get(opcode.arg.name, b"a\nb\n" if opcode.arg.name == "stringnl_noescape_pair" else b"a\n") if (
            opcode.arg.n == pickletools.UP_TO_NEWLINE
        ) else b"\0"  # fmt: skip
    widths = {pickletools.TAKEN_FROM_ARGUMENT4: 4, pickletools.TAKEN_FROM_ARGUMENT4U: 4,
              pickletools.TAKEN_FROM_ARGUMENT8U: 8}  # fmt: skip
    return b"\0" * widths.get(opcode.arg.n, opcode.arg.n)


@pytest.mark.parametrize("opcode", pickletools.opcodes, ids=lambda opcode: opcode.name)
def test_every_step_of_every_protocol_is_known(opcode: pickletools.OpcodeInfo) -> None:
    data = b"N" + opcode.code.encode("latin-1") + argument(opcode) + (b"." if opcode.code != "." else b"")
    assert extension.count_pickle_steps(data, MANY) == as_python_counts(data)


def test_a_step_that_no_protocol_knows_is_refused() -> None:
    known = {opcode.code for opcode in pickletools.opcodes}
    for code in range(256):
        if chr(code) not in known:
            with pytest.raises(ValueError, match="cut off"):
                extension.count_pickle_steps(bytes((code,)) + b".", MANY)


@pytest.mark.parametrize(
    "put",
    [
        b"r" + struct.pack("<I", 5), b"r" + struct.pack("<I", 0xFFFFFFF0), b"q\x09", b"p5\n", b"p99999999999999999\n",
        b"p-1\n", b"p1e9\n",
    ],
)  # fmt: skip
def test_a_place_with_a_high_number_is_refused(put: bytes) -> None:
    with pytest.raises(ValueError, match="too much"):
        extension.count_pickle_steps(b"N" + put + b".", MANY)
    assert extension.count_pickle_steps(b"Nq\x02p1\nr\x01\0\0\0.", MANY) == 5


@pytest.mark.parametrize("wrong", [(b"N.",), ("N.", 5), (b"N.", 5, 6), (5, 5)])
def test_other_arguments_are_refused(wrong: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        extension.count_pickle_steps(*wrong)  # type: ignore[arg-type]
