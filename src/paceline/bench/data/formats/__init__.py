"""File formats: records in, a file out, and one record back.

A file of one record is read whole. From a file of many only the record is read, where the format allows it. The package
that a format needs is imported when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import BinaryIO, Protocol

from paceline.bench.data.files import Files
from paceline.bench.data.record_contents import Bytes
from paceline.errors import InputError

INSTALL = "pip install 'paceline[bench]'"
_MODULES = {
    "npz": "numpy_files",
    "npy": "numpy_files",
    "raw": "plain",
    "csv": "plain",
    "tfrecord": "tfrecord",
    "hdf5": "hdf5",
    "parquet": "parquet",
    "jpeg": "images",
    "png": "images",
}


class OpenRecordFile(Protocol):
    """A file that holds several records, while it is open."""

    def record(self, slot: int) -> tuple[Bytes, int]:
        """Return a record, and how many bytes of the file belong to it."""

    def close(self) -> None:
        """Close it."""


class RecordFormat(Protocol):
    """One format, for one set of files."""

    def encode(self, records: list[Bytes]) -> bytes | memoryview:
        """Return a file of these records."""

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one."""

    def open(self, file: BinaryIO, number: int) -> OpenRecordFile:
        """Open a file that holds several records; `number` says which it is."""


def format_of(files: Files) -> RecordFormat:
    """Return the format of these files."""
    name = files.dataset.format
    try:
        module = import_module(f"paceline.bench.data.formats.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        raise InputError(f"{name} files need {error.name}, which is not installed: {INSTALL}") from None
    record_format: RecordFormat = module.FORMATS[name](files)
    return record_format
