"""Plans of packs: equal steps, packs within the budget, even work, each sample once, by arithmetic alone."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paceline.errors import EmptyPlanError, InputError, choice, whole_number
from paceline.plan.buckets import LARGEST_TOKENS
from paceline.plan.lengths import nothing_left
from paceline.plan.order import Ids
from paceline.plan.packs.pack_epochs import OF_FORMS, PackEpochs, PackPart
from paceline.plan.packs.pack_forms import PackCost, make_forms
from paceline.plan.packs.pieces import TooLong, TooLongLike, make_pieces
from paceline.plan.plan import LARGEST_SEED, checked_steps
from paceline.plan.shuffle_keys import fold
from paceline.plan.shuffled_plan import ShuffledPlan
from paceline.plan.tail import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSummary(Summary):
    """What a plan of packs does with its samples, over all ranks.

    Attributes:
        num_steps: Steps of one epoch, the same on every rank.
        num_used: Samples that are seen, each counted once.
        num_dropped: Samples that are not seen: none.
        num_padded: Packs without a sample, which only the last step can have.
        num_repeated: Samples that come again: none.
        num_cut: Samples longer than a pack, of which the end was left out (`cut`) or became a piece (`split`).
        fill: The share of all packs' tokens that are of samples.
    """

    num_cut: int
    fill: float


class PackPlan(ShuffledPlan):
    """The plan of an epoch in which several samples share a pack of at most `max_tokens` tokens.

    At each step every rank gets the same number of packs, and packs of one step cost about the same, so that no rank
    waits for another. Packs are formed once, from lengths; each epoch fills them with other samples of the same
    lengths, and brings other packs together in a step.

    >>> plan = PackPlan([5, 3, 4, 4, 7, 1, 2, 6], world_size=2, max_tokens=8, shuffle=False)
    >>> [[pack.tolist() for pack in step] for step in plan.packs(rank=0)]
    [[[4, 5]], [[0, 1]]]
    >>> [[pack.tolist() for pack in step] for step in plan.packs(rank=1)]
    [[[6, 7]], [[2, 3]]]
    >>> plan.summary().fill
    1.0

    Args:
        lengths: One whole number per sample.
        world_size: Ranks that share the epoch.
        max_tokens: Tokens of a pack at the most.
        packs_per_step: Packs that every rank gets at each step: the micro-batches of one step of the optimiser.
        shuffle: Whether samples and packs are shuffled; otherwise the heaviest packs come first.
        seed: Chooses the family of orders.
        cost: Returns what samples of given lengths cost, an array for an array; a pack costs the sum. Without it, each
            token costs the same. `paceline.balance.quadratic` is that of a transformer.
        too_long: What becomes of a sample longer than a pack: `raise`, `cut` or `split`. `pieces` has what is left.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        *,
        world_size: int,
        max_tokens: int,
        packs_per_step: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        cost: PackCost | None = None,
        too_long: TooLongLike = TooLong.RAISE,
    ) -> None:
        super().__init__(shuffle=shuffle, seed=seed)
        self._max_tokens = whole_number("max_tokens", max_tokens, least=1, most=LARGEST_TOKENS)
        policy = choice(TooLong, "too_long", too_long)
        self._part = PackPart.checked(world_size, packs_per_step)
        self._pieces = make_pieces(lengths, self._max_tokens, policy)
        rising = np.sort(self._pieces.lengths).astype(np.int64)
        order_seed = self._seed if shuffle else None
        key = None if order_seed is None else fold(order_seed, OF_FORMS)
        self._forms = make_forms(rising, self._max_tokens, cost=cost, key=key)
        self._epochs = PackEpochs(self._pieces, self._forms, max_tokens=self._max_tokens, seed=order_seed)
        costs = hashlib.blake2b(self._forms.costs.astype("<i8").tobytes(), digest_size=8).hexdigest()
        self._sign("packs", self._pieces.digest, self._max_tokens, policy.value, costs, self._shuffle, self._seed)

    # What it plans.

    @property
    def max_tokens(self) -> int:
        """Tokens of a pack at the most."""
        return self._max_tokens

    @property
    def world_size(self) -> int:
        """Ranks that share the epoch."""
        return self._part.world_size

    @property
    def packs_per_step(self) -> int:
        """Packs that every rank gets at each step."""
        return self._part.packs_per_step

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch."""
        return self._pieces.num_samples

    @property
    def num_steps(self) -> int:
        """Steps, the same on every rank and in every epoch."""
        left = self._forms.num_packs - self._part.num_spent
        return -(-left // self._part.step_size) - self._part.first_step

    def packs(self, rank: int, epoch: int = 0, first_step: int = 0, num_steps: int | None = None) -> list[list[Ids]]:
        """Return the packs of one rank, for each step a list of `packs_per_step` arrays of sample ids.

        An empty array is a pack of padding: the rank takes part in the step without a sample.
        """
        of_steps = self.piece_ids(rank, epoch, first_step, num_steps)
        return [[self._pieces.samples_of(pack) for pack in packs] for packs in of_steps]

    def pieces(self, rank: int, epoch: int = 0, first_step: int = 0, num_steps: int | None = None) -> list[list[Ids]]:
        """Return the same packs with what they hold of each sample: rows of (sample, first token, number of tokens).

        >>> plan = PackPlan([3, 12], world_size=1, max_tokens=8, too_long="split", shuffle=False)
        >>> [pack.tolist() for step in plan.pieces(rank=0) for pack in step]
        [[[1, 0, 8]], [[0, 0, 3], [1, 8, 4]]]
        """
        of_steps = self.piece_ids(rank, epoch, first_step, num_steps)
        return [[self._pieces.spans(pack) for pack in packs] for packs in of_steps]

    def piece_ids(
        self, rank: int, epoch: int = 0, first_step: int = 0, num_steps: int | None = None
    ) -> list[list[Ids]]:
        """Return the same packs as numbers of pieces; unless samples are split, these are the samples."""
        rank = whole_number("rank", rank, least=0, most=self.world_size - 1)
        epoch = whole_number("epoch", epoch, least=0, most=LARGEST_SEED)
        first_step, num_steps = checked_steps(self.num_steps, first_step, num_steps)
        epochs, begin = self._epochs, self._part.first_step + first_step
        grid = epochs.layout(self._part, epoch).grid
        of_steps = [
            [epochs.pieces_at(self._forms.places_of(pack), epoch) for pack in packs]
            for packs in grid[begin : begin + num_steps, :, rank].tolist()
        ]
        if len(of_steps) < num_steps:
            closing = epochs.closing(self._part, epoch)[rank :: self.world_size]
            of_steps.append([epochs.pieces_at(places, epoch) for places in closing])
        return of_steps

    def span_of(self, piece: int) -> tuple[int, int, int]:
        """Return what a piece holds: its sample, the first token and the number of tokens."""
        piece = whole_number("piece", piece, least=0, most=self.num_pieces - 1)
        sample, begin, tokens = self._pieces.spans(np.array([piece]))[0].tolist()
        return sample, begin, tokens

    @property
    def num_pieces(self) -> int:
        """What is packed in an epoch: samples, or pieces of those that were split."""
        return self._pieces.num_pieces

    @property
    def num_cut(self) -> int:
        """Samples longer than a pack, which were cut or split."""
        return self._pieces.num_cut

    @property
    def most_samples(self) -> int:
        """Samples, or pieces of them, that a pack holds at the most."""
        return self._forms.most_pieces

    def summary(self, epoch: int = 0) -> PackSummary:
        """Count steps, samples and packs over all ranks.

        For a whole epoch it does not depend on the epoch. What is left of one holds other samples in each.
        """
        epoch = whole_number("epoch", epoch, least=0, most=LARGEST_SEED)
        pieces = self._epochs.by_length(epoch)[self._forms.places[self._is_left(epoch)]].astype(np.int64)
        empty = sum(places.size == 0 for places in self._epochs.closing(self._part, epoch))
        room = self.num_steps * self._part.step_size * self._max_tokens
        return PackSummary(
            num_steps=self.num_steps,
            num_used=int(np.count_nonzero(np.bincount(self._pieces.samples_of(pieces)))),
            num_dropped=0,
            num_padded=empty,
            num_repeated=0,
            num_cut=self.num_cut,
            fill=float(self._pieces.lengths[pieces].sum() / room),
        )

    def loads(self, step: int, epoch: int = 0) -> Ids:
        """Return what each rank's packs cost at a step, in units of this plan: only their ratios mean something."""
        packs = [self.piece_ids(rank, epoch, step, 1)[0] for rank in range(self.world_size)]
        lengths = [self._pieces.lengths[np.concatenate(of_rank)] for of_rank in packs]
        return np.array([int(self._forms.costs_of(of_rank).sum()) for of_rank in lengths])

    def where(self, sample: int, epoch: int = 0) -> tuple[int, int, int] | None:
        """Return the first (rank, step, pack of the step) that sees a sample, or None if this plan does not use it."""
        sample = whole_number("sample", sample, least=0, most=self.num_samples - 1)
        pieces = np.flatnonzero(self._pieces.samples_of(np.arange(self.num_pieces)) == sample)
        places = np.flatnonzero(np.isin(self._epochs.by_length(epoch), pieces))
        packs = np.searchsorted(self._forms.ends, np.flatnonzero(np.isin(self._forms.places, places)), side="right")
        first, grid = self._part.first_step, self._epochs.layout(self._part, epoch).grid
        found = np.argwhere(np.isin(grid[first:], packs)).tolist()
        for number, closing in enumerate(self._epochs.closing(self._part, epoch)):
            if np.isin(closing, places).any():
                found.append([len(grid) - first, *divmod(number, self.world_size)])
        if not found:
            return None
        step, pack, rank = min(found)
        return rank, step, pack

    def _is_left(self, epoch: int) -> NDArray[np.bool_]:
        """Return which places are of packs that this plan still hands out."""
        is_left = np.zeros(self._forms.num_packs, dtype=np.bool_)
        is_left[self._epochs.layout(self._part, epoch).remaining(self._part.first_step)] = True
        return np.repeat(is_left, self._forms.sizes())

    # How it goes on.

    def resume(self, step: int, world_size: int | None = None, packs_per_step: int | None = None) -> PackPlan:
        """Return the plan of the rest of the epoch after `step` steps of this plan.

        With the same number of ranks and packs the steps stay as they were; with others, the packs that are left are
        laid out again. Each sample that is left comes exactly once. A resumed plan can be resumed again.
        """
        step = whole_number("step", step, least=0, most=self.num_steps)
        following = PackPart.checked(
            self.world_size if world_size is None else world_size,
            self.packs_per_step if packs_per_step is None else packs_per_step,
        )
        if step == self.num_steps:
            raise EmptyPlanError(nothing_left(self.num_samples))
        rest = copy.copy(self)
        rest._part = self._part.after(step, following)
        return rest

    def num_consumed(self, step: int = 0, epoch: int = 0) -> int:
        """Return how many samples of the epoch were seen to their end after `step` steps of this plan.

        Epochs have other samples in their packs, and so other counts.

        >>> plan = PackPlan([5, 3, 4, 4, 7, 1, 2, 6], world_size=2, max_tokens=8)
        >>> [plan.num_consumed(step) for step in range(3)]
        [0, 4, 8]
        """
        step = whole_number("step", step, least=0, most=self.num_steps)
        epoch = whole_number("epoch", epoch, least=0, most=LARGEST_SEED)
        return int(self._epochs.samples_after(self._part, epoch)[self._part.first_step + step])

    def progress(self, step: int, epoch: int = 0) -> dict[str, Any]:
        """Return what a checkpoint must hold after `step` steps of this plan.

        It grows only when the number of ranks or of packs changes within an epoch. The epoch matters only to the
        number of samples that were consumed, which is for readers.
        """
        consumed, part = self.num_consumed(step, epoch), self._part
        history = [*part.history, (part.world_size, part.packs_per_step, part.first_step + step)]
        return {"consumed": consumed, "history": [list(each) for each in history]}

    def at(self, progress: Mapping[str, Any]) -> PackPlan:
        """Return the plan of the rest of the epoch after the progress that another plan of these packs made."""
        parts = _checked_history(progress["history"])
        plan = copy.copy(self)
        plan._part = PackPart.checked(*parts[0][:2])
        following = [part[:2] for part in parts[1:]] + [(self.world_size, self.packs_per_step)]
        for (_, _, made), (ranks, packs) in zip(parts, following, strict=True):
            plan = plan.resume(made, world_size=ranks, packs_per_step=packs)
        return plan


def _checked_history(history: Any) -> list[tuple[int, int, int]]:
    is_list = isinstance(history, Sequence) and len(history) > 0
    if not is_list or not all(isinstance(part, Sequence) and len(part) == 3 for part in history):
        raise InputError(f"the history of a plan of packs is a list of (ranks, packs, steps), got {history!r}")
    return [
        (
            whole_number("ranks of the history", ranks, least=1),
            whole_number("its packs per step", packs, least=1),
            whole_number("its steps", steps, least=0),
        )
        for ranks, packs, steps in history
    ]
