"""All calls of all ranks in one table of columns, with sites and communicators numbered the same on every rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE, Family, Operation
from paceline.guard.shared_memory.ring_texts import UNKNOWN_SITE
from paceline.report.evidence.ring_file import RECORD, RankRecord

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_RANK = -1  # in a column of ranks
NO_CALL = -1  # in a column of indices of calls
NO_COMMUNICATOR = -1  # in a column of communicators: its name is not known
_FAMILIES = list(Family)


def by_code(number_of: Callable[[Operation], int]) -> Ints:
    """Return a number for each operation, at the index of its code."""
    numbers = np.zeros(max(BY_CODE) + 1, np.int64)
    for code, operation in BY_CODE.items():
        numbers[code] = number_of(operation)
    return numbers


_FAMILY_OF_CODE = by_code(lambda operation: _FAMILIES.index(operation.family))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCommunicator:
    """A communicator as all its members know it."""

    name: str
    ranks: tuple[int, ...]  # of the job, in the order of its own numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls of a run, rank by rank, each in the order in which it made them.

    Times are nanoseconds from `begin_ns` of the records' clock. Every column has one entry for each call.
    """

    begin_ns: int
    end: int  # of the run
    ranks: tuple[int, ...]  # whose records there are
    first_of_rank: Ints  # where the calls of each of them begin in the columns, and where the last ends
    sites: tuple[str, ...]
    communicators: tuple[RecordedCommunicator, ...]
    rank: Ints
    number: Ints  # of the calls of its rank, counted from 1
    entered: Ints
    left: Ints  # the end of the run, if it is open
    is_open: Flags  # the rank was inside it at the end
    site: Ints
    communicator: Ints  # NO_COMMUNICATOR if it is not known
    records: NDArray[Any]  # the rest, as it was recorded

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def operation(self) -> NDArray[np.uint16]:
        """The codes of the operations."""
        codes: NDArray[np.uint16] = self.records["operation"]
        return codes

    def is_of(self, *families: Family) -> Flags:
        """Say which calls are of these families."""
        numbers = [_FAMILIES.index(family) for family in families]
        return np.isin(_FAMILY_OF_CODE[self.operation], numbers)

    def of_rank(self, rank: int) -> slice:
        """Return where the calls of a rank are."""
        index = self.ranks.index(rank)
        return slice(int(self.first_of_rank[index]), int(self.first_of_rank[index + 1]))

    def members(self, rows: Ints, numbers: Ints) -> Ints:
        """Return the ranks of the job that have these numbers in the calls' communicators; NO_RANK where none has.

        Args:
            rows: Indices of calls.
            numbers: One for each of them.
        """
        members = np.full(len(rows), NO_RANK, np.int64)
        communicators = self.communicator[rows]
        for number in np.unique(communicators[communicators >= 0]).tolist():
            ranks = np.array(self.communicators[number].ranks, np.int64)
            here = (communicators == number) & (numbers >= 0) & (numbers < len(ranks))
            members[here] = ranks[numbers[here]]
        return members

    def last_at(self, rank: int, *, communicator: str, sequence: int) -> int | None:
        """Return the index of a rank's collective with this sequence on the communicator of this name."""
        if rank not in self.ranks:
            return None
        part = self.of_rank(rank)
        wanted = [number for number, known in enumerate(self.communicators) if known.name == communicator]
        fits = np.isin(self.communicator[part], wanted) & (self.records["sequence"][part] == sequence)
        indices = np.flatnonzero(fits & self.is_of(Family.COLLECTIVE)[part])
        return part.start + int(indices[-1]) if len(indices) else None


def gather_calls(records: Mapping[int, RankRecord], ended_ns: int | None) -> Calls:
    """Put the records of ranks together.

    Args:
        records: By rank.
        ended_ns: When the run ended, by their clock; None if that is not known.
    """
    ordered = [records[rank] for rank in sorted(records)]
    sites, communicators = _SiteNumbers(), _CommunicatorNumbers(ordered)
    rows = np.concatenate([np.zeros(0, RECORD), *(record.calls for record in ordered)])
    counts = [len(record.calls) for record in ordered]
    firsts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
    begin_ns, end = _limits(ordered, ended_ns)
    is_open = np.zeros(len(rows), bool)
    site = np.zeros(len(rows), np.int64)
    communicator = np.full(len(rows), NO_COMMUNICATOR, np.int64)
    for record, begin in zip(ordered, firsts[:-1].tolist(), strict=True):
        part = slice(begin, begin + len(record.calls))
        is_open[part] = np.isin(record.calls["number"].astype(np.int64) - 1, list(record.open_calls))
        is_open[part] &= record.calls["left_ns"] == 0
        site[part] = sites.numbers(record)[record.calls["site"].clip(0, 1 << 16)]
        communicator[part] = communicators.numbers(record)
    entered = rows["entered_ns"].astype(np.int64) - begin_ns
    left = np.where(rows["left_ns"] > 0, rows["left_ns"].astype(np.int64) - begin_ns, entered)
    left = np.where(is_open, np.maximum(end, entered), left)
    return Calls(
        begin_ns=begin_ns, end=end, ranks=tuple(record.rank for record in ordered), first_of_rank=firsts,
        sites=tuple(sites.names), communicators=tuple(communicators.known),
        rank=np.repeat([record.rank for record in ordered], counts).astype(np.int64),
        number=rows["number"].astype(np.int64), entered=entered, left=left,
        is_open=is_open, site=site, communicator=communicator, records=rows,
    )  # fmt: skip


def _limits(records: Iterable[RankRecord], ended_ns: int | None) -> tuple[int, int]:
    """Return when the run began, and how long it took."""
    records = list(records)
    begin = min((record.joined_ns for record in records), default=0)
    for record in records:
        if len(record.calls):
            begin = min(begin, int(record.calls["entered_ns"].min()))
    last = begin
    for record in records:
        if len(record.calls):
            last = max(last, int(record.calls["entered_ns"].max()), int(record.calls["left_ns"].max()))
    end = last if ended_ns is None else max(last, ended_ns)
    return begin, max(1, end - begin)


class _SiteNumbers:
    """Numbers for the sites of all ranks."""

    def __init__(self) -> None:
        self.names = [UNKNOWN_SITE]
        self._numbers = {UNKNOWN_SITE: 0}

    def numbers(self, record: RankRecord) -> Ints:
        """Return the number for each of the rank's own numbers."""
        table = np.zeros((1 << 16) + 1, np.int64)
        for own, name in record.sites.items():
            if 0 <= own < 1 << 16:
                if name not in self._numbers:
                    self._numbers[name] = len(self.names)
                    self.names.append(name)
                table[own] = self._numbers[name]
        return table


class _CommunicatorNumbers:
    """Numbers for the communicators of all ranks, by their identity."""

    def __init__(self, records: Iterable[RankRecord]) -> None:
        self.known: list[RecordedCommunicator] = []
        self._numbers: dict[str, int] = {}
        records = list(records)
        worlds: dict[str, dict[int, int]] = {}  # world -> rank there -> rank of the job
        for record in records:
            for world, rank in record.worlds.items():
                worlds.setdefault(world, {})[rank] = record.rank
        for record in records:
            for text in record.communicators.values():
                if text.identity not in self._numbers:
                    self._numbers[text.identity] = len(self.known)
                    self.known.append(RecordedCommunicator(name=text.name, ranks=text.members(worlds)))

    def numbers(self, record: RankRecord) -> Ints:
        """Return the number of each call's communicator; NO_COMMUNICATOR if the record no longer has its name."""
        table = np.full(1 << 16, NO_COMMUNICATOR, np.int64)
        firsts = np.zeros(1 << 16, np.int64)
        for own, text in record.communicators.items():
            if 0 <= own < layout.MAX_COMMS:
                table[own], firsts[own] = self._numbers[text.identity], text.first
        owns = record.calls["communicator"]
        return np.where(record.calls["number"].astype(np.int64) > firsts[owns], table[owns], NO_COMMUNICATOR)
