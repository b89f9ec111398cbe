"""Files of samples in every format of the benchmark: a sample is what was generated, or an error names the file."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from tests.fuzz.kinds import Attempt, Kind
from tests.fuzz.spoiled_values import spoil_bytes

from paceline.bench.data.generate import generate
from paceline.bench.data.store import store_of
from paceline.bench.training.samples import SampleError, Samples
from paceline.bench.workload.workload import load_workload

# these hold a checksum of their own over what is in a sample
_CHECKED = ("npz", "tfrecord")
_SAMPLES_IN_A_FILE = 3


def samples(name: str, *settings: str) -> Kind:
    """Return the kind of one format; with some samples in a file, and with one."""

    def prepare(folder: Path) -> Attempt:
        made = []
        for number, per_file in enumerate((1,) if name in ("jpeg", "png") else (1, _SAMPLES_IN_A_FILE)):
            choices = [
                f"dataset.data_folder={folder}/{number}", f"dataset.num_samples_per_file={per_file}",
                "dataset.num_files_train=1", "dataset.record_length_bytes=400", f"dataset.format={name}",
            ]  # fmt: skip
            workload = load_workload("small", [*choices, *settings]).workload
            generate(workload, store_of(workload))
            (file,) = [path for path in (folder / f"{number}" / "train").rglob("*") if path.is_file()]
            made.append((workload, file, file.read_bytes()))

        def attempt(chance: random.Random) -> None:
            workload, file, content = chance.choice(made)
            file.write_bytes(spoil_bytes(chance, content))
            read = Samples(workload, "train", store_of(workload))
            try:
                _read_all(read, chance, is_checked=name in _CHECKED)
            finally:
                read.close()

        return attempt

    return Kind(prepare=prepare, allowed=SampleError)


def _read_all(read: Samples, chance: random.Random, *, is_checked: bool) -> None:
    """Read all samples in any order, also those after one that cannot be read; raise the last error."""
    problem = None
    for sample in chance.sample(range(len(read)), len(read)):
        try:
            record = read[sample]["x"]
        except SampleError as error:
            problem = error
        else:
            if is_checked:
                assert np.array_equal(record, read.files.content(sample)), "a damaged sample was handed out"
    if problem is not None:
        raise problem


KINDS = {
    "npz files": samples("npz"),
    "npz files, compressed": samples("npz", "dataset.compression=gzip"),
    "npy files": samples("npy"),
    "raw files": samples("raw"),
    "csv files": samples("csv"),
    "TFRecord files": samples("tfrecord"),
    "TFRecord files of different lengths": samples("tfrecord", "dataset.record_length_bytes_stdev=80"),
    "HDF5 files": samples("hdf5"),
    "HDF5 files, compressed": samples("hdf5", "dataset.compression=gzip"),
    "Parquet files": samples("parquet"),
    "JPEG files": samples("jpeg"),
    "PNG files": samples("png"),
}
