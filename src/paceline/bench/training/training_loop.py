"""What one rank does: epochs of loading, emulated compute and waiting for the others; evaluation; checkpoints."""

from __future__ import annotations

import itertools
import os
import platform
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from paceline.batch import Batch
from paceline.bench.data.files import Files
from paceline.bench.data.page_cache import drop_files, memory_bytes
from paceline.bench.data.store import Store
from paceline.bench.training.checkpoint import Checkpoints
from paceline.bench.training.counters import Counters, read_counters, worker_seconds
from paceline.bench.training.emulated_compute import EmulatedCompute, StepSync
from paceline.bench.training.launch_time import launch_time
from paceline.bench.training.samples import Samples
from paceline.bench.training.step_log import RankLog
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.split_plans import plan_of
from paceline.bench.workload.value_parsers import Duration
from paceline.bench.workload.workload import is_ragged
from paceline.comm import Comm
from paceline.loader import Loader


def run_rank(workload: Workload, comm: Comm, store: Store, folder: Path) -> None:
    """Run all epochs of this rank, and log each step."""
    with RankLog(folder, comm.rank) as log:
        log.note(
            "rank",
            rank=comm.rank,
            world_size=comm.world_size,
            host=platform.node(),
            carrier=comm.carrier,
            pid=os.getpid(),
            cpu_count=os.cpu_count(),
            memory_bytes=memory_bytes(),
            began=launch_time(),
        )
        try:
            _TrainingRun(workload, comm, store, log).run()
        except Exception as error:
            log.note("failure", failure=f"{error}" or type(error).__name__)
            raise
        log.note("end", ended=time.time())


class _TrainingRun:
    """One rank's run."""

    def __init__(self, workload: Workload, comm: Comm, store: Store, log: RankLog) -> None:
        self._workload, self._comm, self._store, self._log = workload, comm, store, log
        self._sync = StepSync(comm, workload.train.sync, workload.model.model_size_bytes)
        self._checkpoints = Checkpoints(workload, comm) if workload.workflow.checkpoint else None
        self._num_steps, self._has_first_batch = 0, False

    def run(self) -> None:
        """Run all epochs."""
        flow, evaluation = self._workload.workflow, self._workload.evaluation
        with ExitStack() as stack:
            train = _TrainingPhase(self._workload, "train", self._comm, self._store, stack) if flow.train else None
            test = _TrainingPhase(self._workload, "eval", self._comm, self._store, stack) if flow.evaluation else None
            for epoch in range(self._workload.train.epochs):
                if train is not None and not self._is_done:
                    self._pass(train, epoch)
                if test is not None and _is_due(epoch, evaluation.eval_after_epoch, evaluation.epochs_between_evals):
                    self._pass(test, epoch)
                self._checkpoint_after(epoch)
                if self._is_done:
                    break

    @property
    def _is_done(self) -> bool:
        return 0 <= self._workload.train.total_training_steps <= self._num_steps

    def _pass(self, phase: _TrainingPhase, epoch: int) -> None:
        if self._workload.reader.cache == "drop":
            drop_files(phase.files, self._store, self._comm.rank, self._comm.world_size)
            self._comm.barrier()
        before, workers_before, cpu = read_counters(), worker_seconds(), 0.0
        began = time.perf_counter()
        with closing(phase.batches(epoch)) as batches:
            for step in itertools.count():
                cpu_before, asked = time.process_time(), time.perf_counter()
                batch = next(batches, None)
                loaded = time.perf_counter()
                cpu += time.process_time() - cpu_before
                if batch is None:
                    break
                self._step(phase, epoch, step, batch, asked, loaded)
                del batch  # its memory may serve the next one
                if phase.name == "train" and self._is_done:
                    break
        seconds = time.perf_counter() - began
        read = _counted_since(before, read_counters())
        self._log.note(
            "epoch",
            phase=phase.name,
            epoch=epoch,
            seconds=seconds,
            cpu=cpu + worker_seconds() - workers_before,
            asked=read and read.asked,
            from_device=read and read.from_device,
        )

    def _step(self, phase: _TrainingPhase, epoch: int, step: int, batch: Batch, asked: float, loaded: float) -> None:
        if not self._has_first_batch:
            self._has_first_batch = True
            self._log.note("first_batch", first_batch_seconds=time.time() - launch_time())
        num_bytes: Any = batch["bytes"]
        read = sum(num_bytes.tolist())  # padding counts nothing; for so few numbers this takes a third of torch's time
        started = time.perf_counter()
        phase.compute.run(phase.share_of(batch))
        computed = time.perf_counter()
        self._sync.run()
        synced = time.perf_counter()
        times = (loaded - asked, computed - started, synced - computed + started - loaded)
        self._log.step(phase.name, epoch, step, times, batch.num_real, read)
        if phase.name == "train":
            self._num_steps += 1
            every = self._workload.checkpoint.steps_between_checkpoints
            if every > 0 and self._num_steps % every == 0:
                self._checkpoint(f"step-{self._num_steps}")

    def _checkpoint_after(self, epoch: int) -> None:
        settings = self._workload.checkpoint
        by_epoch = settings.steps_between_checkpoints <= 0
        if by_epoch and _is_due(epoch, settings.checkpoint_after_epoch, settings.epochs_between_checkpoints):
            self._checkpoint(f"epoch-{epoch}")

    def _checkpoint(self, name: str) -> None:
        if self._checkpoints is not None:
            times = self._checkpoints.write(name)
            self._log.note(
                "checkpoint", name=name, bytes=times.num_bytes, save=times.save_seconds, load=times.load_seconds
            )


def _is_due(epoch: int, first: int, every: int) -> bool:
    """Say whether something is due after an epoch; `first` is counted from 1."""
    return epoch + 1 >= first and (epoch + 1 - first) % every == 0


def _counted_since(before: Counters | None, now: Counters | None) -> Counters | None:
    return None if before is None or now is None else now.since(before)


class _TrainingPhase:
    """Training or evaluation: its loader and its emulated compute."""

    def __init__(self, workload: Workload, name: str, comm: Comm, store: Store, stack: ExitStack) -> None:
        self.name, self.files = name, Files(workload.dataset, name)
        is_train = name == "train"
        duration: Duration = workload.train.computation_time if is_train else workload.evaluation.eval_time
        self.compute = EmulatedCompute(duration, how=workload.train.compute, seed=workload.train.seed, rank=comm.rank)
        self._is_ragged = is_ragged(workload)
        self._by_bytes = workload.train.compute_by == "bytes"
        self._mean_bytes = plan_of(workload, name, comm.world_size).row_width * self.files.length_mean
        self._changes_seed = workload.train.seed_change_epoch
        self._samples = Samples(workload, name, store)
        seconds_per_byte = max(0.0, duration.expected) / self._mean_bytes if self._by_bytes else 0.0
        self._loader = stack.enter_context(_loader(workload, name, self._samples, comm, seconds_per_byte))
        stack.callback(self._samples.close)

    def batches(self, epoch: int) -> Any:
        """Begin a pass."""
        self._loader.set_epoch(epoch if self._changes_seed else 0)
        return iter(self._loader)

    def share_of(self, batch: Batch) -> float:
        """Return how long a step computes, relative to a full batch of mean length."""
        if not self._by_bytes:
            return 1.0
        num_bytes = int(_lengths(batch).sum()) if self._is_ragged else batch.num_real * self.files.length_mean
        return num_bytes / self._mean_bytes


def _loader(workload: Workload, name: str, samples: Samples, comm: Comm, seconds_per_byte: float) -> Loader:
    reader = workload.reader
    workers = reader.read_threads
    settings: dict[str, Any] = {}
    if workers:
        settings = {
            "prefetch_factor": max(1, -(-reader.prefetch_size // workers)),
            "persistent_workers": True,
            "multiprocessing_context": reader.multiprocessing_context,
        }
    return Loader(
        samples,
        plan=plan_of(workload, name, comm.world_size, with_costs=reader.balance == "plan"),
        num_workers=workers,
        comm=comm,
        jagged=["x"] if is_ragged(workload) else [],
        cost=_lengths if reader.balance == "exchange" else None,
        seconds_per_cost=seconds_per_byte,
        pin_memory=reader.pin_memory,
        **settings,
    )


def _lengths(batch: Batch) -> Any:
    ragged: Any = batch["x"]
    return ragged.lengths
