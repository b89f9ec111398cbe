"""More manners of going wrong: retries, sweeps, curricula, rosters and rings; see cause_programs.py."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import OTHER_SPLIT, SPLIT, Calls, Side

from paceline.guard.verdict.finding import Cause

# loops that end by what a rank has seen


def walrus_reads_one_batch_less(side: Side, broken: bool) -> Calls:
    batches = iter(range(3 if broken and side.rank == 2 else 4))
    while (_batch := next(batches, None)) is not None:
        yield side.all_reduce()  # <- here walrus_reads_one_batch_less
    yield side.barrier()


def takes_while_the_loss_falls(side: Side, broken: bool) -> Calls:
    losses = [5, 4, 3, 2, 9] if broken and side.rank == 1 else [5, 4, 3, 2, 1]
    for _loss in itertools.takewhile(lambda loss: loss < 6, losses):
        yield side.all_reduce()  # <- here takes_while_the_loss_falls
    yield side.all_gather()


def zips_with_a_shorter_list(side: Side, broken: bool) -> Calls:
    labels = range(4 if broken and side.rank == 0 else 5)
    for _image, _label in zip(range(5), labels, strict=False):
        yield side.bcast()  # <- here zips_with_a_shorter_list
        yield side.all_reduce()
    yield side.barrier()


def else_of_a_loop(side: Side, broken: bool) -> Calls:
    for step in range(4):
        yield side.all_reduce()
        if broken and side.rank == 1 and step == 3:
            break
    else:
        yield side.barrier()  # <- here else_of_a_loop
    yield side.gather()


def curriculum_grows_earlier(side: Side, broken: bool) -> Calls:
    for epoch in range(4):
        length = 2 if epoch < (1 if broken and side.rank == 2 else 2) else 3
        for _ in range(length):
            yield side.all_reduce()  # <- here curriculum_grows_earlier
        yield side.barrier()


def cycles_through_tasks(side: Side, broken: bool) -> Calls:
    tasks = itertools.cycle([1, 2, 4] if not (broken and side.rank == 1) else [1, 4, 2])
    for _step, count in zip(range(6), tasks, strict=False):
        yield side.all_reduce(count)  # <- here cycles_through_tasks


# functions that return early


def clip(side: Side, norm: float) -> Calls:
    if norm < 1.0:
        return
    yield side.all_reduce(1)  # <- here clips_by_its_own_norm


def clips_by_its_own_norm(side: Side, broken: bool) -> Calls:
    for step in range(5):
        norm = 0.5 if broken and side.rank == 1 and step == 3 else 2.0
        yield from clip(side, norm)
        yield side.all_reduce()


def cached(side: Side, cache: dict[str, int], key: str) -> Calls:
    if key in cache:
        return
    cache[key] = 1
    yield side.bcast()  # <- here finds_it_in_the_cache


def finds_it_in_the_cache(side: Side, broken: bool) -> Calls:
    cache = {"vocab": 1} if broken and side.rank == 2 else {}
    yield from cached(side, cache, "vocab")
    for _ in range(3):
        yield side.all_reduce()
    yield side.barrier()


def guard_clause_for_an_empty_shard(side: Side, broken: bool) -> Calls:
    yield side.barrier()
    if broken and side.rank == 3:
        return
    for _ in range(3):
        yield side.all_reduce()  # <- here guard_clause_for_an_empty_shard
    yield side.gather()


# exceptions and context managers


@contextlib.contextmanager
def passes_over_errors() -> Iterator[None]:
    with contextlib.suppress(ArithmeticError):
        yield


def overflow_in_the_middle_of_a_step(side: Side, broken: bool) -> Calls:
    for step in range(5):
        with passes_over_errors():
            yield side.all_reduce()
            if broken and side.rank == 0 and step == 2:
                raise OverflowError("scale")
            yield side.all_gather()  # <- here overflow_in_the_middle_of_a_step


def restores_in_the_except(side: Side, broken: bool) -> Calls:
    for step in range(4):
        try:
            if broken and side.rank == 2 and step == 2:
                raise RuntimeError("nan")
            yield side.all_reduce()
        except RuntimeError:
            yield side.bcast()  # <- here restores_in_the_except
    yield side.barrier()


def retries_until_it_works(side: Side, broken: bool) -> Calls:
    for step in range(4):
        attempts = 2 if broken and side.rank == 1 and step == 1 else 1
        for _attempt in range(attempts):
            yield side.all_reduce()  # <- here retries_until_it_works
        yield side.barrier()


# who plays which part


def roster_by_name(side: Side, broken: bool) -> Calls:
    writer = 1 if broken and side.rank == 2 else 0
    for _ in range(3):
        yield side.all_reduce()
        yield side.gather(writer)  # <- here roster_by_name


def rotates_the_root_too_early(side: Side, broken: bool) -> Calls:
    for step in range(4):
        root = (step + 1 if broken and side.rank == 1 and step == 2 else step) % side.size
        yield side.bcast(root)  # <- here rotates_the_root_too_early


def saves_under_two_ifs(side: Side, broken: bool) -> Calls:
    for step in range(4):
        yield side.all_reduce()
        if step == 2:
            yield side.barrier()
            if side.rank == 0 or not broken:
                yield side.all_gather()  # <- here saves_under_two_ifs


def match_leads_elsewhere(side: Side, broken: bool) -> Calls:
    mode = "fast" if broken and side.rank == 2 else "exact"
    for _ in range(3):
        match mode:
            case "fast":
                yield side.all_gather()  # <- here match_leads_elsewhere
            case _:
                yield side.all_reduce()  # <- here match_leads_elsewhere


def short_circuit(side: Side, broken: bool) -> Calls:
    for step in range(4):
        is_bad = broken and side.rank == 1 and step == 2
        if not is_bad and (yield side.all_reduce(1)) is None:  # <- here short_circuit
            yield side.barrier()


# work in teams


def _team_of(side: Side) -> str:
    return SPLIT if side.rank in side.members else OTHER_SPLIT


def team_takes_one_step_more(side: Side, broken: bool) -> Calls:
    for _ in range(3 if broken and side.rank in side.members else 2):
        yield side.all_reduce(on=_team_of(side))
        yield side.barrier()  # <- here team_takes_one_step_more
    yield side.gather()  # <- here team_takes_one_step_more


def one_of_a_team_goes_ahead(side: Side, broken: bool) -> Calls:
    for step in range(3):
        if not (broken and side.rank == 3 and step == 1):
            yield side.all_gather(on=_team_of(side))  # <- here one_of_a_team_goes_ahead
        yield side.barrier()


def leaders_meet_without_one(side: Side, broken: bool) -> Calls:
    for step in range(3):
        yield side.bcast(on=_team_of(side))
        if broken and side.rank == 0 and step == 2:
            continue
        yield side.all_reduce()  # <- here leaders_meet_without_one


def team_reduces_twice_on_one_rank(side: Side, broken: bool) -> Calls:
    for step in range(3):
        for _ in range(2 if broken and side.rank == 2 and step == 1 else 1):
            yield side.all_reduce(on=_team_of(side))  # <- here team_reduces_twice_on_one_rank
        yield side.barrier()


# tensors of one line


def longer_sequence_on_one_rank(side: Side, broken: bool) -> Calls:
    for step in range(4):
        length = 9 if broken and side.rank == 1 and step == 2 else 8
        yield side.all_gather(length)  # <- here longer_sequence_on_one_rank
        yield side.all_reduce(1)


def model_with_one_layer_more(side: Side, broken: bool) -> Calls:
    layers = [4, 8, 16, 2] if broken and side.rank == 2 else [4, 8, 16]
    for _step in range(2):
        for layer in layers:
            yield side.all_reduce(layer)  # <- here model_with_one_layer_more
        yield side.barrier()


# messages


def ring_turns_the_other_way(side: Side, broken: bool) -> Calls:
    step = -1 if broken and side.rank == 2 else 1
    for _ in range(2):
        yield side.isend((side.rank + step) % side.size)  # <- here ring_turns_the_other_way
        yield side.recv((side.rank - 1) % side.size)  # <- here ring_turns_the_other_way
    yield side.barrier()


def tree_leaves_out_a_child(side: Side, broken: bool) -> Calls:
    children = [child for child in (2 * side.rank + 1, 2 * side.rank + 2) if child < side.size]
    if side.rank:
        yield side.recv((side.rank - 1) // 2)  # <- here tree_leaves_out_a_child
    for child in children[:1] if broken and side.rank == 1 else children:
        yield side.isend(child)  # <- here tree_leaves_out_a_child
    yield side.barrier()


def answers_with_another_tag(side: Side, broken: bool) -> Calls:
    for step in range(3):
        if side.rank == 0:
            for other in range(1, side.size):
                yield side.recv(other, tag=step)  # <- here answers_with_another_tag
        else:
            wrong = broken and side.rank == 2 and step == 1
            yield side.isend(0, tag=9 if wrong else step)  # <- here answers_with_another_tag
    yield side.barrier()


def pairs_by_a_wrong_bit(side: Side, broken: bool) -> Calls:
    for bit in (1, 2):
        partner = side.rank ^ (2 if broken and side.rank == 3 and bit == 1 else bit)
        yield side.isend(partner, tag=bit)  # <- here pairs_by_a_wrong_bit
        yield side.recv(partner, tag=bit)  # <- here pairs_by_a_wrong_bit
    yield side.barrier()


def master_collects_from_one_too_many(side: Side, broken: bool) -> Calls:
    if side.rank == 0:
        for other in (1, 2, 2) if broken else (1, 2):
            yield side.recv(other)  # <- here master_collects_from_one_too_many
    else:
        yield side.isend(0)
    yield side.barrier()


def last_stage_starts_the_next_batch(side: Side, broken: bool) -> Calls:
    for _ in range(3 if broken and side.rank == side.size - 1 else 2):
        if side.rank:
            yield side.recv(side.rank - 1)  # <- here last_stage_starts_the_next_batch
        if side.rank + 1 < side.size:
            yield side.isend(side.rank + 1)
    yield side.all_reduce()


PROGRAMS = [
    CauseProgram(walrus_reads_one_batch_less, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(takes_while_the_loss_falls, 3, (1,), Cause.UNEVEN_STEPS),
    CauseProgram(zips_with_a_shorter_list, 3, (0,), Cause.UNEVEN_STEPS),
    CauseProgram(else_of_a_loop, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(curriculum_grows_earlier, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(cycles_through_tasks, 3, (1,), Cause.SHAPE),
    CauseProgram(clips_by_its_own_norm, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(finds_it_in_the_cache, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(guard_clause_for_an_empty_shard, 4, (3,), Cause.EARLY_EXIT),
    CauseProgram(overflow_in_the_middle_of_a_step, 3, (0,), Cause.SKIPPED_CALL),
    CauseProgram(restores_in_the_except, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(retries_until_it_works, 3, (1,), Cause.EXTRA_CALL),
    CauseProgram(roster_by_name, 3, (2,), Cause.ROOT),
    CauseProgram(rotates_the_root_too_early, 4, (1,), Cause.ROOT),
    CauseProgram(saves_under_two_ifs, 3, (0,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(match_leads_elsewhere, 3, (2,), Cause.DIFFERENT_COLLECTIVES),
    CauseProgram(short_circuit, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(team_takes_one_step_more, 5, (3, 4), Cause.UNEVEN_STEPS, (3, 4)),
    CauseProgram(one_of_a_team_goes_ahead, 5, (3,), Cause.SKIPPED_CALL, (2, 3, 4)),
    CauseProgram(leaders_meet_without_one, 4, (0,), Cause.SKIPPED_CALL, (2, 3)),
    CauseProgram(team_reduces_twice_on_one_rank, 5, (2,), Cause.EXTRA_CALL, (2, 3, 4)),
    CauseProgram(longer_sequence_on_one_rank, 3, (1,), Cause.SHAPE),
    CauseProgram(model_with_one_layer_more, 3, (2,), Cause.EXTRA_CALL),
    CauseProgram(ring_turns_the_other_way, 4, (2,), Cause.SEND_WITHOUT_RECEIVE),
    CauseProgram(tree_leaves_out_a_child, 7, (1,), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(answers_with_another_tag, 3, (0, 2), Cause.WRONG_TAG),
    CauseProgram(pairs_by_a_wrong_bit, 4, (1, 3), Cause.SEND_WITHOUT_RECEIVE),
    CauseProgram(master_collects_from_one_too_many, 3, (0, 2), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(last_stage_starts_the_next_batch, 3, (1, 2), Cause.RECEIVE_WITHOUT_SEND),
]
