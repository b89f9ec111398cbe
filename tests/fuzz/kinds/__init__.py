"""Kinds of inputs. Each gives a function that spoils one input with the chance it is given, and has it read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from paceline.errors import InputError

Attempt = Callable[[Random], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of input.

    Attributes:
        prepare: Makes what is to be spoiled in a folder, and returns what spoils one of it and reads it.
        allowed: The errors that may come of it.
        share: How many inputs it has, compared with others: fewer where one takes long.
    """

    prepare: Callable[[Path], Attempt]
    allowed: type[Exception] = InputError
    share: float = 1.0


def all_kinds() -> Mapping[str, Kind]:
    """Return all kinds by their names."""
    from tests.fuzz.kinds import figures, records, samples, states, workloads

    kinds: dict[str, Kind] = {}
    for module in (records, states, workloads, samples, figures):
        kinds |= module.KINDS
    return kinds
