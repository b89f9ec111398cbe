"""Batches between ranks: the same rows on every carrier, and disagreements that all ranks are told alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.sample_batches import make_batch, real_rows
from tests.helpers.subgroups import run_sizes

from paceline import Batch, Jagged, run_ranks
from paceline.batch.device_rows import DeviceRows
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.launch import Outcome
from paceline.loader import DisagreementError, exchange, gather_batches
from paceline.loader.agreement.first_message import exchange_message_bytes, gather_message_bytes
from paceline.loader.row_exchange import batch_collectives

CARRIERS = ["threads", "torch", "mpi"]


def values(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.traceback for outcome in outcomes if not outcome.ok] == []
    return [outcome.value for outcome in outcomes]


def batch_of(rank: int, num_real: list[int], batch_size: int, seed: int) -> Batch:
    return make_batch(100 * seed + rank, num_real[rank], batch_size)


def groups_of(world_size: int, num_real: list[int], batch_size: int, seed: int, name_padding: bool) -> list[Any]:
    """Deal all rows to groups of uneven sizes, none larger than a batch."""
    random = np.random.default_rng(seed)
    rows = [rank * batch_size + row for rank in range(world_size) for row in range(batch_size)]
    rows = [row for row in rows if name_padding or row % batch_size < num_real[row // batch_size]]
    random.shuffle(rows)
    groups: list[list[int]] = [[] for _ in range(world_size)]
    for row in rows:
        room = [group for group in groups if len(group) < batch_size]
        room[random.integers(len(room))].append(row)
    return groups


def hand_around(comm: Comm, cases: list[tuple[list[int], int, int, bool]]) -> list[Any]:
    """Gather and exchange each case; return all rows in their order, as texts."""
    found = []
    for num_real, batch_size, seed, name_padding in cases:
        mine = batch_of(comm.rank, num_real, batch_size, seed)
        groups = groups_of(comm.world_size, num_real, batch_size, seed, name_padding)
        gathered, dealt = gather_batches(comm, mine), exchange(comm, mine, groups)
        for batch in (gathered, dealt):  # building it anew checks every invariant
            Batch(batch.to_dict(), batch_size=batch.batch_size, num_real=batch.num_real)
            assert batch.schema() == mine.schema()
            assert batch.names() == mine.names()
        found.append((gathered.batch_size, real_rows(gathered), dealt.batch_size, real_rows(dealt)))
    return found


def expected(world_size: int, cases: list[tuple[list[int], int, int, bool]]) -> list[Any]:
    result = []
    for rank in range(world_size):
        of_rank = []
        for num_real, batch_size, seed, name_padding in cases:
            rows = [real_rows(batch_of(r, num_real, batch_size, seed)) for r in range(world_size)]
            group = groups_of(world_size, num_real, batch_size, seed, name_padding)[rank]
            named = [divmod(row, batch_size) for row in group]
            mine = [rows[r][row] for r, row in named if row < num_real[r]]
            of_rank.append((world_size * batch_size, [row for part in rows for row in part], batch_size, mine))
        result.append(of_rank)
    return result


@st.composite
def all_cases(draw: st.DrawFn) -> tuple[int, list[tuple[list[int], int, int, bool]]]:
    world_size = draw(st.integers(1, 4))
    batch_size = draw(st.integers(1, 5))
    counts = st.lists(st.integers(0, batch_size), min_size=world_size, max_size=world_size)
    cases = st.tuples(counts, st.just(batch_size), st.integers(0, 50), st.booleans())
    return world_size, draw(st.lists(cases, min_size=1, max_size=3))


@given(all_cases())
@settings(max_examples=60)
def test_every_row_arrives_once_and_in_order(drawn: tuple[int, list[tuple[list[int], int, int, bool]]]) -> None:
    world_size, cases = drawn
    assert values(run_ranks(hand_around, world_size, (cases,), carrier="threads")) == expected(world_size, cases)


def many_cases(world_size: int) -> list[tuple[list[int], int, int, bool]]:
    random = np.random.default_rng(world_size)
    cases = []
    for seed in range(25):
        batch_size = int(random.integers(1, 6))
        cases.append((random.integers(0, batch_size + 1, world_size).tolist(), batch_size, seed, bool(seed % 2)))
    return [*cases, ([0] * world_size, 3, 1, True), ([40] * world_size, 40, 2, True)]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_every_carrier_gives_the_same_rows(carrier: str) -> None:
    cases = {world_size: many_cases(world_size) for world_size in (1, 2, 3, 4)}
    found = run_sizes(hand_around, {world_size: (cases[world_size],) for world_size in cases}, carrier)
    for world_size, ranks in found.items():
        assert ranks == expected(world_size, cases[world_size])


def large_batches(comm: Comm) -> tuple[list[str], list[str]]:
    """Parcels that fill the first message to the byte, and around it, and far beyond."""
    wrong = []
    for call, limit in (("gather", gather_message_bytes), ("exchange", exchange_message_bytes)):
        edge = limit(comm.world_size)
        for size in (edge - 200, edge - 64, edge - 56, edge - 48, edge - 40, edge, edge + 8, 5 * edge):
            mine = Batch({"x": torch.full((2, size // 2), comm.rank, dtype=torch.uint8)}, batch_size=2)
            if call == "gather":
                result = gather_batches(comm, mine)["x"]
                right = [rank for rank in range(comm.world_size) for _ in range(2)]
            else:
                groups = [[2 * ((rank + 1) % comm.world_size), 2 * rank + 1] for rank in range(comm.world_size)]
                result = exchange(comm, mine, groups)["x"]
                right = [(comm.rank + 1) % comm.world_size, comm.rank]
            assert isinstance(result, torch.Tensor)
            if not (result == torch.tensor(right)[:, None]).all():
                wrong.append(f"{call} {size}")
    return wrong, []


@pytest.mark.parametrize("carrier", CARRIERS)
def test_parcels_of_any_size_arrive_whole(carrier: str) -> None:
    assert [wrong for wrong, _ in values(run_ranks(large_batches, 3, carrier=carrier))] == [[], [], []]


class CountingComm(AloneComm):
    """Counts collectives."""

    def __init__(self) -> None:
        self.calls = 0

    def all_gather(self, array: Any) -> Any:
        self.calls += 1
        return super().all_gather(array)

    def all_to_all(self, array: Any, send_counts: Any, receive_counts: Any) -> Any:
        self.calls += 1
        return super().all_to_all(array, send_counts, receive_counts)


@pytest.mark.parametrize("num_fields", [1, 2, 20])
def test_the_number_of_collectives_does_not_depend_on_the_number_of_fields(num_fields: int) -> None:
    fields: dict[str, Any] = {f"d{i}": torch.zeros(4, 3) for i in range(num_fields)}
    fields |= {
        f"j{i}": Jagged(keys=["k"], values=torch.zeros(4), lengths=torch.ones(4, dtype=torch.int64))
        for i in range(num_fields)
    }
    comm = CountingComm()
    gather_batches(comm, Batch(fields, batch_size=4))
    assert comm.calls == 1
    exchange(comm, Batch(fields, batch_size=4), [[0, 1, 2, 3]])
    assert comm.calls == 2


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.complex128]
)
def test_no_dtype_is_changed(dtype: torch.dtype) -> None:
    dense = torch.tensor([[1, 0, 3]] * 4).to(dtype)
    jagged = Jagged(keys=["k"], values=dense.reshape(-1), lengths=torch.tensor([12, 0, 0, 0], dtype=torch.int32))
    batch = Batch({"d": dense, "j": jagged, "none": torch.zeros(4, 0, 2)}, batch_size=4)
    for result in (gather_batches(AloneComm(), batch), exchange(AloneComm(), batch, [[3, 2, 1, 0]])):
        back = result["j"]
        assert isinstance(back, Jagged)
        assert back.values.dtype is dtype
        assert back.lengths.dtype is torch.int32
        assert torch.equal(result["d"], dense)  # type: ignore[arg-type]
        assert result["none"].shape == (4, 0, 2)  # type: ignore[union-attr]


# Disagreements: each rank has its own idea, and all are told the same.


def disagree(comm: Comm, case: str) -> str:
    odd = comm.rank == 1
    groups: list[Any] = [[rank * 4 + row for row in range(4)] for rank in range(comm.world_size)]
    batch = make_batch(comm.rank, 3, 4)
    if case == "padded twice" and odd:
        # the classic bug: 128 // 11 = 11 elements per sample of a field that was padded already
        batch = Batch({"label": torch.zeros(1408)}, batch_size=1408, num_real=11)
    elif case == "padded twice":
        batch = Batch({"label": torch.zeros(128)}, batch_size=128, num_real=128)
    elif case == "dtype" and odd:
        batch = Batch(batch.to_dict() | {"label": torch.zeros(4)}, batch_size=4, num_real=3)
    elif case == "field" and odd:
        batch = Batch({"label": batch["label"]}, batch_size=4, num_real=3)
    elif case == "pad" and odd:
        label = torch.tensor([1, 2, 3, 9])
        batch = Batch(batch.to_dict() | {"label": label}, batch_size=4, num_real=3, pad_values={"label": 9})
    elif case == "groups" and odd:
        groups = groups[::-1]
    elif case == "twice" and odd:
        groups = [[0, 0], [1], [2]]
    elif case == "range" and odd:
        groups = [[0], [1], [99]]
    elif case == "count" and odd:
        groups = [[0], [1]]
    elif case == "kind" and odd:
        groups = [["a"], [1], [2]]
    elif case == "gradient" and odd:
        groups = [torch.zeros(1, requires_grad=True), [1], [2]]
    elif case == "large" and odd:
        groups = [[2**63], [1], [2]]
    elif case.startswith("changed") and odd:  # since the batch was built
        batch["history"].lengths[0] += 100  # type: ignore[union-attr]
    elif case == "lost":
        groups[2].remove(9)
    elif case == "too many":
        groups = [[*groups[0], 4], groups[1][1:], groups[2]]
        batch = make_batch(comm.rank, 4, 4)
    try:
        if case in ("padded twice", "dtype", "field", "pad", "changed, gathered"):
            gather_batches(comm, batch)
        else:
            exchange(comm, batch, groups)
    except (DisagreementError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@pytest.mark.parametrize("carrier", CARRIERS)
def test_all_ranks_are_told_the_same(carrier: str) -> None:
    said = values(run_ranks(all_disagreements, 3, carrier=carrier))
    assert said[0] == said[1] == said[2]
    for case, words in DISAGREEMENTS.items():
        assert words in said[0][case], case


DISAGREEMENTS = {
    "padded twice": "ranks disagree on batch_size: 128 on ranks 0, 2; 1408 on rank 1",
    "dtype": "ranks disagree on field 'label': dense int64 [] on ranks 0, 2; dense float32 [] on rank 1",
    "field": "; nothing on rank 1",
    "pad": "ranks disagree on padding values: {} on ranks 0, 2; {'label': '9.0'} on rank 1",
    "groups": "4 rows from [8, 9, 10], 4 rows from [4, 5, 6], 4 rows from [0, 1, 2] (",
    "twice": "rank 1 cannot continue: groups are not a partition: row 0 is named 2 times",
    "range": "rank 1 cannot continue: groups must hold rows from 0 to 11, got 99",
    "count": "rank 1 cannot continue: groups must be one for each of 3 ranks, got 2",
    "kind": "rank 1 cannot continue: groups must be lists of rows",
    "gradient": "rank 1 cannot continue: groups must be lists of rows: Can't call numpy() on Tensor that requires grad",
    "large": "rank 1 cannot continue: groups must be lists of rows: no rank has a row 9223372036854775808",
    "lost": "1 real rows are in none of them, first row 1 of rank 2",
    "too many": "group 0 has 5 real rows, more than batch_size 4",
    "changed, gathered": "rank 1 cannot continue: its rows cannot be packed: ValueError",
    "changed, exchanged": "rank 1 cannot continue: its rows cannot be packed: ValueError",
}


def all_disagreements(comm: Comm) -> dict[str, str]:
    """One after the other on the same ranks: after each, they are in step again."""
    return {case: disagree(comm, case) for case in DISAGREEMENTS}


def overlap(comm: Comm) -> bool:
    """An exchange on a duplicate, while the other communicator is used in between."""
    other = comm.duplicate()
    batch = make_batch(comm.rank, 2, 3)
    first = gather_batches(other, batch)
    total = comm.all_reduce(np.array([comm.rank]))
    second = gather_batches(other, batch)
    return real_rows(first) == real_rows(second) and total[0] == sum(range(comm.world_size))


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_duplicate_serves_as_well(carrier: str) -> None:
    assert values(run_ranks(overlap, 2, carrier=carrier)) == [True, True]


def test_groups_may_be_arrays_and_tensors() -> None:
    batch = make_batch(1, 3, 4)
    kinds: list[Any] = [[np.array([2, 0, 1])], [torch.tensor([2, 0, 1])], np.array([[2, 0, 1]])]
    for groups in kinds:
        dealt = exchange(AloneComm(), batch, groups)
        assert Counter(real_rows(dealt)) == Counter(real_rows(batch))
        assert real_rows(dealt)[0] == real_rows(batch)[2]


def test_memory_that_is_not_on_the_cpu_is_handled_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The road for GPUs, taken on the CPU: the same rows, also where tensors begin at odd addresses."""
    monkeypatch.setattr(batch_collectives, "rows_of", DeviceRows)
    for world_size in (1, 2, 3):
        cases = many_cases(world_size)
        assert values(run_ranks(hand_around, world_size, (cases,), carrier="threads")) == expected(world_size, cases)
    odd = {
        "a": torch.ones(1, 1, dtype=torch.int8),
        "b": torch.full((1, 1), 2.0),
        "j": Jagged(keys=["k"], values=torch.tensor([5], dtype=torch.int8), lengths=torch.tensor([1])),
        "l": Jagged(keys=["k"], values=torch.tensor([7.0]), lengths=torch.tensor([1])),
    }
    batch = Batch(odd, batch_size=1)
    for result in (gather_batches(AloneComm(), batch), exchange(AloneComm(), batch, [[0]])):
        assert real_rows(result) == real_rows(batch)


def test_unusual_tensors_travel() -> None:
    grown = torch.arange(8.0, requires_grad=True)
    fields = {
        "conj": torch.tensor([1 + 2j, 3 - 1j, 0, 1]).conj(),
        "small": torch.ones(4).to(torch.float8_e5m2),
        "sliced": torch.arange(16).reshape(4, 4)[:, ::2],
        "grown": grown.reshape(4, 2),
        "wide": Jagged(keys=["k"], values=torch.zeros(5, 0), lengths=torch.tensor([2, 3, 0, 0])),
    }
    batch = Batch(fields, batch_size=4)
    result = exchange(AloneComm(), batch, [[1, 0, 3, 2]])
    assert result["conj"].tolist() == [3 + 1j, 1 - 2j, 1, 0]  # type: ignore[union-attr]
    assert result["small"].dtype is torch.float8_e5m2  # type: ignore[union-attr]
    assert result["sliced"].tolist() == [[4, 6], [0, 2], [12, 14], [8, 10]]  # type: ignore[union-attr]
    assert not result["grown"].requires_grad  # type: ignore[union-attr]
    wide = result["wide"]
    assert isinstance(wide, Jagged)
    assert (tuple(wide.values.shape), wide.lengths.tolist()) == ((5, 0), [3, 2, 0, 0])


def test_memory_may_lie_anywhere_and_values_may_be_large() -> None:
    unaligned = torch.frombuffer(bytearray(3) + np.array([1, 2]).tobytes(), dtype=torch.int64, offset=3)
    images = torch.arange(3 * 512 * 1025, dtype=torch.float32).reshape(3, 512, 1025)  # 2 MiB each
    batch = Batch({"images": Jagged(keys=["k"], values=images, lengths=unaligned)}, batch_size=2)
    groups = [np.frombuffer(bytes(5) + np.array([1, 0]).tobytes(), np.int64, offset=5)]
    for result in (gather_batches(AloneComm(), batch), exchange(AloneComm(), batch, groups)):
        assert sorted(real_rows(result)) == sorted(real_rows(batch))
    assert result["images"].lengths.tolist() == [2, 1]  # type: ignore[union-attr]


def test_pad_values_may_be_numbers_of_numpy_and_torch() -> None:
    values: list[Any] = [np.float32(-1), np.float16(-1), torch.tensor(-1)]
    for value in values:
        batch = Batch({"x": torch.tensor([1.0, 2.0])}, batch_size=2, pad_values={"x": value})
        assert exchange(AloneComm(), batch.pad_to(3), [[1, 0]])["x"].tolist() == [2.0, 1.0, -1.0]  # type: ignore[union-attr]


def test_results_share_no_memory_with_what_was_given() -> None:
    batch = make_batch(1, 3, 3)
    before = real_rows(batch)
    for result in (gather_batches(AloneComm(), batch), exchange(AloneComm(), batch, [[0, 1, 2]])):
        result["label"].zero_()  # type: ignore[union-attr]
        result["history"].values.zero_()  # type: ignore[union-attr]
        assert real_rows(batch) == before
