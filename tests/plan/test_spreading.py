"""Pieces spread over packs: compiled as in plain Python, and pieces without tokens are shared by all packs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import PackPlan
from paceline.plan.packs.pack_forms import best_fit
from paceline.plan.packs.pack_layout import spread


def plain_spread(pieces: list[tuple[int, int]], num_packs: int, max_tokens: int, most: int) -> list[int] | None:
    """Give each piece, the heaviest first, to the lightest pack with room; if it costs nothing, to the fewest."""
    packs: list[list[int]] = [[] for _ in range(num_packs)]
    pack_of = [0] * len(pieces)
    for piece in sorted(range(len(pieces)), key=lambda piece: -pieces[piece][1]):
        length, cost = pieces[piece]

        def order(pack: int, cost: int = cost) -> tuple[int, int, int]:
            load, count = sum(pieces[member][1] for member in packs[pack]), len(packs[pack])
            return (load, count, pack) if cost else (count, load, pack)

        open_packs = [
            pack
            for pack in range(num_packs)
            if len(packs[pack]) < most and sum(pieces[member][0] for member in packs[pack]) + length <= max_tokens
        ]
        if not open_packs:
            return None
        pack_of[piece] = min(open_packs, key=order)
        packs[pack_of[piece]].append(piece)
    return pack_of


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=40),
    num_packs=st.integers(1, 6),
    most=st.integers(1, 20),
)
def test_the_compiled_spread_is_the_plain_one(pieces: list[tuple[int, int]], num_packs: int, most: int) -> None:
    lengths, costs = np.ascontiguousarray(np.array(pieces, dtype=np.int64).reshape(-1, 2).T)
    found = spread(lengths, costs, num_packs, max_tokens=20, most=most)
    assert (None if found is None else found.tolist()) == plain_spread(pieces, num_packs, 20, most)


@settings(max_examples=200, deadline=None)
@given(lengths=st.lists(st.integers(0, 9) | st.just(0), min_size=1, max_size=60))
def test_pieces_without_tokens_go_where_the_fewest_pieces_are(lengths: list[int]) -> None:
    array = np.array(lengths)
    pack_of, num_packs = best_fit(array, 9)
    sizes = np.bincount(pack_of, minlength=num_packs)
    of_real = np.bincount(pack_of[array > 0], minlength=num_packs)
    got_some = sizes > of_real
    assert num_packs == max(1, best_fit(array[array > 0], 9)[1])
    assert not got_some.any() or sizes[got_some].max() - sizes.min() <= 1


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_plan_has_no_pack_of_all_samples_without_tokens(shuffle: bool) -> None:
    lengths: Any = [16] * 40 + [0] * 400
    plan = PackPlan(lengths, world_size=4, max_tokens=16, shuffle=shuffle)
    sizes = [len(pack) for rank in range(4) for step in plan.packs(rank) for pack in step]
    assert sum(sizes) == 440
    assert max(sizes) == 11
