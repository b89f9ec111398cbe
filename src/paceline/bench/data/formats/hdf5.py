"""HDF5: one dataset with the bytes of all records, one after the other; chunked and compressed if asked for."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import h5py
import numpy as np

from paceline.bench.data.files import Files
from paceline.bench.data.formats.plain import RecordSpans
from paceline.bench.data.record_contents import Bytes

_CHUNK = 1 << 20  # bytes, by default


class Hdf5:
    """Files with the dataset `records`."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def encode(self, records: list[Bytes]) -> memoryview:
        """Return a file of these records."""
        data, buffer = self._files.dataset, io.BytesIO()
        content = records[0] if len(records) == 1 else np.concatenate(records)
        settings: dict[str, Any] = {}
        if data.compression != "none" or data.enable_chunking:
            settings["chunks"] = (min(content.size, data.chunk_size or _CHUNK),)
        if data.compression == "gzip":
            settings |= {"compression": "gzip", "compression_opts": min(9, data.compression_level)}
        with h5py.File(buffer, "w") as file:
            file.create_dataset("records", data=content, **settings)
        return buffer.getbuffer()

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one."""
        with h5py.File(io.BytesIO(content), "r") as file:
            return np.asarray(file["records"][:])

    def open(self, file: BinaryIO, number: int) -> _OpenHdf5File:
        """Open a file that holds several records."""
        return _OpenHdf5File(file, RecordSpans(self._files, number))


class _OpenHdf5File:
    def __init__(self, file: BinaryIO, spans: RecordSpans) -> None:
        self._file, self._spans = file, spans
        self._hdf5 = h5py.File(file, "r")
        self._records = self._hdf5["records"]

    def record(self, slot: int) -> tuple[Bytes, int]:
        start, length = self._spans[slot]
        return np.asarray(self._records[start : start + length]), length

    def close(self) -> None:
        self._hdf5.close()
        self._file.close()


FORMATS = {"hdf5": Hdf5}
