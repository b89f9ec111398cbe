"""Where a sampler is: which pass comes next, and how much of the last one it has handed out. It iterates nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from paceline.plan import EpochPlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedPass:
    """One way through an epoch, or through the rest of it; `plan` is None where nothing is left."""

    plan: EpochPlan | None
    epoch: int

    @property
    def num_steps(self) -> int:
        """Steps of the pass, the same on every rank."""
        return 0 if self.plan is None else self.plan.num_steps


@dataclass(slots=True, eq=False)
class DeliveredLists:
    """How many lists of a pass an iterator has handed out. It counts by itself: a new state per list would be slow."""

    planned: PlannedPass
    count: int = 0
    fetched_ahead: bool = False  # whoever takes the lists may be ahead of the loop
    _num_steps: int = field(init=False)  # asked for once: this is read for every list

    def __post_init__(self) -> None:
        self._num_steps = self.planned.num_steps

    @property
    def is_complete(self) -> bool:
        """Whether the pass was handed out to its end."""
        return self.count == self._num_steps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SamplerState:
    """The state of a sampler. Each method returns the state after something has happened.

    | what happens | next pass | what counts as handed out |
    |---|---|---|
    | a pass begins | that pass; whole, if the pass before it came to its end | as before |
    | a list is handed out | as before | the lists of that pass so far |
    | another epoch is chosen | the whole epoch; nothing, if a loaded state has ended it | nothing |
    | a state is loaded | what is left of its epoch, or the next epoch | nothing |

    Attributes:
        whole: The plan of a whole epoch.
        following: The pass with which iterating begins.
        last: What was handed out last, and how much; None before the first list.
        exhausted: A pass that was handed out to its end. Where it is the following one, the next pass is of the whole
            epoch: what a loaded state has left is left only once.
        chosen_epoch: What the user has chosen by `set_epoch`, if anything.
        ended_epoch: The epoch that a loaded state has ended, until another epoch is chosen.
    """

    whole: EpochPlan
    following: PlannedPass
    last: DeliveredLists | None = None
    exhausted: PlannedPass | None = None
    chosen_epoch: int | None = None
    ended_epoch: int | None = None

    @classmethod
    def initial(cls, plan: EpochPlan) -> SamplerState:
        """Return the state before anything has happened: epoch 0 comes first."""
        return cls(whole=plan, following=PlannedPass(plan=plan, epoch=0))

    def begun(self) -> SamplerState:
        """Return the state after a pass has begun: it is the following one."""
        if self.exhausted is not self.following:
            return self
        return replace(self, following=PlannedPass(plan=self.whole, epoch=self.following.epoch))

    def delivered(self, lists: DeliveredLists) -> SamplerState:
        """Return the state after a list was handed out."""
        if lists.is_complete:
            return replace(self, last=lists, exhausted=lists.planned)
        return self if self.last is lists else replace(self, last=lists)

    def with_epoch(self, epoch: int) -> SamplerState:
        """Return the state after the user has chosen an epoch."""
        is_ended = epoch == self.ended_epoch
        state = replace(self, chosen_epoch=epoch, ended_epoch=epoch if is_ended else None)
        if epoch == self.following.epoch:
            return state  # what a loaded state has left of it still counts
        following = PlannedPass(plan=None if is_ended else self.whole, epoch=epoch)
        return replace(state, following=following, last=None)

    def resumed(self, rest: EpochPlan, epoch: int) -> SamplerState:
        """Return the state after a state was loaded that leaves a rest of its epoch."""
        return self._loaded(PlannedPass(plan=rest, epoch=epoch), ended_epoch=None)

    def resumed_after(self, epoch: int) -> SamplerState:
        """Return the state after a state was loaded that ends its epoch: the next one follows.

        If the user has chosen just the ended epoch, nothing is left to hand out.
        """
        if self.chosen_epoch == epoch:
            return self._loaded(PlannedPass(plan=None, epoch=epoch), ended_epoch=epoch)
        return self._loaded(PlannedPass(plan=self.whole, epoch=epoch + 1), ended_epoch=epoch)

    def _loaded(self, following: PlannedPass, *, ended_epoch: int | None) -> SamplerState:
        return replace(self, following=following, last=None, exhausted=None, ended_epoch=ended_epoch)
