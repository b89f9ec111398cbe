"""Each program is explained as what really went wrong in it, and its twin that follows the advice runs."""

from __future__ import annotations

import inspect
import random
from pathlib import Path

import pytest
from tests.guard.verdict import (
    cause_programs,
    group_programs,
    left_out_programs,
    lone_call_programs,
    manner_programs,
    order_programs,
    role_programs,
    ruled_out_programs,
    trainer_programs,
)
from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.ruled_out_programs import returns_early_without_particles
from tests.guard.verdict.scripted import line_with, run_script
from tests.guard.verdict.simulated import collective, judge

from paceline.guard.verdict.finding import Cause

ALL_PROGRAMS = [
    *cause_programs.PROGRAMS, *order_programs.PROGRAMS, *ruled_out_programs.PROGRAMS, *group_programs.PROGRAMS,
    *trainer_programs.PROGRAMS, *lone_call_programs.PROGRAMS, *left_out_programs.PROGRAMS, *role_programs.PROGRAMS,
    *manner_programs.PROGRAMS,
]  # fmt: skip
every_program = pytest.mark.parametrize("case", ALL_PROGRAMS, ids=lambda case: case.program.__name__)


def marked_lines(case: CauseProgram) -> list[str]:
    """Return the sites that are marked for a program."""
    name, file = case.program.__name__, Path(inspect.getfile(case.program))
    lines = file.read_text().splitlines()
    return [
        f"{file}:{number}" for number, line in enumerate(lines, 1) if name in line.partition("# <- here ")[2].split()
    ]


@every_program
def test_the_cause_is_what_went_wrong(case: CauseProgram) -> None:
    finding = run_script(lambda side: case.program(side, True), case.size, split=case.split)
    assert finding is not None
    assert (finding.cause, finding.ranks) == (case.cause, case.ranks), finding.summary
    marked = marked_lines(case)
    assert marked
    assert any(site in finding.summary for site in marked), finding.summary


@every_program
def test_the_cause_does_not_depend_on_who_is_fast(case: CauseProgram) -> None:
    for seed in range(10):
        finding = run_script(
            lambda side: case.program(side, True), case.size, split=case.split, dice=random.Random(seed)
        )
        assert finding is not None
        assert (finding.cause, finding.ranks) == (case.cause, case.ranks), (seed, finding.summary)


@every_program
def test_the_twin_runs(case: CauseProgram) -> None:
    assert run_script(lambda side: case.program(side, False), case.size, split=case.split) is None


def test_all_calls_that_were_left_out_together_are_named() -> None:
    finding = run_script(lambda side: returns_early_without_particles(side, True), 4)
    assert finding is not None
    texts = ("# <- here returns_early_without_particles", "# the number of particles")
    first, second = (line_with(returns_early_without_particles, text) for text in texts)
    assert f"rank 3 left out the Allreduce at {first} and the Allreduce at {second}: " in finding.summary
    assert "it made 0 of the first, ranks 0-2 make 1" in finding.summary
    assert f"the Allreduce at {second}" in finding.advice


def test_what_a_rank_made_is_counted_between_two_of_its_calls() -> None:
    finding = run_script(lambda side: trainer_programs.caught_error_skips_all_parameters(side, True), 3)
    assert finding is not None
    assert "between its 1st and its 2nd gather at" in finding.summary
    assert "it made 6 of them, ranks 0, 2 make 8" in finding.summary


def test_a_line_of_several_tensors_is_not_told_to_pad_its_batch() -> None:
    finding = run_script(lambda side: trainer_programs.parameters_in_another_order_from_the_start(side, True), 3)
    assert finding is not None
    assert finding.advice.startswith("let every rank come to the call at ")
    assert "with the same tensors in the same order" in finding.advice


def test_sizes_that_change_on_most_ranks_may_be_of_tensors_in_another_order() -> None:
    finding = run_script(lambda side: manner_programs.cycles_through_tasks(side, True), 3)
    assert finding is not None
    assert "with the same tensors in the same order" in finding.advice
    assert finding.advice.endswith("pad the last batch, or use a call that takes a count per rank")


def test_a_size_that_all_have_brought_may_be_of_another_tensor_or_of_another_batch() -> None:
    finding = run_script(lambda side: trainer_programs.metrics_in_another_order(side, True), 3)
    assert finding is not None
    causes = [explanation.cause for explanation in finding.explanations]
    assert causes == [Cause.CALL_ORDER, Cause.EXTRA_CALL, Cause.SHAPE]


def test_only_an_exception_leads_to_an_except() -> None:
    finding = run_script(lambda side: trainer_programs.meets_the_others_after_an_error(side, True), 3)
    assert finding is not None
    assert finding.summary.startswith("an exception led rank 1 to the Barrier at ")


def test_a_loop_that_an_exception_has_ended_is_not_told_to_have_more_samples() -> None:
    finding = run_script(lambda side: trainer_programs.gives_up_after_an_error(side, True), 3)
    assert finding is not None
    assert finding.advice.startswith("find out which exception was caught around the loop")


def test_of_two_ranks_the_one_that_may_have_passed_over_a_call_is_told() -> None:
    finding = run_script(lambda side: trainer_programs.empty_validation_of_two(side, True), 2)
    assert finding is not None
    assert finding.summary.startswith("rank 1 makes the 5th Allreduce at ")


def test_a_condition_that_must_come_out_the_same_is_not_blamed() -> None:
    finding = run_script(lambda side: trainer_programs.skips_before_the_first_of_a_period(side, True), 3)
    assert finding is not None
    assert finding.explanations == ()
    assert "`if" not in finding.advice


def test_a_call_of_a_shared_helper_is_told_with_its_caller_where_no_other_rank_made_it() -> None:
    finding = run_script(lambda side: trainer_programs.forgets_to_switch_to_evaluation(side, True), 3)
    assert finding is not None
    assert "(called from " in finding.summary
    assert "which no other rank has made" in finding.summary


def test_calls_left_out_in_a_later_round_are_counted_since_the_round_before() -> None:
    usual = [collective("Bcast", 11, root=0), collective("Barrier", 15)]
    finding = judge([usual * 4, usual * 4, [*usual * 3, usual[1]]])
    assert "between its 3rd and its 4th Barrier at train.py:15 it made 0 of them, ranks 0-1 make 1" in finding.summary
