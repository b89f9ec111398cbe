"""Parquet: a column `x` of bytes, in row groups. A row group is the smallest part that can be read."""

from __future__ import annotations

import io
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paceline.bench.data.files import Files
from paceline.bench.data.record_contents import Bytes


class Parquet:
    """Files with the column `x`."""

    def __init__(self, files: Files) -> None:
        self._rows = files.dataset.row_group_size
        self._codec = files.dataset.compression

    def encode(self, records: list[Bytes]) -> memoryview:
        """Return a file of these records."""
        buffer = io.BytesIO()
        table = pa.table({"x": pa.array([record.tobytes() for record in records], pa.binary())})
        pq.write_table(  # statistics would hold whole records
            table,
            buffer,
            row_group_size=self._rows,
            compression=self._codec,
            use_dictionary=False,
            write_statistics=False,
        )
        return buffer.getbuffer()

    def decode(self, content: bytes) -> Bytes:
        """Return the record of a file that holds one."""
        opened = _OpenParquetFile(io.BytesIO(content), self._rows)
        record, _ = opened.record(0)
        opened.close()
        return record

    def open(self, file: BinaryIO, number: int) -> _OpenParquetFile:
        """Open a file that holds several records."""
        return _OpenParquetFile(file, self._rows)


class _OpenParquetFile:
    """The last row group is kept: without a shuffle each is read once."""

    def __init__(self, file: BinaryIO, rows: int) -> None:
        self._file, self._rows = file, rows
        # pyarrow's threads do not survive a fork
        self._parquet = pq.ParquetFile(file, pre_buffer=False)
        self._kept: tuple[int, pa.ChunkedArray] | None = None

    def record(self, slot: int) -> tuple[Bytes, int]:
        number, row = divmod(slot, self._rows)
        num_bytes = 0
        if self._kept is None or self._kept[0] != number:
            self._kept = number, self._parquet.read_row_group(number, columns=["x"], use_threads=False).column("x")
            num_bytes = self._parquet.metadata.row_group(number).column(0).total_compressed_size
        return np.frombuffer(self._kept[1][row].as_buffer(), np.uint8), num_bytes

    def close(self) -> None:
        self._parquet.close()
        self._file.close()


FORMATS = {"parquet": Parquet}
