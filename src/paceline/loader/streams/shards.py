"""Datasets that are a list of shards (files): dealt over ranks and workers, resumed anywhere on any number of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from paceline.balance import partition
from paceline.comm import find_place
from paceline.errors import InputError, brief, whole_number
from paceline.plan import Plan
from paceline.plan.plan import LARGEST_SEED

STATE_VERSION = 1
DONE = -1  # samples of a shard that has been read to its end
_MOST_READ = (1 << 62) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPosition:
    """How far a worker is: samples of the shard that it reads, or DONE."""

    shard: int
    num_read: int


class ShardStream(IterableDataset[Any]):
    """The samples of shards, as a stream: every shard is read by one worker of one rank.

    >>> stream = ShardStream(["a", "bcd", "ef"], list, shuffle=False)
    >>> [sample for sample, _ in stream.samples(rank=1, world_size=2)]
    ['b', 'c', 'd']

    Give it to `StreamLoader`, which makes batches and keeps ranks in step though they have different numbers of
    samples.

    Args:
        shards: What `read` takes: names of files, mostly. The same list on every rank.
        read: Yields the samples of a shard, in the same order each time.
        shuffle: Whether shards come in an order of their own in each epoch. Samples within a shard stay in order.
        seed: Chooses the family of orders.
        sizes: How large shards are, if that is known: then ranks get about the same size instead of the same number.
    """

    def __init__(
        self,
        shards: Sequence[Any],
        read: Callable[[Any], Iterable[Any]],
        *,
        shuffle: bool = True,
        seed: int = 0,
        sizes: Any = None,
    ) -> None:
        if not len(shards):
            raise InputError("there must be at least one shard")
        if sizes is not None and len(sizes) != len(shards):
            raise InputError(f"sizes must be one for each of {len(shards)} shards, got {len(sizes)}")
        self.shards, self._read, self._sizes = shards, read, sizes
        self._order = Plan(len(shards), world_size=1, batch_size=len(shards), shuffle=shuffle, seed=seed)
        self.epoch = 0
        self._read_before: dict[int, int] = {}  # samples of shards that a loaded state has

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch. The position that a loaded state has set holds for its own epoch only."""
        epoch = whole_number("epoch", epoch, least=0, most=LARGEST_SEED)
        if epoch != self.epoch:
            self.epoch, self._read_before = epoch, {}

    def deal(self, rank: int, world_size: int, worker: int = 0, num_workers: int = 1) -> list[int]:
        """Return the shards that a worker of a rank reads, in order, without those that a loaded state has read."""
        order = [int(shard) for shard in self._order.rows(0, self.epoch)[0]]
        left = [shard for shard in order if self._read_before.get(shard) != DONE]
        if self._sizes is None:
            of_rank = left[rank::world_size]
        else:
            groups = (
                partition([self._sizes[shard] for shard in left], world_size, "longest_first").groups if left else []
            )
            of_rank = [left[index] for index in np.sort(groups[rank])] if left else []
        return of_rank[worker::num_workers]

    def samples(self, rank: int, world_size: int) -> Iterator[tuple[Any, ShardPosition]]:
        """Yield the samples of this worker's shards, each with the position after it."""
        info = get_worker_info()
        worker, num_workers = (0, 1) if info is None else (info.id, info.num_workers)
        for shard in self.deal(rank, world_size, worker, num_workers):
            num_read = self._read_before.get(shard, 0)
            for sample in islice(self._read(self.shards[shard]), num_read, None):
                num_read += 1
                yield sample, ShardPosition(shard=shard, num_read=num_read)

    def __iter__(self) -> Iterator[Any]:
        """Yield the samples of this rank, as the running job says which it is."""
        place = find_place()
        return (sample for sample, _ in self.samples(place.rank, place.world_size))

    def state_of(self, read: Mapping[int, int], rank: int, world_size: int) -> dict[str, Any]:
        """Return the state of one rank, given how much of each shard it has read."""
        return {
            "version": STATE_VERSION,
            "epoch": self.epoch,
            "num_shards": len(self.shards),
            "shuffle": self._order.shuffle,
            "seed": self._order.seed,
            "ranks": [rank],
            "world_size": world_size,
            "read": merge_read([self._read_before, read]),
        }

    def load_states(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Continue where all ranks of a job were, on any number of ranks.

        Raises:
            InputError: If the states are of another stream, or of some of the ranks only.
        """
        checked = [self._checked(state) for state in _listed_states(states)]
        epochs = {state["epoch"] for state in checked}
        ranks = sorted(rank for state in checked for rank in state["ranks"])
        num_ranks = {state["world_size"] for state in checked}
        # not compared as ranges: a state may name any number of ranks
        is_whole = len(num_ranks) == 1 and len(ranks) in num_ranks and ranks == list(range(len(ranks)))
        if len(epochs) != 1 or not is_whole:
            raise InputError(
                f"states must be those of all ranks of one job at one time, got ranks {ranks} of jobs of "
                f"{sorted(num_ranks)} ranks in epochs {sorted(epochs)}"
            )
        self.epoch = epochs.pop()
        self._read_before = merge_read(state["read"] for state in checked)

    def _checked(self, state: Any) -> Mapping[str, Any]:
        """Return a state of this stream; refuse any other, and what is none."""
        if not isinstance(state, Mapping):
            raise InputError(f"a state of a stream is a mapping, as state_dict returns it, got {brief(state)}")
        own_state = self.state_of({}, 0, 1)
        missing = sorted(own_state.keys() - state.keys())
        if missing:
            raise InputError(f"this is not the state of a stream: it has no {missing[0]!r}")
        for name in ("version", "num_shards", "shuffle", "seed"):
            if type(state[name]) is not type(own_state[name]) or state[name] != own_state[name]:
                raise InputError(
                    f"the state was saved with another {name}: {brief(state[name])}, here it is {own_state[name]!r}"
                )
        return {
            "epoch": whole_number("the epoch of a state", state["epoch"], least=0, most=LARGEST_SEED - 1),
            "world_size": whole_number("the world_size of a state", state["world_size"], least=1),
            "ranks": [whole_number("a rank of a state", rank, least=0) for rank in _list_of("ranks", state["ranks"])],
            "read": self._checked_read(state["read"]),
        }

    def _checked_read(self, read: Any) -> dict[int, int]:
        """Return how much was read of each shard; JSON has made texts of the numbers of shards."""
        if not isinstance(read, Mapping):
            raise InputError(f"the state does not say how much was read of each shard: {brief(read)}")
        checked = {}
        for shard, num_read in read.items():
            number = int(shard) if isinstance(shard, str) and len(shard) < 20 and shard.isdecimal() else shard
            number = whole_number("a shard of a state", number, least=0, most=len(self.shards) - 1)
            checked[number] = whole_number(f"what was read of shard {number}", num_read, least=DONE, most=_MOST_READ)
        return checked

    def forget(self) -> None:
        """Start over: what a loaded state has read is left out only once."""
        self._read_before = {}


def _listed_states(states: Any) -> list[Any]:
    return _list_of("states", states) if not isinstance(states, Mapping) else [states]


def _list_of(name: str, values: Any) -> list[Any]:
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise InputError(f"{name} must be a list, got {brief(values)}")
    return list(values)


def merge_read(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Put together how much of each shard was read: the most that anybody says.

    >>> merge_read([{0: 4, 1: 7}, {0: 6, 1: DONE}, {1: 9}])
    {0: 6, 1: -1}
    """
    merged: dict[int, int] = {}
    for part in parts:
        for shard, num in part.items():
            known = merged.get(int(shard), 0)
            merged[int(shard)] = DONE if DONE in (num, known) else max(num, known)
    return merged
