"""Reads the JSON that `ncclras -f json` prints, and says which ranks of a communicator are behind.

RAS counts the collectives of each rank and does not say which one is open, so it tells who is behind and not where. The
counts of one answer are not of one moment either: whoever asks twice, some seconds apart, knows whether ranks stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import InputError, group_ranks, name_ranks
from paceline.process.foreign_files import read_foreign

_MAX_BYTES = 256 << 20
_MAX_NUMBER = 1 << 62
_MOST_GROUPS = 4  # of ranks that a sentence names
_UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RasCommunicator:
    """A communicator of NCCL as RAS knows it: how many collectives each rank has counted, and who did not answer."""

    name: str
    size: int
    counts: Mapping[int, Mapping[str, int]]  # rank -> operation -> calls
    missing: tuple[int, ...]  # ranks of which nothing is known

    def behind(self) -> tuple[int, ...]:
        """Return the ranks that have made fewer collectives than others; none if all are level."""
        totals = {rank: sum(calls.values()) for rank, calls in self.counts.items()}
        most = max(totals.values(), default=0)
        return tuple(sorted(rank for rank, total in totals.items() if total < most))

    @property
    def text(self) -> str | None:
        """What it shows; None if all ranks have answered and are level."""
        behind, missing = self.behind(), self.missing
        if not behind and not missing:
            return None
        groups = group_ranks({rank: _calls_text(calls) for rank, calls in self.counts.items()})
        texts = [f"{name_ranks(ranks)} {text}" for text, ranks in groups[:_MOST_GROUPS]]
        texts += [f"and {len(groups) - _MOST_GROUPS} more"] if len(groups) > _MOST_GROUPS else []
        parts = [f"communicator {self.name} of {self.size} ranks: {'; '.join(texts)}"]
        if missing:
            parts.append(f"{name_ranks(missing)} did not answer, and may be anywhere")
        elif behind:
            parts.append(f"probably the place to look: {name_ranks(behind)}, behind all others")
        return "; ".join(parts)


def read_nccl_ras(path: Path) -> tuple[RasCommunicator, ...]:
    """Read the answer of ncclras from a file.

    Raises:
        InputError: It is not such an answer.
    """
    try:
        answer = json.loads(read_foreign(path, most=_MAX_BYTES))
        return tuple(_communicator(value) for value in answer["communicators"])
    except _UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) else str(error) or type(error).__name__
        raise InputError(f"{path} is not an answer of `ncclras -f json`: {reason}") from None


def _communicator(value: Mapping[str, Any]) -> RasCommunicator:
    size = _number(value["size"])
    counts = {
        _number(rank["rank"]): {str(name): _number(calls) for name, calls in rank["collective_counts"].items()}
        for rank in value["ranks"]
    }
    missing = tuple(sorted(_number(rank["rank"]) for rank in value.get("missing_ranks") or ()))
    if any(rank >= size for rank in (*counts, *missing)):
        raise ValueError(f"a rank beyond the {size} of its communicator")
    return RasCommunicator(name=str(value["hash"])[:64], size=size, counts=counts, missing=missing)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_NUMBER:
        raise ValueError(f"{str(value)[:40]!r} where a number belongs")
    return value


def _calls_text(calls: Mapping[str, int]) -> str:
    made = [f"{number} {name}" for name, number in sorted(calls.items()) if number]
    return f"counted {', '.join(made)}" if made else "counted no collective"
