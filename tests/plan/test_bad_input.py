"""Wrong numbers are refused with the value and what to do; nothing is repaired in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paceline import PacelineError, Plan

GOOD: dict[str, Any] = {"num_samples": 100, "world_size": 7, "batch_size": 3}


def make(**changed: Any) -> Plan:
    options = GOOD | changed
    return Plan(options.pop("num_samples"), **options)


@pytest.mark.parametrize("name", ["num_samples", "world_size", "batch_size"])
@pytest.mark.parametrize("value", [0, -1, True, 3.0, 2.5, "7", None, np.float64(3), np.bool_(True)])
def test_a_number_that_is_not_a_positive_whole_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number") as caught:
        make(**{name: value})
    assert isinstance(caught.value, PacelineError)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be"),
        ({"seed": 2**64}, "seed must be"),
        ({"seed": 0.5}, "seed must be"),
        ({"shuffle": "yes"}, "shuffle must be True or False, got 'yes'"),
        ({"tail": "trim"}, "tail must be one of 'drop', 'even', 'pad', 'repeat', got 'trim'"),
        ({"tail": None}, "tail must be one of"),
        ({"num_samples": 2**62 + 1}, "num_samples must be"),
        ({"batch_size": 2**62}, "batch_size must be"),
        ({"num_samples": 20, "tail": "drop"}, r"20 samples do not fill one step \(7 ranks x batch 3 = 21\)"),
        ({"num_samples": 6, "tail": "even"}, r"6 samples do not fill one step \(one for each of 7 ranks\)"),
    ],
)
def test_other_wrong_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make(**options)
    assert isinstance(caught.value, PacelineError)


def test_numpy_integers_are_numbers() -> None:
    assert make(num_samples=np.int32(100), world_size=np.uint8(7)) == make()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda plan: plan.rows(7), "rank must be a whole number from 0 to 6, got 7"),
        (lambda plan: plan.rows(-1), "rank must be"),
        (lambda plan: plan.rows(0, epoch=-1), "epoch must be"),
        (lambda plan: plan.rows(0, first_step=6), "first_step must be a whole number from 0 to 5, got 6"),
        (lambda plan: plan.rows(0, first_step=3, num_steps=3), "num_steps must be a whole number from 0 to 2"),
        (lambda plan: plan.where(100), "sample must be a whole number from 0 to 99, got 100"),
        (lambda plan: plan.num_real(5), "step must be"),
        (lambda plan: plan.num_real(0, rank=7), "rank must be"),
        (lambda plan: plan.resume(101), "consumed must be a whole number from 0 to 100, got 101"),
        (lambda plan: plan.resume(-1), "consumed must be"),
        (lambda plan: plan.resume(50).resume(51), "consumed must be a whole number from 0 to 50"),
        (lambda plan: plan.resume(100), "all 100 samples are consumed; continue with the next epoch"),
        (lambda plan: plan.resume(10, world_size=0), "world_size must be"),
        (lambda plan: plan.progress(6), "step must be"),
        (lambda plan: plan.at({"consumed": 101}), "consumed must be"),
    ],
)
def test_wrong_arguments_of_methods_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(make())
    assert isinstance(caught.value, PacelineError)


def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        make().seed = 3  # type: ignore[misc]
