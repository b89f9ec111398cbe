"""What people iterate: from a dataset to padded batches of equal shape, in equal steps, on any carrier.

A plan says who loads what; workers load and collate; rows may move so that all ranks have the same work; and whatever
goes wrong on one rank is raised on all of them at the same step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

import torch

from paceline.batch import Batch, Collate
from paceline.comm import Comm, connect
from paceline.errors import InputError, choice, whole_number
from paceline.loader.agreement.background import Closeable
from paceline.loader.agreement.must_agree import MustAgree
from paceline.loader.epochs.delivered import DeliveredBatches
from paceline.loader.epochs.epoch_pass import EpochPass
from paceline.loader.epochs.epoch_summary import EpochSummary
from paceline.loader.epochs.gather_rows import gather_rows
from paceline.loader.epochs.loader_settings import LoaderSettings, read_settings
from paceline.loader.epochs.pass_resources import PassResources
from paceline.loader.epochs.progress_bar import ProgressBar, is_wanted
from paceline.loader.epochs.run_notes import RunNotes
from paceline.loader.epochs.step_feed import StepFeed
from paceline.loader.row_exchange.row_costs import CostFunction
from paceline.loader.sampler import PlanSampler
from paceline.loader.sampler_state import PlannedPass
from paceline.loader.workers.step_loader import OnError, StepLoader
from paceline.plan import EpochPlan, Tail, TailLike
from paceline.plan.pack_kinds import is_pack_plan

if TYPE_CHECKING:
    from paceline.plan import PackPlan


class Loader(Closeable):
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
        dataset: Anything with a length that is indexed by whole numbers. Samples are dicts, dataclasses or tuples of
            fields.
        batch_size: Rows of every rank's batch.
        tail: What becomes of the remainder.
        shuffle: Whether each epoch has an order of its own; `set_epoch` says which epoch it is.
        seed: Chooses the family of orders; the same on every rank.
        cost: Returns what the rows of a batch cost: then rows move between ranks so that all have the same work.
        costs: What each sample costs, if that is known before it is loaded: then no row has to move.
        plan: An existing plan, by length, of packs or of several datasets. It takes the place of `batch_size`, `tail`,
            `shuffle`, `seed` and `costs`. Of a plan of packs, each batch is one pack: its rows are the samples.
        num_workers: Processes that load ahead; 0 loads in this process.
        comm: The ranks; found by `connect` if not given.
        jagged: Names of the fields that hold lists of different lengths.
        collate: Makes a batch, or a dict or dataclass of fields, of a list of samples. It takes the place of `jagged`,
            `fields` and `pad_values`.
        on_error: `raise`: a sample that cannot be loaded ends the pass on all ranks. `skip`: its row becomes padding.
        device: Where batches are put.
        settings: What follows, and settings of torch's DataLoader such as `pin_memory`, `prefetch_factor`,
            `persistent_workers`, `worker_init_fn`, `multiprocessing_context` and `timeout`.
        fields: Names for the fields of samples that are tuples; otherwise they are "0", "1" and so on.
        pad_values: What padding rows of a dense field hold, where it is not 0.
        example: A sample whose lists have values, if most have none: their dtype is taken from it.
        check: `first`: ranks compare at the first step of a pass. `every`: at each step.
        reseed: Whether random numbers drawn while loading depend on seed, rank, epoch and samples alone. If not given,
            they do in workers; in this process that takes a quarter of a millisecond per batch.
        seconds_per_cost: What a unit of `cost` takes a rank. If given, rows move only where that saves more time than
            moving has taken in earlier steps; and while that is rare, costs are asked for in some steps only.
        progress: Whether the first rank shows a bar and a summary; on a terminal, if not given.
        grace: Seconds that a rank has to return for its next batch after another has left the loop because of an
            error. Then it is terminated: it is stuck in a collective with the other, or computes for longer than that.
    """

    _is_accelerate_prepared = True  # accelerate leaves such a loader alone: it is shared out already

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
        plan: EpochPlan | PackPlan | None = None,
        num_workers: int = 0,
        comm: Comm | None = None,
        jagged: Collection[str] = (),
        collate: Callable[[list[Any]], Any] | None = None,
        on_error: OnError | str = OnError.RAISE,
        device: torch.device | str | None = None,
        **settings: Unpack[LoaderSettings],
    ) -> None:
        if cost is not None and costs is not None:
            raise InputError("pass cost (rows move once they are loaded) or costs (samples are dealt), not both")
        self.comm = comm if comm is not None else connect()
        self.dataset = _indexed(dataset)
        self.num_workers = whole_number("num_workers", num_workers, least=0)
        self._options, worker_settings = read_settings(settings)
        self._cost, self._on_error = cost, choice(OnError, "on_error", on_error)
        self._device = None if device is None else torch.device(device)
        self._is_empty = self.comm.world_size > 1 and plan is None and len(self.dataset) == 0
        if self._is_empty:  # raised here it would leave the others waiting: they hear of it at the first step
            dataset, costs = _EmptyDataset(), None
        if plan is not None:
            if batch_size is not None or costs is not None:
                raise InputError("the plan already sets batch_size and costs: pass either it or them")
            if is_pack_plan(plan):
                if cost is not None:
                    raise InputError("the plan has packs of even cost already: give it the cost, and not the loader")
                dataset = self.dataset = _pieces_of(dataset, plan, jagged)
                plan = _turns_of(plan)
            self.sampler = _sampler_of(plan, self.dataset, self.comm)
        elif batch_size is None:
            raise InputError("batch_size is missing: pass the rows of one rank's batch")
        else:
            self.sampler = PlanSampler(
                dataset, batch_size=batch_size, num_replicas=self.comm.world_size, rank=self.comm.rank,
                shuffle=shuffle, seed=seed, tail=tail, costs=costs,
            )  # fmt: skip
        step_loader = StepLoader(
            dataset, self._collate(collate, jagged), on_error=self._on_error, seed=self._seed_of_random_numbers()
        )
        self._feed = StepFeed(self.sampler, step_loader, num_workers=self.num_workers, worker_settings=worker_settings)
        self._resources = PassResources(
            self.comm, cost=cost, seconds_per_cost=self._options.seconds_per_cost, grace=self._options.grace
        )
        self._notes = RunNotes(self.comm.rank, self.comm.world_size)
        self._num_open_passes = 0
        self._delivered: DeliveredBatches | None = None  # by the current pass, or by the last one
        self.summary: EpochSummary | None = None  # of the last pass that has come to its end

    def _collate(
        self, collate: Callable[[list[Any]], Any] | None, jagged: Collection[str]
    ) -> Callable[[list[Any]], Any]:
        options = self._options
        if collate is None:
            return Collate(
                self.sampler.batch_size, jagged=jagged, fields=options.fields, pad_values=options.pad_values,
                example=options.example,
            ).stack  # fmt: skip
        if jagged or options.fields or options.pad_values:
            raise InputError("a collate function makes the fields by itself: leave out jagged, fields and pad_values")
        return collate

    def _seed_of_random_numbers(self) -> str | None:
        reseed = self._options.reseed
        does_reseed = self.num_workers > 0 if reseed is None else reseed
        return f"{self.sampler.plan.seed} {self.comm.rank}" if does_reseed else None

    # What torch, Lightning and others read from a loader.

    @property
    def batch_size(self) -> int:
        """Rows of a batch; of the largest one, where a plan by length has several."""
        return self.sampler.batch_size

    @property
    def epoch(self) -> int:
        """The epoch that iterating hands out."""
        return self.sampler.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch. It does not change a pass that has begun, but states are of the new epoch."""
        self.sampler.set_epoch(epoch)
        if self._delivered is not None and self._delivered.planned.epoch != epoch:
            self._delivered = None

    def __len__(self) -> int:
        """Steps of the current pass, or of the next one: the same on every rank."""
        return len(self.sampler)

    def state_dict(self) -> dict[str, Any]:
        """Return a small state, the same on every rank, after the batches that the loop has received.

        It can be loaded on any number of ranks and workers, and with any batch size.
        """
        return self.sampler.state_dict(step=None if self._delivered is None else self._delivered.num_steps)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where the state was taken."""
        self.sampler.load_state_dict(state)
        self._delivered = None

    # What it hands out.

    def __iter__(self) -> Iterator[Batch]:
        """Begin a pass. Nothing is done before the first batch is asked for; then all ranks must ask."""
        if self._num_open_passes and self._feed.serves_one_pass:
            raise InputError("persistent workers serve one iterator at a time: finish the current one first")
        planned = self.sampler.begin()
        epoch_pass = EpochPass(
            planned,
            self._resources,
            must_agree=self._must_agree(planned),
            check=self._options.check,
            device=self._device,
        )
        self._delivered = delivered = DeliveredBatches(keeps_ids=self._cost is not None, planned=planned)
        is_shown = is_wanted(self._options.progress, self.comm.rank)
        with self._open_pass(), ProgressBar(f"epoch {planned.epoch}", planned.num_steps, is_shown=is_shown) as bar:
            self._notes.begin(planned.epoch, planned.num_steps, self.batch_size)
            for delivered_step in epoch_pass.over(self._feed.steps_of(planned)):
                self._notes.step(delivered.num_steps, delivered_step)
                delivered.note(delivered_step)
                yield delivered_step.batch
                del delivered_step  # the loop alone holds its batch while the next is loaded; `enumerate` would, too
                bar.step()
        delivered.has_ended = True
        assert epoch_pass.summary is not None
        self.summary = epoch_pass.summary
        self._notes.end(self.summary)
        if is_shown:
            print(self.summary, file=sys.stderr)

    @contextmanager
    def _open_pass(self) -> Iterator[None]:
        self._num_open_passes += 1
        try:
            yield
        finally:
            self._num_open_passes -= 1

    def _must_agree(self, planned: PlannedPass) -> MustAgree:
        whole = self.sampler.plan
        return MustAgree(
            chosen={
                "samples": "0" if self._is_empty else f"{whole.num_samples}",
                "batch_size": f"{whole.row_width}",
                "tail": f"{whole.tail}",
                "shuffle": f"{whole.shuffle}",
                "seed": f"{whole.seed}",
                "epoch": f"{planned.epoch}",
                "samples already consumed": "all" if planned.plan is None else f"{planned.plan.start}",
                "cost": "none" if self._cost is None else "given",
                "on_error": self._on_error.value,
                "check": self._options.check.value,
            },
            derived={"steps": f"{planned.num_steps}", "order of samples": f"{whole.fingerprint}"},
        )

    def gather_real(self, values: Any) -> Any:
        """Return the values of all ranks' real rows, each sample once, in the order of samples. All ranks call it.

        Within the loop, pass a value for each row of the batch, with or without those of its padding. After the loop,
        pass one for each real row of all batches, in the order in which they came: a metric over them is exact.

        >>> with Loader([{"x": float(number)} for number in range(5)], batch_size=2, seed=1) as loader:
        ...     squares = [batch.real("x") ** 2 for batch in loader]
        ...     loader.gather_real(torch.cat(squares))
        tensor([ 0.,  1.,  4.,  9., 16.])

        Args:
            values: A tensor, a list of tensors or of anything that can be pickled, or a dict of these. Rows of tensors
                whose shapes differ come back as a list.
        """
        if self._delivered is None:
            raise InputError("there is nothing to gather before the first batch")
        return gather_rows(self.comm, values, self._delivered, self._device)

    def close(self, *, wait: bool = True) -> None:
        """End what runs in the background: the balancer, the alarm, and workers that have stayed.

        Args:
            wait: Whether all ranks close: then communicators are freed as well. Otherwise they are abandoned.
        """
        self._resources.close(wait=wait)
        self._feed.end_workers()


class _EmptyDataset:
    """Takes the place of a dataset without samples, so that this rank still meets the others before it fails."""

    def __len__(self) -> int:
        return 1  # a plan needs a sample

    def __getitem__(self, sample: int) -> Any:
        raise InputError("the dataset is empty: its length is 0")


def _sampler_of(plan: EpochPlan, dataset: Sized, comm: Comm) -> PlanSampler:
    if plan.world_size != comm.world_size:
        raise InputError(f"the plan is for {plan.world_size} ranks, but there are {comm.world_size}")
    if plan.num_ids > len(dataset):
        raise InputError(f"the plan is of {plan.num_ids} samples, but the dataset has {len(dataset)}")
    return PlanSampler.of(plan, rank=comm.rank)


def _turns_of(plan: PackPlan) -> EpochPlan:
    from paceline.plan.packs.pack_steps import PackSteps

    return PackSteps(plan, whole_steps=False)


def _pieces_of(dataset: Any, plan: PackPlan, jagged: Collection[str]) -> Any:
    if plan.num_samples > len(dataset):
        raise InputError(f"the plan is of {plan.num_samples} samples, but the dataset has {len(dataset)}")
    if not plan.num_cut:
        return dataset
    from paceline.loader.workers.piece_dataset import PieceDataset

    return PieceDataset(dataset, plan, jagged)


def _indexed(dataset: Any) -> Any:
    if not hasattr(dataset, "__getitem__") or not isinstance(dataset, Sized):
        raise InputError(
            f"a {type(dataset).__name__} has no length and cannot be indexed by sample number: for a stream of unknown "
            f"length, use paceline.in_step"
        )
    return dataset
