"""Settings that loaders hand on to torch's DataLoader. A misspelt one is refused, with the name that may be meant."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, TypedDict

from torch.utils.data import DataLoader

from paceline.errors import InputError

# what a loader decides itself
_NOT_FOR_USERS = {
    "self", "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "drop_last"
}  # fmt: skip


class WorkerSettings(TypedDict, total=False):
    """Settings of torch's DataLoader, for a type checker; those of later versions are handed on too."""

    pin_memory: bool
    prefetch_factor: int | None
    persistent_workers: bool
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: Any
    timeout: float
    generator: Any
    pin_memory_device: str
    in_order: bool


@cache
def _known_settings() -> tuple[str, ...]:
    """Return the names that the DataLoader of this version of torch takes, but for those that a loader decides."""
    return tuple(name for name in inspect.signature(DataLoader.__init__).parameters if name not in _NOT_FOR_USERS)


def check_worker_settings(owner: str, settings: Mapping[str, Any], own_names: Collection[str] = ()) -> None:
    """Refuse a name that is not a setting of torch's DataLoader.

    >>> check_worker_settings("Loader", {"prefetch_facto": 2})
    Traceback (most recent call last):
    paceline.errors.InputError: Loader has no setting 'prefetch_facto': did you mean 'prefetch_factor'?

    Args:
        owner: The loader, as the error names it.
        settings: The settings that the user passed.
        own_names: Settings of the loader itself, which may be meant.
    """
    for name in settings:
        if name not in (known := _known_settings()):
            close = difflib.get_close_matches(name, [*own_names, *known], n=1)
            advice = f"did you mean {close[0]!r}?" if close else f"those of torch's workers are {', '.join(known)}"
            raise InputError(f"{owner} has no setting {name!r}: {advice}")
