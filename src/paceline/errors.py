"""What Paceline raises, and the checks of input that raise it.

Every error is a `PacelineError`; an error in what the caller passed is also a `ValueError`.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

_Choice = TypeVar("_Choice", bound=Enum)
_Key = TypeVar("_Key", bound=Hashable)


class PacelineError(Exception):
    """The root of all errors that Paceline raises."""


class InputError(PacelineError, ValueError):
    """A value that the caller passed cannot be used."""


class EmptyPlanError(InputError):
    """A plan that would not make a single step."""


def whole_number(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return `value` as an int, or say why it is not a whole number in range.

    Booleans and floats are refused, even `True` and `3.0`: they are a slip more often than a choice.

    >>> whole_number("world_size", 7, least=1)
    7
    >>> whole_number("world_size", 0, least=1)
    Traceback (most recent call last):
    paceline.errors.InputError: world_size must be a whole number of at least 1, got 0
    """
    wanted = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    # numpy.bool_ has no __index__, so only Python's own bool needs naming
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{name} must be {wanted}, got {value!r} of type {type(value).__name__}")
    number = operator.index(value)
    if number < least or (most is not None and number > most):
        raise InputError(f"{name} must be {wanted}, got {number}")
    return number


def choice(kind: type[_Choice], name: str, value: Any) -> _Choice:
    """Return the member of an enum that a value names, or say which members there are.

    Raises:
        InputError: If the enum has no such member.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in kind)
        raise InputError(f"{name} must be one of {known}, got {value!r}") from None


def listed(name: str, values: Any, of: str) -> list[Any]:
    """Return the values of a sequence or a one-dimensional array as a list; refuse anything else.

    >>> listed("weights", (1, 2), of="one number per dataset")
    [1, 2]
    """
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise InputError(f"{name} must be {of}, got {values!r}")
    return [value.item() if hasattr(value, "item") else value for value in values]


def name_ranks(ranks: Iterable[int]) -> str:
    """Name ranks briefly, with runs joined.

    >>> name_ranks([6]), name_ranks([0, 1, 2, 5])
    ('rank 6', 'ranks 0-2, 5')
    """
    ordered = sorted(ranks)
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    return f"{'rank' if len(ordered) == 1 else 'ranks'} {', '.join(texts)}"


def group_ranks(keys: Mapping[int, _Key]) -> list[tuple[_Key, tuple[int, ...]]]:
    """Put ranks that have the same key together: the largest group first, and of equal ones that of the lowest rank.

    >>> group_ranks({0: "barrier", 1: "reduce", 2: "reduce", 3: "gather"})
    [('reduce', (1, 2)), ('barrier', (0,)), ('gather', (3,))]
    """
    groups: dict[_Key, list[int]] = {}
    for rank in sorted(keys):
        groups.setdefault(keys[rank], []).append(rank)
    # sorted() is stable, and groups were met in the order of their lowest ranks
    return [(key, tuple(ranks)) for key, ranks in sorted(groups.items(), key=lambda item: -len(item[1]))]
