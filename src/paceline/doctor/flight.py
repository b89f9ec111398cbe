"""Reads the dumps of torch's Flight Recorder, and says at which call of a group ranks first differ.

A dump is a pickle, and a pickle is a program. It is read by an unpickler that makes lists, dictionaries, texts and
numbers, and refuses everything else, so a file of a stranger can do no harm.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.doctor.stack_calls import is_not_own
from paceline.errors import InputError, group_ranks, name_ranks
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind, GroupState, RankGroup

_MAX_BYTES = 256 << 20
_NUMBER_AT_END = re.compile(r"(\d+)(\.json|\.pickle|\.pkl)?$")
_SIZED = ("all_reduce", "allreduce", "broadcast", "reduce")  # in which every rank brings the same sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call of one rank, as torch has recorded it."""

    group: str
    sequence: int
    operation: str
    sizes: str
    site: str
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightRecord:
    """What the dumps say together."""

    ranks: tuple[int, ...]
    mismatch: str | None  # the first call of a group that ranks made differently
    odd_ranks: tuple[int, ...]
    groups: tuple[RankGroup, ...]  # who made which call there
    says: tuple[str, ...]
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
    entries: dict[int, list[Entry]] = {}
    problems = []
    for path in sorted(folder.iterdir()):
        number = _NUMBER_AT_END.search(path.name)
        if not path.is_file() or number is None:
            continue
        try:
            entries[int(number.group(1))] = _read(path)
        except (
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            EOFError,
            IndexError,
            pickle.PickleError,
        ) as error:
            problems.append(f"{path.name} is not a readable dump: {error}")
    if not entries:
        more = f" ({problems[0]})" if problems else ""
        raise InputError(f"{folder} holds no dump of the Flight Recorder: files whose names end in a rank{more}")
    return _compare(entries, problems)


def _read(path: Path) -> list[Entry]:
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES >> 20} MiB")
    data = path.read_bytes()
    dump = json.loads(data) if data[:1] in (b"{", b" ", b"\n") else _OnlyData(io.BytesIO(data)).load()
    return [_entry(value) for value in dump["entries"] if not value.get("is_p2p")]


def _entry(value: Mapping[str, Any]) -> Entry:
    group = value["process_group"]
    name = f"{group[0]} ({group[1]})" if group[1] else str(group[0])
    operation = str(value["profiling_name"]).partition(":")[2] or str(value["profiling_name"])
    sizes = f"{value.get('input_sizes')} {value.get('input_dtypes')}"
    return Entry(
        group=name,
        sequence=int(value["collective_seq_id"]),
        operation=operation,
        sizes=sizes,
        site=_site(value.get("frames") or ()),
        is_done=bool(value.get("retired")) or value.get("state") == "completed",
    )


def _site(frames: Any) -> str:
    with suppress(KeyError, TypeError):
        own = [frame for frame in frames if not is_not_own(str(frame["filename"]))]
        chosen = next(iter(own or frames), None)
        if chosen is not None:
            return f"{chosen['filename']}:{chosen['line']}"
    return "?"


def _compare(entries: Mapping[int, list[Entry]], problems: list[str]) -> FlightRecord:
    calls: dict[tuple[str, int], dict[int, Entry]] = {}
    for rank, made in entries.items():
        for entry in made:
            calls.setdefault((entry.group, entry.sequence), {})[rank] = entry
    mismatch: str | None = None
    odd: tuple[int, ...] = ()
    groups: tuple[RankGroup, ...] = ()
    for (group, sequence), by_rank in sorted(calls.items(), key=lambda item: item[0][1]):
        sides = _sides(by_rank)
        if len(sides) > 1:
            said = "; ".join(
                f"{name_ranks(ranks)} {by_rank[ranks[0]].operation} at {by_rank[ranks[0]].site}" for ranks in sides
            )
            mismatch = f"call {sequence} of group {group} differs: {said}"
            odd = sides[-1] if len(sides[-1]) < len(sides[0]) else ()
            groups = tuple(_group(ranks, by_rank[ranks[0]]) for ranks in sides)
            break
    return FlightRecord(
        ranks=tuple(sorted(entries)), mismatch=mismatch, odd_ranks=odd, groups=groups,
        says=tuple(_says(entries, calls)), problems=tuple(problems),
    )  # fmt: skip


def _group(ranks: tuple[int, ...], entry: Entry) -> RankGroup:
    return RankGroup(
        ranks=ranks, state=GroupState.RUNNING if entry.is_done else GroupState.BLOCKED, call=entry.operation,
        communicator=entry.group, sequence=entry.sequence, site=entry.site, detail=entry.sizes,
        has_returned=entry.is_done,
    )  # fmt: skip


def _sides(by_rank: Mapping[int, Entry]) -> list[tuple[int, ...]]:
    """Return the ranks that made a call alike, the most first."""
    alike = {
        rank: (entry.operation, entry.sizes if entry.operation in _SIZED else "") for rank, entry in by_rank.items()
    }
    return [ranks for _, ranks in group_ranks(alike)]


def _says(entries: Mapping[int, list[Entry]], calls: Mapping[tuple[str, int], Mapping[int, Entry]]) -> list[str]:
    """Say which ranks have not come to the last call of a group that others are in."""
    said = []
    members: dict[str, set[int]] = {}
    for (group, _), by_rank in calls.items():
        members.setdefault(group, set()).update(by_rank)
    for group, ranks in members.items():
        last = max(sequence for name, sequence in calls if name == group)
        there = calls[group, last]
        behind = sorted(ranks - there.keys())
        waiting = sorted(rank for rank, entry in there.items() if not entry.is_done)
        if behind and waiting:
            entry = there[waiting[0]]
            reached = {rank: max(e.sequence for e in entries[rank] if e.group == group) for rank in behind}
            where = ", ".join(f"rank {rank} to call {reached[rank]}" for rank in behind[:4])
            said.append(
                f"{name_ranks(waiting)} in call {last} of group {group}, {entry.operation} at {entry.site}; "
                f"when the dumps were made, others had come only so far: {where}"
            )
    return said
