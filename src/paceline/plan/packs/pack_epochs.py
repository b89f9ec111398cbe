"""What belongs to one epoch of packs: which pieces take which places, and which packs come at which step.

It remembers what was asked for last, so that going through an epoch computes it once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import whole_number
from paceline.plan.buckets import samples_by_length
from paceline.plan.deal import LARGEST_SIZE
from paceline.plan.order import Ids, make_order
from paceline.plan.packs.pack_forms import PackForms
from paceline.plan.packs.pack_layout import PackLayout, lay_out_packs, spread_packs
from paceline.plan.packs.pieces import Narrow, Pieces, narrowed
from paceline.plan.shuffle_keys import fold

OF_FORMS, _OF_PIECES, _OF_LAYOUTS = ((1 << 61) + number for number in range(3))  # tell keys of packs from others


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPart:
    """A part of an epoch with one number of ranks.

    Attributes:
        world_size: Ranks.
        packs_per_step: Packs of each rank and step.
        history: For each earlier part its ranks, its packs per step, and the steps that were made of it.
        first_step: Steps of this part that were made.
    """

    world_size: int
    packs_per_step: int
    history: tuple[tuple[int, int, int], ...] = ()
    first_step: int = 0

    @classmethod
    def checked(cls, world_size: int, packs_per_step: int) -> PackPart:
        """Return the first part of an epoch."""
        world_size = whole_number("world_size", world_size, least=1, most=LARGEST_SIZE)
        packs_per_step = whole_number("packs_per_step", packs_per_step, least=1, most=LARGEST_SIZE // world_size)
        return cls(world_size=world_size, packs_per_step=packs_per_step)

    @property
    def step_size(self) -> int:
        """Packs of a step, over all ranks."""
        return self.world_size * self.packs_per_step

    @property
    def num_spent(self) -> int:
        """Packs of the earlier parts."""
        return sum(ranks * packs * steps for ranks, packs, steps in self.history)

    def after(self, step: int, following: PackPart) -> PackPart:
        """Return what follows after `step` more steps: this part, where ranks and packs stay as they are."""
        made = self.first_step + step
        if following.world_size == self.world_size and following.packs_per_step == self.packs_per_step:
            return replace(self, first_step=made)
        return replace(following, history=(*self.history, (self.world_size, self.packs_per_step, made)))


class PackEpochs:
    """The epochs of a plan of packs.

    Args:
        pieces: What is packed.
        forms: The packs.
        max_tokens: Tokens of a pack.
        seed: Chooses the family of orders; None does not shuffle.
    """

    def __init__(self, pieces: Pieces, forms: PackForms, *, max_tokens: int, seed: int | None) -> None:
        self._pieces, self._forms, self._max_tokens, self._seed = pieces, forms, max_tokens, seed
        self._last_pieces: tuple[int, Narrow] | None = None
        self._last_layout: tuple[int, PackPart, PackLayout] | None = None
        self._last_counts: tuple[int, PackPart, Ids] | None = None

    def by_length(self, epoch: int) -> Narrow:
        """Return the pieces from the shortest to the longest; equal ones in an order of this epoch."""
        last = self._last_pieces
        if last is None or last[0] != epoch:
            last = self._last_pieces = (epoch, self._sorted(epoch))
        return last[1]

    def _sorted(self, epoch: int) -> Narrow:
        lengths = self._pieces.lengths
        shuffled = np.arange(lengths.size, dtype=np.int64)
        if (key := self._key(_OF_PIECES, epoch)) is not None:
            shuffled = make_order(lengths.size, key).samples_at(shuffled)
        return narrowed(shuffled[samples_by_length(lengths[shuffled])], lengths.size)

    def pieces_at(self, places: Narrow, epoch: int) -> Ids:
        """Return the pieces that take these places, in the order of their numbers."""
        return np.sort(self.by_length(epoch)[places].astype(np.int64))

    def layout(self, part: PackPart, epoch: int) -> PackLayout:
        """Return the steps of a part, from its beginning."""
        part = replace(part, first_step=0)
        last = self._last_layout
        if last is None or last[:2] != (epoch, part):
            last = self._last_layout = (epoch, part, self._laid_out(part, epoch))
        return last[2]

    def _laid_out(self, part: PackPart, epoch: int) -> PackLayout:
        """Lay out all packs for the first part of the epoch; what it leaves for the second, and so on."""
        left, spent = np.arange(self._forms.num_packs, dtype=np.int64), 0
        for ranks, packs, steps in part.history:
            left = self._lay_out(left, ranks, packs, epoch, spent).remaining(steps)
            spent += ranks * packs * steps
        return self._lay_out(left, part.world_size, part.packs_per_step, epoch, spent)

    def _lay_out(self, left: Ids, world_size: int, packs_per_step: int, epoch: int, spent: int) -> PackLayout:
        key = self._key(_OF_LAYOUTS, epoch, spent)
        return lay_out_packs(left, self._forms.costs, world_size=world_size, packs_per_step=packs_per_step, key=key)

    def samples_after(self, part: PackPart, epoch: int) -> Ids:
        """Return how many samples of the epoch were seen to their end after 0, 1 and so on steps of a part."""
        part = replace(part, first_step=0)
        last = self._last_counts
        if last is None or last[:2] != (epoch, part):
            last = self._last_counts = (epoch, part, self._counted(part, epoch))
        return last[2]

    def _counted(self, part: PackPart, epoch: int) -> Ids:
        layout = self.layout(part, epoch)
        num_full = len(layout.grid)
        step_of_pack = np.zeros(self._forms.num_packs, dtype=np.int64)  # counted from 1; 0: of an earlier part
        step_of_pack[layout.grid.reshape(-1)] = np.repeat(np.arange(1, num_full + 1), part.step_size)
        step_of_pack[layout.closing] = num_full + 1
        samples = self._pieces.samples_of(self.by_length(epoch)[self._forms.places].astype(np.int64))
        last_step = np.zeros(self._pieces.num_samples, dtype=np.int64)
        np.maximum.at(last_step, samples, np.repeat(step_of_pack, self._forms.sizes()))
        return np.cumsum(np.bincount(last_step, minlength=num_full + 1 + (layout.closing.size > 0)))

    def closing(self, part: PackPart, epoch: int) -> list[Narrow]:
        """Return the places of each pack of the last step, over all ranks; nothing where all steps are full."""
        closing = self.layout(part, epoch).closing
        if not closing.size:
            return []
        kept = [self._forms.places_of(pack) for pack in closing.tolist()]
        lengths = [self._pieces.lengths[self.by_length(epoch)[places]].astype(np.int64) for places in kept]
        return spread_packs(self._forms, kept, lengths, num_packs=part.step_size, max_tokens=self._max_tokens)

    def _key(self, *words: int) -> int | None:
        return None if self._seed is None else fold(self._seed, *words)
