"""The policies for the remainder of an epoch, and the count of what each one did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from paceline.errors import choice
from paceline.process.notebook_html import notebook_html


class Tail(StrEnum):
    """What becomes of the samples that do not fill a whole step on all ranks.

    Example: 11 samples, 2 ranks, batch 4 (a step holds 8), the last step of each policy:

    ========  =====  ===================================================
    tail      steps  last step
    ========  =====  ===================================================
    drop      1      8 samples; the other 3 are dropped
    even      2      1 sample on each rank; 1 is dropped
    pad       2      2 real rows on rank 0, 1 on rank 1; 5 rows padded
    repeat    2      4 rows on each rank; 5 samples come again
    ========  =====  ===================================================
    """

    DROP = "drop"
    EVEN = "even"
    PAD = "pad"
    REPEAT = "repeat"

    @classmethod
    def of(cls, value: Tail | str) -> Tail:
        """Return the policy of that name.

        >>> Tail.of("pad") is Tail.PAD
        True
        """
        return choice(cls, "tail", value)


TailLike = Tail | Literal["drop", "even", "pad", "repeat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a plan does with its samples, over all ranks.

    It reads as a mapping too, for loggers: `dict(plan.summary())`.

    Attributes:
        num_steps: Steps of one epoch, the same on every rank.
        num_used: Samples that are seen, each counted once.
        num_dropped: Samples that are not seen.
        num_padded: Rows without a sample, in batches that keep their full size.
        num_repeated: Rows that hold a sample which this epoch has already seen.
    """

    num_steps: int
    num_used: int
    num_dropped: int
    num_padded: int
    num_repeated: int

    def keys(self) -> Iterator[str]:
        """Return the names of the counts."""
        return (field.name for field in fields(self))

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def _repr_html_(self) -> str:
        """Return it as a table, for notebooks."""
        return summary_html("an epoch", self)


def summary_html(title: str, summary: Summary) -> str:
    """Return what becomes of the samples of a plan as a table, for notebooks."""
    return notebook_html(title, [(name.removeprefix("num_"), f"{count:,}") for name, count in dict(summary).items()])
