"""Makes the files of a workload: by several ranks that need not talk, and from where an earlier attempt ended.

Files come in blocks, whose number follows from the number of files alone. Block b is rank b mod W's. When all its files
are written, a ledger says so, with size and checksum of each; a block with a ledger is done, whoever made it and with
however many ranks. Whoever finds all ledgers there writes the manifest, which says that the data set is whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import google_crc32c

from paceline.bench.data.files import Files
from paceline.bench.data.formats import format_of
from paceline.bench.data.store import Store
from paceline.bench.workload.sections import Workload
from paceline.errors import InputError, PacelineError

_MOST_BLOCKS = 1024
_SPLITS = ("train", "eval")
_MANIFEST = "manifest.json"


class GenerateError(PacelineError):
    """Files could not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some files of one split, and the ledger that says that they are there."""

    files: Files
    number: int
    first: int
    end: int

    @property
    def ledger(self) -> str:
        """Where the ledger is."""
        return f".paceline/{self.files.split}-{self.files.fingerprint()}/{self.number}.csv"


def splits_of(workload: Workload) -> list[Files]:
    """Return the splits that have files."""
    return [files for split in _SPLITS if (files := Files(workload.dataset, split)).num_files]


def blocks_of(files: Files) -> Iterator[Block]:
    """Yield the blocks of a split."""
    size = -(-files.num_files // _MOST_BLOCKS)
    for number, first in enumerate(range(0, files.num_files, size)):
        yield Block(files=files, number=number, first=first, end=min(first + size, files.num_files))


def generate(
    workload: Workload,
    store: Store,
    *,
    rank: int = 0,
    world_size: int = 1,
    verify: bool = False,
    on_file: Callable[[int], None] = lambda num_bytes: None,
) -> bool:
    """Make this rank's files, and the manifest if nothing is missing then; say whether it is there.

    Args:
        workload: The workload.
        store: Where files go.
        rank: Which share of the blocks is made here.
        world_size: How many shares there are.
        verify: Whether files that are there are read and compared with the ledger; those that differ are made anew.
        on_file: Called after each file with its bytes, also if it was there.
    """
    splits = splits_of(workload)
    for files in splits:
        for block in blocks_of(files):
            if block.number % world_size == rank:
                _make(block, store, verify, on_file)
    totals = [_totals(files, store) for files in splits]
    if not all(totals):
        return False
    told = {files.split: _described(files) | (total or {}) for files, total in zip(splits, totals, strict=True)}
    about = {"version": 1, "format": workload.dataset.format, "splits": told}
    store.write(_MANIFEST, json.dumps(about, indent=2).encode() + b"\n")
    return True


def check_manifest(workload: Workload, store: Store) -> dict[str, Any]:
    """Return what the manifest says of each split; that it is missing, or of other files, is an error."""
    try:
        told: dict[str, Any] = json.loads(store.read(_MANIFEST))
    except FileNotFoundError:
        raise InputError(
            f"{store.url} does not hold this data set, or not all of it: paceline bench generate"
        ) from None
    except Exception as error:  # of an object store: every package has its own kinds
        if store.is_local:
            raise
        raise InputError(f"{store.url} cannot be read: {type(error).__name__}: {error}") from None
    splits: dict[str, Any] = told["splits"]
    for files in splits_of(workload):
        there = splits.get(files.split)
        if there is None or there["fingerprint"] != files.fingerprint():
            raise InputError(
                f"{store.url} holds other {files.split} files than the workload describes: "
                f"{there and there['num_files']} files of {told['format']}, {files.num_files} of "
                f"{workload.dataset.format} are asked for; generate again, or name another dataset.data_folder"
            )
    return splits


def _described(files: Files) -> dict[str, Any]:
    return {
        "fingerprint": files.fingerprint(),
        "num_files": files.num_files,
        "num_samples": files.num_samples,
        "num_samples_per_file": files.dataset.num_samples_per_file,
    }


def _make(block: Block, store: Store, verify: bool, on_file: Callable[[int], None]) -> None:
    known = _ledger(block, store)
    if known is not None and not verify:
        for size, _ in known:
            on_file(size)
        return
    form, lines = format_of(block.files), []
    per_file = block.files.dataset.num_samples_per_file
    for file in range(block.first, block.end):
        path = block.files.path(file)
        entry = _as_it_is(store, path) if known is not None else None
        if entry is None or known is None or entry != known[file - block.first]:
            content = form.encode([block.files.content(file * per_file + slot) for slot in range(per_file)])
            try:
                store.write(path, content)
            except OSError as error:
                raise GenerateError(f"{store.url}/{path} cannot be written: {error.strerror or error}") from error
            entry = len(content), google_crc32c.value(bytes(content))
        lines.append(f"{file},{entry[0]},{entry[1]:08x}\n")
        on_file(entry[0])
    store.write(block.ledger, "".join(lines).encode())


def _as_it_is(store: Store, path: str) -> tuple[int, int] | None:
    try:
        content = store.read(path)
    except FileNotFoundError:
        return None
    return len(content), google_crc32c.value(content)


def _ledger(block: Block, store: Store) -> list[tuple[int, int]] | None:
    """Return size and checksum of each file of a block, or None if it is not done."""
    try:
        lines = store.read(block.ledger).decode().splitlines()
    except FileNotFoundError:
        return None
    return [(int(size), int(crc, 16)) for _, size, crc in (line.split(",") for line in lines)]


def _totals(files: Files, store: Store) -> dict[str, Any] | None:
    """Return the bytes and the checksum of all files; None if a block is missing."""
    num_bytes, checksum = 0, 0
    for block in blocks_of(files):
        ledger = _ledger(block, store)
        if ledger is None:
            return None
        num_bytes += sum(size for size, _ in ledger)
        checksum = google_crc32c.extend(checksum, b"".join(crc.to_bytes(4, "little") for _, crc in ledger))
    return {"num_bytes": num_bytes, "checksum": f"{checksum:08x}"}
