"""The sections of a workload, with DLIO's keys and our defaults. Keys of our own are marked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from paceline.bench.workload.value_parsers import (
    Duration,
    ValueParser,
    dims,
    duration,
    flag,
    mapping,
    one_of,
    share,
    text,
    whole,
)

FORMATS = ("npz", "npy", "hdf5", "tfrecord", "parquet", "jpeg", "png", "csv", "raw")
_SAME_FORMATS = {"indexed_binary": "raw", "mmap_indexed_binary": "raw", "h5": "hdf5", "jpg": "jpeg"}

_AT_ONCE = Duration()


def _key(default: Any, parse: ValueParser) -> Any:
    """Describe a key of a section: its default, and what parses its value."""
    return field(default=default, metadata={"parse": parse})


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is trained: only its size counts."""

    name: str = _key("workload", text)
    model_size_bytes: int = _key(10_240, whole(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Which parts of a run are made."""

    generate_data: bool = _key(False, flag)
    train: bool = _key(True, flag)
    evaluation: bool = _key(False, flag)
    checkpoint: bool = _key(False, flag)

    @property
    def has_phases(self) -> bool:
        """Whether samples are read, to train or to evaluate."""
        return self.train or self.evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where files are. `dataset.data_folder` may be a URL instead."""

    storage_type: str = _key("local_fs", one_of("local_fs", "s3", parallel_fs="local_fs"))
    storage_root: str = _key("", text)
    storage_options: dict[str, Any] = field(default_factory=dict, metadata={"parse": mapping})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Which files there are."""

    data_folder: str = _key("data", text)
    format: str = _key("npz", one_of(*FORMATS, **_SAME_FORMATS))
    num_files_train: int = _key(8, whole(1))
    num_files_eval: int = _key(0, whole(0))
    num_samples_per_file: int = _key(1, whole(1))
    record_length_bytes: int = _key(65_536, whole(1))
    record_length_bytes_stdev: int = _key(0, whole(0))
    record_length_bytes_resize: int = _key(0, whole(0))
    record_dims: tuple[int, ...] = _key((), dims)
    record_element_type: str = _key(
        "uint8", one_of("uint8", "int8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64")
    )
    num_subfolders_train: int = _key(0, whole(0))
    num_subfolders_eval: int = _key(0, whole(0))
    file_prefix: str = _key("img", text)
    compression: str = _key("none", one_of("none", "gzip", "snappy", "zstd", off="none"))
    compression_level: int = _key(4, whole(0))
    enable_chunking: bool = _key(False, flag)
    chunk_size: int = _key(0, whole(0))
    row_group_size: int = _key(64, whole(1))  # our own: rows of a Parquet row group
    seed: int = _key(123, whole(0))  # our own: of contents and sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSection:
    """How files are read: the section `reader`."""

    batch_size: int = _key(1, whole(1))
    batch_size_eval: int = _key(1, whole(1))
    read_threads: int = _key(1, whole(0))
    prefetch_size: int = _key(2, whole(1))
    file_shuffle: str = _key("off", one_of("off", "seed", "random"))
    sample_shuffle: str = _key("off", one_of("off", "seed", "random"))
    preprocess_time: Duration = _key(_AT_ONCE, duration)
    multiprocessing_context: str = _key("fork", one_of("fork", "spawn", "forkserver"))
    pin_memory: bool = _key(False, flag)
    tail: str = _key("drop", one_of("drop", "even", "pad", "repeat"))  # our own
    cache: str = _key("keep", one_of("keep", "drop", warm="keep", cold="drop"))  # our own
    balance: str = _key("none", one_of("none", "plan", "exchange", off="none"))  # our own
    verify: bool = _key(False, flag)  # our own: compare each sample with what was generated


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    """How the training is emulated."""

    epochs: int = _key(1, whole(1))
    computation_time: Duration = _key(_AT_ONCE, duration)
    total_training_steps: int = _key(-1, whole(-1))
    seed: int = _key(123, whole(0))
    seed_change_epoch: bool = _key(True, flag)
    compute: str = _key("sleep", one_of("sleep", "matrix"))  # our own
    sync: str = _key("barrier", one_of("barrier", "all_reduce", "none"))  # our own
    compute_by: str = _key("step", one_of("step", "bytes"))  # our own: time in proportion to the bytes of a batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How the evaluation is emulated."""

    eval_time: Duration = _key(_AT_ONCE, duration)
    eval_after_epoch: int = _key(1, whole(1))
    epochs_between_evals: int = _key(1, whole(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """When and how checkpoints are written. Epochs and steps are counted from 1 here, as DLIO does."""

    checkpoint_folder: str = _key("checkpoints", text)
    checkpoint_after_epoch: int = _key(1, whole(1))
    epochs_between_checkpoints: int = _key(1, whole(1))
    steps_between_checkpoints: int = _key(-1, whole(-1))
    type: str = _key("rank_zero", one_of("rank_zero", "all_ranks", independent="all_ranks"))
    fsync: bool = _key(True, flag)
    read_back: bool = _key(True, flag)  # our own
    keep: bool = _key(False, flag)  # our own: otherwise each is removed after it was read back


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where figures go, and which steps do not count."""

    folder: str = _key("", text)
    exclude_start_steps: int = _key(1, whole(0))
    exclude_end_steps: int = _key(0, whole(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is expected of a run."""

    au: float = _key(0.9, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A whole workload, checked."""

    model: Model
    workflow: Workflow
    storage: Storage
    dataset: Dataset
    reader: ReaderSection
    train: Train
    evaluation: Evaluation
    checkpoint: Checkpoint
    output: Output
    metric: Metric
