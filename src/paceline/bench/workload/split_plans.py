"""The plan of a workload's epochs: the number of steps, and what becomes of samples that do not fill one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.bench.data.files import Files
from paceline.bench.workload.sections import Workload
from paceline.errors import InputError
from paceline.plan import Summary
from paceline.plan.deal import make_deal

if TYPE_CHECKING:
    from paceline.plan import Plan


def plan_of(workload: Workload, phase: str, world_size: int, *, with_costs: bool = False) -> Plan:
    """Return the plan of `train` or `eval`; raise EmptyPlanError if it has no step."""
    from paceline.plan import Plan  # who only counts steps needs no numpy

    files, reader = Files(workload.dataset, phase), workload.reader
    return Plan(
        **_deal_settings(workload, phase),
        world_size=world_size,
        shuffle=phase == "train" and (reader.sample_shuffle != "off" or reader.file_shuffle != "off"),
        seed=workload.train.seed,
        costs=files.lengths(0, files.num_samples) if with_costs else None,
    )


def _deal_settings(workload: Workload, phase: str) -> dict[str, Any]:
    """Return what decides on the number of steps, beside the number of ranks."""
    files, reader = Files(workload.dataset, phase), workload.reader
    if phase == "train":
        return {"num_samples": files.num_samples, "batch_size": reader.batch_size, "tail": reader.tail}
    # an evaluation sees each sample once
    return {"num_samples": files.num_samples, "batch_size": reader.batch_size_eval, "tail": "pad"}


def check_phases(workload: Workload) -> None:
    """Raise InputError if nothing of a workload reads samples."""
    if not workload.workflow.has_phases:
        raise InputError("there is nothing to run: workflow.train and workflow.evaluation are off")


def plan_summaries(workload: Workload, world_size: int) -> dict[str, Summary]:
    """Return the summary of the plan of each phase; raise EmptyPlanError if one has no step."""
    flow = workload.workflow
    phases = [name for name, is_on in (("train", flow.train), ("eval", flow.evaluation)) if is_on]
    return {phase: make_deal(**_deal_settings(workload, phase), world_size=world_size).summary() for phase in phases}
