"""Parcels of rows: the compiled functions make what torch makes on a device, and read nothing that is not there."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.sample_batches import make_batch, real_rows

from paceline import Batch, Jagged
from paceline.batch.device_rows import DeviceRows
from paceline.batch.host_rows import HostRows
from paceline.compiled import extension


def ids(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


@given(seed=st.integers(0, 10**6), num_real=st.integers(0, 6), cut=st.integers(0, 6), num_rows=st.integers(12, 14))
@settings(max_examples=60, deadline=None)
def test_host_and_device_make_the_same_of_the_same_rows(seed: int, num_real: int, cut: int, num_rows: int) -> None:
    random = np.random.default_rng(seed)
    own, other = make_batch(seed, num_real, 6), make_batch(seed + 1, 6, 6)
    rows = random.permutation(6)
    counts = ids(min(cut, 6), 6 - min(cut, 6), 0)
    parcels = HostRows(other).pack(rows, counts)
    from_device = DeviceRows(other).pack(rows, counts)
    assert [bytes(parcel) for parcel in parcels] == [bytes(parcel.numpy()) for parcel in from_device]
    order = random.permutation(np.concatenate([np.arange(num_real), 6 + np.arange(6)]))[: random.integers(0, 13)]
    arranged = HostRows(own).arrange(order, parcels, counts, num_rows)
    expected = DeviceRows(own).arrange(order, from_device, counts, num_rows)
    assert real_rows(arranged) == real_rows(expected)
    assert (arranged.batch_size, arranged.num_real) == (num_rows, len(order))
    # what `unchecked` has left out holds: checked again, padding included
    Batch(arranged.to_dict(), batch_size=num_rows, num_real=len(order))
    assert arranged.schema() == own.schema()


def test_padding_rows_hold_the_pad_value() -> None:
    batch = Batch({"x": torch.tensor([1.0, 2.0])}, batch_size=2, pad_values={"x": -1.0})
    arranged = HostRows(batch).arrange(ids(1), [], ids(), 3)
    assert arranged["x"].tolist() == [2.0, -1.0, -1.0]  # type: ignore[union-attr]
    assert arranged.num_real == 1


DENSE = np.arange(6, dtype=np.float32).reshape(3, 2)
LENGTHS, VALUES = ids(1, 0, 2), ids(7, 8, 9)
FIELDS: tuple[Any, Any, int] = ((DENSE,), ((LENGTHS, VALUES, 8),), 3)


def packed() -> list[bytearray]:
    return extension.pack_rows(*FIELDS, ids(2, 0), ids(1, 1))


def test_a_parcel_has_lines_and_then_lists() -> None:
    first, second = packed()
    assert bytes(first) == DENSE[2].tobytes() + ids(2).tobytes() + ids(8, 9).tobytes()
    assert bytes(second) == DENSE[0].tobytes() + ids(1).tobytes() + ids(7).tobytes()
    dense, lengths, values = extension.arrange_rows(*FIELDS, (first, second), ids(1, 1), ids(4, 1, 3), 4)
    assert np.frombuffer(dense, np.float32).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    assert np.frombuffer(lengths, np.int64).tolist() == [1, 0, 2, 0]
    assert np.frombuffer(values, np.int64).tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    "given",
    [
        ((DENSE,), ((LENGTHS, VALUES, 8),), 4, ids(0), ids(1)),  # rows that the fields do not have
        ((DENSE,), ((LENGTHS, VALUES, 8),), 0, ids(0), ids(1)),
        ((DENSE,), ((ids(1, 0, 3), VALUES, 8),), 3, ids(0), ids(1)),  # lists beyond their values
        ((DENSE,), ((ids(1, -1, 2), VALUES, 8),), 3, ids(0), ids(1)),
        ((DENSE,), ((ids(1, 1 << 62, 1 << 62), VALUES, 8),), 3, ids(0), ids(1)),
        ((DENSE,), ((ids(1, 1 << 41, 0), VALUES, 0),), 3, ids(0), ids(1)),
        ((DENSE,), ((LENGTHS, VALUES, 9),), 3, ids(0), ids(1)),
        ((DENSE,), ((LENGTHS, VALUES, -8),), 3, ids(0), ids(1)),
        ((DENSE,), ((LENGTHS, VALUES),), 3, ids(0), ids(1)),
        ((DENSE,), ((LENGTHS, VALUES, 8, VALUES[:2], 8),), 3, ids(0), ids(1)),  # fewer weights than values
        (*FIELDS, ids(3), ids(1)),
        (*FIELDS, ids(-1), ids(1)),
        (*FIELDS, ids(0), ids(2)),
        (*FIELDS, ids(0), ids(-1, 2)),
        (*FIELDS, ids(0, 0), ids(2)),  # more than the fields have
    ],
)
def test_rows_that_are_not_there_are_not_packed(given: Any) -> None:
    with pytest.raises(ValueError, match=r"(are|is) needed"):
        extension.pack_rows(*given)


@pytest.mark.parametrize("damage", ["cut", "longer", "negative", "far", "count", "order", "twice", "room", "counts"])
def test_a_damaged_parcel_is_refused(damage: str) -> None:
    first, second = packed()
    counts, order, num_rows = ids(1, 1), ids(0, 3, 4), 4
    if damage == "cut":
        del first[-1]
    elif damage == "longer":
        first.append(0)
    elif damage in ("negative", "far"):
        first[8:16] = ids(-1 if damage == "negative" else 1 << 60).tobytes()
    elif damage == "count":
        counts = ids(2, 1)
    elif damage == "order":
        order = ids(0, 5)
    elif damage == "twice":  # its lists would be read beyond their end
        order = ids(3, 3)
    elif damage == "room":
        num_rows = 2
    else:
        counts = ids(1)
    with pytest.raises(ValueError, match="whole parcels"):
        extension.arrange_rows(*FIELDS, (first, second), counts, order, num_rows)


def test_lengths_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="lq"):
        extension.pack_rows((DENSE,), ((LENGTHS.astype(np.int32), VALUES, 8),), 3, ids(0), ids(1))
    with pytest.raises(ValueError, match="contiguous"):
        extension.pack_rows((DENSE[:, ::2],), (), 3, ids(0), ids(1))


def test_a_parcel_is_whole_though_lengths_change_meanwhile() -> None:
    num_rows = 100_000
    lengths, values = np.zeros(num_rows, np.int64), np.zeros(8 * num_rows)
    table: tuple[Any, Any, int] = ((), ((lengths, values, 8),), num_rows)
    rows, has_ended = np.arange(num_rows), threading.Event()

    def change() -> None:
        while not has_ended.is_set():
            lengths.fill(8)
            lengths.fill(0)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            (parcel,) = extension.pack_rows(*table, rows, ids(num_rows))
            sent = np.frombuffer(parcel, np.int64, num_rows)
            assert len(parcel) == 8 * (num_rows + int(sent.sum()))
    finally:
        has_ended.set()
        thread.join()


def route(*groups: Any, rank: int = 1, num_real: int = 2) -> Any:
    found, counts = np.full(num_real, -7), np.full(len(groups), -7)
    routes = extension.route_rows(tuple(ids(*group) for group in groups), rank, 3, num_real, found, counts)
    return None if routes is None else (found[: routes[0]].tolist(), counts.tolist(), routes[1])


def test_rows_leave_for_the_ranks_that_name_them() -> None:
    found, counts, digest = route((4, 0, 5), (1, 3), (2,))
    assert (found, counts) == ([1], [1, 0, 0])  # row 5 is padding, row 3 stays
    assert digest == route((4, 0, 5), (1, 3), (2,), rank=0, num_real=3)[2]


@pytest.mark.parametrize("groups", [((4, 0), (1, 3), (2,)), ((4, 5, 0), (1, 3), (2,)), ((4, 0, 5, 1), (3,), (2,))])
def test_other_groups_have_another_digest(groups: Any) -> None:
    assert route(*groups)[2] != route((4, 0, 5), (1, 3), (2,))[2]


@pytest.mark.parametrize("groups", [((9,), (), ()), ((-1,), (), ()), ((4,), (4,), ()), ((1 << 62,), (), ())])
def test_groups_that_name_a_row_twice_or_none_that_exists_have_no_routes(groups: Any) -> None:
    assert route(*groups) is None


def test_the_order_of_a_group_counts_what_comes_rank_after_rank() -> None:
    counts, order = np.empty(3, np.int64), np.empty(5, np.int64)
    size = extension.order_group(ids(7, 0, 4, 2, 6), ids(2, 2, 2), 1, 3, counts, order)
    assert order[:size].tolist() == [4, 3, 1, 5]  # row 2 of rank 0 is padding, row 4 is this rank's row 1
    assert counts.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (extension.order_group, (ids(9), ids(2, 2, 2), 1, 3, ids(0, 0, 0), ids(0))),
        (extension.order_group, (ids(0), ids(2, 2, 2), 3, 3, ids(0, 0, 0), ids(0))),
        (extension.order_group, (ids(0), ids(2, 2, 2), 1, 0, ids(0, 0, 0), ids(0))),
        (extension.order_group, (ids(0, 1), ids(2, 2, 2), 1, 3, ids(0, 0, 0), ids(0))),
        (extension.order_group, (ids(0), ids(2, 2, 2), 1, 3, ids(0, 0), ids(0))),
        (extension.route_rows, ((ids(0),), 0, 3, 2, ids(0), ids(0))),
        (extension.route_rows, ((ids(0),), 1, 3, 2, ids(0, 0), ids(0))),
        (extension.route_rows, ((ids(0),), 0, 3, 2, ids(0, 0), ids(0, 0))),
        (extension.route_rows, ((ids(0),), 0, 0, 0, ids(0, 0), ids(0))),
        (extension.route_rows, ((), 0, 3, 2, ids(0, 0), ids())),
    ],
)
def test_groups_of_other_ranks_are_refused(call: Any, given: Any) -> None:
    with pytest.raises(ValueError, match="needed"):
        call(*given)


def test_lists_without_bytes_keep_their_lengths() -> None:
    batch = Batch({"j": Jagged(keys=["k"], values=torch.zeros(3, 0), lengths=torch.tensor([2, 1]))}, batch_size=2)
    (parcel,) = HostRows(batch).pack(ids(1, 0), ids(2))
    arranged = HostRows(batch).arrange(ids(2, 3), [parcel], ids(2), 2)["j"]
    assert isinstance(arranged, Jagged)
    assert (arranged.lengths.tolist(), tuple(arranged.values.shape)) == ([1, 2], (3, 0))
