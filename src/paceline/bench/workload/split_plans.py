"""The plan of a workload's epochs: the number of steps, and what becomes of samples that do not fill one."""

from __future__ import annotations

from paceline.bench.data.files import Files
from paceline.bench.workload.sections import Workload
from paceline.errors import InputError
from paceline.plan import Plan, Summary, Tail


def plan_of(workload: Workload, phase: str, world_size: int, *, with_costs: bool = False) -> Plan:
    """Return the plan of `train` or `eval`; raise EmptyPlanError if it has no step."""
    files, reader = Files(workload.dataset, phase), workload.reader
    is_train = phase == "train"
    is_shuffled = is_train and (reader.sample_shuffle != "off" or reader.file_shuffle != "off")
    return Plan(
        files.num_samples,
        world_size=world_size,
        batch_size=reader.batch_size if is_train else reader.batch_size_eval,
        tail=Tail.of(reader.tail if is_train else "pad"),  # an evaluation sees each sample once
        shuffle=is_shuffled,
        seed=workload.train.seed,
        costs=files.lengths(0, files.num_samples) if with_costs else None,
    )


def check_phases(workload: Workload) -> None:
    """Raise InputError if nothing of a workload reads samples."""
    if not workload.workflow.has_phases:
        raise InputError("there is nothing to run: workflow.train and workflow.evaluation are off")


def plan_summaries(workload: Workload, world_size: int) -> dict[str, Summary]:
    """Return the summary of the plan of each phase."""
    flow = workload.workflow
    phases = [name for name, is_on in (("train", flow.train), ("eval", flow.evaluation)) if is_on]
    return {phase: plan_of(workload, phase, world_size).summary() for phase in phases}
