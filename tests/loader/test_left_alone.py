"""Steps are left alone where balancing does not pay: on all ranks alike, and a problem in one still stops them all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.helpers.outcomes import values
from tests.helpers.sample_datasets import Histories, words_of

from paceline import Batch, Loader, run_ranks
from paceline.comm import Comm
from paceline.loader import DisagreementError, LoadError
from paceline.loader.agreement.alarm_boards import MemoryAlarmBoard
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


def failed(comm: Comm, step: int, with_collective: Sequence[int], is_thread_safe: bool) -> tuple[int, str, list[int]]:
    """Go through a pass in which rank 1 cannot load a sample of a step, and through another without a problem.

    Return the steps that this rank made of the first, its error, and the samples of the second.
    """
    if not is_thread_safe:  # then nothing runs beside the loop
        type(comm).is_thread_safe = property(lambda _: False)  # type: ignore[assignment, method-assign]
    bad = step * BATCH_SIZE * comm.world_size + 1
    dataset = SlowlyFailing(NUM_STEPS * BATCH_SIZE * comm.world_size, bad=(bad,))
    num_steps, said = 0, "nothing"
    own: list[int] = []
    with Loader(dataset, cost=words_of, seconds_per_cost=0.0, **settings_of(comm)) as loader:
        try:
            for _ in loader:
                if num_steps in with_collective:
                    comm.all_reduce(np.ones(1))
                num_steps += 1
        except LoadError as error:
            said = f"{error}"
        dataset.mend()
        loader.set_epoch(1)
        for batch in loader:
            own += batch.real("id").tolist()  # type: ignore[union-attr]
    return num_steps, said, own


class SlowlyFailing(Histories):
    """Other ranks are far ahead when a sample cannot be loaded."""

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if sample in self._bad:
            time.sleep(0.5)
        return super().__getitem__(sample)

    def mend(self) -> None:
        """Make all samples readable."""
        self._bad.clear()


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("step", [12, 27])  # left alone, and looked at
def test_a_problem_stops_all_ranks_at_the_same_step(carrier: str, step: int) -> None:
    results = values(run_ranks(failed, 3, args=(step, range(NUM_STEPS), True), carrier=carrier))
    assert [num_steps for num_steps, _, _ in results] == [step] * 3
    for _, said, _ in results:
        assert f"rank 1 could not load sample {step * 6 + 1} at step {step} of epoch 0" in said


@pytest.mark.parametrize(
    ("carrier", "is_thread_safe"), [("threads", True), ("torch", True), ("mpi", True), ("torch", False), ("mpi", False)]
)
@pytest.mark.parametrize("step", [12, 25])  # a rank runs ahead as far as the next step that is looked at: 26
def test_ranks_that_run_ahead_of_a_problem_can_go_on_afterwards(carrier: str, step: int, is_thread_safe: bool) -> None:
    results = values(run_ranks(failed, 3, args=(step, (), is_thread_safe), carrier=carrier, deadline=100))
    for _, said, _ in results:
        assert f"file {step * 6 + 1}.npz is corrupt" in said
    assert sorted(sample for _, _, own in results for sample in own) == list(range(NUM_STEPS * 6))


@pytest.mark.parametrize("seconds", [0.01, 0.1])
def test_ranks_may_hear_of_a_problem_late(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """On several hosts nothing orders the alarm before the answer to a look that fails because of the same problem."""
    post, read = MemoryAlarmBoard.post, MemoryAlarmBoard.read
    posted: dict[bytes, tuple[MemoryAlarmBoard, float]] = {}

    def note(board: MemoryAlarmBoard, message: bytes) -> None:
        posted[message] = board, time.monotonic()
        post(board, message)

    def read_late(board: MemoryAlarmBoard) -> list[bytes]:
        now = time.monotonic()
        return [each for each in read(board) if posted[each][0] is board or now - posted[each][1] > seconds]

    monkeypatch.setattr(MemoryAlarmBoard, "post", note)
    monkeypatch.setattr(MemoryAlarmBoard, "read", read_late)
    results = values(run_ranks(failed, 3, args=(12, (), True), carrier="threads", deadline=100))
    for _, said, _ in results:
        assert f"file {12 * 6 + 1}.npz is corrupt" in said
    assert sorted(sample for _, _, own in results for sample in own) == list(range(NUM_STEPS * 6))


def test_a_rank_that_has_waited_for_a_look_makes_no_step_after_the_problem() -> None:
    """It looks at step 26 before it makes step 25, whose collective the rank with the problem will never call."""
    results = values(run_ranks(failed, 3, args=(12, (25,), False), carrier="mpi", deadline=100))
    assert [num_steps for num_steps, _, _ in results] == [25, 12, 25]


def test_every_step_is_looked_at_where_ranks_are_to_be_compared_at_each() -> None:
    def compared(comm: Comm) -> str:
        changes_at = 12 * BATCH_SIZE * comm.world_size + 1  # on rank 1
        dataset = Histories(NUM_STEPS * BATCH_SIZE * comm.world_size, dtype_changes_at=changes_at)
        num_steps = 0
        with Loader(dataset, cost=words_of, seconds_per_cost=0.0, check="every", **settings_of(comm)) as loader:
            try:
                for _ in loader:
                    num_steps += 1
            except DisagreementError as error:
                return f"step {num_steps}: {error}"
        return "nothing"

    for said in values(run_ranks(compared, 3, carrier="threads")):
        assert said.startswith("step 12: ranks disagree on field 'vector'")


def test_a_look_that_pays_takes_back_what_the_one_before_has_said(monkeypatch: pytest.MonkeyPatch) -> None:
    num_looks: Counter[int] = Counter()

    def decide(price: LookPrice, gained: int, nanoseconds: Sequence[int]) -> int:
        num_looks[id(price)] += 1
        return 8 if num_looks[id(price)] == 8 else 0

    monkeypatch.setattr(LookPrice, "steps_to_leave", decide)
    for looked, _, _ in values(run_ranks(passed, 3, args=(0.0,), carrier="threads")):
        # when the ninth look is known to pay, that of the tenth step has been left out already
        assert looked == [*range(9), *range(10, NUM_STEPS)]


def test_the_summary_counts_the_steps_that_were_looked_at() -> None:
    def summarised(comm: Comm) -> str:
        dataset = Histories(NUM_STEPS * BATCH_SIZE * comm.world_size)
        with Loader(dataset, cost=words_of, seconds_per_cost=0.0, **settings_of(comm)) as loader:
            list(loader)
            return f"{loader.summary}"

    for said in values(run_ranks(summarised, 3, carrier="threads")):
        assert " in the 12 steps that were looked at" in said
