"""Reads the dumps of torch's Flight Recorder, and says at which call of a group ranks first differ.

A dump is a pickle, and a pickle is a program. It is read by an unpickler that makes lists, dictionaries, texts and
numbers, and refuses everything else, so a file of a stranger can do no harm. Its steps are looked at first: some ask
for memory of any size. What is shown of it is of a few types and short, since a pickle may name one list many times.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.doctor.flight_waits import Dump, Entry, find_waits, waits_as_text, where_to_look
from paceline.errors import InputError, group_ranks, name_ranks
from paceline.guard.observe.stack_reading import is_not_own
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind, GroupState, RankGroup
from paceline.process.foreign_files import read_foreign

_MAX_BYTES = 64 << 20
_MAX_STEPS = 10_000_000  # of a pickle; a dump of torch has some hundred for each call
_MAX_NUMBER = 1 << 62
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")  # steps of a pickle that name a place
_MAX_MEMBERS = 1_000_000  # of a group
_MAX_SIZES = 10_000  # of one call: many tensors may go in one
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
    dumps: dict[int, Dump] = {}
    problems = []
    for path in sorted(folder.iterdir()):
        number = _NUMBER_AT_END.search(path.name)
        if not path.is_file() or number is None:
            continue
        try:
            dumps[int(number.group(1))] = _read(path)
        except _UNREADABLE as error:
            reason = error.strerror if isinstance(error, OSError) else str(error) or type(error).__name__
            problems.append(f"{path.name} is not a readable dump: {reason}")
    if not dumps:
        more = f" ({problems[0]})" if problems else ""
        raise InputError(f"{folder} holds no dump of the Flight Recorder: files whose names end in a rank{more}")
    return _compare(dumps, problems)


def _read(path: Path) -> Dump:
    data = read_foreign(path, most=_MAX_BYTES)
    dump = json.loads(data) if data[:1] in (b"{", b" ", b"\n") else _unpickle(data)
    values = dump["entries"]
    # a rank that stands still leaves a dump without entries, and one that never called has no status
    status = {str(name): value for name, value in (dump.get("pg_status") or {}).items()}
    enqueued: dict[str, int] = {}
    for value in values:
        told = status.get(_plain(value.get("pg_id", "")))
        if told is not None:
            enqueued[_group_name(*value["process_group"][:2])] = _number(told["last_enqueued_collective"])
    return Dump(
        entries=tuple(_entry(value) for value in values if not value.get("is_p2p")),
        members=dict(_members(name, told) for name, told in (dump.get("pg_config") or {}).items()),
        enqueued=enqueued,
    )


def _members(name: Any, told: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    """Return a group and its ranks, which torch writes as a list or as the text of one."""
    ranks = told["ranks"]
    if isinstance(ranks, str):
        ranks = json.loads(ranks)
    if not isinstance(ranks, list | tuple) or len(ranks) > _MAX_MEMBERS:
        raise ValueError(f"members of a group that are no list of at most {_MAX_MEMBERS:,} ranks")
    return _group_name(told.get("name", name), told.get("desc", "")), tuple(map(_number, ranks))


def _group_name(name: Any, description: Any) -> str:
    return f"{_plain(name)} ({_plain(description)})" if description else _plain(name)


def _number(value: Any) -> int:
    number = int(value)
    if not -1 <= number < _MAX_NUMBER:
        raise ValueError("a number out of range")
    return number


def _unpickle(data: bytes) -> Any:
    for num_steps, (step, argument, _) in enumerate(pickletools.genops(data), start=1):
        if num_steps > _MAX_STEPS:
            raise ValueError(f"it has more than {_MAX_STEPS:,} steps")
        # places are numbered one by one; room for all up to the highest number is made at once
        if step.name in _PUTS and isinstance(argument, int) and not 0 <= argument <= num_steps:
            raise ValueError(f"it asks for {argument:,} places")
    return _OnlyData(io.BytesIO(data)).load()


def _entry(value: Mapping[str, Any]) -> Entry:
    name = _group_name(*value["process_group"][:2])
    operation = _plain(value["profiling_name"])
    operation = operation.partition(":")[2] or operation
    sizes = f"{_listed(value.get('input_sizes'))} {_listed(value.get('input_dtypes'))}"
    sequence = int(value["collective_seq_id"])
    if not 0 <= sequence < _MAX_NUMBER:
        raise ValueError("a call has a number out of range")
    return Entry(
        group=name,
        sequence=sequence,
        operation=operation,
        sizes=sizes,
        site=_site(value.get("frames") or ()),
        is_done=bool(value.get("retired")) or value.get("state") == "completed",
    )


def _site(frames: Any) -> str:
    with suppress(KeyError, TypeError):
        own = [frame for frame in frames if not is_not_own(_plain(frame["filename"]))]
        chosen = next(iter(own or frames), None)
        if chosen is not None:
            return f"{_plain(chosen['filename'])}:{_plain(chosen['line'])}"
    return "?"


def _plain(value: Any) -> str:
    """Return a text or a number as text; refuse what may hold itself many times."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and (isinstance(value, float) or abs(value) < _MAX_NUMBER):
        return str(value)
    raise ValueError(f"a {type(value).__name__} where a text or a number belongs")


def _listed(value: Any, depth: int = 0) -> str:
    """Return sizes or types as Python would show them."""
    if value is None:
        return "None"
    if not isinstance(value, list | tuple):
        return repr(value) if isinstance(value, str) else _plain(value)
    num_sizes = sum(len(inner) if isinstance(inner, list | tuple) else 1 for inner in value)
    if depth > 1 or num_sizes > _MAX_SIZES:
        raise ValueError("sizes that are nested too deeply, or too many")
    return f"[{', '.join(_listed(inner, depth + 1) for inner in value)}]"


def _compare(dumps: Mapping[int, Dump], problems: list[str]) -> FlightRecord:
    calls: dict[tuple[str, int], dict[int, Entry]] = {}
    for rank, dump in dumps.items():
        for entry in dump.entries:
            calls.setdefault((entry.group, entry.sequence), {})[rank] = entry
    mismatch: str | None = None
    odd: tuple[int, ...] = ()
    groups: tuple[RankGroup, ...] = ()
    for (group, sequence), by_rank in sorted(calls.items(), key=lambda item: item[0][1]):
        sides = _sides(by_rank)
        if len(sides) > 1:
            texts = "; ".join(
                f"{name_ranks(ranks)} {by_rank[ranks[0]].operation} at {by_rank[ranks[0]].site}" for ranks in sides
            )
            mismatch = f"call {sequence} of group {group} differs: {texts}"
            odd = sides[-1] if len(sides[-1]) < len(sides[0]) else ()
            groups = tuple(_group(ranks, by_rank[ranks[0]]) for ranks in sides)
            break
    waits = find_waits(dumps)
    return FlightRecord(
        ranks=tuple(sorted(dumps)), mismatch=mismatch, odd_ranks=odd, groups=groups,
        says=tuple(waits_as_text(waits, dumps)), look_at=where_to_look(waits), problems=tuple(problems),
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
