"""Orders are those of the plain Python network and shuffle, number for number."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import plain_kernels as plain

from paceline.plan.deal import LARGEST_SIZE
from paceline.plan.order import Feistel, Table

KEYS = st.integers(0, 2**64 - 1)


@settings(max_examples=60)
@given(st.integers(1, 300) | st.integers(65_000, 65_536), KEYS)
def test_a_table_is_an_exact_shuffle(size: int, key: int) -> None:
    table = plain.fisher_yates(size, key)
    assert Table(size=size, key=key).samples_at(np.arange(size)).tolist() == table


@settings(max_examples=150)
@given(st.integers(2, 300) | st.integers(2, 1 << 40) | st.integers(LARGEST_SIZE - 9, LARGEST_SIZE), KEYS, st.data())
def test_a_network_is_that_of_plain_integers(size: int, key: int, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, size - 1), max_size=40))
    order = Feistel(size=size, key=key)
    samples = order.samples_at(np.array(positions, dtype=np.int64))
    assert samples.tolist() == [plain.feistel(position, size, key) for position in positions]
    found = order.positions_of(np.array(positions, dtype=np.int64))
    assert found.tolist() == [plain.feistel(sample, size, key, backward=True) for sample in positions]
