"""Records one after the other, as bytes (`raw`) or as text (`csv`): where each begins follows by arithmetic."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from paceline.bench.data.files import Files
from paceline.bench.data.record_contents import Bytes
from paceline.errors import PacelineError

_DIGITS = np.array([list(f"{value:03},".encode()) for value in range(256)], np.uint8)  # (value, 4 characters)


class DamagedError(PacelineError):
    """A file does not hold what it should."""


class RecordSpans:
    """Where records lie in a file: (start, length), counted in bytes of records."""

    def __init__(self, files: Files, number: int) -> None:
        per_file = files.dataset.num_samples_per_file
        self._length = files.length(0) if not files.is_varied else 0
        if files.is_varied:
            lengths = files.lengths(number * per_file, per_file)
            self._starts = np.concatenate([[0], np.cumsum(lengths)])

    def __getitem__(self, slot: int) -> tuple[int, int]:
        if self._length:
            return slot * self._length, self._length
        return int(self._starts[slot]), int(self._starts[slot + 1] - self._starts[slot])


def read_at(file: BinaryIO, start: int, length: int) -> bytes:
    """Return a number of bytes of a file; raise DamagedError if it has fewer."""
    file.seek(start)
    content = file.read(length)
    while len(content) < length and (more := file.read(length - len(content))):
        content += more
    if len(content) < length:
        raise DamagedError(f"the file is cut off: it has {len(content)} of the {length} bytes at {start}")
    return content


class Raw:
    """Bytes alone."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def encode(self, records: list[Bytes]) -> bytes:
        """Return a file of these records."""
        return b"".join(record.tobytes() for record in records)

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one."""
        return np.frombuffer(content, np.uint8)

    def open(self, file: BinaryIO, number: int) -> OpenRawFile:
        """Open a file that holds several records."""
        return OpenRawFile(file, RecordSpans(self._files, number))


class OpenRawFile:
    """A file in which records follow each other, from byte `first` on."""

    def __init__(self, file: BinaryIO, spans: RecordSpans, first: int = 0) -> None:
        self._file, self._spans, self._first = file, spans, first

    def record(self, slot: int) -> tuple[Bytes, int]:
        """Return a record, and how many bytes of the file belong to it."""
        start, length = self._spans[slot]
        return np.frombuffer(read_at(self._file, self._first + start, length), np.uint8), length

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Csv:
    """A line for each record, its bytes as numbers of three digits: a line can be found without reading others."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def encode(self, records: list[Bytes]) -> bytes:
        """Return a file of these records."""
        lines = []
        for record in records:
            line = _DIGITS[record].reshape(-1)
            line[-1] = ord("\n")
            lines.append(line.tobytes())
        return b"".join(lines)

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one."""
        characters = np.frombuffer(content, np.uint8)
        if characters.size % 4 or not characters.size or characters[-1] != ord("\n"):
            raise DamagedError(f"the line is cut off: {characters.size} characters do not end a record")
        digits = characters.reshape(-1, 4)[:, :3].astype(np.int64) - ord("0")
        values = digits @ np.array([100, 10, 1])
        if values.min() < 0 or values.max() > 255 or (characters[3:-1:4] != ord(",")).any():
            raise DamagedError("the line is not a list of numbers from 0 to 255")
        record: Bytes = values.astype(np.uint8)
        return record

    def open(self, file: BinaryIO, number: int) -> _OpenCsvFile:
        """Open a file that holds several records."""
        return _OpenCsvFile(self, file, RecordSpans(self._files, number))


class _OpenCsvFile:
    def __init__(self, csv: Csv, file: BinaryIO, spans: RecordSpans) -> None:
        self._format, self._file, self._spans = csv, file, spans

    def record(self, slot: int) -> tuple[Bytes, int]:
        start, length = self._spans[slot]
        return self._format.decode(read_at(self._file, 4 * start, 4 * length)), 4 * length

    def close(self) -> None:
        self._file.close()


FORMATS = {"raw": Raw, "csv": Csv}
