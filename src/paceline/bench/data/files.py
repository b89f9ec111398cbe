"""Which files there are and what is in them, by arithmetic: names, sizes and contents follow from numbers alone.

Nothing is listed and nothing is kept that grows with the number of files: 64 million cost as much as one.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.bench.workload.sections import Dataset
from paceline.plan.shuffle_keys import fold, random_words

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
SUFFIXES = {"hdf5": "h5", "jpeg": "jpg", "raw": "bin"}
_SPLITS = ("train", "eval")
_DEFINING_KEYS = (  # files and contents follow from these
    "format",
    "num_samples_per_file",
    "record_length_bytes",
    "record_length_bytes_stdev",
    "record_dims",
    "record_element_type",
    "file_prefix",
    "compression",
    "compression_level",
    "enable_chunking",
    "chunk_size",
    "row_group_size",
    "seed",
)
_SIZES, _CONTENTS = 1, 2  # streams of random numbers


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one split, `train` or `eval`.

    >>> files = Files(Dataset(num_files_train=1000, num_subfolders_train=4), "train")
    >>> files.path(5)
    'train/1/img_005_of_1000.npz'
    """

    dataset: Dataset
    split: str

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return self.dataset.num_files_train if self.split == "train" else self.dataset.num_files_eval

    @property
    def num_samples(self) -> int:
        """How many samples there are."""
        return self.num_files * self.dataset.num_samples_per_file

    @property
    def is_varied(self) -> bool:
        """Whether records have different lengths."""
        return self.dataset.record_length_bytes_stdev > 0

    def path(self, file: int) -> str:
        """Return the path of a file, relative to the folder of the data."""
        data = self.dataset
        width = len(str(self.num_files - 1))
        folders = data.num_subfolders_train if self.split == "train" else data.num_subfolders_eval
        folder = f"{self.split}/{file % folders}" if folders > 1 else self.split
        suffix = SUFFIXES.get(data.format, data.format)
        return f"{folder}/{data.file_prefix}_{file:0{width}}_of_{self.num_files}.{suffix}"

    def length(self, sample: int) -> int:
        """Return the bytes of a record, as the model would see it without a resize."""
        return int(self.lengths(sample, 1)[0]) if self.is_varied else self._mean()

    def lengths(self, first: int, count: int) -> Numbers:
        """Return the bytes of `count` records: a normal distribution, cut off evenly so that the mean stays."""
        mean = self._mean()
        if not self.is_varied:
            return np.full(count, mean, np.int64)
        counters = np.arange(2 * first, 2 * (first + count), dtype=np.uint64)
        words = random_words(fold(self.dataset.seed, _SIZES, _SPLITS.index(self.split)), counters).reshape(-1, 2)
        uniform = (words + 0.5) / 2.0**32
        normal = np.sqrt(-2.0 * np.log(uniform[:, 0])) * np.cos(2.0 * math.pi * uniform[:, 1])
        reach = mean - max(1, mean // 16)
        varied = mean + np.clip(normal * self.dataset.record_length_bytes_stdev, -reach, reach)
        return self._fitting(np.rint(varied).astype(np.int64))

    def content(self, sample: int) -> Bytes:
        """Return the bytes of a record."""
        key = fold(self.dataset.seed, _CONTENTS, _SPLITS.index(self.split), sample)
        length = self.length(sample)
        return np.random.SFC64(key).random_raw((length + 7) // 8).astype("<u8").view(np.uint8)[:length]

    def num_bytes(self) -> int:
        """Return the bytes of all records, about: the mean length times their number."""
        return self.num_samples * self._mean()

    def fingerprint(self) -> str:
        """Return a short text that is equal for the same files with the same contents."""
        data = self.dataset
        names = [*_DEFINING_KEYS, f"num_subfolders_{self.split}"]
        values: list[Any] = [1, self.split, self.num_files, *(getattr(data, name) for name in names)]
        return hashlib.blake2b(repr(values).encode(), digest_size=8).hexdigest()

    @property
    def length_mean(self) -> int:
        """The mean length of records, in bytes."""
        return self._mean()

    def _mean(self) -> int:
        data = self.dataset
        if data.record_dims:
            return math.prod(data.record_dims) * np.dtype(data.record_element_type).itemsize
        whole = int(self._fitting(np.array([data.record_length_bytes], np.int64))[0])
        return whole // np.dtype(data.record_element_type).itemsize * np.dtype(data.record_element_type).itemsize or 1

    def _fitting(self, lengths: Numbers) -> Numbers:
        """Return lengths that the format can hold: an image is a square."""
        if self.dataset.format not in ("jpeg", "png"):
            return lengths
        return np.maximum(1, np.rint(np.sqrt(lengths)).astype(np.int64)) ** 2
