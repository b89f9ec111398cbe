"""Rows move only where that saves more time than it takes, and all ranks decide alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.helpers.outcomes import values

from paceline import Batch, Loader, run_ranks
from paceline.comm import Comm
from paceline.errors import InputError
from paceline.loader import Balancer, DisagreementError, StepStatistics
from paceline.loader.row_exchange.move_price import MovePrice

NUM_STEPS = 5


def balanced(comm: Comm, seconds_per_cost: float | None, unit: float) -> tuple[list[StepStatistics], list[list[float]]]:
    """Balance batches of which one rank has all the work; return what was done, and what this rank has afterwards."""
    costs = torch.tensor([8.0, 8.0, 8.0, 8.0]) if comm.rank == 0 else torch.ones(4)
    batches = [Batch({"cost": costs * unit}, batch_size=4) for _ in range(NUM_STEPS)]
    done: list[StepStatistics] = []
    cost: Any = lambda batch: batch["cost"]  # noqa: E731
    with Balancer(comm, cost, seconds_per_cost=seconds_per_cost, on_step=done.append) as balancer:
        rows: list[Any] = [batch["cost"] for batch in balancer.over(batches)]
    return done, [row.tolist() for row in rows]


@pytest.mark.parametrize("unit", [1.0, 0.001])
def test_rows_stay_where_moving_takes_longer_than_it_saves(unit: float) -> None:
    for rank, (done, rows) in enumerate(values(run_ranks(balanced, 3, args=(1e-15, unit), carrier="threads"))):
        assert [each.did_not_pay for each in done] == [False, *[True] * (NUM_STEPS - 1)]  # the first shows the price
        as_it_was = torch.tensor([8.0 if rank == 0 else 1.0] * 4) * unit
        assert rows[1:] == [as_it_was.tolist()] * (NUM_STEPS - 1)
        for each in done[1:]:
            assert (each.num_moved, each.bytes_sent, each.route) == (0, 0, None)
            assert each.imbalance_after == pytest.approx(each.imbalance_before) == pytest.approx(32 * 3 / 40)
            assert each.max_over_bound == pytest.approx(each.imbalance_after / done[0].imbalance_after, rel=0.2)


@pytest.mark.parametrize("seconds_per_cost", [1e6, None])
def test_rows_move_where_that_saves_time_or_nobody_says_what_costs_mean(seconds_per_cost: float | None) -> None:
    for done, _ in values(run_ranks(balanced, 3, args=(seconds_per_cost, 1.0), carrier="threads")):
        assert not any(each.did_not_pay for each in done)
        assert all(each.num_moved > 0 and each.imbalance_after < 1.5 for each in done)


def test_moving_is_measured_again_after_steps_that_were_left_alone() -> None:
    price = MovePrice(seconds_per_cost=1e-3)
    price.note(0.5)  # the first move, which made connections
    assert not price.pays(20, [price.nanoseconds])
    price.leave_alone(64)
    assert price.pays(20, [price.nanoseconds]), "it is known no longer what a move takes"
    assert price.gain(20, [price.nanoseconds]) == 0, "a move that is made to measure speaks against no look"
    assert not price.pays(20, [price.nanoseconds]), "once is enough"
    price.note(0.001)
    assert price.pays(20, [price.nanoseconds])
    assert price.gain(20, [price.nanoseconds]) == 19_000_000


def test_nothing_moves_where_costs_take_no_time() -> None:
    for done, _ in values(run_ranks(balanced, 2, args=(0.0, 1.0), carrier="threads")):
        assert all(each.did_not_pay and each.num_moved == 0 for each in done)


def all_on_one(comm: Comm) -> int:
    batch = Batch({"cost": torch.zeros(4)}, batch_size=4, num_real=0 if comm.rank else 4)
    cost: Any = lambda batch: batch["cost"]  # noqa: E731
    with Balancer(comm, cost, seconds_per_cost=0.0) as balancer:
        return balancer.start(batch).finish().num_real


def test_a_rank_without_a_row_gets_one_at_any_price() -> None:
    assert values(run_ranks(all_on_one, 3, carrier="threads")) == [2, 1, 1]


def differing(comm: Comm) -> str:
    with pytest.raises(DisagreementError) as raised:
        balanced(comm, 1.0 + comm.rank, 1.0)
    return str(raised.value)


def test_ranks_that_differ_in_what_a_cost_takes_all_say_so() -> None:
    for said in values(run_ranks(differing, 2, carrier="threads")):
        assert "seconds_per_cost 1.0" in said
        assert "seconds_per_cost 2.0" in said


def test_after_many_steps_rows_move_once_to_measure_again() -> None:
    price = MovePrice(1.0)
    assert price.pays(1e-9, [0, 5])  # one rank has not moved any yet
    price.note(2.0)
    decisions = [price.pays(1.0, [price.nanoseconds]) for _ in range(130)]
    assert [step for step, pays in enumerate(decisions) if pays] == [64, 129]
    for _ in range(5):
        price.note(0.5)
    assert price.pays(1.0, [price.nanoseconds])


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "1"])
def test_what_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="seconds_per_cost must be a number of at least 0"):
        MovePrice(wrong)
    with pytest.raises(InputError, match="seconds_per_cost must be a number of at least 0"):
        Loader([{"x": 1.0}], batch_size=1, seconds_per_cost=wrong)


def loaded(comm: Comm, seconds_per_cost: float) -> list[float]:
    dataset = [{"cost": 9.0 if number % 2 == 0 else 1.0} for number in range(16)]
    cost: Any = lambda batch: batch["cost"]  # noqa: E731
    settings: Any = {"shuffle": False, "comm": comm, "cost": cost, "seconds_per_cost": seconds_per_cost}
    with Loader(dataset, batch_size=4, **settings) as loader:
        for _ in loader:
            pass
        assert loader.summary is not None
        return [loader.summary.imbalance_before or 0.0, loader.summary.imbalance_after or 0.0]


def test_a_loader_hands_on_what_a_cost_takes() -> None:
    assert values(run_ranks(loaded, 2, args=(0.0,), carrier="threads")) == [[1.8, 1.8]] * 2
    assert values(run_ranks(loaded, 2, args=(1e6,), carrier="threads")) == [[1.8, 1.0]] * 2
