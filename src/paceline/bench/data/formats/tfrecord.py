"""TFRecord files of `tf.train.Example` messages, written and read without TensorFlow.

A message has one feature, `x`, with the record's bytes. Every part has its checksum, and where a message begins follows
by arithmetic, so no index is needed.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

import google_crc32c
import numpy as np

from paceline.bench.data.files import Files
from paceline.bench.data.formats.plain import DamagedError, read_at
from paceline.bench.data.record_contents import Bytes

_FRAME = 16  # length, its checksum, and the checksum of the message


def masked_checksum(content: bytes | memoryview) -> int:
    """Return the CRC-32C of something, turned and shifted as TFRecord has it."""
    crc: int = google_crc32c.value(bytes(content))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def example(record: bytes) -> bytes:
    """Return an Example message: features { feature { key: "x" value { bytes_list { value: record } } } }."""
    feature = _field(1, _field(1, record))
    return _field(1, _field(1, _field(1, b"x") + _field(2, feature)))


def framed_length(length: int) -> int:
    """Return the bytes that a record of this length takes in a file."""
    for beside in (0, 0, 0, 3, 0):  # five messages in each other; beside the third is the key: tag, length, "x"
        length += beside
        length += 1 + len(_varint(length))
    return length + _FRAME


def framed(record: bytes) -> bytes:
    """Return a record as it stands in a file."""
    message = example(record)
    length = struct.pack("<Q", len(message))
    checksums = [struct.pack("<L", masked_checksum(part)) for part in (length, message)]
    return b"".join([length, checksums[0], message, checksums[1]])


def unframed(content: memoryview) -> Bytes:
    """Return the record of a frame; a checksum that differs is an error."""
    if len(content) < _FRAME:
        raise DamagedError(f"the record is cut off: {len(content)} bytes")
    size, of_size = struct.unpack_from("<QL", content)
    if masked_checksum(content[:8]) != of_size or len(content) != size + _FRAME:
        raise DamagedError("the length of the record is damaged, or the record is cut off")
    message = content[12 : 12 + size]
    if masked_checksum(message) != struct.unpack_from("<L", content, 12 + size)[0]:
        raise DamagedError("the checksum of the record differs")
    return _value_of(message)


def _value_of(message: memoryview) -> Bytes:
    """Return the bytes of the feature `x`: what is wrapped in features, entry, value and list."""
    for number in (1, 1, 2, 1, 1):
        message = _submessage(message, number)
    return np.frombuffer(message, np.uint8)


def _submessage(message: memoryview, wanted: int) -> memoryview:
    """Return the content of the field with a number."""
    offset = 0
    while offset < len(message):
        tag, offset = _read_varint(message, offset)
        size, offset = _read_varint(message, offset)
        if tag == (wanted << 3 | 2):
            return message[offset : offset + size]
        offset += size
    raise DamagedError("the message is not an Example with the feature 'x'")


def _read_varint(message: memoryview, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset


class TfRecord:
    """Records in frames."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def encode(self, records: list[Bytes]) -> bytes:
        """Return a file of these records."""
        return b"".join(framed(record.tobytes()) for record in records)

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one."""
        return unframed(memoryview(content))

    def open(self, file: BinaryIO, number: int) -> _OpenTfRecordFile:
        """Open a file that holds several records."""
        return _OpenTfRecordFile(file, self._files, number)


class _OpenTfRecordFile:
    def __init__(self, file: BinaryIO, files: Files, number: int) -> None:
        self._file = file
        self._fixed = 0 if files.is_varied else framed_length(files.length(0))
        if files.is_varied:
            per_file = files.dataset.num_samples_per_file
            lengths = [framed_length(int(length)) for length in files.lengths(number * per_file, per_file)]
            self._starts = np.concatenate([[0], np.cumsum(lengths)])

    def record(self, slot: int) -> tuple[Bytes, int]:
        if self._fixed:
            start, length = slot * self._fixed, self._fixed
        else:
            start, length = int(self._starts[slot]), int(self._starts[slot + 1] - self._starts[slot])
        return unframed(memoryview(read_at(self._file, start, length))), length

    def close(self) -> None:
        self._file.close()


FORMATS = {"tfrecord": TfRecord}
