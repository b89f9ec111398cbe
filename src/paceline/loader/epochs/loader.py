"""What people iterate: from a dataset to padded batches of equal shape, in equal steps, on any carrier.

A plan says who loads what; workers load and collate; costs, if there are any, are evened out; and whatever goes wrong
on one rank is raised on all of them at the same step.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader

from paceline.batch import Batch, Collate
from paceline.comm import Comm, connect
from paceline.errors import InputError, choice, whole_number
from paceline.loader.agreement.alarm import Alarm
from paceline.loader.agreement.background import Closing
from paceline.loader.epochs.epoch_pass import IDS, Check, Handed, Pass
from paceline.loader.epochs.epoch_summary import EpochSummary, Tally
from paceline.loader.epochs.gather_rows import gather_rows
from paceline.loader.epochs.progress_bar import Progress, is_wanted
from paceline.loader.epochs.run_notes import Notes
from paceline.loader.epochs.step_loader import Ask, Loaded, OnError, Source
from paceline.loader.epochs.worker_deaths import DEATHS
from paceline.loader.row_exchange.balancer import Balancer
from paceline.loader.row_exchange.row_costs import CostFunction
from paceline.loader.sampler import PlanSampler
from paceline.plan import EpochPlan, Tail, TailLike


class Loader(Closing):
    """Hands every rank its batches: the same number of steps, the same shapes, an even share of the work.

    >>> dataset = [{"label": float(number), "words": list(range(number % 4))} for number in range(10)]
    >>> with Loader(dataset, batch_size=4, shuffle=False, jagged=["words"]) as loader:
    ...     for batch in loader:
    ...         print(batch.num_real, batch.real("label").tolist())
    4 [0.0, 1.0, 2.0, 3.0]
    4 [4.0, 5.0, 6.0, 7.0]
    2 [8.0, 9.0]

    At the first step ranks compare what they must have in common, and all raise if they differ. Afterwards nothing is
    sent that the job has not asked for. If a rank cannot make a batch, all ranks raise `LoadError` at that step.

    Args:
        dataset: What has a length and is indexed by whole numbers. Samples are dicts, dataclasses or tuples of fields.
        batch_size: Rows of every rank's batch.
        tail: What becomes of the remainder.
        shuffle: Whether each epoch has an order of its own; `set_epoch` says which epoch it is.
        seed: Chooses the family of orders; the same on every rank.
        cost: What the rows of a batch cost: then rows move between ranks so that all have the same work.
        costs: What each sample costs, where that is known before it is loaded: then no row has to move.
        plan: A plan that is already there, by length or of several datasets. It takes the place of `batch_size`,
            `tail`, `shuffle`, `seed` and `costs`.
        num_workers: Processes that load ahead; 0 loads in this process.
        comm: The ranks; found by `connect` if not given.
        jagged: Names of the fields that hold lists of different lengths.
        fields: Names for the fields of samples that are tuples; otherwise they are "0", "1" and so on.
        pad_values: What padding rows of a dense field hold, where it is not 0.
        example: A sample whose lists have values, where most have none: it tells their dtype.
        collate: Makes a batch, or a dict or dataclass of fields, of a list of samples; instead of the three above.
        on_error: `raise`: a sample that cannot be loaded ends the pass on all ranks. `skip`: its row becomes padding.
        check: `first`: ranks compare at the first step of a pass. `every`: at each step.
        reseed: Whether random numbers drawn while loading depend on seed, rank, epoch and samples alone. If not given,
            they do in workers; in this process that takes a quarter of a millisecond per batch.
        device: Where batches are put.
        progress: Whether the first rank shows a bar and a summary; on a terminal, if not given.
        grace: Seconds that a rank has to come back for its next batch after another has left the loop because of an
            error. Then it is ended: it waits for the other in a collective, or computes for longer than that.
        pin_memory: As DataLoader's, like what follows.
        prefetch_factor: Batches that each worker loads ahead.
        persistent_workers: Whether workers stay from one epoch to the next.
        worker_init_fn: Called in each worker with its number.
        multiprocessing_context: How workers are started.
        timeout: Seconds after which a worker that gives nothing is an error; 0 is never.
    """

    _is_accelerate_prepared = True  # accelerate leaves such a loader alone: it is dealt already

    def __init__(
        self,
        dataset: Any,
        *,
        batch_size: int | None = None,
        tail: TailLike = Tail.PAD,
        shuffle: bool = True,
        seed: int = 0,
        cost: CostFunction | None = None,
        costs: Any = None,
        plan: EpochPlan | None = None,
        num_workers: int = 0,
        comm: Comm | None = None,
        jagged: Collection[str] = (),
        fields: Collection[str] = (),
        pad_values: Mapping[str, float] | None = None,
        example: Any = None,
        collate: Callable[[list[Any]], Any] | None = None,
        on_error: OnError | str = OnError.RAISE,
        check: Check | str = Check.FIRST,
        reseed: bool | None = None,
        device: torch.device | str | None = None,
        progress: bool | None = None,
        grace: float = 60.0,
        pin_memory: bool = False,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        timeout: float = 0,
    ) -> None:
        self.comm = comm if comm is not None else connect()
        self.dataset = _indexed(dataset)
        self._is_empty = self.comm.world_size > 1 and plan is None and len(self.dataset) == 0
        if self._is_empty:  # raised here it would leave the others waiting: they hear of it at the first step
            dataset, costs = _NoSamples(), None
        self.num_workers = whole_number("num_workers", num_workers, least=0)
        self.sampler = self._sampler_of(dataset, plan, batch_size, tail, shuffle, seed, costs)
        self._cost, self._check = cost, choice(Check, "check", check)
        self._on_error: OnError = choice(OnError, "on_error", on_error)
        self._grace = grace
        self._progress, self._pin_memory = progress, pin_memory and num_workers == 0
        self._device = None if device is None else torch.device(device)
        if collate is not None and (jagged or fields or pad_values):
            raise InputError("a collate function makes the fields by itself: leave out jagged, fields and pad_values")
        does_reseed = self.num_workers > 0 if reseed is None else reseed
        self._source = Source(
            dataset,
            collate
            or Collate(self.sampler.batch_size, jagged=jagged, fields=fields, pad_values=pad_values, example=example),
            on_error=self._on_error,
            place=f"{self.sampler.plan.seed} {self.comm.rank}" if does_reseed else None,
        )
        self._worker_settings = {
            "pin_memory": pin_memory,
            "prefetch_factor": prefetch_factor,
            "persistent_workers": persistent_workers,
            "worker_init_fn": worker_init_fn,
            "multiprocessing_context": multiprocessing_context,
            "timeout": timeout,
        }
        self._workers = self._new_workers() if self.num_workers else None
        self._alarm: Alarm | None = None
        self._balancer: Balancer | None = None
        self._notes = Notes(self.comm.rank, self.comm.world_size)
        self._num_going = 0  # passes
        self._handed: Handed | None = None  # of the pass that goes on, or of the last one
        self.summary: EpochSummary | None = None  # of the last pass that has come to its end

    def _new_workers(self) -> DataLoader[Any]:
        return DataLoader(
            self._source,  # type: ignore[arg-type]  # it is indexed by what the sampler yields
            batch_size=None,
            sampler=_Asks(self.sampler),
            collate_fn=_as_it_is,
            num_workers=self.num_workers,
            **self._worker_settings,
        )

    def _sampler_of(
        self,
        dataset: Sized,
        plan: EpochPlan | None,
        batch_size: int | None,
        tail: TailLike,
        shuffle: bool,
        seed: int,
        costs: Any,
    ) -> PlanSampler:
        rank, world_size = self.comm.rank, self.comm.world_size
        if plan is not None:
            if batch_size is not None or costs is not None:
                raise InputError("a plan has its batch_size and its costs already: give those, or the plan")
            if plan.world_size != world_size:
                raise InputError(f"the plan is for {plan.world_size} ranks, but there are {world_size}")
            if plan.num_ids > len(dataset):
                raise InputError(f"the plan is of {plan.num_ids} samples, but the dataset has {len(dataset)}")
            return PlanSampler.of(plan, rank=rank)
        if batch_size is None:
            raise InputError("batch_size is missing: give the rows of one rank's batch")
        return PlanSampler(
            dataset,
            batch_size=batch_size,
            num_replicas=world_size,
            rank=rank,
            shuffle=shuffle,
            seed=seed,
            tail=tail,
            costs=costs,
        )

    # What torch, Lightning and others know of a loader.

    @property
    def batch_size(self) -> int:
        """Rows of a batch; of the largest one, where a plan by length has several."""
        return self.sampler.batch_size

    @property
    def epoch(self) -> int:
        """The epoch that iterating hands out."""
        return self.sampler.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch. A pass that goes on is not changed by it, but states are of the new epoch."""
        self.sampler.set_epoch(epoch)
        if self._handed is not None and self._handed.epoch != epoch:
            self._handed = None

    def __len__(self) -> int:
        """Steps of the pass that goes on, or of the next one: the same on every rank."""
        return len(self.sampler)

    def state_dict(self) -> dict[str, Any]:
        """Return a small state, the same on every rank, after the batches that the loop has got.

        It holds for any number of ranks and workers, and any batch size.
        """
        return self.sampler.state_dict(step=None if self._handed is None else self._handed.num_steps)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was taken."""
        self.sampler.load_state_dict(state)
        self._handed = None

    # What it hands out.

    def __iter__(self) -> Iterator[Batch]:
        """Begin a pass. Nothing is done before the first batch is asked for; then all ranks must ask."""
        if self._num_going and self._worker_settings["persistent_workers"]:
            raise InputError("workers that stay can serve one pass at a time: end the one that goes on first")
        tally, began = Tally(), time.perf_counter()
        plan, epoch = self.sampler.begin()
        num_steps = 0 if plan is None else plan.num_steps
        going = self._pass(plan, epoch, num_steps, tally)
        self._handed = handed = Handed(keeps_ids=self._cost is not None, plan=plan, epoch=epoch, going=going)
        is_shown = is_wanted(self._progress, self.comm.rank)
        with self._counted(), Progress(f"epoch {epoch}", num_steps, is_shown=is_shown) as progress:
            asked = began
            self._notes.begin(epoch, num_steps, self.batch_size)
            for step, (batch, ids) in enumerate(going.over(self._loaded())):
                handed.note(batch, ids)
                waited = time.perf_counter() - asked
                tally.seconds_waiting += waited
                self._notes.step(
                    step, num_rows=batch.batch_size, num_real=batch.num_real, waited=waited, balanced=going.balanced
                )
                yield batch
                progress.step()
                asked = time.perf_counter()
                tally.seconds = asked - began
        self.summary = tally.put_together(going.told, epoch=epoch, counts=None if plan is None else plan.summary())
        self._notes.end(self.summary)
        if is_shown:
            print(self.summary, file=sys.stderr)

    def _pass(self, plan: EpochPlan | None, epoch: int, num_steps: int, tally: Tally) -> Pass:
        return Pass(
            comm=self.comm,
            check=self._check,
            facts=self._facts(plan, epoch, num_steps),
            alarm=None if self.comm.world_size == 1 else self._made_alarm,
            balancer=None if self._cost is None or self.comm.world_size == 1 else self._made_balancer,
            tally=tally,
            epoch=epoch,
            num_steps=num_steps,
            device=self._device,
        )

    def _made_alarm(self) -> Alarm:
        if self._alarm is None:
            self._alarm = Alarm(self.comm, self._grace)
        return self._alarm

    def _made_balancer(self) -> Balancer:
        if self._balancer is None:
            assert self._cost is not None
            self._balancer = Balancer(self.comm, _of_fields(self._cost))
            weakref.finalize(self, self._balancer.close, wait=False)
        return self._balancer

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._num_going += 1
        try:
            yield
        finally:
            self._num_going -= 1

    def _facts(self, plan: EpochPlan | None, epoch: int, num_steps: int) -> dict[str, str]:
        whole = self.sampler.plan
        return {
            "samples": "0" if self._is_empty else f"{whole.num_samples}",
            "batch_size": f"{whole.row_width}",
            "tail": f"{whole.tail}",
            "shuffle": f"{whole.shuffle}",
            "seed": f"{whole.seed}",
            "epoch": f"{epoch}",
            "samples already consumed": "all" if plan is None else f"{plan.start}",
            "*steps": f"{num_steps}",
            "*order of samples": f"{whole.fingerprint}",
            "cost": "none" if self._cost is None else "given",
            "on_error": self._on_error.value,
            "check": self._check.value,
        }

    def _loaded(self) -> Iterator[Loaded]:
        """Yield what this rank loads for each step of the pass that has begun."""
        if self._workers is not None:
            batches = iter(self._workers)
            with DEATHS.held_back():
                while (loaded := DEATHS.take(batches)) is not None:
                    yield loaded
            return
        for ask in _Asks(self.sampler):
            here = self._source[ask]
            yield here.pin_memory() if self._pin_memory else here

    def gather_real(self, values: Any) -> Any:
        """Return the values of all ranks' real rows, each sample once, in the order of samples. All ranks call it.

        Within the loop, give a value for each row of the batch, with or without those of its padding. After the loop,
        give one for each real row of all batches, in the order in which they came: a metric over them is exact.

        >>> with Loader([{"x": float(number)} for number in range(5)], batch_size=2, seed=1) as loader:
        ...     squares = [batch.real("x") ** 2 for batch in loader]
        ...     loader.gather_real(torch.cat(squares))
        tensor([ 0.,  1.,  4.,  9., 16.])

        Args:
            values: A tensor, a list of tensors or of anything that can be pickled, or a dict of these. Rows of tensors
                whose shapes differ come back as a list.
        """
        if self._handed is None:
            raise InputError("there is nothing to gather before the first batch")
        return gather_rows(self.comm, values, self._handed, self._device)

    def close(self, *, wait: bool = True) -> None:
        """End what runs in the background: the balancer, the alarm, and workers that have stayed.

        Args:
            wait: Whether all ranks close: then communicators are freed as well. Otherwise they are left.
        """
        if self._balancer is not None:
            self._balancer.close(wait=wait)
            self._balancer = None
        if self._alarm is not None and wait:
            self._alarm.close()
        self._alarm = None
        self._workers = None if self._workers is None else self._new_workers()


class _Asks:
    """What is to be loaded in each step of a pass: DataLoader hands it to its workers."""

    def __init__(self, sampler: PlanSampler) -> None:
        self._sampler = sampler

    def __iter__(self) -> Iterator[Ask]:
        plan, epoch = self._sampler.begin()
        for step, ids in enumerate(self._sampler):
            assert plan is not None  # it has steps
            yield Ask(epoch=epoch, step=step, ids=ids, num_rows=plan.batch_size_of(step))

    def __len__(self) -> int:
        return len(self._sampler)


class _NoSamples:
    """In the place of a dataset without samples, so that this rank meets the others before it fails."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, sample: int) -> Any:
        raise InputError("the dataset is empty: its length is 0")


def _as_it_is(loaded: Any) -> Any:
    return loaded


def _of_fields(cost: CostFunction) -> CostFunction:
    """Hide the ids that travel with the rows from the cost function."""
    return lambda batch: cost(batch.without(IDS))


def _indexed(dataset: Any) -> Any:
    if not hasattr(dataset, "__getitem__") or not isinstance(dataset, Sized):
        raise InputError(
            f"a {type(dataset).__name__} has no length and no samples by number: for a stream of unknown length, "
            f"iterate it by paceline.in_step"
        )
    return dataset
