"""A number that names nobody keeps its meaning through a record and is never taken for a member or a special value."""

from __future__ import annotations

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from paceline.guard.shared_memory.board import calls_differ, pack_call
from paceline.guard.shared_memory.layout import ANY, NOBODY, NOTHING
from paceline.guard.shared_memory.nobody import decode_outsider, encode_outsider

_FAR = 500_000_000
_MANY = 2_000_000  # ranks of a group
_SIGNED_32 = struct.Struct("<i")


@given(st.integers(-_FAR, _FAR))
@example(0)
@example(NOTHING)
@example(ANY)
@example(NOBODY)
@example(-_FAR)
@example(_FAR)
def test_what_the_user_wrote_comes_back_from_a_record(number: int) -> None:
    (code,) = _SIGNED_32.unpack(_SIGNED_32.pack(encode_outsider(number)))
    assert decode_outsider(code) == number


@given(st.integers(-(1 << 29), (1 << 31) - 1))
@example(NOTHING)
@example(ANY)
@example(NOBODY)
@example(0)
def test_ordinary_numbers_are_not_taken_for_outsiders(number: int) -> None:
    assert decode_outsider(number) is None
    assert encode_outsider(number) != number


@given(st.integers())
@example(1 << 40)
@example(-(1 << 40))
def test_any_whole_number_fits_a_record(number: int) -> None:
    code = encode_outsider(number)
    assert decode_outsider(_SIGNED_32.unpack(_SIGNED_32.pack(code))[0]) is not None


@given(st.integers(-_MANY, _MANY), st.integers(0, _MANY))
@example(1, 1)
@example(-1, 0)
def test_on_the_board_an_outsider_differs_from_every_root_of_a_large_group(outsider: int, root: int) -> None:
    assert calls_differ(pack_call(7, encode_outsider(outsider), 0), pack_call(7, root, 0))


@given(st.integers(-_MANY, _MANY))
@example(-1)
def test_on_the_board_an_outsider_is_not_taken_for_a_root_that_is_not_known(outsider: int) -> None:
    assert pack_call(7, encode_outsider(outsider), 0) != pack_call(7, NOTHING, 0)
