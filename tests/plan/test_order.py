"""Orders: bijections with an inverse at every size, and random enough to train on."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import plain_kernels as plain

from paceline.plan.deal import LARGEST_SIZE
from paceline.plan.order import Feistel, Table, _fisher_yates, make_order
from paceline.plan.shuffle_keys import fold, random_words

KEYS = st.integers(0, 2**64 - 1)


@given(st.integers(2, 5000), KEYS)
def test_both_kinds_of_order_are_bijections_at_every_size(size: int, key: int) -> None:
    positions = np.arange(size)
    for order in (Table(size=size, key=key), Feistel(size=size, key=key)):
        samples = order.samples_at(positions)
        assert (np.sort(samples) == positions).all()
        assert (order.positions_of(samples) == positions).all()


@pytest.mark.parametrize("power", [16, 17, 18, 20])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_sizes_around_powers_of_two_are_bijections(power: int, offset: int) -> None:
    size = 2**power + offset
    samples = make_order(size, key=fold(power, 1)).samples_at(np.arange(size))
    assert np.bincount(samples, minlength=size).max() == 1
    assert samples.max() == size - 1


@given(st.integers(65_537, LARGEST_SIZE), KEYS, st.data())
def test_huge_orders_have_an_inverse(size: int, key: int, data: st.DataObject) -> None:
    order = make_order(size, key)
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=9)))
    samples = order.samples_at(positions)
    assert ((samples >= 0) & (samples < size)).all()
    assert (order.positions_of(samples) == positions).all()


def test_blocks_do_not_show() -> None:
    order = make_order(300_000, key=5)
    positions = np.arange(300_000)
    whole = order.samples_at(positions)
    assert (order.samples_at(positions[123:200_000]) == whole[123:200_000]).all()
    assert (order.samples_at(positions.reshape(3, -1)).ravel() == whole).all()


def test_small_shuffles_reach_every_arrangement_equally_often() -> None:
    trials = 24_000
    counts = Counter(tuple(Table(size=4, key=fold(9, k)).samples_at(np.arange(4)).tolist()) for k in range(trials))
    assert set(counts) == set(permutations(range(4)))
    expected = trials / 24
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 49.7, "23 degrees of freedom: above with probability 0.001"


@pytest.mark.parametrize("size", [65_536, 65_537, 1_000_003])
def test_neighbours_in_the_order_are_unrelated(size: int) -> None:
    for key in range(5):
        samples = make_order(size, fold(key)).samples_at(np.arange(min(size, 200_000))).astype(float)
        for lag in (1, 2, 64):
            correlation = np.corrcoef(samples[:-lag], samples[lag:])[0, 1]
            assert abs(correlation) < 5 / np.sqrt(samples.size)


def test_keys_depend_on_the_order_of_words() -> None:
    keys = {fold(a, b) for a in range(50) for b in range(50)}
    assert len(keys) == 2500


def test_biased_draws_of_a_table_are_drawn_again() -> None:
    redrawn = 0
    for key in range(8):
        table = Table(size=65_536, key=fold(key)).samples_at(np.arange(65_536))
        assert table.tolist() == plain.fisher_yates(65_536, fold(key))
        words = random_words(fold(key), np.arange(65_536, 1, -1, dtype=np.uint64)).astype(np.uint64)
        spans = np.arange(65_536, 1, -1, dtype=np.uint64)
        redrawn += int(((words * spans) % np.uint64(1 << 32) < np.uint64(1 << 32) % spans).sum())
    assert redrawn > 0, "these keys must show a redraw, or the test shows nothing"


def test_a_table_cannot_be_changed_from_outside() -> None:
    table = _fisher_yates(10, 3)
    with pytest.raises(ValueError, match="read-only"):
        table[0] = 1
