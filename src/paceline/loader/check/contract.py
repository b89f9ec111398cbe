"""The contract of equal steps and shapes, proved by running every rank's batches in one process.

Ranks run one after the other and nothing communicates, so a contract that would hang a job is found before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from functools import partial
from typing import Any

import numpy as np

from paceline.errors import InputError, whole_number
from paceline.loader.agreement.problem import error_text
from paceline.loader.check.batch_fields import Field, fields_of, ids_of
from paceline.loader.check.contract_result import ContractResult, IdCount
from paceline.loader.check.rank_differences import RankRun, raised_errors, unequal_fields, unequal_steps
from paceline.loader.sampler import PlanSampler
from paceline.plan.order import Ids

Factory = Callable[[int, int], Iterable[Any]]


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
        factory: Returns the batches of one rank: a DataLoader, a sampler, a generator.
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
    runs: list[RankRun] = []
    for rank in range(world_size):
        run = RankRun()
        runs.append(run)
        for spec, batch_ids in _batches(run, partial(factory, rank, world_size), ids, max_steps):
            run.specs.append(interned.setdefault(spec, spec))  # one object for equal specs
            if batch_ids is not None:
                run.ids.append(batch_ids)
            if on_step is not None:
                on_step(rank, len(run.specs) - 1)
    id_count = _count_ids(runs, num_samples)
    if exactly_once:
        _refuse_what_cannot_be_judged(runs, id_count)
    ragged = set(ragged)
    if missing := ragged - {field.path for spec in interned for field in spec}:
        raise InputError(f"no batch has the ragged field {sorted(missing)[0]!r}")
    return ContractResult(
        steps=tuple(len(run.specs) for run in runs),
        broken=(*raised_errors(runs), *unequal_steps(runs), *unequal_fields(runs, ragged)),
        ids=id_count,
        exactly_once=exactly_once,
        unknown=tuple(sorted({str(field.dtype) for spec in interned for field in spec if not field.is_known})),
        is_cut=any(run.is_cut for run in runs),
    )


def _refuse_what_cannot_be_judged(runs: Sequence[RankRun], id_count: IdCount | None) -> None:
    """Raise if nobody can say whether each sample came exactly once."""
    if any(run.is_cut for run in runs):
        raise InputError("exactly once cannot be judged of batches that are cut: leave out max_steps")
    if id_count is None:
        raise InputError("exactly once cannot be judged: no ids were found in the batches; say where they are (--ids)")
    if id_count.num_lost is None:
        raise InputError("exactly once cannot be judged: the size of the dataset is not known; give it (--samples)")


def _batches(
    run: RankRun, make_batches: Callable[[], Iterable[Any]], ids: str | None, max_steps: int | None
) -> Iterable[tuple[tuple[Field, ...], Ids | None]]:
    """Yield fields and ids of each batch of a rank; note in `run` how it ended."""
    try:
        batches = make_batches()
        run.num_samples = _samples_of(batches)
        num_real = _count_of_real_rows(batches)
        iterator = iter(batches)
    except (Exception, SystemExit) as error:
        run.error = error_text(error)
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
            run.error = error_text(error)
            return
        batch_ids = ids_of(batch, ids)
        if batch_ids is not None and num_real is not None:
            batch_ids = batch_ids[: num_real(step)]  # the rest are stand-ins
        yield tuple(fields_of(batch)), batch_ids
        step += 1


def _samples_of(batches: Any) -> int | None:
    dataset: Any = getattr(batches, "dataset", None)
    while hasattr(dataset, "dataset") and hasattr(dataset, "indices"):  # torch's Subset
        dataset = dataset.dataset
    return len(dataset) if isinstance(dataset, Sized) else None


def _count_of_real_rows(batches: Any) -> Callable[[int], int] | None:
    """Return what tells real rows from stand-ins: a PlanSampler, alone or in a DataLoader."""
    for sampler in (batches, getattr(batches, "batch_sampler", None)):
        if isinstance(sampler, PlanSampler):
            return sampler.num_real
    return None


def _count_ids(runs: Sequence[RankRun], num_samples: int | None) -> IdCount | None:
    parts = [part for run in runs for part in run.ids]
    if not parts:
        return None
    distinct, counts = np.unique(np.concatenate(parts), return_counts=True)
    is_cut = any(run.is_cut for run in runs)
    expected = num_samples if num_samples is not None else _agreed_samples(runs)
    if expected is not None and distinct.size and distinct[-1] >= expected:
        if num_samples is not None:
            raise InputError(f"id {distinct[-1]} cannot be of a dataset of {num_samples} samples")
        expected = None  # the ids do not count what the factory calls its dataset
    # the ten first lost ids, if there are ten, are below this: no need to list the whole dataset
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


def _agreed_samples(runs: Sequence[RankRun]) -> int | None:
    known = {run.num_samples for run in runs}
    return known.pop() if len(known) == 1 else None


def _first_few(ids: Ids) -> tuple[int, ...]:
    return tuple(int(sample) for sample in ids[:10])
