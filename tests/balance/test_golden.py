"""Partitions, orders and plans are what they have always been, bit for bit."""

from __future__ import annotations

import json

import pytest
from tests.helpers.golden_cases import FILE, KINDS, PLANS, SHAPES, SIZES, order_digests, partition_digests, plan_digests

GOLDEN: dict[str, dict[str, str]] = json.loads(FILE.read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_what_they_were(kind: str) -> None:
    for size, num_groups in SHAPES:
        name = f"{kind}, {size} in {num_groups}"
        assert partition_digests(kind, size, num_groups) == GOLDEN[name], name


@pytest.mark.parametrize("size", SIZES)
def test_orders_are_what_they_were(size: int) -> None:
    assert order_digests(size) == GOLDEN[f"order of {size}"]


@pytest.mark.parametrize("num_samples", PLANS)
def test_plans_are_what_they_were(num_samples: int) -> None:
    assert plan_digests(num_samples) == GOLDEN[f"plan of {num_samples}"]


def test_every_golden_value_is_compared() -> None:
    assert len(GOLDEN) == len(KINDS) * len(SHAPES) + len(SIZES) + len(PLANS)
    assert sum(map(len, GOLDEN.values())) > 1000
