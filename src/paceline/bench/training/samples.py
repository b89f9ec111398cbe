"""The samples of one split, as the loader asks for them: read, decoded, and resized or left ragged."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from typing import Any

import numpy as np

from paceline.bench.data.files import Files
from paceline.bench.data.formats import OpenRecordFile, RecordFormat, format_of
from paceline.bench.data.record_contents import Bytes
from paceline.bench.data.store import Store
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.workload import is_ragged
from paceline.errors import PacelineError

_KEPT_OPEN = 16  # files with several records, for each process
_SLEEP_STREAM = 3


class SampleError(PacelineError):
    """A sample could not be read, or is not what was generated."""


class Samples:
    """Samples by number. Workers of a loader have copies of it.

    Args:
        workload: The workload.
        split: `train` or `eval`.
        store: Where the files are.
    """

    def __init__(self, workload: Workload, split: str, store: Store) -> None:
        self.files = Files(workload.dataset, split)
        self._store = store
        self._length = 0 if self.files.is_varied else self.files.length(0)  # of every record, if they are alike
        self._per_file = workload.dataset.num_samples_per_file
        self._resize = workload.dataset.record_length_bytes_resize
        self._is_ragged = is_ragged(workload)
        self._pause = workload.reader.preprocess_time
        self._dtype, self._dims = np.dtype(workload.dataset.record_element_type), workload.dataset.record_dims
        self._verify = workload.reader.verify and workload.dataset.format != "jpeg"
        self._process = 0
        self._format: RecordFormat
        self._opened: OrderedDict[int, OpenRecordFile]

    def __len__(self) -> int:
        return self.files.num_samples

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if self._process != os.getpid():  # a worker has files of its own
            self._process, self._format, self._opened = os.getpid(), format_of(self.files), OrderedDict()
        file, slot = divmod(sample, self._per_file)
        try:
            record, num_bytes = self._read(file, slot)
        except Exception as error:
            damaged = self._opened.pop(file, None)
            if damaged is not None:
                damaged.close()
            kind = type(error).__name__
            raise SampleError(f"{self._store.url}/{self.files.path(file)}: {kind}: {error}") from error
        length = self._length or self.files.length(sample)
        if record.size != length:
            where = f"{self._store.url}/{self.files.path(file)}"
            raise SampleError(f"{where}: sample {sample} has {record.size} bytes, not {length}")
        if self._verify and not np.array_equal(record, self.files.content(sample)):
            raise SampleError(f"{self._store.url}/{self.files.path(file)}: not what was generated for sample {sample}")
        if self._pause.mean or self._pause.spread:
            time.sleep(self._pause.draw(np.random.default_rng([_SLEEP_STREAM, sample])))
        return {"x": self._shaped(record), "bytes": num_bytes}

    def _read(self, file: int, slot: int) -> tuple[Bytes, int]:
        if self._per_file == 1:
            content = self._store.read(self.files.path(file))
            return self._format.decode(content), len(content)
        opened = self._opened.get(file)
        if opened is None:
            opened = self._open(file)
            self._opened[file] = opened
            if len(self._opened) > _KEPT_OPEN:
                self._opened.popitem(last=False)[1].close()
        else:
            self._opened.move_to_end(file)
        return opened.record(slot)

    def _open(self, file: int) -> OpenRecordFile:
        stored = self._store.open(self.files.path(file))
        try:
            return self._format.open(stored, file)
        except BaseException:  # nobody else would close it
            stored.close()
            raise

    def _shaped(self, record: Bytes) -> Any:
        if self._is_ragged:
            return record
        if self._resize:
            shaped = np.zeros(self._resize, np.uint8)
            shaped[: min(self._resize, record.size)] = record[: self._resize]
            return shaped
        if self._dtype != np.uint8 or self._dims:
            return record.view(self._dtype).reshape(self._dims or -1)
        return record

    def close(self) -> None:
        """Close the files that this process has open."""
        if self._process == os.getpid():
            while self._opened:
                self._opened.popitem()[1].close()

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_format", "_opened")
        return {name: value for name, value in self.__dict__.items() if name not in left_out} | {"_process": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
