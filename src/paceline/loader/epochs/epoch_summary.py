"""What became of an epoch: samples used, dropped, padded, repeated, skipped; evenness of work; time spent waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from paceline.loader.row_exchange.balancer import StepStatistics
from paceline.plan import Summary
from paceline.process.notebook_html import notebook_html

_FEW = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSummary:
    """What became of one pass, over all ranks.

    Attributes:
        epoch: The epoch.
        num_steps: Steps that every rank has made.
        num_used: Different samples that were handed out.
        num_dropped: Samples that were left out because of the tail.
        num_padded: Rows of padding because of the tail.
        num_repeated: Rows of samples that came again.
        num_skipped: Samples that could not be loaded; their rows are padding.
        skipped: The first few of them, with the reason.
        num_balanced: Steps whose costs were compared; others were left alone, because it did not pay.
        imbalance_before: The heaviest rank's cost over the mean, as batches were loaded, averaged over the steps whose
            costs were compared; None without a cost function.
        imbalance_after: The same, as they were handed out.
        seconds: From the first batch that was asked for to the end, on the slowest rank.
        seconds_waiting: How long the loop waited for data, on the rank that waited longest.
    """

    epoch: int
    num_steps: int
    num_used: int
    num_dropped: int
    num_padded: int
    num_repeated: int
    num_skipped: int
    skipped: tuple[tuple[int, str], ...]
    num_balanced: int
    imbalance_before: float | None
    imbalance_after: float | None
    seconds: float
    seconds_waiting: float

    def __str__(self) -> str:
        counts = {
            "used": self.num_used,
            "dropped": self.num_dropped,
            "padded": self.num_padded,
            "repeated": self.num_repeated,
            "skipped": self.num_skipped,
        }
        parts = [f"epoch {self.epoch}: {self.num_steps} steps"]
        parts += [f"{count} {name}" for name, count in counts.items() if count or name == "used"]
        if self.imbalance_before is not None and self.imbalance_after is not None:
            parts.append(f"imbalance {self._imbalance(self.imbalance_before, self.imbalance_after)}")
        share = self.seconds_waiting / self.seconds if self.seconds else 0.0
        return ", ".join([*parts, f"{self.seconds:.1f} s, of which {share:.0%} waiting for data"])

    def _imbalance(self, before: float, after: float) -> str:
        of = "" if self.num_balanced == self.num_steps else f" in the {self.num_balanced} steps that were looked at"
        return f"{before:.3f} -> {after:.3f}{of}"

    def _repr_html_(self) -> str:
        """Return it as a table, for notebooks."""
        share = self.seconds_waiting / self.seconds if self.seconds else 0.0
        names = ("steps", "used", "dropped", "padded", "repeated", "skipped")
        rows: list[tuple[str, str]] = [(name, f"{getattr(self, f'num_{name}'):,}") for name in names]
        if self.imbalance_before is not None and self.imbalance_after is not None:
            rows.append(("imbalance", self._imbalance(self.imbalance_before, self.imbalance_after)))
        rows += [("seconds", f"{self.seconds:.1f}"), ("waiting for data", f"{share:.0%}")]
        reasons = [(f"skipped sample {sample}", reason) for sample, reason in self.skipped]
        return notebook_html(f"epoch {self.epoch}", rows, sentences=reasons)


@dataclass(slots=True)
class Tally:
    """What one rank counts during a pass."""

    skipped: list[tuple[int, str]] = field(default_factory=list)
    num_skipped_rows: int = 0
    skipped_samples: set[int] = field(default_factory=set)
    seconds: float = 0.0
    seconds_waiting: float = 0.0
    num_balanced: int = 0
    before: float = 0.0  # sums over steps
    after: float = 0.0

    def note_skipped(self, skipped: list[tuple[int, str]]) -> None:
        """Count samples that were skipped; keep the first few."""
        self.num_skipped_rows += len(skipped)
        self.skipped_samples.update(sample for sample, _ in skipped)
        self.skipped += skipped[: _FEW - len(self.skipped)] if len(self.skipped) < _FEW else []

    def note_step(self, seconds_waited: float, statistics: StepStatistics | None) -> None:
        """Count a step, and how even balancing made it."""
        self.seconds_waiting += seconds_waited
        if statistics is not None:
            self.num_balanced += 1
            self.before += statistics.imbalance_before
            self.after += statistics.imbalance_after

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Tally:
        """Return what `to_json` was made of."""
        skipped = [(sample, reason) for sample, reason in content["skipped"]]
        return cls(**{**content, "skipped": skipped, "skipped_samples": set(content["skipped_samples"])})

    def to_json(self) -> dict[str, Any]:
        """Return it in a form that travels."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # asdict would copy all that is in them
        return {**values, "skipped_samples": sorted(self.skipped_samples)}


def summarise(tallies: Sequence[Tally], *, epoch: int, counts: Summary | None) -> EpochSummary:
    """Return the summary of a pass, the same on all ranks.

    Args:
        tallies: What each rank has counted.
        epoch: The epoch.
        counts: What the plan of the pass says; None if it had no step.
    """
    num_skipped = len(set().union(*(tally.skipped_samples for tally in tallies)))
    num_skipped_rows = sum(tally.num_skipped_rows for tally in tallies)
    counts = counts or Summary(num_steps=0, num_used=0, num_dropped=0, num_padded=0, num_repeated=0)
    balance = tallies[0]  # balancing is the same on all ranks
    return EpochSummary(
        epoch=epoch,
        num_steps=counts.num_steps,
        num_used=counts.num_used - num_skipped,
        num_dropped=counts.num_dropped,
        num_padded=counts.num_padded,
        num_repeated=counts.num_repeated - num_skipped_rows + num_skipped,
        num_skipped=num_skipped,
        skipped=tuple(sorted({pair for tally in tallies for pair in tally.skipped})[:_FEW]),
        num_balanced=balance.num_balanced,
        imbalance_before=balance.before / balance.num_balanced if balance.num_balanced else None,
        imbalance_after=balance.after / balance.num_balanced if balance.num_balanced else None,
        seconds=max(tally.seconds for tally in tallies),
        seconds_waiting=max(tally.seconds_waiting for tally in tallies),
    )
