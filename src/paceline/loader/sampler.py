"""A batch sampler for torch's DataLoader that hands out the plan of one rank.

It imports nothing of torch: a DataLoader asks only for an iterable of lists with a length.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, Self

from paceline.comm import find_place
from paceline.errors import EmptyPlanError, InputError, whole_number
from paceline.loader.sampler_lists import make_lists
from paceline.loader.sampler_reader import SamplerReader, find_reader
from paceline.loader.sampler_state import DeliveredLists, PlannedPass, SamplerState
from paceline.loader.undivided_sampler import UndividedSampler
from paceline.plan import EpochPlan, Plan, Tail, TailLike
from paceline.plan.pack_kinds import is_pack_plan, is_pack_steps
from paceline.plan.plan import LARGEST_SEED

if TYPE_CHECKING:
    from paceline.plan import PackPlan

STATE_VERSION = 1

_MUST_AGREE = {
    "version": "version of Paceline's states",
    "num_samples": "dataset or mixture",
    "shuffle": "shuffle",
    "seed": "seed",
    "fingerprint": "order of samples (lengths, budget, costs, buckets or weights)",
}


class PlanSampler:
    """Hands one rank its batches of sample ids: give it to `DataLoader(batch_sampler=...)`.

    Every rank gets the same number of batches. With the tail `pad` the padding is left out: the last list is
    shorter on some ranks, and empty where there are fewer samples than ranks. torch's own collate cannot make a
    batch of an empty list; give `stand_in`, or a collate function of your own.

    >>> sampler = PlanSampler(100, batch_size=3, num_replicas=7, rank=6, shuffle=False)
    >>> list(sampler)
    [[6, 13, 20], [27, 34, 41], [48, 55, 62], [69, 76, 83], [90, 97]]
    >>> sampler.num_real(4)
    2

    A checkpoint holds what the loop has consumed, not what workers have fetched ahead:

    >>> state = sampler.state_dict(step=2)
    >>> other = PlanSampler(100, batch_size=5, num_replicas=2, rank=0, shuffle=False)
    >>> other.load_state_dict(state)
    >>> next(iter(other))
    [42, 44, 46, 48, 50]

    Args:
        dataset_or_length: What has a length, or the length.
        batch_size: Ids of one rank's list.
        num_replicas: Ranks of the job. With `rank`: both, or neither; then torch.distributed or the
            launcher's environment says.
        rank: This rank.
        shuffle: Whether each epoch has an order of its own; `set_epoch` says which epoch it is.
        seed: Chooses the family of orders; the same on every rank.
        tail: What becomes of the remainder.
        stand_in: A sample id that takes the place of a missing one, so that every list has `batch_size` ids.
            `num_real` says how many are real; mask the rest out of loss and metrics.
        costs: What each sample costs, the same on every rank: samples are dealt so that all ranks have the same work.
    """

    def __init__(
        self,
        dataset_or_length: Sized | int,
        *,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        tail: TailLike = Tail.PAD,
        stand_in: int | None = None,
        costs: Any = None,
    ) -> None:
        place = find_place(rank, num_replicas)
        plan = Plan(
            _length_of(dataset_or_length),
            world_size=place.world_size,
            batch_size=batch_size,
            tail=tail,
            shuffle=shuffle,
            seed=seed,
            costs=costs,
        )
        self._set_up(plan, place.rank, stand_in)

    @classmethod
    def of(cls, plan: EpochPlan | PackPlan, *, rank: int | None = None, stand_in: int | None = None) -> Self:
        """Return the sampler of a plan that is already there: by length, of packs, or of several datasets.

        Of a plan of packs it hands out lists of lists: for each step the packs of this rank, as lists of sample ids. An
        empty one is a pack of padding.

        >>> from paceline import LengthPlan
        >>> plan = LengthPlan([5, 9, 3, 8], world_size=2, max_tokens=10, shuffle=False)
        >>> list(PlanSampler.of(plan, rank=0))
        [[2], [3]]
        """
        if is_pack_plan(plan):
            from paceline.plan.packs.pack_steps import PackSteps

            plan = PackSteps(plan, whole_steps=True)
        if not isinstance(plan, EpochPlan):
            raise InputError(f"expected a Plan, LengthPlan, PackPlan or MixedPlan, got {type(plan).__name__}")
        if is_pack_steps(plan) and stand_in is not None:
            raise InputError("a pack needs no stand-in: leave stand_in out, and pad packs to the budget")
        if plan.start:
            raise InputError(
                f"this is the plan of a rest, after {plan.start} samples: later epochs would miss those; "
                f"give the plan of the whole epoch, and load_state_dict"
            )
        sampler = cls.__new__(cls)
        sampler._set_up(plan, find_place(rank, plan.world_size).rank, stand_in)
        return sampler

    def _set_up(self, plan: EpochPlan, rank: int, stand_in: int | None) -> None:
        self.plan = plan
        self.rank = rank
        self.stand_in = stand_in
        if stand_in is not None:
            self.stand_in = whole_number("stand_in", stand_in, least=0, most=plan.num_ids - 1)
        self._state = SamplerState.initial(plan)

    # What torch, Lightning, accelerate and others read from a batch sampler.

    @property
    def sampler(self) -> Self:
        """This object: Lightning calls `batch_sampler.sampler.set_epoch`."""
        return self

    @property
    def batch_size(self) -> int:
        """Ids of a full list."""
        return self.plan.row_width

    @property
    def drop_last(self) -> bool:
        """Whether the remainder is dropped."""
        return self.plan.tail in (Tail.DROP, Tail.EVEN)

    @property
    def num_replicas(self) -> int:
        """Ranks of the job."""
        return self.plan.world_size

    @property
    def epoch(self) -> int:
        """The epoch that iterating hands out."""
        return self._state.following.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch. The position that a loaded state has set holds for its own epoch only."""
        self._state = self._state.with_epoch(whole_number("epoch", epoch, least=0, most=LARGEST_SEED))

    def __len__(self) -> int:
        """Steps of the pass that is being handed out, or of the next one: the same on every rank.

        After `load_state_dict` it is what is left of the epoch.
        """
        return self._state.following.num_steps

    def num_real(self, step: int) -> int:
        """Return how many ids of this rank's list are real at a step; the others are stand-ins.

        Steps are those of the pass that is being handed out, counted from 0; before the first, of the next one.
        """
        planned = self._state.last.planned if self._state.last is not None else self._state.following
        step = whole_number("step", step, least=0, most=planned.num_steps - 1)
        assert planned.plan is not None  # it has steps
        if is_pack_steps(planned.plan):  # its packs have other samples in each epoch
            return planned.plan.num_real(step, rank=self.rank, epoch=planned.epoch)
        return planned.plan.num_real(step, rank=self.rank)

    def __iter__(self) -> PassIterator:
        """Begin a pass. Making an iterator changes nothing; only ids that are handed out count."""
        return PassIterator(self)

    def begin(self) -> PlannedPass:
        """Begin a pass, once for each, and return it: iterate it by `lists_of`."""
        self._state = self._state.begun()
        return self._state.following

    def lists_of(self, planned: PlannedPass) -> PassIterator:
        """Return an iterator over the lists of a pass that `begin` has returned."""
        return PassIterator(self, planned)

    def undivided(self) -> UndividedSampler:
        """Return a batch sampler with the lists of all ranks, for loaders that divide batches by themselves.

        Use it where accelerate or Hugging Face Trainer prepares the loader: each rank gets its own lists back.

        >>> sampler = PlanSampler(10, batch_size=2, num_replicas=3, rank=1, shuffle=False)
        >>> list(sampler.undivided())
        [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]
        """
        return UndividedSampler(self)

    def lists_of_all_ranks(self, planned: PlannedPass) -> Iterator[list[int]]:
        """Yield the lists of a pass that `begin` has returned: of each step those of all ranks, in their order."""
        delivered = DeliveredLists(planned, fetched_ahead=True)  # who divides lists looks ahead for the last one
        of_ranks = [make_lists(planned, rank, self.stand_in) for rank in range(self.plan.world_size)]
        for lists in zip(*of_ranks, strict=True):
            delivered.count += 1
            self.note_delivered(delivered)
            yield from lists

    def upcoming(self) -> PlannedPass:
        """Return the pass that would begin now; nothing begins."""
        return self._state.begun().following

    def note_delivered(self, lists: DeliveredLists) -> None:
        """Note that one more list was handed out."""
        self._state = self._state.delivered(lists)

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return a small state, the same on every rank, from which any number of ranks can continue.

        Args:
            step: Batches that the loop has consumed since iterating began, counted from 1: after the first
                batch it is 1. Counting restarts after `load_state_dict`. None: what was handed out, which is what
                was consumed if nothing is fetched ahead (no workers, or StatefulDataLoader, which keeps count).

        Raises:
            InputError: The loop cannot have consumed so much, or what it has consumed is not known.
        """
        last = self._state.last
        lists = last if last is not None else DeliveredLists(self._state.following)
        if step is None and lists.fetched_ahead:
            raise InputError(
                f"how many batches the loop has consumed is not known: {lists.count} were handed out, some of them "
                f"ahead of the loop; say it, as in state_dict(step=7), with steps counted from 1 since iterating began"
            )
        if step is not None:
            step = whole_number("step", step, least=0, most=lists.planned.num_steps)
            if last is not None and step > last.count:
                raise InputError(
                    f"the loop cannot have consumed {step} batches: {last.count} were handed out since iterating "
                    f"began; after load_state_dict, count from there"
                )
        return self.state_at(lists.planned, lists.count if step is None else step)

    def state_at(self, planned: PlannedPass, step: int) -> dict[str, Any]:
        """Return the state after a number of steps of a pass."""
        plan, made = (self.plan, self.plan.num_steps) if planned.plan is None else (planned.plan, step)
        # packs have other samples in each epoch
        progress = plan.progress(made, epoch=planned.epoch) if is_pack_steps(plan) else plan.progress(made)
        return {
            "version": STATE_VERSION,
            "epoch": planned.epoch,
            "num_samples": self.plan.num_samples,
            "shuffle": self.plan.shuffle,
            "seed": self.plan.seed,
            "fingerprint": self.plan.fingerprint,
            **progress,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where the state was taken, on this number of ranks.

        A state from the end of an epoch leads to the next one, unless `set_epoch` has chosen just that epoch: nothing
        of it is left.
        """
        checked = self._checked_state(state)
        epoch = checked["epoch"]
        try:
            self._state = self._state.resumed(self.plan.at(checked), epoch)
        except EmptyPlanError as reason:
            if checked["consumed"] < self.plan.num_samples:
                warnings.warn(f"epoch {epoch} ends here: {reason}", stacklevel=2)
            self._state = self._state.resumed_after(epoch)

    def _checked_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(state, Mapping):
            raise InputError(f"the state of a PlanSampler is a dict, got {type(state).__name__}")
        own_state = self.state_at(self._state.following, 0)
        missing = sorted(set(own_state) - set(state))
        if missing:
            raise InputError(f"this is not a state of a PlanSampler like this one: {missing} missing")
        for name, meaning in _MUST_AGREE.items():
            if state[name] != own_state[name]:
                raise InputError(
                    f"the state was saved with another {meaning}: {name} was {state[name]!r}, "
                    f"here it is {own_state[name]!r}; load it into a sampler like the one it came from"
                )
        return {**state, "epoch": whole_number("epoch of the state", state["epoch"], least=0, most=LARGEST_SEED - 1)}


class PassIterator:
    """Hands out the lists of one pass. Unless it is given one, it begins a pass when the first list is asked for.

    StatefulDataLoader asks it for its own state, which is exact even if another iterator was used before.
    """

    def __init__(self, sampler: PlanSampler, planned: PlannedPass | None = None) -> None:
        self._sampler = sampler
        self._delivered = None if planned is None else DeliveredLists(planned)
        self._lists: Iterator[list[int]] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[int]:
        if self._lists is None or self._delivered is None:
            self._delivered = self._begin(find_reader(sys._getframe(1)))
            self._lists = make_lists(self._delivered.planned, self._sampler.rank, self._sampler.stand_in)
        ids = next(self._lists)
        self._delivered.count += 1
        self._sampler.note_delivered(self._delivered)
        return ids

    def _begin(self, reader: SamplerReader) -> DeliveredLists:
        if reader.num_divided > 1 and self._sampler.plan.world_size > 1:
            raise InputError(
                f"the batches of this rank would be divided among {reader.num_divided} processes again, and most "
                f"samples would be lost: give DataLoader batch_sampler=sampler.undivided() where accelerate "
                f"prepares the loader"
            )
        delivered = self._delivered or DeliveredLists(self._sampler.begin())
        delivered.fetched_ahead = reader.fetches_ahead
        return delivered

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the lists that this iterator has handed out."""
        delivered = self._delivered or DeliveredLists(self._sampler.upcoming())
        return self._sampler.state_at(delivered.planned, delivered.count)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where the state was taken."""
        self._sampler.load_state_dict(state)
        self._delivered = self._lists = None


def _length_of(dataset_or_length: Sized | int) -> int:
    if isinstance(dataset_or_length, Sized):
        length = len(dataset_or_length)
        if length == 0:
            raise InputError("the dataset is empty: its length is 0")
        return length
    return whole_number("the length of the dataset", dataset_or_length, least=1)
