"""The contract of equal steps and shapes, proved by running every rank's batches in one process.

Ranks run one after the other and nothing communicates, so a contract that would hang a job is found before it runs.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from paceline.errors import InputError, whole_number
from paceline.loader.check.batch_fields import Field, fields_of, ids_of
from paceline.loader.sampler import PlanSampler
from paceline.plan.order import Ids

_PACKAGE = str(Path(__file__).parents[2])

Factory = Callable[[int, int], Iterable[Any]]


class Difference(StrEnum):
    """In what ranks differ."""

    STEPS = "steps"
    FIELDS = "fields"
    SHAPE = "shape"
    DTYPE = "dtype"
    RAISED = "raised"
    EMPTY = "empty"  # no rank makes a step


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Ranks that have the same."""

    ranks: tuple[int, ...]
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenContract:
    """One way in which ranks differ.

    Attributes:
        kind: In what.
        step: The first step at which they do, counted from 0.
        field: The field of the batch, or None where it is not one field.
        ranks: The ranks out of line: all but the largest group.
        groups: Who has what, the largest group first.
    """

    kind: Difference
    step: int
    field: str | None
    ranks: tuple[int, ...]
    groups: tuple[RankGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdCount:
    """What became of the sample ids that batches carry.

    Attributes:
        num_rows: Rows with an id, over all ranks and steps.
        num_distinct: Different ids among them.
        repeated: Ids that came more than once, the first few.
        num_expected: Samples of the dataset, or None if nobody says.
        lost: Ids below `num_expected` that never came, the first few.
        num_lost: How many, or None if `num_expected` is not known.
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
    """What a check has found.

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
        """Whether all that was asked for is so."""
        once = not self.exactly_once or (self.ids is not None and self.ids.num_repeated == 0 and self.ids.num_lost == 0)
        return once and not self.broken


@dataclass(slots=True)
class _RankRun:
    """What one rank did. `specs` holds, for each step, the fields of its batch."""

    specs: list[tuple[Field, ...]]
    ids: list[Ids]
    num_samples: int | None = None
    error: str | None = None
    is_cut: bool = False


def check_contract(
    factory: Factory,
    world_size: int,
    *,
    ids: str | None = None,
    num_samples: int | None = None,
    max_steps: int | None = None,
    ragged: Iterable[str] = (),
    exactly_once: bool = False,
    on_step: Callable[[int, int], None] | None = None,
) -> ContractResult:
    """Run `factory(rank, world_size)` for every rank and compare steps, fields, shapes and dtypes.

    >>> result = check_contract(lambda rank, world_size: [[rank]] * (3 - rank), 2)
    >>> result.broken[0].kind.value, result.broken[0].step, result.broken[0].ranks
    ('steps', 2, (1,))

    Args:
        factory: Gives the batches of one rank: a DataLoader, a sampler, a generator.
        world_size: Ranks to run.
        ids: Where in a batch the sample ids stand, such as `meta.id`; found by name if not given.
        num_samples: Samples of the dataset; taken from the factory's `dataset` if not given.
        max_steps: Stop each rank there: for batches without an end.
        ragged: Fields whose shape may differ between ranks.
        exactly_once: Count a lost or repeated sample as a broken contract.
        on_step: Called with rank and step after each batch.

    Raises:
        InputError: If `ids` names no field of whole numbers, or `exactly_once` cannot be judged.
    """
    world_size = whole_number("world_size", world_size, least=1)
    if num_samples is not None:
        num_samples = whole_number("num_samples", num_samples, least=1)
    if max_steps is not None:
        max_steps = whole_number("max_steps", max_steps, least=1)
    interned: dict[tuple[Field, ...], tuple[Field, ...]] = {}
    runs = []
    for rank in range(world_size):
        run = _RankRun(specs=[], ids=[])
        runs.append(run)
        for spec, found in _batches(run, factory, rank, world_size, ids, max_steps):
            run.specs.append(interned.setdefault(spec, spec))  # one object for equal specs
            if found is not None:
                run.ids.append(found)
            if on_step is not None:
                on_step(rank, len(run.specs) - 1)
    id_count = _count_ids(runs, num_samples)
    if exactly_once and any(run.is_cut for run in runs):
        raise InputError("exactly once cannot be judged of batches that are cut: leave out max_steps")
    if exactly_once and id_count is None:
        raise InputError("exactly once cannot be judged: no ids were found in the batches; say where they are (--ids)")
    if exactly_once and id_count is not None and id_count.num_lost is None:
        raise InputError("exactly once cannot be judged: the size of the dataset is not known; give it (--samples)")
    ragged = set(ragged)
    if missing := ragged - {field.path for spec in interned for field in spec}:
        raise InputError(f"no batch has the ragged field {sorted(missing)[0]!r}")
    return ContractResult(
        steps=tuple(len(run.specs) for run in runs),
        broken=(*_raised(runs), *_unequal_steps(runs), *_unequal_fields(runs, ragged)),
        ids=id_count,
        exactly_once=exactly_once,
        unknown=tuple(sorted({str(field.dtype) for spec in interned for field in spec if not field.is_known})),
        is_cut=any(run.is_cut for run in runs),
    )


def _batches(
    run: _RankRun,
    factory: Factory,
    rank: int,
    world_size: int,
    ids: str | None,
    max_steps: int | None,
) -> Iterable[tuple[tuple[Field, ...], Ids | None]]:
    """Yield fields and ids of each batch of a rank; note in `run` how it ended."""
    try:
        batches = factory(rank, world_size)
        run.num_samples = _samples_of(batches)
        num_real = _count_of_real_rows(batches)
        iterator = iter(batches)
    except (Exception, SystemExit) as error:
        run.error = _error_text(error)
        return
    step = 0
    while True:
        if step == max_steps:
            run.is_cut = True
            return
        try:
            batch = next(iterator)
        except StopIteration:
            return
        except (Exception, SystemExit) as error:
            run.error = _error_text(error)
            return
        found = ids_of(batch, ids)
        if found is not None and num_real is not None:
            found = found[: num_real(step)]  # what follows are stand-ins
        yield tuple(fields_of(batch)), found
        step += 1


def _error_text(error: BaseException) -> str:
    """Say what was raised, and where: the innermost line outside of this package."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    where = f" ({Path(outside[-1].filename).name}:{outside[-1].lineno})" if outside else ""
    return f"{type(error).__name__}: {error}{where}"


def _samples_of(batches: Any) -> int | None:
    dataset: Any = getattr(batches, "dataset", None)
    while hasattr(dataset, "dataset") and hasattr(dataset, "indices"):  # torch's Subset
        dataset = dataset.dataset
    return len(dataset) if isinstance(dataset, Sized) else None


def _count_of_real_rows(batches: Any) -> Callable[[int], int] | None:
    """Return what tells real rows from stand-ins: a PlanSampler, alone or in a DataLoader."""
    for source in (batches, getattr(batches, "batch_sampler", None)):
        if isinstance(source, PlanSampler):
            return source.num_real
    return None


def _raised(runs: list[_RankRun]) -> Iterable[BrokenContract]:
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


def _unequal_steps(runs: list[_RankRun]) -> Iterable[BrokenContract]:
    counts = [len(run.specs) for run in runs]
    values = dict(enumerate(map(str, counts)))
    if len(set(counts)) > 1:
        yield _broken(Difference.STEPS, min(counts), None, values)
    elif counts[0] == 0:
        yield BrokenContract(kind=Difference.EMPTY, step=0, field=None, ranks=tuple(values), groups=_groups(values))


def _unequal_fields(runs: list[_RankRun], ragged: set[str]) -> Iterable[BrokenContract]:
    """Yield the differences of the first step at which fields differ."""
    for step in range(max(len(run.specs) for run in runs)):
        specs = {rank: run.specs[step] for rank, run in enumerate(runs) if step < len(run.specs)}
        if len({id(spec) for spec in specs.values()}) == 1:
            continue
        found = list(_compare(step, specs, ragged))
        if found:
            yield from found
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


def _groups(values: dict[int, str]) -> tuple[RankGroup, ...]:
    """Group ranks of the same value: the largest group first, then the one with the lowest rank."""
    ranks: dict[str, list[int]] = {}
    for rank, value in values.items():
        ranks.setdefault(value, []).append(rank)
    groups = [RankGroup(ranks=tuple(members), value=value) for value, members in ranks.items()]
    return tuple(sorted(groups, key=lambda group: (-len(group.ranks), group.ranks)))


def _count_ids(runs: list[_RankRun], num_samples: int | None) -> IdCount | None:
    parts = [part for run in runs for part in run.ids]
    if not parts:
        return None
    distinct, counts = np.unique(np.concatenate(parts), return_counts=True)
    is_cut = any(run.is_cut for run in runs)
    expected = num_samples if num_samples is not None else _agreed_samples(runs)
    if expected is not None and distinct.size and distinct[-1] >= expected:
        if num_samples is not None:
            raise InputError(f"id {distinct[-1]} cannot be of a dataset of {num_samples} samples")
        expected = None  # what the factory calls its dataset is not what the ids count
    # among so many ids there are ten that are lost, if there are ten: no need to list the whole dataset
    few = None if expected is None else np.arange(min(expected, distinct.size + 10))
    lost = None if few is None else np.setdiff1d(few, distinct)
    return IdCount(
        num_rows=int(counts.sum()),
        num_distinct=int(distinct.size),
        repeated=_first_few(distinct[counts > 1]),
        num_expected=expected,
        lost=() if lost is None or is_cut else _first_few(lost),
        num_lost=None if expected is None or is_cut else expected - int(distinct.size),
    )


def _agreed_samples(runs: list[_RankRun]) -> int | None:
    known = {run.num_samples for run in runs}
    return known.pop() if len(known) == 1 else None


def _first_few(ids: Ids) -> tuple[int, ...]:
    return tuple(int(sample) for sample in ids[:10])
