"""The balancer: no row is lost, work comes out even, and ranks fail together, on every carrier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.sample_batches import make_batch, real_rows
from tests.helpers.subgroups import run_sizes

from paceline import Batch, Jagged, run_ranks
from paceline.balance import linear, quadratic
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError
from paceline.launch import Outcome
from paceline.loader import Balancer, DisagreementError, Route

CARRIERS = ["threads", "torch", "mpi"]
Case = tuple[list[int], int, int]  # real rows of each rank, batch_size, seed


def values(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.traceback for outcome in outcomes if not outcome.ok] == []
    return [outcome.value for outcome in outcomes]


def cost_of_row(row: Any) -> int:
    """What a row costs, by its content: the same on whichever rank it is."""
    return sum(map(ord, str(row))) % 97 * (sum(map(ord, str(row))) % 89)


def cost(batch: Batch) -> list[int]:
    return [cost_of_row(row) for row in real_rows(batch)]


def balance(comm: Comm, cases: list[Case], route: str, order: str) -> list[Any]:
    """Start all batches, finish them in some order; return rows before and after, and statistics."""
    batches = [
        make_batch(100 * seed + comm.rank, num_real[comm.rank], batch_size) for num_real, batch_size, seed in cases
    ]
    found: dict[int, Any] = {}
    with Balancer(comm, cost, route=route) as balancer:
        under_way = [balancer.start(batch) for batch in batches]
        places = list(range(len(cases)))
        if order == "reversed on odd ranks" and comm.rank % 2:
            places.reverse()
        for place in places:
            comm_before = comm.all_reduce(np.array([1])) if order == "with calls between" else None
            after, before = under_way[place].finish(), batches[place]
            Batch(after.to_dict(), batch_size=after.batch_size, num_real=after.num_real)  # checks every invariant
            assert after.batch_size == before.batch_size
            assert after.schema() == before.schema()
            assert comm_before is None or comm_before[0] == comm.world_size
            found[place] = real_rows(before), real_rows(after), under_way[place].statistics, after is before
    return [found[place] for place in range(len(cases))]


def check(cases: list[Case], ranks: list[Any]) -> None:
    """Compare what all ranks had with what they have."""
    for place, _ in enumerate(cases):
        before, after, statistics, same = zip(*(rank[place] for rank in ranks), strict=True)
        flat = [row for rows in before for row in rows]
        assert sorted(map(str, flat)) == sorted(str(row) for rows in after for row in rows)
        loads = [sum(cost_of_row(row) for row in rows) for rows in after]
        usual = [sum(cost_of_row(row) for row in rows) for rows in before]
        assert max(loads) <= max(usual)
        if sum(loads):
            assert statistics[0].imbalance_after == pytest.approx(max(loads) / np.mean(loads))
            assert statistics[0].imbalance_before == pytest.approx(max(usual) / np.mean(usual))
        if len(flat) >= len(ranks):
            assert all(len(rows) > 0 for rows in after)
        moved = {each.num_moved for each in statistics}
        assert len(moved) == 1
        assert all(same) is (moved == {0})
        assert all((each.route is None) is (moved == {0}) for each in statistics)
        assert all(each.seconds_waited >= 0 and each.seconds_hidden >= 0 for each in statistics)


@st.composite
def all_cases(draw: st.DrawFn) -> tuple[int, list[Case]]:
    world_size, num = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    cases = []
    for _ in range(num):
        batch_size = draw(st.integers(1, 6))
        num_real = draw(st.lists(st.integers(0, batch_size), min_size=world_size, max_size=world_size))
        cases.append((num_real, batch_size, draw(st.integers(0, 50))))
    return world_size, cases


@settings(max_examples=60, deadline=None)
@given(job=all_cases(), route=st.sampled_from(["auto", "all_gather", "all_to_all"]))
def test_no_row_is_lost_and_work_is_not_less_even(job: tuple[int, list[Case]], route: str) -> None:
    world_size, cases = job
    check(cases, values(run_ranks(balance, world_size, args=(cases, route, "in order"), carrier="threads")))


CASES: list[Case] = [([6, 6, 6, 6], 6, 1), ([6, 0, 3, 1], 6, 2), ([1, 0, 0, 0], 4, 3), ([0, 0, 0, 0], 3, 4)]


def identity(comm: Comm) -> list[bool]:
    batch = Batch({"x": torch.arange(8) + 8 * comm.rank}, batch_size=8)
    with Balancer(comm, lambda batch: [5] * 8) as balancer:
        return [balancer.start(batch).finish() is batch]


def test_equal_costs_leave_everything_as_it_is() -> None:
    assert values(run_ranks(identity, 3, carrier="threads")) == [[True]] * 3


WRONG: dict[str, tuple[Any, str]] = {
    "negative": ([1, -2, 3, 4], "must not be negative: sample 1 has -2"),
    "nan": ([1.0, float("nan"), 3.0, 4.0], "must be finite and not negative: sample 1 has nan"),
    "length": ([1, 2, 3], "must be one for each of 4 rows, or its 4 real ones, got (3,)"),
    "text": (["a"] * 4, "must be numbers"),
    "raises": (None, "the cost function raised RuntimeError: no such column"),
}


def fails(comm: Comm) -> list[tuple[str, str, int]]:
    """The last rank's costs are wrong in every way in turn; each time the next batch is balanced all the same."""
    found = []
    kinds = iter(WRONG)

    def cost(batch: Batch) -> Any:
        if batch.names() != ["x"]:
            return [1, 2, 3, 4 + comm.rank]
        wrong, _ = WRONG[next(kinds)]
        if comm.rank != comm.world_size - 1:
            return [1, 2, 3, 4]
        if wrong is None:
            raise RuntimeError("no such column")
        return wrong

    with Balancer(comm, cost) as balancer:
        for _ in WRONG:
            first = balancer.start(Batch({"x": torch.arange(4)}, batch_size=4))
            second = balancer.start(Batch({"y": torch.arange(4)}, batch_size=4))
            try:
                first.finish()
            except Exception as error:
                found.append((type(error).__name__, str(error), second.finish().num_real))
    return found


def large(comm: Comm) -> tuple[int, float, str, int]:
    """More rows than the first message has room for, lists of different lengths."""
    random = np.random.default_rng(comm.rank)
    lengths = torch.from_numpy(random.lognormal(4, 1, 3000).astype(np.int64))
    tokens = Jagged(keys=["t"], values=torch.arange(int(lengths.sum())), lengths=lengths)
    batch = Batch({"tokens": tokens}, batch_size=3000)
    with Balancer(comm, lambda batch: linear(batch["tokens"].lengths)) as balancer:  # type: ignore[union-attr]
        under_way = balancer.start(batch)
        after = under_way.finish()
    total = int(after["tokens"].lengths.sum())  # type: ignore[union-attr]
    assert under_way.is_done
    statistics = under_way.statistics
    return total, statistics.imbalance_after, str(statistics.route), statistics.bytes_sent


def everything(comm: Comm, cases: list[Case]) -> dict[str, Any]:
    """All that is checked on real carriers, in one job: starting ranks takes longer than all of it."""
    gathered = balance(comm, cases, "all_gather", "in order")
    exchanged = balance(comm, cases, "all_to_all", "in order")
    return {
        "gathered": gathered,
        "orders": [balance(comm, cases, "auto", order) for order in ("reversed on odd ranks", "with calls between")],
        "same": [one[1] == other[1] for one, other in zip(gathered, exchanged, strict=True)],
        "failed": fails(comm),
        "large": large(comm),
    }


@pytest.mark.parametrize("carrier", CARRIERS)
def test_on_every_carrier(carrier: str) -> None:
    """No row is lost in any order; both routes give the same; one rank's bad costs are every rank's error."""
    cases = {
        world_size: [(num_real[:world_size], batch_size, seed) for num_real, batch_size, seed in CASES] * 2
        for world_size in {"threads": (1, 2, 3, 4), "torch": (3,), "mpi": (4,)}[carrier]
    }
    found = run_sizes(everything, {world_size: (cases[world_size],) for world_size in cases}, carrier, duplicates=True)
    for world_size, ranks in found.items():
        check_everything(world_size, cases[world_size], ranks)


def check_everything(world_size: int, cases: list[Case], ranks: list[Any]) -> None:
    check(cases, [rank["gathered"] for rank in ranks])
    for of_order in zip(*(rank["orders"] for rank in ranks), strict=True):
        check(cases, list(of_order))
    assert all(all(rank["same"]) for rank in ranks)

    assert all(rank["failed"] == ranks[0]["failed"] for rank in ranks)
    for (name, text, num_real), (_, message) in zip(ranks[0]["failed"], WRONG.values(), strict=True):
        assert name == DisagreementError.__name__
        assert f"rank {world_size - 1}" in text
        assert message in text
        assert num_real == 4

    loads = [rank["large"][0] for rank in ranks]
    assert max(loads) <= 1.0011 * np.mean(loads)
    if world_size > 1:
        assert {rank["large"][2] for rank in ranks} == {"all_to_all"}
        assert sum(rank["large"][3] for rank in ranks) > 0


def disagree(comm: Comm, what: str) -> str:
    size = 4 if what != "batch_size" or comm.rank else 5
    names = ["x"] if what != "fields" or comm.rank else ["y"]
    batch = Batch({name: torch.arange(size) for name in names}, batch_size=size)
    tolerance = 0.1 if what == "tolerance" and comm.rank == 0 else 0.2
    with Balancer(comm, lambda batch: [1] * batch.batch_size, tolerance=tolerance) as balancer:
        with pytest.raises(DisagreementError) as error:
            balancer.start(batch).finish()
        return str(error.value)


@pytest.mark.parametrize(
    ("what", "words"),
    [("batch_size", ["batch_size: 5 on", "4 on"]), ("fields", ["x", "y"]), ("tolerance", ["0.1", "0.2"])],
)
def test_ranks_that_disagree_are_told_who_has_what(what: str, words: list[str]) -> None:
    texts = values(run_ranks(disagree, 2, args=(what,), carrier="threads"))
    assert len(set(texts)) == 1
    assert all(word in texts[0] for word in [*words, "rank 0", "rank 1"])


def mixed(comm: Comm) -> list[float]:
    batch = Batch({"x": torch.tensor([1.5, 2.5, 3.0, 4.0]) * (comm.rank + 1)}, batch_size=4)
    cost = (lambda batch: batch["x"]) if comm.rank else (lambda batch: [1, 2, 3, 4])
    with Balancer(comm, cost) as balancer:
        return balancer.start(batch).finish()["x"].tolist()  # type: ignore[union-attr]


def test_whole_numbers_and_fractions_may_meet() -> None:
    found = values(run_ranks(mixed, 2, carrier="threads"))
    assert sorted(x for rank in found for x in rank) == [1.5, 2.5, 3.0, 3.0, 4.0, 5.0, 6.0, 8.0]


def raises(comm: Comm) -> None:
    """One rank fails while the others have started a batch that it never will."""
    batch = Batch({"x": torch.arange(3) + comm.rank}, batch_size=3)
    with Balancer(comm, lambda batch: batch["x"]) as balancer:
        under_way = [balancer.start(batch)]
        under_way[0].finish()
        if comm.rank == 1:
            raise ValueError("a bad sample")
        balancer.start(batch).finish()


@pytest.mark.parametrize("carrier", ["threads", "torch"])
def test_a_rank_that_fails_ends_and_so_do_the_others(carrier: str) -> None:
    first, second = run_ranks(raises, 2, carrier=carrier, deadline=60)
    assert "a bad sample" in str(second.traceback)
    assert not first.ok
    assert not first.timed_out


def fails_alone(comm: Comm) -> list[str]:
    """One rank cannot send the rows of one batch; what was started after it must not be mixed up with it."""
    batches = [Batch({"x": torch.tensor([1, 2, 3, 4]) + 10 * step + comm.rank}, batch_size=4) for step in range(3)]
    found = []
    with Balancer(comm, lambda batch: batch["x"]) as balancer:
        if comm.rank == 1:
            balancer._send = _no_memory  # type: ignore[method-assign, assignment]
        for under_way in [balancer.start(batch) for batch in batches]:
            try:
                found.append(str(under_way.finish()["x"].tolist()))  # type: ignore[union-attr]
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
    return found


def _no_memory(*args: Any) -> Any:
    raise MemoryError("no memory left")


def test_after_a_failure_of_its_own_a_rank_sends_nothing_more() -> None:
    outcomes = run_ranks(fails_alone, 2, carrier="threads", deadline=5)
    assert outcomes[1].value[0] == "MemoryError: no memory left"
    assert all("failed on this rank alone: no memory left" in text for text in outcomes[1].value[1:])
    # the other waits for the first batch until its time is up, and gets no row of a later one
    assert not any(text.startswith("[") for text in outcomes[0].value or [])


@pytest.mark.parametrize("method", ["auto", "differencing", "longest_first", "swap_in_place"])
def test_what_is_even_stays_whatever_the_method(method: str) -> None:
    def job(comm: Comm) -> bool:
        batch = Batch({"x": torch.arange(8) + 8 * comm.rank}, batch_size=8)
        with Balancer(comm, lambda batch: [5] * 8, method=method) as balancer:
            return balancer.start(batch).finish() is batch

    assert values(run_ranks(job, 2, carrier="threads")) == [True, True]


def test_closed_is_closed() -> None:
    batch = Batch({"x": torch.arange(3)}, batch_size=3)
    with Balancer(AloneComm(), lambda batch: batch["x"]) as balancer:
        balancer.start(batch).finish()
    with pytest.raises(InputError, match="closed"):
        balancer.start(batch)
    balancer.close()


def test_only_real_rows_count_as_sent() -> None:
    def job(comm: Comm) -> int:
        fields = {"x": torch.zeros(8, 100), "length": torch.zeros(8, dtype=torch.int64)}
        num_real = 8 if comm.rank == 0 else 1
        fields["length"][:num_real] = torch.arange(num_real) + 1
        batch = Batch(fields, batch_size=8, num_real=num_real)
        with Balancer(comm, lambda batch: batch["length"], route="all_gather") as balancer:
            under_way = balancer.start(batch)
            under_way.finish()
            return under_way.statistics.bytes_sent

    assert values(run_ranks(job, 2, carrier="threads")) == [8 * 408, 408]


def in_a_loop(comm: Comm) -> tuple[list[int], int, list[int]]:
    batches = [Batch({"x": torch.tensor([step, comm.rank, 9])}, batch_size=3) for step in range(7)]
    steps: list[int] = []
    with Balancer(comm, lambda b: b["x"], on_step=lambda each: steps.append(each.num_moved)) as balancer:
        sums = [int(batch.real("x").sum()) for batch in balancer.over(iter(batches), ahead=2)]  # type: ignore[union-attr]
        none = sum(1 for _ in balancer.over([]))
    return sums, none, steps


def test_a_loop_over_batches() -> None:
    found = values(run_ranks(in_a_loop, 2, carrier="threads"))
    for step in range(7):
        assert sum(sums[step] for sums, _, _ in found) == 2 * step + 19
    assert [none for _, none, _ in found] == [0, 0]
    assert all(len(steps) == 7 for _, _, steps in found)


def test_alone_and_wrong_use() -> None:
    batch = Batch({"x": torch.arange(3)}, batch_size=3)
    with Balancer(AloneComm(), lambda batch: quadratic(batch["x"], width=8)) as balancer:
        under_way = balancer.start(batch)
        with pytest.raises(InputError, match="call finish"):
            _ = under_way.statistics
        assert under_way.finish() is batch
        assert under_way.finish() is batch
        assert under_way.statistics.imbalance_after == 1.0
        with pytest.raises(InputError, match="ahead must be"):
            next(balancer.over([batch], ahead=-1))
    with pytest.raises(InputError, match="route must be one of 'auto', 'all_gather', 'all_to_all', got 'ring'"):
        Balancer(AloneComm(), lambda batch: [1], route="ring")
    with pytest.raises(InputError, match="tolerance must be"):
        Balancer(AloneComm(), lambda batch: [1], tolerance=-1)
    assert Route("auto") is Route.AUTO


class OneThread(AloneComm):
    """A carrier that takes calls from one thread only."""

    is_thread_safe = False

    def duplicate(self) -> OneThread:
        return OneThread()


def test_a_carrier_for_one_thread_is_used_from_one_thread() -> None:
    batch = Batch({"x": torch.arange(3)}, batch_size=3)
    with Balancer(OneThread(), lambda batch: batch["x"]) as balancer:
        under_way = balancer.start(batch)
        assert under_way.is_done
        assert under_way.finish() is batch
        assert under_way.statistics.seconds_hidden == 0.0
        assert under_way.statistics.seconds_waited > 0.0
    with (
        Balancer(OneThread(), lambda batch: [-1, 0, 0]) as balancer,
        pytest.raises(DisagreementError, match="negative"),
    ):
        balancer.start(batch).finish()
