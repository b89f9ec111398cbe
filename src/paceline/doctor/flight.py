"""Reads the dumps of torch's Flight Recorder, and says at which call of a group ranks first differ.

A dump is a pickle, and a pickle is a program. It is read by an unpickler that makes lists, dictionaries, texts and
numbers, and refuses everything else, so a file of a stranger can do no harm. Its steps are looked at first: some ask
for memory of any size. What is taken of it: flight_entries.py.
"""

from __future__ import annotations

import gc
import io
import json
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.compiled import extension
from paceline.doctor.flight_entries import DumpReader
from paceline.doctor.flight_waits import Dump, Entry, find_waits, waits_as_text, where_to_look
from paceline.errors import InputError, group_ranks, name_ranks
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind, GroupState, RankGroup
from paceline.process.foreign_files import read_foreign

_MAX_BYTES = 64 << 20
_MAX_STEPS = 10_000_000  # of a pickle; a dump of torch has some hundred for each call
_MANY_OBJECTS = 1_000_000  # more than a dump of torch has
_UNREADABLE = (
    OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, IndexError, OverflowError, RecursionError,
    MemoryError, pickle.PickleError,
)  # fmt: skip
_NUMBER_AT_END = re.compile(r"(\d+)(\.json|\.pickle|\.pkl)?$")
_SIZED = ("all_reduce", "allreduce", "broadcast", "reduce")  # in which every rank brings the same sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightRecord:
    """What the dumps say together."""

    ranks: tuple[int, ...]
    mismatch: str | None  # the first call of a group that ranks made differently
    odd_ranks: tuple[int, ...]
    groups: tuple[RankGroup, ...]  # who made which call there
    says: tuple[str, ...]  # who waits for whom
    look_at: tuple[int, ...]  # ranks that are waited for and wait for nobody
    problems: tuple[str, ...]  # files that could not be read


def finding_of(record: FlightRecord) -> Finding | None:
    """Return the first call that ranks made differently as a finding."""
    if record.mismatch is None:
        return None
    return Finding(
        kind=FindingKind.MISMATCH, field=FindingField.OPERATION, ranks=record.odd_ranks or record.ranks,
        cause=Cause.DIFFERENT_COLLECTIVES,
        summary=record.mismatch, advice="see what leads ranks to different calls there", groups=record.groups,
    )  # fmt: skip


class _OnlyData(pickle.Unpickler):
    """Makes containers, texts and numbers, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every name: a dump needs none."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}; dumps of torch hold data alone")


def read_flight_records(folder: Path) -> FlightRecord:
    """Read every dump in a folder and compare them."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder} with dumps of the Flight Recorder")
    with _rare_collection():
        dumps, problems = _read_all(folder)
    if not dumps:
        more = f" ({problems[0]})" if problems else ""
        raise InputError(f"{folder} holds no dump of the Flight Recorder: files whose names end in a rank{more}")
    return _compare(dumps, problems)


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Look for cycles only if objects pile up: a dump has thousands of them, and they go when it has been read."""
    before = gc.get_threshold()
    gc.set_threshold(_MANY_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _read_all(folder: Path) -> tuple[dict[int, Dump], list[str]]:
    """Return what could be read of each rank, and which files could not be."""
    dumps: dict[int, Dump] = {}
    problems = []
    reader = DumpReader()
    for path in sorted(folder.iterdir()):
        number = _NUMBER_AT_END.search(path.name)
        if not path.is_file() or number is None:
            continue
        try:
            dumps[int(number.group(1))] = reader.read(_read(path))
        except _UNREADABLE as error:
            reason = error.strerror if isinstance(error, OSError) else str(error) or type(error).__name__
            problems.append(f"{path.name} is not a readable dump: {reason}")
    return dumps, problems


def _read(path: Path) -> Any:
    data = read_foreign(path, most=_MAX_BYTES)
    return json.loads(data) if data[:1] in (b"{", b" ", b"\n") else _unpickle(data)


def _unpickle(data: bytes) -> Any:
    extension.count_pickle_steps(data, _MAX_STEPS)
    return _OnlyData(io.BytesIO(data)).load()


def _compare(dumps: Mapping[int, Dump], problems: list[str]) -> FlightRecord:
    mismatch: str | None = None
    odd: tuple[int, ...] = ()
    groups: tuple[RankGroup, ...] = ()
    for (group, sequence), calls in sorted(_calls(dumps).items(), key=lambda item: item[0][1]):
        sides = _sides(calls) if len(calls) > 1 else []
        if len(sides) > 1:
            texts = "; ".join(f"{name_ranks(ranks)} {entry.operation} at {entry.site}" for ranks, entry in sides)
            mismatch = f"call {sequence} of group {group} differs: {texts}"
            odd = sides[-1][0] if len(sides[-1][0]) < len(sides[0][0]) else ()
            groups = tuple(_group(ranks, entry) for ranks, entry in sides)
            break
    waits = find_waits(dumps)
    return FlightRecord(
        ranks=tuple(sorted(dumps)), mismatch=mismatch, odd_ranks=odd, groups=groups,
        says=tuple(waits_as_text(waits, dumps)), look_at=where_to_look(waits), problems=tuple(problems),
    )  # fmt: skip


def _calls(dumps: Mapping[int, Dump]) -> dict[tuple[str, int], dict[Entry, list[int]]]:
    """Return the calls at each position of a group, and the ranks that made them; ranks with equal pasts at once."""
    alike: dict[int, list[int]] = {}  # by the list of entries, which equal pasts share
    for rank, dump in dumps.items():
        alike.setdefault(id(dump.entries), []).append(rank)
    calls: dict[tuple[str, int], dict[Entry, list[int]]] = {}
    for ranks in alike.values():
        for entry in dict.fromkeys(dumps[ranks[0]].entries):
            calls.setdefault((entry.group, entry.sequence), {}).setdefault(entry, []).extend(ranks)
    return calls


def _group(ranks: tuple[int, ...], entry: Entry) -> RankGroup:
    return RankGroup(
        ranks=ranks, state=GroupState.RUNNING if entry.is_done else GroupState.BLOCKED, call=entry.operation,
        communicator=entry.group, sequence=entry.sequence, site=entry.site, detail=entry.sizes,
        has_returned=entry.is_done,
    )  # fmt: skip


def _sides(calls: Mapping[Entry, Sequence[int]]) -> list[tuple[tuple[int, ...], Entry]]:
    """Return the ranks that made a call alike with the call of the lowest, the most first."""
    entries = {rank: entry for entry, ranks in calls.items() for rank in ranks}
    alike = {
        rank: (entry.operation, entry.sizes if entry.operation in _SIZED else "") for rank, entry in entries.items()
    }
    return [(ranks, entries[ranks[0]]) for _, ranks in group_ranks(alike)]
