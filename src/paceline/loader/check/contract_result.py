"""The result of a check of the contract: in which ways ranks differ, and what became of sample ids. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paceline.errors import name_ranks
from paceline.process.notebook_html import notebook_html


class Difference(StrEnum):
    """What ranks differ in."""

    STEPS = "steps"
    FIELDS = "fields"
    SHAPE = "shape"
    DTYPE = "dtype"
    RAISED = "raised"
    EMPTY = "empty"  # no rank makes a step


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksWithValue:
    """Ranks that have the same value."""

    ranks: tuple[int, ...]
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenContract:
    """One way in which ranks differ.

    Attributes:
        kind: What they differ in.
        step: The first step at which they do, counted from 0.
        field: The field of the batch, or None if it is not one field.
        ranks: The ranks out of line: all but the largest group.
        groups: The ranks of each value, the largest group first.
    """

    kind: Difference
    step: int
    field: str | None
    ranks: tuple[int, ...]
    groups: tuple[RanksWithValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdCount:
    """What became of the sample ids that batches carry.

    Attributes:
        num_rows: Rows with an id, over all ranks and steps.
        num_distinct: Different ids among them.
        repeated: Ids that came more than once, the first few.
        num_expected: Samples of the dataset, or None if that is not known.
        lost: Ids below `num_expected` that never came, the first few.
        num_lost: How many of those there are, or None if `num_expected` is not known.
    """

    num_rows: int
    num_distinct: int
    repeated: tuple[int, ...]
    num_expected: int | None
    lost: tuple[int, ...]
    num_lost: int | None

    @property
    def num_repeated(self) -> int:
        """Rows whose id had come before."""
        return self.num_rows - self.num_distinct


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractResult:
    """The result of a check.

    Attributes:
        steps: Steps of each rank.
        broken: The ways in which ranks differ; empty if the contract holds.
        ids: What became of the ids, or None if batches carry none.
        exactly_once: Whether a lost or repeated sample breaks the contract.
        unknown: Fields of types that cannot be looked into: only their type was compared.
        is_cut: Whether some rank was stopped at `max_steps`.
    """

    steps: tuple[int, ...]
    broken: tuple[BrokenContract, ...]
    ids: IdCount | None
    exactly_once: bool
    unknown: tuple[str, ...]
    is_cut: bool

    @property
    def holds(self) -> bool:
        """Whether ranks keep the contract, and lose and repeat nothing if that was asked for."""
        once = not self.exactly_once or (self.ids is not None and self.ids.num_repeated == 0 and self.ids.num_lost == 0)
        return once and not self.broken

    def _repr_html_(self) -> str:
        """Return it as a table, for notebooks."""
        rows = [("all", "steps", ", ".join(map(str, dict.fromkeys(self.steps))))]
        for broken in self.broken:
            what = f"{broken.kind}{f' of {broken.field}' if broken.field else ''}, from step {broken.step}"
            rows += [(name_ranks(group.ranks), what, group.value) for group in broken.groups]
        sentences = []
        if self.ids is not None:
            lost = "not known" if self.ids.num_lost is None else f"{self.ids.num_lost:,}"
            counts = f"{self.ids.num_distinct:,} different, {self.ids.num_repeated:,} repeated, {lost} lost"
            sentences = [("samples", counts)]
        title = f"{len(self.steps)} ranks: the contract {'holds' if self.holds else 'is broken'}"
        return notebook_html(title, rows, header=("ranks", "what", "value"), sentences=sentences)
