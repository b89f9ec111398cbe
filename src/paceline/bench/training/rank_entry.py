"""What a launcher starts on every rank: joins the job and runs the workload; the first rank writes the summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.bench.data.manifest import check_manifest
from paceline.bench.data.store import store_of
from paceline.bench.results.figures import RankFigures, figures_of
from paceline.bench.results.result_folder import write_summary
from paceline.bench.results.run_summary import summary_of
from paceline.bench.training.checkpoint import CheckpointError
from paceline.bench.training.step_log import read_log
from paceline.bench.training.training_loop import run_rank
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.split_plans import plan_summaries
from paceline.comm import Comm, connect
from paceline.comm.place import find_place
from paceline.errors import InputError
from paceline.loader.agreement.first_message import gather_json
from paceline.loader.agreement.problem import LoadError

_FAILED = 1


def run_worker(workload: Workload, folder: Path, *, carrier: str | None) -> int:
    """Run this rank; return its exit code."""
    with joined(carrier) as comm:
        return run_joined(workload, comm, folder)


def run_joined(workload: Workload, comm: Comm, folder: Path) -> int:
    """Run this rank of a job that it has joined; return its exit code.

    A failure that all ranks share is in every log, and printed once. The first rank writes the summary.
    """
    store = store_of(workload, rank=comm.rank)
    splits = check_manifest(workload, store)
    plans = plan_summaries(workload, comm.world_size)  # before anything is read: it needs a step
    try:
        run_rank(workload, comm, store, folder)
    except (LoadError, CheckpointError) as error:
        if comm.rank == 0:
            print(f"paceline bench: {error}", file=sys.stderr, flush=True)
        return _FAILED
    output = workload.output
    lines = read_log(folder / f"{comm.rank}.jsonl")
    figures = figures_of(lines, exclude_start=output.exclude_start_steps, exclude_end=output.exclude_end_steps)
    ranks = [RankFigures.from_json(each) for each in gather_json(comm, figures.to_json())]
    if comm.rank == 0:
        num_bytes = sum(split["num_bytes"] for split in splits.values())
        write_summary(folder, summary_of(ranks, workload, plans=plans, num_bytes=num_bytes))
    return 0


@contextmanager
def joined(carrier: str | None) -> Iterator[Comm]:
    """Join the job that the launcher has started."""
    place = find_place()
    carrier = carrier or ("alone" if place.world_size == 1 else "torch" if place.source == "torchrun" else "mpi")
    if carrier != "torch":
        comm = connect(carrier)
        if comm.world_size != place.world_size:  # each rank would read all the samples, alone
            raise InputError(
                f"{place.source} has started {place.world_size} ranks, but MPI sees {comm.world_size}: start them with "
                "the mpiexec of this MPI, with srun --mpi=..., or with torchrun"
            )
        yield comm
        return
    import torch.distributed as dist

    if "MASTER_ADDR" not in os.environ:
        raise InputError("--carrier torch needs a launcher such as torchrun: MASTER_ADDR is not set")
    dist.init_process_group("gloo")
    try:
        yield connect("torch")
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
