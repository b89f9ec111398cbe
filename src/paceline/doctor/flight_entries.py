"""Makes values of what one dump of a Flight Recorder says: its calls, and the members of its groups.

A dump may be of a stranger: what is taken of it is of a few types and short, since a pickle may name one list many
times. Ranks of a large job say nearly the same, so what was read of one rank is found again for the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any

from paceline.doctor.flight_waits import Dump, Entry
from paceline.guard.observe.stack_reading import is_not_own

_MAX_NUMBER = 1 << 62
_MAX_MEMBERS = 1_000_000  # of a group
_MAX_MEMBERS_TOGETHER = 4_000_000  # of the groups of one dump
_MAX_SIZES = 10_000  # of one call: many tensors may go in one
_MAX_FRAMES = 100  # of a call: a pickle may name one frame many times
_MOST_KEPT = 8  # readings of calls with one number: of other groups, and of ranks that called otherwise
_MOST_LISTS = 16  # readings of whole lists of calls that are kept
_is_not_own = lru_cache(10_000)(is_not_own)
# all that an entry is made of; a dump of an older torch may lack some of it
_TOLD = (
    "process_group",
    "collective_seq_id",
    "profiling_name",
    "input_sizes",
    "input_dtypes",
    "frames",
    "retired",
    "state",
    "is_p2p",
)
_told = itemgetter(*_TOLD)


class DumpReader:
    """Reads the dumps of one job. Equal calls, and equal lists of calls, are one object each."""

    def __init__(self) -> None:
        self._kept: dict[int, list[tuple[Any, Entry]]] = {}  # by number of the call: what it is made of, and the entry
        self._entries: dict[Entry, Entry] = {}
        self._lists: dict[tuple[int, ...], tuple[Entry, ...]] = {}  # by the ids of entries, which are all kept
        self._kept_lists: list[tuple[Any, tuple[Entry, ...]]] = []  # what they are made of, and the entries
        self._members: dict[str, tuple[int, ...]] = {}

    def read(self, dump: Mapping[str, Any]) -> Dump:
        """Return what a dump says.

        Raises:
            ValueError, TypeError, KeyError, AttributeError, OverflowError: It is not a dump.
        """
        values = dump["entries"]
        # a rank that stands still leaves a dump without entries, and one that never called has no status
        status = {str(name): value for name, value in (dump.get("pg_status") or {}).items()}
        return Dump(
            entries=self._read_entries(values),
            members=self._read_groups(dump.get("pg_config") or {}),
            enqueued=_enqueued(values, status) if status else {},
        )

    def _read_entries(self, values: Sequence[Mapping[str, Any]]) -> tuple[Entry, ...]:
        """Return the collectives of a rank. Most ranks of a job have made the same calls: those are found at once."""
        try:
            told = list(map(_told, values))
        except (KeyError, TypeError):
            told = []  # torch tells of some call in another way
        for known, entries in self._kept_lists:
            if told and known == told:  # as plain and short as the single ones
                return entries
        found = tuple(map(self._entry, values))
        entries = tuple(filter(None, found))
        entries = self._lists.setdefault(tuple(map(id, entries)), entries)
        if told and len(self._kept_lists) < _MOST_LISTS and None not in found and all(map(_is_plain, told)):
            self._kept_lists.append((told, entries))
        return entries

    def _entry(self, value: Mapping[str, Any]) -> Entry | None:
        """Return a collective, None for a message; all calls of a job come by here, so the shortest way is first."""
        try:
            told = _told(value)
            for known, entry in self._kept[told[1]]:
                if known == told:  # what is kept is plain and short, so this cannot take long
                    return entry
        except (KeyError, TypeError):
            pass  # nothing is kept of such a call yet, or torch tells of it in another way
        if value.get("is_p2p"):
            return None
        entry = self._intern(_read_entry(value))
        self._keep(value, entry)
        return entry

    def _keep(self, value: Mapping[str, Any], entry: Entry) -> None:
        if value.keys() >= {*_TOLD} and type(value["collective_seq_id"]) is int and _is_plain(_told(value)):
            kept = self._kept.setdefault(entry.sequence, [])
            if len(kept) < _MOST_KEPT:
                kept.append((_told(value), entry))

    def _intern(self, entry: Entry) -> Entry:
        return self._entries.setdefault(entry, entry)

    def _read_groups(self, groups: Mapping[Any, Mapping[str, Any]]) -> dict[str, tuple[int, ...]]:
        found, num_members = {}, 0
        for key, told in groups.items():
            name, members = self._read_members(key, told)
            found[name] = members
            num_members += len(members)
            if num_members > _MAX_MEMBERS_TOGETHER:
                raise ValueError(f"groups with more than {_MAX_MEMBERS_TOGETHER:,} members together")
        return found

    def _read_members(self, name: Any, told: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
        """Return a group and its ranks, which torch writes as a list or as the text of one."""
        ranks = told["ranks"]
        if not isinstance(ranks, str):
            members = _checked_members(ranks)
        elif ranks in self._members:
            members = self._members[ranks]
        else:
            members = self._members[ranks] = _checked_members(json.loads(ranks))
        return _group_name(told.get("name", name), told.get("desc", "")), members


def _enqueued(values: Sequence[Mapping[str, Any]], status: Mapping[str, Any]) -> dict[str, int]:
    """Return the last call of each group that the rank has enqueued, by the name that its calls have."""
    groups = dict(zip(map(tuple, map(itemgetter("process_group"), values)), values, strict=True))
    enqueued = {}
    for value in groups.values():
        told = status.get(_plain(value.get("pg_id", "")))
        if told is not None:
            enqueued[_group_name(*value["process_group"][:2])] = _number(told["last_enqueued_collective"])
    return enqueued


def _checked_members(ranks: Any) -> tuple[int, ...]:
    if not isinstance(ranks, list | tuple) or len(ranks) > _MAX_MEMBERS:
        raise ValueError(f"members of a group that are no list of at most {_MAX_MEMBERS:,} ranks")
    return tuple(map(_number, ranks))


def _group_name(name: Any, description: Any) -> str:
    return f"{_plain(name)} ({_plain(description)})" if description else _plain(name)


def _number(value: Any) -> int:
    number = int(value)
    if not -1 <= number < _MAX_NUMBER:
        raise ValueError("a number out of range")
    return number


def _is_plain(told: Sequence[Any]) -> bool:
    """Say whether what an entry is made of can be compared with anything in a short time."""
    group, sequence, name, _, _, frames, *rest = told  # sizes and types were looked at when they were read
    parts = [*group, sequence, name, *rest]
    if not isinstance(frames, list | tuple) or len(frames) > _MAX_FRAMES:
        return False
    parts += [part for frame in frames for part in (*frame.keys(), *frame.values())]
    return all(part is None or isinstance(part, str | int | float) for part in parts)


def _read_entry(value: Mapping[str, Any]) -> Entry:
    operation = _plain(value["profiling_name"])
    operation = operation.partition(":")[2] or operation
    sequence = int(value["collective_seq_id"])
    if not 0 <= sequence < _MAX_NUMBER:
        raise ValueError("a call has a number out of range")
    return Entry(
        group=_group_name(*value["process_group"][:2]),
        sequence=sequence,
        operation=operation,
        sizes=f"{_listed(value.get('input_sizes'))} {_listed(value.get('input_dtypes'))}",
        site=_site(value.get("frames") or ()),
        is_done=bool(value.get("retired")) or value.get("state") == "completed",
    )


def _site(frames: Any) -> str:
    with suppress(KeyError, TypeError):
        frames = frames[:_MAX_FRAMES]
        own = [frame for frame in frames if not _is_not_own(_plain(frame["filename"]))]
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
