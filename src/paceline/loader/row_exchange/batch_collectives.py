"""Batches handed between ranks: gathered on all of them, or re-dealt row by row.

The first message has a fixed size: on its header all ranks agree or fail together. It also carries the start of the
payload, all fields as bytes; a second message takes the rest, if there is one. Gradients do not travel: this is data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from paceline.batch.batch import Batch
from paceline.batch.memory import Memory, joined, read_numbers, write_numbers, zeros_like
from paceline.batch.schema import fingerprint
from paceline.batch.wire import Rows, pack, rows_of, unpack, unpack_fields
from paceline.comm import Comm
from paceline.loader.agreement.batch_form import described_fields
from paceline.loader.agreement.first_message import AgreementHeader, exchange_message_bytes, gather_message_bytes
from paceline.loader.agreement.must_agree import MustAgree
from paceline.loader.row_exchange.row_groups import check_each_real_row_once, digest_of, read_groups
from paceline.plan.order import Ids

_NUMBER_BYTES = 8


def gather_batches(comm: Comm, batch: Batch) -> Batch:
    """Return the rows of all ranks on every rank: world_size * batch_size of them, the real ones first.

    Real rows are in the order of ranks. All ranks must have the same fields and the same `batch_size`.
    """
    agreement = AgreementHeader(fingerprints=_fingerprints(batch), describe=lambda: MustAgree(chosen=_described(batch)))
    (parcel,) = pack(rows_of(batch).head(batch.num_real), [batch.num_real])
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
    return _batch_of(batch, unpack(batch.schema(), parcels, num_rows), comm.world_size * batch.batch_size)


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
    table, problem = read_groups(groups, world_size, batch.batch_size)
    agreement = _agreement_on_groups(batch, table, problem)
    chosen = [_rows_of(group, me, batch) for group in table]
    chosen[me] = chosen[me][:0]  # these stay
    own_rows = rows_of(batch)
    parcels = pack(own_rows.select(np.concatenate(chosen)), [rows.size for rows in chosen])
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
    check_each_real_row_once(table, num_real, batch.batch_size)

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
    return _arranged(batch, own_rows, me, table[me], received, num_real), sum(sizes)


def _messages(length: int, headers: list[list[int]], parcels: Sequence[Memory], like: Memory) -> Memory:
    """Return first messages: (message, bytes), each a header and as much of its parcel as there is room for."""
    messages = zeros_like(like, (len(headers), length))
    if headers:
        write_numbers(messages, headers)
        start = len(headers[0]) * _NUMBER_BYTES
        for message, parcel in zip(messages, parcels, strict=True):
            part = parcel[: length - start]
            message[start : start + len(part)] = part
    return messages


def _arranged(batch: Batch, own_rows: Rows, me: int, group: Ids, parcels: list[Memory], num_real: list[int]) -> Batch:
    """Put the rows that stayed and those that came into the order of this rank's group."""
    source, row = np.divmod(group, batch.batch_size)
    real = row < np.array(num_real)[source]
    source, row = source[real], row[real]
    away = source != me
    counts = np.bincount(source[away], minlength=len(num_real)).tolist()
    came = unpack(batch.schema(), parcels, counts)
    # rows that came stand behind the own ones: by rank, and for each rank in the order of the group
    order = row.copy()
    order[np.flatnonzero(away)[np.argsort(source[away], kind="stable")]] = batch.batch_size + np.arange(sum(counts))
    return _batch_of(batch, own_rows.join(came).select(order), batch.batch_size)


def _batch_of(batch: Batch, rows: Rows, batch_size: int) -> Batch:
    """Return the batch of these real rows, padded."""
    if rows.num_rows == 0:
        return batch.emptied(batch_size)
    fields = unpack_fields(batch.schema(), rows)
    return batch.like({name: fields[name] for name in batch.names()}, rows.num_rows).pad_to(batch_size)


def _rows_of(group: Ids, rank: int, batch: Batch) -> Ids:
    """Return this rank's real rows in a group, in its order."""
    rows = group - rank * batch.batch_size
    real: Ids = rows[(rows >= 0) & (rows < batch.num_real)]
    return real


def _fingerprints(batch: Batch) -> tuple[int, ...]:
    return batch.batch_size, fingerprint(batch.schema()), _digest(batch.padding())


@lru_cache(maxsize=256)
def _digest(padding: tuple[tuple[str, str], ...]) -> int:
    return int.from_bytes(hashlib.blake2b(repr(padding).encode(), digest_size=7).digest(), "little")


def _described(batch: Batch) -> dict[str, str]:
    return {"batch_size": f"{batch.batch_size}", **described_fields(batch.schema(), batch.pad_values)}


def _agreement_on_groups(batch: Batch, table: list[Ids], problem: str) -> AgreementHeader:
    digest = digest_of(table)

    def describe() -> MustAgree:
        sizes = ", ".join(f"{group.size} rows from {group[:3].tolist()}" for group in table)
        # groups that look alike at their start are told apart by the digest
        return MustAgree(chosen=_described(batch), derived={"groups": f"{sizes} ({digest:x})"}, problem=problem)

    return AgreementHeader(fingerprints=(*_fingerprints(batch), digest), has_problem=bool(problem), describe=describe)
