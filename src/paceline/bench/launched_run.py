"""`paceline bench run` as one of the ranks that the user's own launcher has started, on one host or on several.

The first rank chooses the folder and the seed for all, and shows the figures. Each rank writes its log on its own host.
"""

from __future__ import annotations

from pathlib import Path

from paceline.bench.bench_job import FinishedRun, draw_seed
from paceline.bench.data.generate import check_manifest
from paceline.bench.data.generating_processes import generate_share
from paceline.bench.data.store import store_of
from paceline.bench.results.result_folder import choose_folder, make_folder, read_summary, summarise_failed
from paceline.bench.results.run_summary import RunSummary
from paceline.bench.training.rank_entry import joined, run_joined
from paceline.bench.workload.split_plans import plan_summaries
from paceline.bench.workload_choice import WorkloadChoice, choose_workload
from paceline.comm import Comm
from paceline.errors import InputError
from paceline.loader.agreement.first_message import gather_json
from paceline.loader.agreement.one_rank import on_one_rank


def run_launched(choice: WorkloadChoice, folder: str | None, *, carrier: str | None) -> FinishedRun | int:
    """Run this rank of a workload; return the run on the first rank, and the exit code on the others.

    Args:
        choice: The workload.
        folder: Where figures go; by default the first rank names a folder.
        carrier: What ranks talk over; by default what fits the launcher.
    """
    flow = choice.workload.workflow
    if not (flow.generate_data or flow.train or flow.evaluation):
        raise InputError("there is nothing to run: workflow.train and workflow.evaluation are off")
    with joined(carrier) as comm:
        if flow.generate_data:
            code = generate_together(choice, comm)
            if code or not (flow.train or flow.evaluation):
                return code
        choice, own = _agree(choice, folder, comm)
        code = run_joined(choice.workload, comm, own)
        if comm.rank != 0:
            return code
        return FinishedRun(folder=own, summary=_summary(choice, own, comm.world_size), exit_code=code)


def generate_together(choice: WorkloadChoice, comm: Comm) -> int:
    """Generate this rank's share of the files; return an exit code, which is that of the rank that failed on all."""
    code = generate_share(choice.workload, f"{comm.rank}/{comm.world_size}", verify=False, reports=False)
    codes: list[int] = gather_json(comm, code)
    return max(codes)


def _agree(choice: WorkloadChoice, folder: str | None, comm: Comm) -> tuple[WorkloadChoice, Path]:
    """Take the settings and the folder of the first rank, which makes that folder."""

    def decide() -> tuple[tuple[str, ...], str]:
        drawn = draw_seed(choice)
        plan_summaries(drawn.workload, comm.world_size)  # a plan without a step is an error before anything is removed
        check_manifest(drawn.workload, store_of(drawn.workload))
        path = choose_folder(drawn.workload, folder).absolute()
        make_folder(path)
        return drawn.overrides, str(path)

    overrides, path = on_one_rank(comm, decide)
    return choose_workload(choice.name, overrides, scale=choice.scale), Path(path)


def _summary(choice: WorkloadChoice, folder: Path, world_size: int) -> RunSummary:
    summary = read_summary(folder)
    if summary is not None:
        return summary
    splits = check_manifest(choice.workload, store_of(choice.workload))
    num_bytes = sum(split["num_bytes"] for split in splits.values())
    return summarise_failed(folder, choice.workload, world_size=world_size, num_bytes=num_bytes, outcome="failed")
