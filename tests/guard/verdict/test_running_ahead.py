"""How far each rank has run ahead, where calls are only enqueued, must not change what a mismatch is explained by."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.guard.verdict import cause_programs, order_programs, ruled_out_programs
from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import Side, calls_of, source_of
from tests.guard.verdict.simulated import WORLD

from paceline.guard.shared_memory.layout import ENQUEUED
from paceline.guard.verdict.causes.call_counts import is_another_order
from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.diagnose import find_mismatch_at
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Membership, Position, RankState, Snapshot

PROGRAMS = [*cause_programs.PROGRAMS, *order_programs.PROGRAMS, *ruled_out_programs.PROGRAMS]


def run_ahead(programs: list[list[Call]], lengths: list[int], mismatch: int) -> Finding | None:
    """Return the finding about ranks that have enqueued so many of their calls, and go on."""
    ranks = [
        RankState(rank=rank, history=enqueued(calls[:length]), positions={WORLD: length})
        for rank, (calls, length) in enumerate(zip(programs, lengths, strict=True))
    ]
    known = {WORLD: Membership(name="WORLD", ranks=tuple(range(len(ranks))))}
    inspection = Inspection(Snapshot(ranks=ranks, communicators=known), source_of)
    return find_mismatch_at(inspection, Position(WORLD, mismatch + 1))


def enqueued(calls: list[Call]) -> tuple[Call, ...]:
    """Return calls as they are recorded where they return before they complete."""
    times_at: Counter[str] = Counter()
    recorded = []
    for number, call in enumerate(calls):
        times_at[call.site] += 1
        recorded.append(
            replace(call, number=number, sequence=number + 1, at_site=times_at[call.site], flags=ENQUEUED, left_ns=1)
        )
    return tuple(recorded)


def programs_of(case: CauseProgram) -> list[list[Call]]:
    return [calls_of(case.program(Side(rank=rank, size=case.size), True)) for rank in range(case.size)]


def first_mismatch(programs: list[list[Call]]) -> int | None:
    """Return the first call that does not fit between ranks; None if there is none while all make calls."""
    shortest = min(len(calls) for calls in programs)
    fits = (len({(calls[at].operation, calls[at].num_bytes, calls[at].root) for calls in programs}) == 1
            for at in range(shortest))  # fmt: skip
    return next((at for at, fit in enumerate(fits) if not fit), None)


def has_mismatch(case: CauseProgram) -> bool:
    """Say whether ranks make only collectives on WORLD, and differ in one before the first of them ends."""
    if case.split:
        return False
    programs = programs_of(case)
    on_world = all(call.communicator == WORLD and call.is_collective for calls in programs for call in calls)
    return on_world and first_mismatch(programs) is not None


@pytest.mark.parametrize("case", [*filter(has_mismatch, PROGRAMS)], ids=lambda case: case.program.__name__)
def test_the_cause_does_not_depend_on_how_far_ranks_have_run_ahead(case: CauseProgram) -> None:
    programs = programs_of(case)
    begin = first_mismatch(programs)
    assert begin is not None
    dice = random.Random(case.program.__name__)
    for _attempt in range(100):
        at_most = dice.choice((1, 3, 20))
        lengths = [dice.randint(begin + 1, min(len(calls), begin + at_most)) for calls in programs]
        finding = run_ahead(programs, lengths, begin)
        assert finding is not None, lengths
        assert (finding.cause, finding.ranks) == (case.cause, case.ranks), (begin, lengths, finding.summary)


@pytest.mark.parametrize(("past", "is_swapped"), [("", True), ("abab", False)])
def test_a_call_that_a_loop_comes_to_again_is_not_taken_for_another_order(past: str, is_swapped: bool) -> None:
    """Without source, only what was usual tells a call that was left out from two that were swapped."""
    site = {line: Call(operation=line, site=line) for line in "ab"}
    deviation = Deviation(
        usual=(0, 2), odd=(1,), usual_call=site["a"], odd_call=site["b"], calls={}, last_call=None,
        past=tuple(line_of(site[line]) for line in past),
        usual_rest=tuple(line_of(site[line]) for line in "aba"), odd_rest=tuple(line_of(site[line]) for line in "ba"),
    )  # fmt: skip
    assert is_another_order(deviation) is is_swapped
