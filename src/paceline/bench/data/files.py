"""Which files there are and what is in them, by arithmetic: names, sizes and contents follow from numbers alone.

Nothing is listed and nothing is kept that grows with the number of files: 64 million cost as much as one. Names and
numbers need no numpy, which is loaded for lengths and contents alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paceline.bench.workload.sections import Dataset

if TYPE_CHECKING:
    from paceline.bench.data.record_contents import Bytes, Numbers

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
        return int(self.lengths(sample, 1)[0]) if self.is_varied else self.length_mean

    def lengths(self, first: int, count: int) -> Numbers:
        """Return the bytes of `count` records."""
        from paceline.bench.data.record_contents import record_lengths

        return record_lengths(self.dataset, _SPLITS.index(self.split), first, count)

    def content(self, sample: int) -> Bytes:
        """Return the bytes of a record."""
        from paceline.bench.data.record_contents import record_content

        return record_content(self.dataset, _SPLITS.index(self.split), sample, self.length(sample))

    def num_bytes(self) -> int:
        """Return the bytes of all records, about: the mean length times their number."""
        return self.num_samples * self.length_mean

    def fingerprint(self) -> str:
        """Return a short text that is equal for the same files with the same contents."""
        data = self.dataset
        names = [*_DEFINING_KEYS, f"num_subfolders_{self.split}"]
        values: list[Any] = [1, self.split, self.num_files, *(getattr(data, name) for name in names)]
        return hashlib.blake2b(repr(values).encode(), digest_size=8).hexdigest()

    @property
    def length_mean(self) -> int:
        """The mean length of records, in bytes."""
        from paceline.bench.data.record_contents import mean_length

        return mean_length(self.dataset)
