"""numpy's own files: `npy`, one array of all records; `npz`, an archive with an array for each."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import BinaryIO

import numpy as np

from paceline.bench.data.files import Files
from paceline.bench.data.formats.plain import DamagedError, OpenRawFile, RecordSpans
from paceline.bench.data.record_contents import Bytes

_LOCAL = struct.Struct("<4s5HLLL2H")  # the header of a file in a ZIP archive


class Npy:
    """One array of bytes; records lie in it one after the other."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def encode(self, records: list[Bytes]) -> memoryview:
        """Return a file of these records."""
        buffer = io.BytesIO()
        np.save(buffer, records[0] if len(records) == 1 else np.concatenate(records))
        return buffer.getbuffer()

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one."""
        return _array_in(memoryview(content))

    def open(self, file: BinaryIO, number: int) -> OpenRawFile:
        """Open a file that holds several records."""
        buffered = io.BytesIO(file.read(256))
        np.lib.format.read_magic(buffered)
        np.lib.format.read_array_header_1_0(buffered)
        return OpenRawFile(file, RecordSpans(self._files, number), first=buffered.tell())


def _array_in(content: memoryview) -> Bytes:
    """Return the array of bytes in the content of an npy file."""
    if bytes(content[:6]) != b"\x93NUMPY" or content[6] != 1:
        raise DamagedError("this is not an npy file")
    (size,) = struct.unpack_from("<H", content, 8)
    header = bytes(content[10 : 10 + size])
    values = np.frombuffer(content, np.uint8, offset=10 + size)
    if b"'descr': '|u1'" not in header or f"'shape': ({values.size},)".encode() not in header:
        raise DamagedError(f"the array is cut off, or not of bytes: {values.size} bytes, header {header[:80]!r}")
    return values


class Npz:
    """An archive with an array for each record, as numpy writes it; it can be compressed."""

    def __init__(self, files: Files) -> None:
        self._save = np.savez if files.dataset.compression == "none" else np.savez_compressed

    def encode(self, records: list[Bytes]) -> memoryview:
        """Return a file of these records."""
        buffer = io.BytesIO()
        self._save(buffer, **{f"x_{slot}": record for slot, record in enumerate(records)})  # type: ignore[arg-type]
        return buffer.getbuffer()

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one.

        zipfile takes several times as long as the read itself, so an archive that is not compressed is taken apart
        here, and its checksum compared; numpy reads all others.
        """
        stored = _stored_member(content)
        if stored is not None:
            return _array_in(stored)
        with np.load(io.BytesIO(content)) as archive:
            return np.asarray(archive["x_0"])

    def open(self, file: BinaryIO, number: int) -> _OpenNpzFile:
        """Open a file that holds several records."""
        return _OpenNpzFile(file)


def _stored_member(content: bytes) -> memoryview | None:
    """Return the first file of an archive, if it is not compressed and its header gives its size."""
    if len(content) < _LOCAL.size:
        return None
    magic, _, flags, method, _, _, crc, size, _, name, extra = _LOCAL.unpack_from(content)
    start = _LOCAL.size + name + extra
    if magic != b"PK\x03\x04" or flags & 0x8 or method != zipfile.ZIP_STORED:
        return None
    if size == 0xFFFFFFFF:  # numpy always asks for 64-bit sizes: they come first in the extra field
        kind, length, size = struct.unpack_from("<HHQ", content, _LOCAL.size + name)
        if kind != 1 or length < 8:
            return None
    member = memoryview(content)[start : start + size]
    if len(member) < size:
        raise DamagedError(f"the archive is cut off: it has {len(member)} of {size} bytes")
    if zlib.crc32(member) != crc:
        raise DamagedError("the archive is damaged: the checksum of its array differs")
    return member


class _OpenNpzFile:
    def __init__(self, file: BinaryIO) -> None:
        self._file, self._archive = file, zipfile.ZipFile(file)

    def record(self, slot: int) -> tuple[Bytes, int]:
        member = self._archive.getinfo(f"x_{slot}.npy")
        return _array_in(memoryview(self._archive.read(member))), member.compress_size

    def close(self) -> None:
        self._archive.close()
        self._file.close()


FORMATS = {"npy": Npy, "npz": Npz}
