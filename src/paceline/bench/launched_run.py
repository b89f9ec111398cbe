"""`paceline bench run` as one of the ranks that the user's own launcher has started, on one host or on several.

The first rank chooses the folder and the seed for all, and shows the figures. Each rank writes its log on its own host.
"""

from __future__ import annotations

from pathlib import Path

from paceline.bench.bench_job import draw_seed
from paceline.bench.data.generating_processes import generate_share
from paceline.bench.prepared_run import FinishedRun, finish_run, prepare_run
from paceline.bench.results.result_folder import choose_folder
from paceline.bench.training.rank_entry import joined, run_joined
from paceline.bench.workload.split_plans import check_phases
from paceline.bench.workload_choice import WorkloadChoice, choose_workload
from paceline.comm import Comm
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
    if not flow.generate_data:
        check_phases(choice.workload)
    with joined(carrier) as comm:
        if flow.generate_data:
            code = generate_together(choice, comm)
            if code or not flow.has_phases:
                return code
        choice, own, num_bytes = _agree(choice, folder, comm)
        code = run_joined(choice.workload, comm, own)
        if comm.rank != 0:
            return code
        return finish_run(choice.workload, comm.world_size, own, exit_code=code, num_bytes=num_bytes)


def generate_together(choice: WorkloadChoice, comm: Comm) -> int:
    """Generate this rank's share of the files; return an exit code, which is that of the rank that failed on all."""
    code = generate_share(choice.workload, f"{comm.rank}/{comm.world_size}", verify=False, reports=False)
    codes: list[int] = gather_json(comm, code)
    return max(codes)


def _agree(choice: WorkloadChoice, folder: str | None, comm: Comm) -> tuple[WorkloadChoice, Path, int]:
    """Take the settings and the folder of the first rank, which makes that folder; and the bytes of the files."""

    def decide() -> tuple[tuple[str, ...], str, int]:
        drawn = draw_seed(choice)
        path = choose_folder(drawn.workload, folder).absolute()
        num_bytes = prepare_run(drawn.workload, comm.world_size, path)
        return drawn.overrides, str(path), num_bytes

    overrides, path, num_bytes = on_one_rank(comm, decide)
    return choose_workload(choice.name, overrides, scale=choice.scale), Path(path), num_bytes
