"""Checkpoints: random bytes of the size of the model, written, flushed to the disk, and read back from there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from paceline.bench.data.page_cache import drop_file
from paceline.bench.data.store import store_of
from paceline.bench.workload.sections import Workload
from paceline.comm import Comm
from paceline.errors import PacelineError
from paceline.loader.agreement.first_message import gather_json
from paceline.process.whole_files import open_whole

_BLOCK = 1 << 24  # bytes that are written or read at a time


class CheckpointError(PacelineError):
    """A rank could not write its checkpoint, or read it back. Every rank raises it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTimes:
    """One rank's part of a checkpoint: its bytes, and how long they took."""

    num_bytes: int
    save_seconds: float
    load_seconds: float


class Checkpoints:
    """Writes this rank's part of each checkpoint."""

    def __init__(self, workload: Workload, comm: Comm) -> None:
        self._settings, self._comm = workload.checkpoint, comm
        size, is_shared = workload.model.model_size_bytes, workload.checkpoint.type == "all_ranks"
        self.num_bytes = size // comm.world_size if is_shared else size if comm.rank == 0 else 0
        self._store = store_of(workload, workload.checkpoint.checkpoint_folder, rank=comm.rank)
        self._block = np.random.default_rng([5, comm.rank]).bytes(min(_BLOCK, max(1, self.num_bytes)))

    def write(self, name: str) -> CheckpointTimes:
        """Write and read back. All ranks call it; a failure on one rank is raised on all."""
        times, problem = CheckpointTimes(num_bytes=0, save_seconds=0.0, load_seconds=0.0), None
        if self.num_bytes:
            path = f"{name}-rank-{self._comm.rank}.ckpt"
            try:
                times = self._write(path)
            except Exception as error:
                text = getattr(error, "strerror", None) or str(error)
                problem = f"{self._store.url}/{path}: {type(error).__name__}: {text}"
        problems = gather_json(self._comm, problem) if self._comm.world_size > 1 else [problem]
        for rank, reason in enumerate(problems):
            if reason is not None:
                raise CheckpointError(f"rank {rank} could not write its checkpoint {reason}")
        return times

    def _write(self, path: str) -> CheckpointTimes:
        began = time.perf_counter()
        if self._store.is_local:
            self._write_local(self._store.local_path(path))
        else:
            self._store.write(path, b"".join(self._blocks()))
        saved = time.perf_counter() - began
        loaded = 0.0
        if self._settings.read_back:
            if self._store.is_local:
                drop_file(self._store.local_path(path))
            began = time.perf_counter()
            self._compare(path)
            loaded = time.perf_counter() - began
        if not self._settings.keep:
            self._store.remove(path)
        return CheckpointTimes(num_bytes=self.num_bytes, save_seconds=saved, load_seconds=loaded)

    def _write_local(self, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # under a name that says what it is: a rank that is killed leaves gigabytes there, and the next one reuses it
        aside = Path(f"{path}.part")
        with open_whole(Path(path), aside=aside, to_disk=self._settings.fsync, buffering=0) as file:
            for block in self._blocks():
                left = memoryview(block)
                while left:
                    left = left[file.write(left) :]

    def _blocks(self) -> Any:
        for begin in range(0, self.num_bytes, len(self._block)):
            yield self._block[: self.num_bytes - begin]

    def _compare(self, path: str) -> None:
        with self._store.open(path) as file:
            for block in self._blocks():
                content = file.read(len(block))
                if google_crc32c.value(content) != google_crc32c.value(block):
                    raise PacelineError("the bytes read back differ from those written")
