"""What each tail does with a remainder, as a value, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paceline.errors import EmptyPlanError, whole_number
from paceline.plan import Plan, Summary, Tail
from paceline.plan.classic import clamped_batches
from paceline.report.text.tables import groups_text, table_text

_MOST_RANKS = 1_000_000  # each of them is listed


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRow:
    """What one tail does: its counts and the real rows of each rank's last batch, or why it cannot."""

    tail: Tail
    summary: Summary | None = None
    last_rows: tuple[int, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TailReport:
    """What the tails do with the same numbers, and what the classic wrong plan does."""

    num_samples: int
    world_size: int
    batch_size: int
    rows: tuple[TailRow, ...]
    clamped: tuple[int, ...]

    @property
    def clamped_deadlocks(self) -> bool:
        """Whether the classic plan's ranks make unequal numbers of batches."""
        return len(set(self.clamped)) > 1


def compare_tails(num_samples: int, *, world_size: int, batch_size: int, tails: Sequence[Tail]) -> TailReport:
    """Plan the same numbers with each tail. Raises `InputError` for numbers that no tail can use."""
    whole_number("world_size", world_size, least=1, most=_MOST_RANKS)
    return TailReport(
        num_samples=num_samples,
        world_size=world_size,
        batch_size=batch_size,
        rows=tuple(_tail_row(num_samples, world_size, batch_size, tail) for tail in tails),
        clamped=tuple(clamped_batches(num_samples, world_size=world_size, batch_size=batch_size)),
    )


def _tail_row(num_samples: int, world_size: int, batch_size: int, tail: Tail) -> TailRow:
    try:
        plan = Plan(num_samples, world_size=world_size, batch_size=batch_size, tail=tail)
    except EmptyPlanError as error:
        return TailRow(tail=tail, problem=str(error))
    rows, more = divmod(plan.num_real(plan.num_steps - 1), world_size)
    return TailRow(
        tail=tail,
        summary=plan.summary(),
        last_rows=(rows + 1,) * more + (rows,) * (world_size - more),
    )


def tails_as_text(report: TailReport) -> str:
    """Return the report as lines for a terminal or a file."""
    step = report.world_size * report.batch_size
    lines = [
        f"{report.num_samples} samples, {report.world_size} ranks, batch {report.batch_size}: "
        f"a full step holds {step} samples",
        "",
    ]
    header = [
        "tail",
        "steps",
        "used",
        "dropped",
        "padded",
        "repeated",
        "real rows in the last step",
    ]
    cells = [
        [row.tail.value, *dict(row.summary).values(), groups_text(row.last_rows)]
        for row in report.rows
        if row.summary is not None
    ]
    if cells:
        lines.append(table_text(header, cells))
    lines += [f"{row.tail.value}: {row.problem}" for row in report.rows if row.problem]
    return "\n".join([*lines, "", *_classic_lines(report)])


def _classic_lines(report: TailReport) -> list[str]:
    lines = [
        f"The classic bug, ceil(N/W) samples per rank with the last rank clamped: "
        f"full batches {groups_text(report.clamped)}"
    ]
    if report.clamped_deadlocks:
        lines.append(
            f"With a barrier in each step this will deadlock: some ranks wait in step {min(report.clamped)} "
            f"(counted from 0), which others never make."
        )
    elif not any(report.clamped):
        lines.append("No rank has a full batch: the epoch would silently do nothing.")
    elif report.world_size == 1:
        lines.append("With one rank there is nobody to wait for.")
    else:
        lines.append("The counts happen to be equal here: with another N, W or B it will deadlock.")
    return lines


def tails_as_json(report: TailReport) -> dict[str, Any]:
    """Return the report as values that json can write."""
    return {
        "version": 1,
        "num_samples": report.num_samples,
        "world_size": report.world_size,
        "batch_size": report.batch_size,
        "tails": [
            {
                "tail": row.tail.value,
                **({} if row.summary is None else asdict(row.summary)),
                "last_step_real_rows": list(row.last_rows),
                "problem": row.problem,
            }
            for row in report.rows
        ],
        "clamped_ceil": {
            "batches": list(report.clamped),
            "will_deadlock": report.clamped_deadlocks,
        },
    }
