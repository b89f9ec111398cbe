"""Compares what ranks did when they were run one after the other: errors, steps, and the fields of their batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from paceline.loader.agreement.must_agree import group_ranks
from paceline.loader.check.batch_fields import Field
from paceline.loader.check.contract_result import BrokenContract, Difference, RanksWithValue
from paceline.plan.order import Ids


@dataclass(slots=True)
class RankRun:
    """What one rank did.

    Attributes:
        specs: For each step, the fields of its batch. Equal ones are one object.
        ids: The sample ids of batches that carry any.
        num_samples: Samples of its dataset, if it says so.
        error: What it raised.
        is_cut: Whether it was stopped at the most steps.
    """

    specs: list[tuple[Field, ...]] = field(default_factory=list)
    ids: list[Ids] = field(default_factory=list)
    num_samples: int | None = None
    error: str | None = None
    is_cut: bool = False


def raised_errors(runs: Sequence[RankRun]) -> Iterable[BrokenContract]:
    """Yield that ranks have raised, with their errors."""
    texts = {rank: run.error for rank, run in enumerate(runs) if run.error is not None}
    if texts:
        step = min(len(runs[rank].specs) for rank in texts)
        yield BrokenContract(
            kind=Difference.RAISED,
            step=step,
            field=None,
            ranks=tuple(texts),
            groups=_groups(texts),
        )


def unequal_steps(runs: Sequence[RankRun]) -> Iterable[BrokenContract]:
    """Yield that ranks make different numbers of steps, or none at all."""
    counts = [len(run.specs) for run in runs]
    values = dict(enumerate(map(str, counts)))
    if len(set(counts)) > 1:
        yield _broken(Difference.STEPS, min(counts), None, values)
    elif counts[0] == 0:
        yield BrokenContract(kind=Difference.EMPTY, step=0, field=None, ranks=tuple(values), groups=_groups(values))


def unequal_fields(runs: Sequence[RankRun], ragged: set[str]) -> Iterable[BrokenContract]:
    """Yield the differences of the first step at which fields differ."""
    for step in range(max(len(run.specs) for run in runs)):
        specs = {rank: run.specs[step] for rank, run in enumerate(runs) if step < len(run.specs)}
        if len({id(spec) for spec in specs.values()}) == 1:
            continue
        differences = list(_compare(step, specs, ragged))
        if differences:
            yield from differences
            return


def _compare(step: int, specs: dict[int, tuple[Field, ...]], ragged: set[str]) -> Iterable[BrokenContract]:
    paths = {rank: tuple(field.path for field in spec) for rank, spec in specs.items()}
    if len(set(paths.values())) > 1:
        names = {rank: ", ".join(path) or "one field" for rank, path in paths.items()}
        yield _broken(Difference.FIELDS, step, None, names)
        return
    for same_field in zip(*specs.values(), strict=True):
        path = same_field[0].path
        by_rank = dict(zip(specs, same_field, strict=True))
        shapes = {rank: str(field.shape) for rank, field in by_rank.items()}
        dtypes = {rank: field.dtype for rank, field in by_rank.items() if field.dtype is not None}
        if path not in ragged and len(set(shapes.values())) > 1:
            yield _broken(Difference.SHAPE, step, path, shapes)
        if len(set(dtypes.values())) > 1:
            yield _broken(Difference.DTYPE, step, path, dtypes)


def _broken(kind: Difference, step: int, field: str | None, values: dict[int, str]) -> BrokenContract:
    groups = _groups(values)
    outside = sorted(rank for group in groups[1:] for rank in group.ranks)
    return BrokenContract(kind=kind, step=step, field=field, ranks=tuple(outside), groups=groups)


def _groups(values: dict[int, str]) -> tuple[RanksWithValue, ...]:
    """Group ranks of the same value: the largest group first, then the one with the lowest rank."""
    groups = [RanksWithValue(ranks=tuple(members), value=value) for value, members in group_ranks(values).items()]
    return tuple(sorted(groups, key=lambda group: (-len(group.ranks), group.ranks)))
