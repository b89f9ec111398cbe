"""The manifest of a data set: it says that all files are there, and which workload they were made for."""

from __future__ import annotations

import json
from typing import Any, TypedDict

from paceline.bench.data.files import Files
from paceline.bench.data.store import Store
from paceline.bench.workload.sections import Workload
from paceline.errors import InputError

MANIFEST = "manifest.json"
_SPLITS = ("train", "eval")


class SplitEntry(TypedDict):
    """What the manifest says about a split."""

    fingerprint: str
    num_files: int
    num_samples: int
    num_samples_per_file: int
    num_bytes: int
    checksum: str


def splits_of(workload: Workload) -> list[Files]:
    """Return the splits that have files."""
    return [files for split in _SPLITS if (files := Files(workload.dataset, split)).num_files]


def check_manifest(workload: Workload, store: Store) -> dict[str, SplitEntry]:
    """Return what the manifest says about each split; raise InputError if it is missing, or about other files."""
    try:
        manifest: dict[str, Any] = json.loads(store.read(MANIFEST))
    except FileNotFoundError:
        raise InputError(
            f"{store.url} does not hold this data set, or not all of it: paceline bench generate"
        ) from None
    except ValueError:
        raise InputError(foreign_file_text(store, MANIFEST)) from None
    except Exception as error:  # an object store raises errors of its own package
        if store.is_local:
            raise
        raise InputError(f"{store.url} cannot be read: {type(error).__name__}: {error}") from None
    if not is_manifest(manifest):
        raise InputError(foreign_file_text(store, MANIFEST))
    splits: dict[str, SplitEntry] = manifest["splits"]
    for files in splits_of(workload):
        entry = splits.get(files.split)
        if entry is None or entry["fingerprint"] != files.fingerprint():
            raise InputError(
                f"{store.url} holds other {files.split} files than the workload describes: "
                f"{entry['num_files'] if entry is not None else 'no'} files of {manifest['format']}, but the workload "
                f"has {files.num_files} of {workload.dataset.format}; generate again, or change dataset.data_folder"
            )
    return splits


def is_manifest(value: Any) -> bool:
    """Tell whether this is a manifest as `generate` writes it."""
    splits = value.get("splits") if isinstance(value, dict) else None
    return (
        isinstance(splits, dict)
        and "format" in value
        and all(
            isinstance(split, dict) and split.keys() >= SplitEntry.__annotations__.keys() for split in splits.values()
        )
    )


def foreign_file_text(store: Store, path: str) -> str:
    """Return what is said of a file that is in the way."""
    return f"{store.url}/{path} was not made by `paceline bench generate`: name another dataset.data_folder"
