"""What a rank says once, as lines of JSON in its ring: its folder, its call sites, its communicators, how it ended.

One parser for both readers: the judge, while the rank lives, and a report, long after, where lines may be broken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.guard.shared_memory.number_ranges import from_ranges

UNKNOWN_SITE = "?:0"
_MAX_MEMBERS = 1 << 20  # a broken file may name any size
_BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicatorText:
    """What a rank says of a communicator.

    Attributes:
        identity: The same text on all members, and on no other communicator of the run.
        world: The name of the world that it is part of; ranks are numbered as there.
        name: As people know it: WORLD, Split 2.
        size: The number of members.
        ranks: The members, in their order; None: they are the first ranks of the world, in order.
        first: Calls of the rank before it knew the communicator. Earlier records with its number are of another one.
    """

    identity: str
    world: str
    name: str
    size: int
    ranks: tuple[int, ...] | None
    first: int

    def members(self, worlds: Mapping[str, Mapping[int, int]]) -> tuple[int, ...]:
        """Return the members as ranks of the job.

        Args:
            worlds: For each world of the job, the rank of the job by the rank in that world.
        """
        numbers = worlds.get(self.world, {})
        ranks = range(min(self.size, _MAX_MEMBERS)) if self.ranks is None else self.ranks
        return tuple(numbers.get(rank, rank) for rank in ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteText:
    """A call site as file:line, the lines of the user's code that led there, and those of a library that made the call.

    Each is listed from the inside out; those of a library are function and file:line.
    """

    site: str = UNKNOWN_SITE
    callers: tuple[str, ...] = ()
    library: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldText:
    """What a process says of a world that it has joined: its rank there, and the number of ranks."""

    rank: int
    size: int


@dataclass(slots=True)
class RingTexts:
    """All that a rank has said so far."""

    folder: str = ""
    worlds: dict[str, WorldText] = field(default_factory=dict)  # by name, in the order in which they were joined
    sites: dict[int, SiteText] = field(default_factory=dict)
    communicators: dict[int, CommunicatorText] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)  # identities of communicators whose number another has got
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)  # what a members_hash stands for
    others: list[dict[str, Any]] = field(default_factory=list)  # how it ended, and what could not be watched
    rename: Callable[[str], str] = str  # gives a communicator that two jobs share the name that is used for both

    def rename_communicators(self, rename: Callable[[str], str]) -> None:
        """Give communicators other identities, those that are known and those that come later."""
        self.rename = rename
        self.forgotten = {rename(identity) for identity in self.forgotten}
        for index, known in self.communicators.items():
            self.communicators[index] = replace(known, identity=rename(known.identity))

    def read_line(self, line: bytes) -> bool:
        """Take in one line; say whether it could be read."""
        try:
            self._take(json.loads(line))
        except _BROKEN:
            return False
        return True

    def _take(self, value: dict[str, Any]) -> None:
        if "site" in value:
            texts, library = self.frames_text(value["frames"]), value.get("library") or []
            self.sites[int(value["site"])] = SiteText(
                site=texts[0] if texts else UNKNOWN_SITE,
                callers=tuple(texts[1:]),
                library=tuple(f"{frame[2]} ({shown_library(str(frame[0]))}:{int(frame[1])})" for frame in library),
            )
        elif "comm" in value:
            before = self.communicators.get(int(value["comm"]))
            if before is not None:
                self.forgotten.add(before.identity)
            self.communicators[int(value["comm"])] = CommunicatorText(
                identity=self.rename(str(value["id"])), world=str(value.get("world", "")), name=str(value["name"]),
                size=int(value["size"]), ranks=_ranks_in(value),
                first=int(value["first"]),
            )  # fmt: skip
        elif "world" in value:
            self.worlds[str(value["world"])] = WorldText(rank=int(value["rank"]), size=int(value["size"]))
        elif "group" in value:
            self.groups[int(value["group"])] = _ranks_in(value) or ()
        elif "cwd" in value:
            self.folder = str(value["cwd"])
        else:
            self.others.append(dict(value))

    def frames_text(self, frames: Sequence[Sequence[Any]]) -> list[str]:
        """Return frames as file:line."""
        return [f"{shown_path(str(frame[0]), self.folder)}:{int(frame[1])}" for frame in frames]

    def site(self, number: int) -> SiteText:
        """Return a call site by its number."""
        return self.sites.get(number, SiteText())


def _ranks_in(value: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the ranks that a text lists; None if it lists none. Records that are kept may list them one by one."""
    if "ranks" in value:
        return tuple(int(rank) for rank in value["ranks"])
    return from_ranges(value["ranges"], most=_MAX_MEMBERS) if "ranges" in value else None


def shown_library(path: str) -> str:
    """Return the path of an installed file as its package has it.

    >>> shown_library("/opt/venv/lib/python3.11/site-packages/transformers/trainer.py")
    'transformers/trainer.py'
    """
    for folder in ("site-packages", "dist-packages"):
        _, found, rest = path.rpartition(f"{os.sep}{folder}{os.sep}")
        if found:
            return rest
    return path


def shown_path(path: str, folder: str) -> str:
    """Return a path as short as it can be without losing anything: from the folder, if it is below that.

    >>> shown_path("/home/me/job/train.py", "/home/me/job"), shown_path("/opt/lib.py", "/home/me/job")
    ('train.py', '/opt/lib.py')
    """
    return path[len(folder) + 1 :] if folder and path.startswith(f"{folder}{os.sep}") else path
