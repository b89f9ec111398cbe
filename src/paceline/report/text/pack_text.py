"""What a plan of packs makes of lengths, as a value, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from paceline.plan import PackPlan, PackSummary
from paceline.plan.classic import packs_in_turn
from paceline.report.text.tables import groups_text, table_text

_MOST_STEPS = 64  # whose work is compared; they are spread over the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReport:
    """What a plan does with lengths, and what ranks would do that pack by themselves.

    Attributes:
        summary: Its counts.
        lengths: The shortest, the mean and the longest.
        world_size: Ranks.
        max_tokens: Tokens of a pack at the most.
        packs_per_step: Packs of each rank at a step.
        imbalance: The heaviest rank's work over the mean, for some steps.
        in_turn: Packs of each rank if each packs its own samples one after the other.
    """

    summary: PackSummary
    lengths: tuple[int, float, int]
    world_size: int
    max_tokens: int
    packs_per_step: int
    imbalance: tuple[float, ...]
    in_turn: tuple[int, ...]

    @property
    def in_turn_deadlocks(self) -> bool:
        """Whether ranks that pack by themselves make different numbers of steps."""
        return len({-(-packs // self.packs_per_step) for packs in self.in_turn}) > 1


def report_packs(plan: PackPlan, lengths: Any) -> PackReport:
    """Return what the plan makes of the lengths that it was made of."""
    steps = np.unique(np.linspace(0, plan.num_steps - 1, _MOST_STEPS).astype(int)).tolist()
    loads = [plan.loads(step) for step in steps]
    return PackReport(
        summary=plan.summary(),
        lengths=(int(np.min(lengths)), float(np.mean(lengths)), int(np.max(lengths))),
        world_size=plan.world_size,
        max_tokens=plan.max_tokens,
        packs_per_step=plan.packs_per_step,
        imbalance=tuple(float(load.max() / max(load.mean(), 1)) for load in loads),
        in_turn=tuple(packs_in_turn(lengths, world_size=plan.world_size, max_tokens=plan.max_tokens)),
    )


def packs_as_text(report: PackReport) -> str:
    """Return the report as lines for a terminal or a file."""
    summary, (shortest, mean, longest) = report.summary, report.lengths
    packs_text = "1 pack" if report.packs_per_step == 1 else f"{report.packs_per_step} packs"
    num_packs = summary.num_steps * report.packs_per_step * report.world_size
    cells = [summary.num_steps, num_packs, summary.num_used, summary.num_cut, summary.num_padded]
    median, worst = float(np.median(report.imbalance)), max(report.imbalance)
    lines = [
        f"{summary.num_used} samples of {shortest} to {longest} tokens ({mean:.4g} on average), "
        f"{report.world_size} ranks, {packs_text} of {report.max_tokens} tokens in each step of a rank",
        "",
        table_text(["steps", "packs", "used", "cut", "empty packs", "full"], [[*cells, f"{summary.fill:.1%}"]]),
        "",
        f"The heaviest rank's work over the mean: {median:.3f} in the median step, {worst:.3f} in the worst of "
        f"{len(report.imbalance)} steps.",
        f"If each rank packed its own samples one after the other: packs {groups_text(report.in_turn)}",
    ]
    if report.in_turn_deadlocks:
        lines.append("With a collective in each step this will deadlock: some ranks wait for packs that others lack.")
    return "\n".join(lines)


def packs_as_json(report: PackReport) -> dict[str, Any]:
    """Return the report as values that json can write."""
    shortest, mean, longest = report.lengths
    return {
        "version": 1,
        "world_size": report.world_size,
        "max_tokens": report.max_tokens,
        "packs_per_step": report.packs_per_step,
        "lengths": {"shortest": shortest, "mean": mean, "longest": longest},
        "packs": asdict(report.summary),
        "imbalance": {"median": float(np.median(report.imbalance)), "worst": max(report.imbalance)},
        "packed_in_turn": {"packs": list(report.in_turn), "will_deadlock": report.in_turn_deadlocks},
    }
