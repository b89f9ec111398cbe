"""A batch sampler for torch's DataLoader that hands out the plan of one rank.

It imports nothing of torch: a DataLoader asks only for an iterable of lists with a length.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

from paceline.balance import warm_up
from paceline.comm import find_place
from paceline.errors import EmptyPlanError, InputError, whole_number
from paceline.plan import EpochPlan, Plan, Tail, TailLike
from paceline.plan.order import Ids
from paceline.plan.plan import LARGEST_SEED

STATE_VERSION = 1
_STEPS_AHEAD = 4  # of a plan with costs
_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 10, 1 << 16  # ids computed ahead: few at first, to start at once

_MUST_AGREE = {
    "version": "version of Paceline's states",
    "num_samples": "dataset or mixture",
    "shuffle": "shuffle",
    "seed": "seed",
    "fingerprint": "order of samples (lengths, budget, buckets or weights)",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pass:
    """One way through an epoch, or through the rest of it; `plan` is None where nothing is left."""

    plan: EpochPlan | None
    epoch: int

    @property
    def num_steps(self) -> int:
        return 0 if self.plan is None else self.plan.num_steps


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
        costs: What each sample costs, the same on every rank: steps are dealt so that all ranks have the same work.
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
    def of(cls, plan: EpochPlan, *, rank: int | None = None, stand_in: int | None = None) -> Self:
        """Return the sampler of a plan that is already there: by length, or of several datasets.

        >>> from paceline import LengthPlan
        >>> plan = LengthPlan([5, 9, 3, 8], world_size=2, max_tokens=10, shuffle=False)
        >>> list(PlanSampler.of(plan, rank=0))
        [[2], [3]]
        """
        if not isinstance(plan, EpochPlan):
            raise InputError(f"expected a Plan, LengthPlan or MixedPlan, got {type(plan).__name__}")
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
        if isinstance(plan, Plan) and plan.costs is not None:
            warm_up(in_background=True)
        self.stand_in = stand_in
        if stand_in is not None:
            self.stand_in = whole_number("stand_in", stand_in, least=0, most=plan.num_ids - 1)
        self._next = _Pass(plan=plan, epoch=0)  # what iterating begins with
        self._current: tuple[_Pass, int] | None = None  # what was handed out last, and how much
        self._exhausted: _Pass | None = None  # handed out to the end; the next pass is of the whole epoch
        self._asked_epoch: int | None = None  # what set_epoch was called with
        self._ended_epoch: int | None = None  # what a loaded state has ended

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
        return self._next.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch. The position that a loaded state has set holds for its own epoch only."""
        epoch = whole_number("epoch", epoch, least=0, most=LARGEST_SEED)
        self._asked_epoch = epoch
        is_ended = epoch == self._ended_epoch
        if not is_ended:
            self._ended_epoch = None
        if epoch != self._next.epoch:
            self._next = _Pass(plan=None if is_ended else self.plan, epoch=epoch)
            self._current = None

    def __len__(self) -> int:
        """Steps of the pass that is being handed out, or of the next one: the same on every rank.

        After `load_state_dict` it is what is left of the epoch.
        """
        return self._next.num_steps

    def num_real(self, step: int) -> int:
        """Return how many ids of this rank's list are real at a step; the others are stand-ins.

        Steps are those of the pass that is being handed out, counted from 0; before the first, of the next one.
        """
        begun, _ = self._current or (self._next, 0)
        step = whole_number("step", step, least=0, most=begun.num_steps - 1)
        assert begun.plan is not None  # it has steps
        return begun.plan.num_real(step, rank=self.rank)

    def __iter__(self) -> PassIterator:
        """Begin a pass. Making an iterator changes nothing; only ids that are handed out count."""
        return PassIterator(self)

    def begin(self) -> tuple[EpochPlan | None, int]:
        """Return the plan and the epoch of the pass that begins now; no plan where nothing is left of the epoch."""
        begun = PassIterator(self)._begin()
        return begun.plan, begun.epoch

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return a small state, the same on every rank, from which any number of ranks can go on.

        Args:
            step: Batches that the loop has consumed since iterating began, counted from 1: after the first
                batch it is 1. Counting begins anew after `load_state_dict`. None: what was handed out, right where
                nothing is fetched ahead (no workers) and for StatefulDataLoader, which keeps account itself.
        """
        begun, handed_out = self._current or (self._next, 0)
        if step is not None:
            step = whole_number("step", step, least=0, most=begun.num_steps)
            if self._current is not None and step > handed_out:
                raise InputError(
                    f"the loop cannot have consumed {step} batches: {handed_out} were handed out since iterating "
                    f"began; after load_state_dict, count from there"
                )
            handed_out = step
        return self._state_of(begun, handed_out)

    def _state_of(self, begun: _Pass, step: int) -> dict[str, Any]:
        spent = self.plan.progress(self.plan.num_steps)
        return {
            "version": STATE_VERSION,
            "epoch": begun.epoch,
            "num_samples": self.plan.num_samples,
            "shuffle": self.plan.shuffle,
            "seed": self.plan.seed,
            "fingerprint": self.plan.fingerprint,
            **(spent if begun.plan is None else begun.plan.progress(step)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was taken, on this number of ranks.

        A state from the end of an epoch leads to the next one, unless `set_epoch` has asked for just that epoch:
        of that, nothing is left.
        """
        checked = self._checked_state(state)
        epoch, ended = checked["epoch"], None
        try:
            following = _Pass(plan=self.plan.at(checked), epoch=epoch)
        except EmptyPlanError as reason:
            ended = epoch
            if checked["consumed"] < self.plan.num_samples:
                warnings.warn(f"epoch {epoch} ends here: {reason}", stacklevel=2)
            asked = self._asked_epoch == epoch
            following = _Pass(plan=None if asked else self.plan, epoch=epoch if asked else epoch + 1)
        self._next, self._current, self._exhausted, self._ended_epoch = following, None, None, ended

    def _checked_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(state, Mapping):
            raise InputError(f"the state of a PlanSampler is a dict, got {type(state).__name__}")
        mine = self._state_of(self._next, 0)
        missing = sorted(set(mine) - set(state))
        if missing:
            raise InputError(f"this is not the state of such a PlanSampler: {missing} missing")
        for name, meaning in _MUST_AGREE.items():
            if state[name] != mine[name]:
                raise InputError(
                    f"the state was saved with another {meaning}: {name} was {state[name]!r}, "
                    f"here it is {mine[name]!r}; load it into a sampler like the one it came from"
                )
        return {**state, "epoch": whole_number("epoch of the state", state["epoch"], least=0, most=LARGEST_SEED - 1)}


class PassIterator:
    """Hands out the lists of one pass. It begins with the first list that is asked for.

    StatefulDataLoader asks it for its own state, which is exact also where another iterator was used before.
    """

    def __init__(self, sampler: PlanSampler) -> None:
        self._sampler = sampler
        self._pass: _Pass | None = None
        self._lists: Iterator[list[int]] = iter(())
        self._handed_out = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[int]:
        if self._pass is None:
            self._pass = self._begin()
            self._lists = _make_lists(self._sampler, self._pass)
        ids = next(self._lists)
        self._handed_out += 1
        self._sampler._current = self._pass, self._handed_out
        if self._handed_out == self._pass.num_steps:
            self._sampler._exhausted = self._pass
        return ids

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the lists that this iterator has handed out."""
        return self._sampler._state_of(self._pass or self._upcoming(), self._handed_out)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was taken."""
        self._sampler.load_state_dict(state)
        self._pass, self._handed_out = None, 0

    def _upcoming(self) -> _Pass:
        """The pass that would begin now: what is left of an epoch is left only once."""
        following = self._sampler._next
        if self._sampler._exhausted is following:
            return _Pass(plan=self._sampler.plan, epoch=following.epoch)
        return following

    def _begin(self) -> _Pass:
        self._sampler._next = self._upcoming()
        return self._sampler._next


def _make_lists(sampler: PlanSampler, begun: _Pass) -> Iterator[list[int]]:
    """Yield the lists of a pass. It knows nothing of the iterator that holds it, so it ends when that one goes."""
    plan, step, block = begun.plan, 0, _FIRST_BLOCK
    if isinstance(plan, Plan) and plan.costs is not None:
        for step, row in enumerate(_rows_ahead(plan, sampler.rank, begun.epoch)):
            yield _filled(row, plan, step, sampler.stand_in) if row[-1] < 0 else row
        return
    while plan is not None and step < plan.num_steps:
        num_steps = min(max(1, block // plan.row_width), plan.num_steps - step)
        for row in plan.rows(sampler.rank, begun.epoch, step, num_steps).tolist():
            yield _filled(row, plan, step, sampler.stand_in) if row[-1] < 0 else row
            step += 1
        block = min(2 * block, _LARGEST_BLOCK)


def _filled(row: list[int], plan: EpochPlan, step: int, stand_in: int | None) -> list[int]:
    real = row[: row.index(-1)]
    if stand_in is None:
        return real
    return real + [stand_in] * (plan.batch_size_of(step) - len(real))


def _rows_ahead(plan: Plan, rank: int, epoch: int) -> Iterator[list[int]]:
    """Yield the rows of a plan with costs; while one is used, the next few are dealt in the background."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="paceline-plan") as background:
        ahead: deque[Future[Ids]] = deque()
        step = 0
        while step < plan.num_steps or ahead:
            while step < plan.num_steps and len(ahead) < _STEPS_AHEAD:
                ahead.append(background.submit(plan.rows, rank, epoch, step, 1))
                step += 1
            yield ahead.popleft().result()[0].tolist()


def _length_of(dataset_or_length: Sized | int) -> int:
    if isinstance(dataset_or_length, Sized):
        length = len(dataset_or_length)
        if length == 0:
            raise InputError("the dataset is empty: its length is 0")
        return length
    return whole_number("the length of the dataset", dataset_or_length, least=1)
