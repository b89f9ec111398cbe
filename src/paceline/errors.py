"""What Paceline raises, and the checks of input that raise it.

Every error is a `PacelineError`; an error in what the caller passed is also a `ValueError`.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

_Choice = TypeVar("_Choice", bound=Enum)
_Key = TypeVar("_Key", bound=Hashable)
_MOST_RUNS = 24  # of ranks, that a sentence names


class PacelineError(Exception):
    """The root of all errors that Paceline raises."""


class InputError(PacelineError, ValueError):
    """A value that the caller passed cannot be used."""


class _ShortRepr(reprlib.Repr):
    """Values as Python writes them, as far as a sentence has room for them."""

    def __init__(self) -> None:
        super().__init__()
        limits = {"level": 3, "list": 6, "tuple": 6, "dict": 4, "string": 80, "long": 80, "other": 80}
        vars(self).update({f"max{kind}": limit for kind, limit in limits.items()})

    def repr_int(self, value: int, level: int) -> str:
        """Return a number; Python refuses to write very long ones."""
        return super().repr_int(value, level) if abs(value) < 10**100 else f"a number of {value.bit_length()} bits"


def brief(value: Any) -> str:
    """Return a value for an error's sentence: cut off where it is long or deep, since it may be anybody's.

    >>> brief([[[[1]]]]), brief(10**400), brief("x")
    ('[[[...]]]', 'a number of 1329 bits', "'x'")
    """
    return _ShortRepr().repr(value)


class EmptyPlanError(InputError):
    """A plan that would not make a single step."""


_EXTRAS = {
    "torch": "torch", "mpi4py": "mpi", "py_spy": "doctor", "fsspec": "bench", "google_crc32c": "bench", "h5py": "bench",
    "PIL": "bench", "pyarrow": "bench", "yaml": "bench", "s3fs": "bench", "prometheus_client": "prometheus",
    "tensorboard": "tensorboard", "wandb": "wandb", "opentelemetry": "opentelemetry",
}  # fmt: skip


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Return one sentence about a package that an extra of ours would install; None if it is another package.

    >>> missing_extra(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"))
    "this needs torch, which is not installed: pip install 'paceline[torch]'"
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    return f"this needs {package}, which is not installed: pip install 'paceline[{_EXTRAS[package]}]'"


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
        raise InputError(f"{name} must be {wanted}, got {brief(value)} of type {type(value).__name__}")
    number = operator.index(value)
    if number < least or (most is not None and number > most):
        raise InputError(f"{name} must be {wanted}, got {brief(number)}")
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
        raise InputError(f"{name} must be one of {known}, got {brief(value)}") from None


def listed(name: str, values: Any, of: str) -> list[Any]:
    """Return the values of a sequence or a one-dimensional array as a list; refuse anything else.

    >>> listed("weights", (1, 2), of="one number per dataset")
    [1, 2]
    """
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise InputError(f"{name} must be {of}, got {brief(values)}")
    return [value.item() if hasattr(value, "item") else value for value in values]


def name_ranks(ranks: Iterable[int]) -> str:
    """Name ranks briefly, with runs joined.

    >>> name_ranks([6]), name_ranks([0, 1, 2, 5]), name_ranks(range(0, 800, 8))
    ('rank 6', 'ranks 0-2, 5', '100 ranks from 0 to 792')
    """
    return name_runs((rank, rank + 1) for rank in ranks)


def name_runs(runs: Iterable[tuple[int, int]]) -> str:
    """Name ranks that are given as runs of begin and end: many ranks in a short time.

    >>> name_runs([(4, 100), (0, 4), (7, 8), (200, 201)])
    'ranks 0-99, 200'
    """
    joined: list[list[int]] = []
    for begin, end in sorted(runs):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([begin, end])
    num = sum(end - begin for begin, end in joined)
    if len(joined) > _MOST_RUNS:
        return f"{num:,} ranks from {joined[0][0]} to {joined[-1][1] - 1}"
    texts = [str(begin) if end == begin + 1 else f"{begin}-{end - 1}" for begin, end in joined]
    return f"{'rank' if num == 1 else 'ranks'} {', '.join(texts)}"


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
