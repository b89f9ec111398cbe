"""Steps are left alone where balancing does not pay: on all ranks alike, and a problem in one still stops them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.outcomes import values
from tests.helpers.sample_datasets import Histories, words_of

from paceline import Batch, Loader, run_ranks
from paceline.comm import Comm
from paceline.loader import LoadError
from paceline.loader.row_exchange.look_price import LookPrice

NUM_STEPS, BATCH_SIZE = 40, 2
CARRIERS = ["threads", "torch", "mpi"]


def test_steps_are_left_alone_for_longer_and_longer_until_a_move_pays() -> None:
    price = LookPrice()
    left = [price.steps_to_leave(0, [100, 90]) for _ in range(16)]
    assert left == [0] * 7 + [8, 16, 32, 64, 128, *[256] * 4]
    assert price.steps_to_leave(10_000, [100, 90]) == 0
    assert [price.steps_to_leave(0, [100, 90]) for _ in range(8)] == [0] * 7 + [8]


def test_a_few_moves_that_save_much_are_worth_all_the_looks() -> None:
    price = LookPrice()
    assert {price.steps_to_leave(1000 if number % 7 == 0 else 0, [100]) for number in range(100)} == {0}


def test_what_a_look_takes_is_the_middle_of_the_last() -> None:
    price = LookPrice()
    assert price.nanoseconds == 0
    for seconds in (5e-6, 1e-6, 3e-6):
        price.note(seconds)
    assert price.nanoseconds == 3000


def settings_of(comm: Comm) -> dict[str, Any]:
    return {"batch_size": BATCH_SIZE, "shuffle": False, "jagged": ["words"], "comm": comm}


def passed(comm: Comm, seconds_per_cost: float) -> tuple[list[int], list[int], list[int]]:
    """Go through a pass; return which steps were looked at, and the samples of this rank and of all."""
    looked: list[int] = []
    samples_per_step = BATCH_SIZE * comm.world_size

    def cost(batch: Batch) -> Any:
        looked.append(int(batch["id"][0]) // samples_per_step)  # type: ignore[index, arg-type]
        return words_of(batch)

    own: list[int] = []
    dataset = Histories(NUM_STEPS * samples_per_step)
    with Loader(dataset, cost=cost, seconds_per_cost=seconds_per_cost, **settings_of(comm)) as loader:
        for batch in loader:
            assert batch.num_real == BATCH_SIZE
            own += batch.real("id").tolist()  # type: ignore[union-attr]
    return looked, own, comm.all_gather(np.array(own)).reshape(-1).tolist()


@pytest.mark.parametrize("carrier", CARRIERS)
def test_steps_that_do_not_pay_are_left_alone_on_all_ranks_alike(carrier: str) -> None:
    results = values(run_ranks(passed, 3, args=(0.0,), carrier=carrier))
    for rank, (looked, own, everybody) in enumerate(results):
        # when a look shows that it does not pay, that of the next step has begun; the last one is always looked at
        assert looked == [*range(9), 26, 27, 39]
        assert own == [sample for sample in range(NUM_STEPS * 6) if sample % 3 == rank]  # nothing has moved
        assert sorted(everybody) == list(range(NUM_STEPS * 6))


def test_every_step_is_looked_at_where_that_pays() -> None:
    for rank, (looked, own, everybody) in enumerate(values(run_ranks(passed, 3, args=(1e6,), carrier="threads"))):
        assert looked == list(range(NUM_STEPS))
        assert own != [sample for sample in range(NUM_STEPS * 6) if sample % 3 == rank]
        assert sorted(everybody) == list(range(NUM_STEPS * 6))


def failed(comm: Comm, step: int, has_collective: bool) -> tuple[int, str]:
    """Go through a pass in which rank 1 cannot load a sample of a step; return the steps it made, and the error."""
    dataset = Histories(NUM_STEPS * BATCH_SIZE * comm.world_size, bad=(step * BATCH_SIZE * comm.world_size + 1,))
    num_steps = 0
    loader = Loader(dataset, cost=words_of, seconds_per_cost=0.0, **settings_of(comm))
    try:
        with loader:
            for _ in loader:
                num_steps += 1
                if has_collective:
                    comm.all_reduce(np.ones(1))  # what training does in every step
    except LoadError as error:
        return num_steps, f"{error}"
    return num_steps, "nothing"


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("step", [12, 27])  # left alone, and looked at
def test_a_problem_stops_all_ranks_at_the_same_step(carrier: str, step: int) -> None:
    results = values(run_ranks(failed, 3, args=(step, True), carrier=carrier))
    assert [num_steps for num_steps, _ in results] == [step] * 3
    for _, said in results:
        assert f"rank 1 could not load sample {step * 6 + 1} at step {step} of epoch 0" in said


@pytest.mark.parametrize("step", [12, 25, 27])
def test_no_rank_waits_for_one_that_has_left_though_steps_have_no_collective(step: int) -> None:
    for _, said in values(run_ranks(failed, 3, args=(step, False), carrier="threads")):
        assert f"file {step * 6 + 1}.npz is corrupt" in said
