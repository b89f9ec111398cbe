"""Who is waited for: from the work of every rank, and as Lightning's callback measures it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline import mean_loss, run_ranks
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError
from paceline.frameworks.step_work import summarise_work
from paceline.frameworks.work_meter import WorkMeter
from paceline.loader.loss import seconds_in_counts

TABLES = st.integers(2, 5).flatmap(
    lambda ranks: st.lists(st.lists(st.floats(0.001, 10), min_size=ranks, max_size=ranks), min_size=1, max_size=6)
)


@given(TABLES)
def test_waiting_and_imbalance_are_two_views_of_the_same(steps: list[list[float]]) -> None:
    summary = summarise_work(np.array(steps).T)
    assert summary is not None
    assert summary.imbalance >= 1 - 1e-9
    assert summary.waiting_ratio == pytest.approx(1 - 1 / summary.imbalance, abs=1e-6)
    assert 0 < summary.last_ratio <= 1


@given(TABLES, st.integers(0, 4), st.floats(1.0, 5.0))
def test_a_rank_that_works_longest_in_every_step_is_waited_for(
    steps: list[list[float]], rank: int, more: float
) -> None:
    table = np.array(steps).T
    late = rank % len(table)
    table[late] = table.max(axis=0) + more
    summary = summarise_work(table)
    assert summary is not None
    assert (summary.waited_for, summary.last_ratio) == (late, 1.0)
    assert summary.seconds >= more - 1e-9


def test_even_work_waits_for_nobody() -> None:
    summary = summarise_work([[2.0, 1.0], [2.0, 1.0]])
    assert summary is not None
    assert (summary.imbalance, summary.waiting_ratio, summary.seconds) == (1.0, 0.0, 0.0)


def test_steps_that_a_rank_has_not_measured_are_left_out() -> None:
    summary = summarise_work([[1.0, 5.0, np.nan], [2.0, np.nan, np.nan]])
    assert summary is not None
    assert (summary.num_steps, summary.waited_for, summary.seconds) == (1, 1, 1.0)


def test_one_rank_alone_and_no_step_have_no_summary() -> None:
    assert summarise_work([[1.0, 2.0]]) is None
    assert summarise_work([[np.nan], [1.0]]) is None


def test_a_list_of_times_is_refused() -> None:
    with pytest.raises(InputError, match="table of ranks and steps"):
        summarise_work([1.0, 2.0])


def test_a_summary_has_a_form_for_notebooks() -> None:
    summary = summarise_work([[1.0], [3.0]])
    assert summary is not None
    assert "<td>rank 1</td>" in summary._repr_html_()


class Clock:
    """A clock that moves only when it is told to, and what of it was waiting."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waited = 7.0

    def work(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds


def measured(comm: Comm) -> dict[str, Any]:
    """Five steps, compared after two each: rank 1 works for three seconds in each, the others for one."""
    clock = Clock()
    meter = WorkMeter(comm, every=2, clock=lambda: clock.now, waited=lambda: clock.waited)
    clock.work(50)  # before the epoch
    meter.begin_epoch()
    summaries = []
    for _ in range(5):
        clock.work(3 if comm.rank == 1 else 1)
        clock.wait(0 if comm.rank == 1 else 2)  # for the number of items, within the forward pass
        meter.arrive()
        clock.work(10)  # the backward pass
        summaries.append(meter.end_step())
    return {"steps": summaries, "epoch": meter.end_epoch()}


def test_a_meter_counts_work_without_waiting_and_without_the_backward_pass() -> None:
    outcomes = run_ranks(measured, 3, carrier="threads")
    for outcome in outcomes:
        assert outcome.ok, outcome.traceback
        steps, epoch = outcome.value["steps"], outcome.value["epoch"]
        assert [summary is not None for summary in steps] == [False, True, False, True, False]
        assert (steps[1].num_steps, epoch.num_steps) == (2, 5)
        assert (epoch.waited_for, epoch.last_ratio, epoch.seconds) == (1, 1.0, 2.0)
        assert epoch.imbalance == pytest.approx(3 / (5 / 3))


def uneven(comm: Comm) -> Any:
    meter = WorkMeter(comm, every=4)
    meter.begin_epoch()
    for _ in range(3 - comm.rank):
        meter.arrive()
        meter.end_step()
    return meter.end_epoch()


def test_ranks_with_different_numbers_of_steps_still_meet_at_the_end() -> None:
    outcomes = run_ranks(uneven, 2, carrier="threads")
    assert [outcome.value.num_steps for outcome in outcomes] == [2, 2]


def test_a_rank_alone_has_no_summary() -> None:
    assert measured(AloneComm())["epoch"] is None


def test_waiting_for_counts_is_known() -> None:
    before = seconds_in_counts()
    mean_loss(torch.tensor(6.0), 4, AloneComm())
    assert seconds_in_counts() > before
