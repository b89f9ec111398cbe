"""Batches handed between ranks: gathered on all of them, or re-dealt row by row.

The first message has a fixed size: on its header all ranks agree or fail together. It also carries the start of the
payload, all fields as bytes; a second message takes the rest, if there is one. Gradients do not travel: this is data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from paceline.batch.batch import Batch
from paceline.batch.device_rows import DeviceRows
from paceline.batch.host_rows import HostRows
from paceline.batch.memory import Memory, joined, new_messages, read_numbers, zeros_like
from paceline.batch.parcel import rows_of
from paceline.batch.schema import fingerprint
from paceline.comm import Comm
from paceline.loader.agreement.batch_form import described_fields
from paceline.loader.agreement.first_message import AgreementHeader, exchange_message_bytes, gather_message_bytes
from paceline.loader.agreement.must_agree import MustAgree
from paceline.loader.row_exchange.row_groups import RowGroups, read_groups
from paceline.plan.order import Ids

_NUMBER_BYTES = 8


def gather_batches(comm: Comm, batch: Batch) -> Batch:
    """Return the rows of all ranks on every rank: world_size * batch_size of them, the real ones first.

    Real rows are in the order of ranks. All ranks must have the same fields and the same `batch_size`.
    """
    outgoing = _pack(batch, np.arange(batch.num_real), np.array([batch.num_real]))
    agreement = AgreementHeader(
        fingerprints=_fingerprints(batch),
        has_problem=bool(outgoing.problem),
        describe=lambda: MustAgree(chosen=_described(batch), problem=outgoing.problem),
    )
    (parcel,) = outgoing.parcels
    header = [*agreement.numbers(), batch.num_real, len(parcel)]
    start = len(header) * _NUMBER_BYTES
    length = gather_message_bytes(comm.world_size)
    messages = comm.all_gather(_messages(length, [header], [parcel], parcel)[0])  # (rank, bytes)
    headers = read_numbers(messages, len(header))
    agreement.check(comm, headers, batch.device)
    num_rows, sizes = [row[-2] for row in headers], [row[-1] for row in headers]
    room = length - start
    parcels = [messages[rank, start : start + size] for rank, size in enumerate(sizes)]
    if max(sizes) > room:
        rest = zeros_like(parcel, (max(sizes) - room,))
        rest[: max(0, len(parcel) - room)] = parcel[room:]
        more = comm.all_gather(rest)
        parcels = [joined([parcels[rank], more[rank, : max(0, size - room)]]) for rank, size in enumerate(sizes)]
    order = batch.batch_size + np.arange(sum(num_rows))  # all of them as they were received
    return outgoing.arrange(order, parcels, np.array(num_rows), comm.world_size * batch.batch_size)


def exchange(comm: Comm, batch: Batch, groups: Sequence[Any]) -> Batch:
    """Return the rows of this rank's group, padded to batch_size, the real ones first, in the order of the group.

    Only rows that change rank are sent.

    Args:
        comm: The ranks.
        batch: This rank's rows.
        groups: The same on every rank: groups[r] names the rows that rank r gets, as rank * batch_size + row. Each
            real row is in exactly one group; padding rows may be named or left out.
    """
    return exchange_counted(comm, batch, groups)[0]


def exchange_counted(comm: Comm, batch: Batch, groups: Sequence[Any]) -> tuple[Batch, int]:
    """Do what `exchange` does; return also how many bytes of rows this rank has sent."""
    me, world_size = comm.rank, comm.world_size
    batch_size = batch.batch_size
    routes = read_groups(groups, rank=me, world_size=world_size, batch_size=batch_size, num_real=batch.num_real)
    outgoing = _pack(batch, routes.outgoing, routes.counts)  # what stays is not among them
    agreement = _agreement_on_groups(batch, routes, outgoing.problem)
    parcels = outgoing.parcels
    sizes = [len(parcel) for parcel in parcels]
    # each rank must know whether any other needs a second message, so every header has the largest parcel's size
    headers = [[*agreement.numbers(), batch.num_real, max(sizes), size] for size in sizes]
    start = len(headers[0]) * _NUMBER_BYTES
    others = [rank for rank in range(world_size) if rank != me]
    length = exchange_message_bytes(world_size)
    first = _messages(length, [headers[rank] for rank in others], [parcels[rank] for rank in others], parcels[me])
    counts = [0 if rank == me else length for rank in range(world_size)]
    messages = comm.all_to_all(first.reshape(-1), counts, counts).reshape(-1, length)
    all_headers = read_numbers(messages, len(headers[0]))
    all_headers.insert(me, headers[me])
    agreement.check(comm, all_headers, batch.device)
    num_real = [row[-3] for row in all_headers]
    routes.check_each_real_row_once(num_real, batch_size)

    room = length - start
    received: list[Memory] = [parcels[me]] * world_size  # nothing of this rank's own travels
    for message, rank in zip(messages, others, strict=True):
        received[rank] = message[start : start + all_headers[rank][-1]]
    if max(row[-2] for row in all_headers) > room:
        sent, awaited = [max(0, size - room) for size in sizes], [max(0, row[-1] - room) for row in all_headers]
        more = comm.all_to_all(joined([parcel[room:] for parcel in parcels]), sent, awaited)
        ends = np.cumsum(awaited).tolist()
        received = [
            joined([part, more[end - count : end]]) for part, count, end in zip(received, awaited, ends, strict=True)
        ]
    order, came = routes.order_of(me, num_real, batch_size)
    return outgoing.arrange(order, received, came, batch_size), sum(sizes)


@dataclass(slots=True, kw_only=True, eq=False)
class _Outgoing:
    """What this rank sends, or why it cannot: then nothing is raised before all ranks know."""

    rows: HostRows | DeviceRows | None  # None where there is a problem
    parcels: Sequence[Memory]
    problem: str = ""

    def arrange(self, order: Ids, parcels: Sequence[Memory], counts: Ids, num_rows: int) -> Batch:
        """Return a batch of own and received rows."""
        assert self.rows is not None  # all ranks have raised otherwise
        return self.rows.arrange(order, parcels, counts, num_rows)


def _pack(batch: Batch, numbers: Ids, counts: Ids) -> _Outgoing:
    try:
        rows = rows_of(batch)
        return _Outgoing(rows=rows, parcels=rows.pack(numbers, counts))
    except Exception as error:
        # memory on the batch's own device, for the header
        empty: Memory = torch.empty(0, dtype=torch.uint8, device=batch.device)
        empty = empty.numpy() if batch.device.type == "cpu" else empty
        problem = f"its rows cannot be packed: {type(error).__name__}: {error}"
        return _Outgoing(rows=None, parcels=[empty] * len(counts), problem=problem)


def _messages(length: int, headers: list[list[int]], parcels: Sequence[Memory], like: Memory) -> Memory:
    """Return first messages: (message, bytes), each a header and as much of its parcel as there is room for."""
    messages = new_messages(like, length, headers)
    for message, header, parcel in zip(messages, headers, parcels, strict=True):
        start = len(header) * _NUMBER_BYTES
        part = parcel[: length - start]
        message[start : start + len(part)] = part
    return messages


def _fingerprints(batch: Batch) -> tuple[int, ...]:
    return batch.batch_size, fingerprint(batch.schema()), _digest(batch.padding())


@lru_cache(maxsize=256)
def _digest(padding: tuple[tuple[str, str], ...]) -> int:
    return int.from_bytes(hashlib.blake2b(repr(padding).encode(), digest_size=7).digest(), "little")


def _described(batch: Batch) -> dict[str, str]:
    return {"batch_size": f"{batch.batch_size}", **described_fields(batch.schema(), batch.pad_values)}


def _agreement_on_groups(batch: Batch, groups: RowGroups, problem: str) -> AgreementHeader:
    problem = groups.problem or problem

    def describe() -> MustAgree:
        sizes = ", ".join(f"{group.size} rows from {group[:3].tolist()}" for group in groups.table)
        # groups that look alike at their start are told apart by the digest
        return MustAgree(chosen=_described(batch), derived={"groups": f"{sizes} ({groups.digest:x})"}, problem=problem)

    return AgreementHeader(
        fingerprints=(*_fingerprints(batch), groups.digest), has_problem=bool(problem), describe=describe
    )
