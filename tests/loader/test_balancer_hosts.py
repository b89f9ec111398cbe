"""The balancer on several hosts: few bytes between them, within the limit, and no row lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.sample_batches import make_batch, real_rows

from paceline import Batch, Jagged, run_ranks
from paceline.batch.parcel import bytes_per_row, rows_of
from paceline.comm import Comm
from paceline.comm.alone_comm import AloneComm
from paceline.errors import InputError
from paceline.launch import Outcome
from paceline.loader import Balancer, DisagreementError
from paceline.process.host_identity import host_identity


def values(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.traceback for outcome in outcomes if not outcome.ok] == []
    return [outcome.value for outcome in outcomes]


def cost(batch: Batch) -> list[int]:
    return [sum(map(ord, row)) % 97 * (sum(map(ord, row)) % 89) for row in real_rows(batch)]


def balance(comm: Comm, hosts: list[str], num_real: list[int], seed: int, limit: int | None) -> Any:
    """Return this rank's rows before and after, each with its bytes, and the statistics."""
    batch = make_batch(100 * seed + comm.rank, num_real[comm.rank], 6)
    with Balancer(comm, cost, host=hosts[comm.rank], host_bytes_limit=limit, route="all_to_all") as balancer:
        under_way = balancer.start(batch)
        after = under_way.finish()
    return [
        dict(zip(real_rows(b), bytes_per_row(b).tolist(), strict=False)) for b in (batch, after)
    ], under_way.statistics


@settings(max_examples=60, deadline=None)
@given(
    hosts=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5),
    rows=st.lists(st.integers(0, 6), min_size=5, max_size=5),
    seed=st.integers(0, 50),
    limit=st.none() | st.integers(0, 600),
)
def test_rows_cross_within_the_limit_and_none_is_lost(
    hosts: list[str], rows: list[int], seed: int, limit: int | None
) -> None:
    found = values(run_ranks(balance, len(hosts), args=(hosts, rows, seed, limit), carrier="threads"))
    home = {row: hosts[rank] for rank, ((before, _), _) in enumerate(found) for row in before}
    assert sorted(home) == sorted(row for (_, after), _ in found for row in after)
    sent, received = dict.fromkeys(hosts, 0), dict.fromkeys(hosts, 0)
    for rank, ((_, after), _) in enumerate(found):
        for row, num_bytes in after.items():
            if home[row] != hosts[rank]:
                sent[home[row]] += num_bytes
                received[hosts[rank]] += num_bytes
    assert {statistics.bytes_between_hosts for _, statistics in found} == {sum(sent.values())}
    if limit is not None:
        assert max(*sent.values(), *received.values()) <= limit
    assert len({(each.num_moved, each.imbalance_after) for _, each in found}) == 1


def test_a_row_takes_as_many_bytes_as_its_parcel() -> None:
    for seed in range(20):
        batch = make_batch(seed, 5, 6)
        sizes = [len(parcel) for parcel in rows_of(batch).pack(np.arange(6), np.ones(6, np.int64))]
        assert bytes_per_row(batch).tolist() == sizes


def with_dense_rows(comm: Comm, hosts: list[str], route: str, limit: int | None) -> tuple[int, int, list[int]]:
    lengths = torch.tensor([[9, 9, 9, 9], [1, 1, 1, 1], [5, 5, 5, 5], [5, 5, 5, 5]])[comm.rank]
    with Balancer(
        comm, lambda batch: batch["length"], host=hosts[comm.rank], host_bytes_limit=limit, route=route
    ) as balancer:
        under_way = balancer.start(Batch({"length": lengths}, batch_size=4))
        after: Any = under_way.finish()["length"]
    return under_way.statistics.bytes_between_hosts, under_way.statistics.num_moved, after.tolist()


@pytest.mark.parametrize(
    ("hosts", "limit", "expected", "sums"),
    [
        (["a", "a", "b", "b"], None, 0, [20, 20, 20, 20]),  # one host evens out by itself
        (["a", "b", "a", "b"], None, 8 * 4, [20, 20, 20, 20]),  # two rows of each host must cross
        (["a", "b", "a", "b"], 0, 0, [28, 4, 28, 20]),  # the heavy host alone: the other is light enough as it is
        (["a", "a", "a", "a"], None, 0, [20, 20, 20, 20]),
    ],
)
def test_only_what_a_host_cannot_even_out_crosses(
    hosts: list[str], limit: int | None, expected: int, sums: list[int]
) -> None:
    found = values(run_ranks(with_dense_rows, 4, args=(hosts, "all_to_all", limit), carrier="threads"))
    assert [between for between, _, _ in found] == [expected] * 4
    assert sorted(sum(rows) for _, _, rows in found) == sorted(sums)


def test_rows_that_all_ranks_get_are_counted_too() -> None:
    found = values(run_ranks(with_dense_rows, 4, args=(["a", "a", "b", "b"], "all_gather", None), carrier="threads"))
    assert [between for between, _, _ in found] == [
        4 * 32 * 2
    ] * 4  # 32 bytes of each rank to the two on the other host


def test_without_a_name_ranks_of_one_machine_are_on_one_host() -> None:
    def job(comm: Comm) -> tuple[int, int]:
        lengths = Jagged(
            keys=["t"], values=torch.arange(4 + 8 * comm.rank), lengths=torch.tensor([2 + 4 * comm.rank] * 2)
        )
        with Balancer(comm, lambda batch: batch["t"].lengths) as balancer:  # type: ignore[union-attr]
            under_way = balancer.start(Batch({"t": lengths}, batch_size=2))
            under_way.finish()
        return under_way.statistics.num_moved, under_way.statistics.bytes_between_hosts

    assert values(run_ranks(job, 2, carrier="threads")) == [(2, 0), (2, 0)]


def test_a_machine_is_known_by_its_kernel_or_its_name(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("0fd2-11\n")
    assert host_identity(tmp_path / "boot_id") == "0fd2-11"
    assert host_identity(tmp_path / "missing")
    assert host_identity() == host_identity()


def test_ranks_with_different_limits_are_told() -> None:
    def job(comm: Comm) -> str:
        with Balancer(comm, lambda batch: [1, 2], host_bytes_limit=100 + comm.rank) as balancer:
            with pytest.raises(DisagreementError) as error:
                balancer.start(Batch({"x": torch.arange(2)}, batch_size=2)).finish()
            return str(error.value)

    texts = values(run_ranks(job, 2, carrier="threads"))
    assert "host_bytes_limit 100" in texts[0]
    assert "host_bytes_limit 101" in texts[0]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"route": "all_gather"}, "sends all rows to all hosts"),
        ({"method": "differencing"}, "deals from scratch"),
        ({"host_bytes_limit": -1}, "host_bytes_limit"),
        ({"host": 3}, "host must be the name of a host, got 3"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused(named: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Balancer(AloneComm(), np.ones, **{"host_bytes_limit": 9, **named})
