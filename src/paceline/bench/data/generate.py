"""Generates the files of a workload: by several ranks that need not talk, and from where an earlier attempt ended.

Files come in blocks, whose number follows from the number of files alone. Rank b mod W makes block b. When all its
files are written, a ledger says so, with the size and checksum of each; a block with a ledger is done, whichever rank
made it. The rank that finds all ledgers writes the manifest, which says that the data set is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import google_crc32c

from paceline.bench.data.files import Files
from paceline.bench.data.formats import format_of
from paceline.bench.data.manifest import MANIFEST, SplitEntry, foreign_file_text, is_manifest, splits_of
from paceline.bench.data.store import Store
from paceline.bench.workload.sections import Workload
from paceline.errors import InputError, PacelineError

_MOST_BLOCKS = 1024
_CHECKSUM = 0xFFFFFFFF
_MARK = ".paceline/begun"  # written before the first file: whatever has the name of one is ours from then on


class GenerateError(PacelineError):
    """Files could not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """What a ledger says about a file."""

    num_bytes: int
    checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some files of one split, and the ledger that says that they are written."""

    files: Files
    number: int
    first: int
    end: int

    @property
    def ledger(self) -> str:
        """Where the ledger is."""
        return f".paceline/{self.files.split}-{self.files.fingerprint()}/{self.number}.csv"


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
    """Make this rank's files, and the manifest if nothing is missing then; return whether the data set is complete.

    Args:
        workload: The workload.
        store: Where files go.
        rank: Which share of the blocks is made here.
        world_size: How many shares there are.
        verify: Whether to read existing files and compare them with the ledger; damaged ones are written again.
        on_file: Called after each file with its bytes, even if it existed.

    Raises:
        InputError: The folder holds files of somebody else with the names that files would have here.
    """
    splits = splits_of(workload)
    blocks = [block for files in splits for block in blocks_of(files) if block.number % world_size == rank]
    _claim(store, blocks)
    for block in blocks:
        _write_block(block, store, verify, on_file)
    entries = {files.split: _split_entry(files, store) for files in splits}
    if None in entries.values():
        return False
    manifest = {"version": 1, "format": workload.dataset.format, "splits": entries}
    store.write(MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")
    return True


def _claim(store: Store, blocks: Sequence[Block]) -> None:
    """Mark the folder as that of a data set of ours, unless files of somebody else would be overwritten."""
    if store.exists(_MARK):
        return
    if store.exists(MANIFEST):
        try:
            is_ours = is_manifest(json.loads(store.read(MANIFEST)))
        except ValueError:
            is_ours = False
        if not is_ours:
            raise InputError(foreign_file_text(store, MANIFEST))
    else:
        for block in blocks:
            for path in map(block.files.path, range(block.first, block.end)):
                if store.exists(path) and not store.exists(block.ledger):
                    raise InputError(foreign_file_text(store, path))
    store.write(_MARK, b"paceline bench\n")


def _write_block(block: Block, store: Store, verify: bool, on_file: Callable[[int], None]) -> None:
    ledger = _read_ledger(block, store)
    if ledger is not None and not verify:
        for entry in ledger:
            on_file(entry.num_bytes)
        return
    record_format, lines = format_of(block.files), []
    per_file = block.files.dataset.num_samples_per_file
    for file in range(block.first, block.end):
        path = block.files.path(file)
        stored = _stored_entry(store, path) if ledger is not None else None
        if stored is None or ledger is None or stored != ledger[file - block.first]:
            content = record_format.encode([block.files.content(file * per_file + slot) for slot in range(per_file)])
            try:
                store.write(path, content)
            except OSError as error:
                raise GenerateError(f"{store.url}/{path} cannot be written: {error.strerror or error}") from error
            stored = FileEntry(num_bytes=len(content), checksum=google_crc32c.value(bytes(content)))
        lines.append(f"{file},{stored.num_bytes},{stored.checksum:08x}\n")
        on_file(stored.num_bytes)
    store.write(block.ledger, "".join(lines).encode())


def _stored_entry(store: Store, path: str) -> FileEntry | None:
    """Return the entry of a file as it is stored now, or None if it is missing."""
    try:
        content = store.read(path)
    except FileNotFoundError:
        return None
    return FileEntry(num_bytes=len(content), checksum=google_crc32c.value(content))


def _read_ledger(block: Block, store: Store) -> list[FileEntry] | None:
    """Return the entry of each file of a block, or None if the block is not done, or its ledger is damaged."""
    try:
        fields = [line.split(",") for line in store.read(block.ledger).decode().splitlines()]
        entries = {
            int(file): FileEntry(num_bytes=int(size), checksum=int(checksum, 16) & _CHECKSUM)
            for file, size, checksum in fields
        }
    except (FileNotFoundError, ValueError):
        return None
    files = range(block.first, block.end)
    if list(entries) != list(files) or len(fields) != len(files):
        return None
    return list(entries.values())


def _split_entry(files: Files, store: Store) -> SplitEntry | None:
    """Return what the manifest says about a split, with the checksum of all files; None if a block is missing."""
    num_bytes, checksum = 0, 0
    for block in blocks_of(files):
        ledger = _read_ledger(block, store)
        if ledger is None:
            return None
        num_bytes += sum(entry.num_bytes for entry in ledger)
        checksum = google_crc32c.extend(checksum, b"".join(entry.checksum.to_bytes(4, "little") for entry in ledger))
    return SplitEntry(
        fingerprint=files.fingerprint(),
        num_files=files.num_files,
        num_samples=files.num_samples,
        num_samples_per_file=files.dataset.num_samples_per_file,
        num_bytes=num_bytes,
        checksum=f"{checksum:08x}",
    )
