"""Batches of a stream: workers read shards and collate, and ranks stay in step though nobody knows the length."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from torch.utils.data import DataLoader, IterableDataset

from paceline.batch import Batch, Collate
from paceline.comm import Comm, connect
from paceline.errors import InputError, choice, whole_number
from paceline.loader.agreement.background import Closeable
from paceline.loader.agreement.first_message import gather_json
from paceline.loader.streams.in_step import InStep, StreamSettings
from paceline.loader.streams.shards import DONE, ShardPosition, ShardStream, merge_read
from paceline.loader.workers.collated_batch import CollatedBatches
from paceline.loader.workers.sent_batch import SentBatch
from paceline.loader.workers.worker_settings import WorkerSettings, check_worker_settings
from paceline.plan import Tail


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamPiece:
    """Rows that a worker has put together, and how far it has read."""

    batch: Batch | None  # None: no row is left, only positions are reported
    read: dict[int, int] = field(default_factory=dict)  # samples of each shard, or DONE

    def __reduce__(self) -> tuple[Any, ...]:
        return _received_piece, (None if self.batch is None else SentBatch(self.batch), self.read)


def _received_piece(batch: Batch | None, read: dict[int, int]) -> StreamPiece:
    return StreamPiece(batch=batch, read=read)


class StreamPieces(IterableDataset[Any]):
    """The stream as workers see it: full batches, and in the end what is left."""

    def __init__(self, stream: ShardStream, comm: Comm, collate: Callable[[list[Any]], Any], batch_size: int) -> None:
        self._stream, self._rank, self._world_size = stream, comm.rank, comm.world_size
        self._collate, self._batch_size, self._batches = collate, batch_size, CollatedBatches()

    def __iter__(self) -> Iterator[StreamPiece]:
        samples: list[Any] = []
        read: dict[int, int] = {}
        last: ShardPosition | None = None
        for sample, position in self._stream.samples(self._rank, self._world_size):
            if last is not None and last.shard != position.shard:
                read[last.shard] = DONE
            read[position.shard], last = position.num_read, position
            samples.append(sample)
            if len(samples) == self._batch_size:
                yield StreamPiece(batch=self._collated(samples), read=read)
                samples, read = [], {}
        if last is not None:
            read[last.shard] = DONE
        yield StreamPiece(batch=self._collated(samples) if samples else None, read=read)

    def _collated(self, samples: list[Any]) -> Batch:
        return self._batches.batch_of(self._collate(samples), len(samples)).pad_to(len(samples))


class StreamLoader(Closeable):
    """Hands every rank batches of a stream of unknown length: the same number of steps, the same shapes.

    >>> stream = ShardStream([range(5), range(5, 7)], iter, shuffle=False)
    >>> for batch in StreamLoader(stream, batch_size=4, tail="pad", fields=["number"]):
    ...     print(batch.real("number").tolist())
    [0, 1, 2, 3]
    [4, 5, 6]

    Args:
        stream: The shards.
        batch_size: Rows of every rank's batch.
        tail: `drop`: all ranks stop when the first has no full batch left. `pad`: every sample comes, and ranks that
            have none left get batches of padding until all are done.
        num_workers: Processes that read shards; 0 reads in this process.
        comm: The ranks; found by `connect` if not given.
        jagged: Names of the fields that hold lists of different lengths.
        fields: Names for the fields of samples that are tuples.
        pad_values: What padding rows of a dense field hold, where it is not 0.
        collate: Makes a batch, or a dict or dataclass of fields, of a list of samples. It takes the place of the three
            above.
        ahead: The most batches that are read ahead to agree on the end.
        worker_settings: More settings of torch's DataLoader.
    """

    def __init__(
        self,
        stream: ShardStream,
        *,
        batch_size: int,
        tail: Tail | str = Tail.DROP,
        num_workers: int = 0,
        comm: Comm | None = None,
        jagged: Collection[str] = (),
        fields: Collection[str] = (),
        pad_values: Mapping[str, float] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        ahead: int = 8,
        **worker_settings: Unpack[WorkerSettings],
    ) -> None:
        self.stream, self.comm = stream, comm if comm is not None else connect()
        self.batch_size = whole_number("batch_size", batch_size, least=1)
        self._tail, self._ahead = choice(Tail, "tail", tail), whole_number("ahead", ahead, least=1)
        if self._tail not in (Tail.DROP, Tail.PAD):
            raise InputError(f"the tail of a stream is 'drop' or 'pad', got {self._tail.value!r}")
        if worker_settings.get("persistent_workers"):
            raise InputError("persistent workers would not learn of the next epoch: leave out persistent_workers")
        check_worker_settings("StreamLoader", worker_settings)
        collate = collate or Collate(batch_size, jagged=jagged, fields=fields, pad_values=pad_values).stack
        self._workers: DataLoader[Any] = DataLoader(
            StreamPieces(stream, self.comm, collate, batch_size),
            batch_size=None,
            collate_fn=_unchanged,
            num_workers=whole_number("num_workers", num_workers, least=0),
            **worker_settings,
        )
        self._read: dict[int, int] = {}
        self._has_ended = False  # the epoch, by the last pass
        self._stream_comm: Comm | None = None  # for all passes
        self.num_padded = self.num_dropped = 0  # rows of the last pass, on this rank

    @property
    def epoch(self) -> int:
        """The epoch that iterating hands out."""
        return self.stream.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch."""
        if epoch != self.stream.epoch:
            self._read, self._has_ended = {}, False
        self.stream.set_epoch(epoch)

    def __iter__(self) -> Iterator[Batch]:
        """Begin a pass; all ranks must."""
        self._read, self._has_ended = {}, False
        self.num_padded = self.num_dropped = 0
        if self._stream_comm is None and self.comm.world_size > 1 and self.comm.is_whole_job:
            self._stream_comm = self.comm.duplicate()
        reads: deque[dict[int, int]] = deque()  # one for each batch that was read and not yet handed out
        settings = StreamSettings(tail=self._tail, ahead=self._ahead, epoch=self.epoch, must_agree=self._must_agree())
        with InStep(self._batches(reads), self.comm, settings, stream_comm=self._stream_comm) as steps:
            num_padded = 0
            for batch in steps:
                if steps.num_padded == num_padded:
                    self._read |= reads.popleft()
                num_padded = steps.num_padded
                self.num_padded += batch.batch_size - batch.num_real
                yield batch
            self.num_dropped += steps.num_dropped * self.batch_size
        self._has_ended = True
        self.stream.forget()

    def _must_agree(self) -> dict[str, str]:
        state = self.stream.state_of({}, 0, 1)
        settings = {name: f"{state[name]}" for name in ("epoch", "num_shards", "shuffle", "seed")}
        digest = hashlib.blake2b(repr(sorted(state["read"].items())).encode(), digest_size=6).hexdigest()
        return {**settings, "batch_size": f"{self.batch_size}", "position": digest}

    def _batches(self, reads: deque[dict[int, int]]) -> Iterator[Batch]:
        """Yield this rank's full batches, then what workers have left, put together."""
        rest: list[Batch] = []
        read: dict[int, int] = {}
        for piece in self._workers:
            if piece.batch is not None and piece.batch.batch_size == self.batch_size:
                reads.append(piece.read)
                yield piece.batch
            else:
                rest += [] if piece.batch is None else [piece.batch]
                read |= piece.read
        joined = Batch.concat(rest) if rest else None
        num_rows = 0 if joined is None else joined.num_real
        if self._tail is Tail.DROP:
            self.num_dropped += num_rows % self.batch_size
            num_rows -= num_rows % self.batch_size
        for begin in range(0, num_rows, self.batch_size):
            assert joined is not None
            end = min(num_rows, begin + self.batch_size)
            reads.append(read if end == num_rows else {})  # rows of several shards: reported with the last of them
            yield joined.select(list(range(begin, end))).pad_to(self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank, after the batches that its loop has received. Keep those of all ranks.

        In the last steps, which combine what workers have left, it may be a batch per worker behind.
        """
        state = self.stream.state_of(self._read, self.comm.rank, self.comm.world_size)
        return {**state, "epoch": state["epoch"] + 1, "read": {}} if self._has_ended else state

    def gather_state(self) -> dict[str, Any]:
        """Return one state for all ranks. All ranks call it."""
        states = gather_json(self.comm, self.state_dict())
        read = merge_read(state["read"] for state in states)
        return {**states[0], "ranks": list(range(self.comm.world_size)), "read": read}

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continue where the state was taken, on this number of ranks and workers.

        Args:
            state: What `gather_state` returned, or a list of what `state_dict` returned on each rank.
        """
        self.stream.load_states([state] if isinstance(state, Mapping) else state)
        self._read, self._has_ended = {}, False

    def close(self, *, wait: bool = True) -> None:
        """Free the communicator of the streams, if all ranks close."""
        if self._stream_comm is not None and wait:
            self._stream_comm.free()
        self._stream_comm = None


def _unchanged(piece: Any) -> Any:
    return piece
