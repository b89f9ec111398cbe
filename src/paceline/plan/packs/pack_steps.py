"""A plan of packs as samplers and loaders go through it: all packs of a step at once, or one pack after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from paceline.errors import InputError, whole_number
from paceline.plan.order import Ids
from paceline.plan.packs.pack_plan import PackPlan
from paceline.plan.plan import checked_steps
from paceline.plan.tail import Summary, Tail

_STEPS_AT_ONCE = 64


class PackSteps:
    """The packs of a plan, in turns of one pack or of one step; to a sampler or a loader each turn is a step.

    Args:
        plan: The packs.
        whole_steps: Whether a turn has all packs of a step, or one.
        epoch: The epoch of which the plan is a rest, if it is one: others leave other samples.
    """

    def __init__(self, plan: PackPlan, *, whole_steps: bool, epoch: int = 0) -> None:
        self._plan, self._whole_steps, self._epoch = plan, whole_steps, epoch
        self._turns = 1 if whole_steps else plan.packs_per_step  # of a step

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch."""
        return self._plan.num_samples

    @property
    def num_ids(self) -> int:
        """Numbers of what is packed run from 0 to one below this: samples, or pieces of those that were split."""
        return self._plan.num_pieces

    @property
    def world_size(self) -> int:
        """Ranks that share the epoch."""
        return self._plan.world_size

    @property
    def tail(self) -> Tail:
        """What becomes of the remainder: it is padded with empty packs."""
        return Tail.PAD

    @property
    def shuffle(self) -> bool:
        """Whether samples and packs are shuffled."""
        return self._plan.shuffle

    @property
    def seed(self) -> int:
        """The seed of the orders."""
        return self._plan.seed

    @property
    def start(self) -> int:
        """Samples of the epoch that were consumed before this plan begins."""
        return self._plan.num_consumed(epoch=self._epoch)

    @property
    def num_steps(self) -> int:
        """Turns of the epoch, the same on every rank."""
        return self._plan.num_steps * self._turns

    @property
    def row_width(self) -> int:
        """Packs of a turn that has several; otherwise the samples of a pack at the most."""
        return self._plan.packs_per_step if self._whole_steps else self._plan.most_samples

    @property
    def fingerprint(self) -> str:
        """A short text that is equal for plans of the same packs."""
        return self._plan.fingerprint

    def summary(self) -> Summary:
        """Count turns, samples and packs of padding."""
        return replace(self._plan.summary(self._epoch), num_steps=self.num_steps)

    def batch_size_of(self, step: int) -> int:
        """Return the rows of a turn: at each the same, since packs with other samples come in each epoch."""
        whole_number("step", step, least=0, most=self.num_steps - 1)
        return self.row_width

    def num_real(self, step: int, *, rank: int | None = None, epoch: int | None = None) -> int:
        """Return how many samples a turn has, on one rank or on all together."""
        ranks = range(self.world_size) if rank is None else (rank,)
        epoch = self._epoch if epoch is None else epoch
        return sum(pack.size for each in ranks for pack in self._packs(each, epoch, step, 1)[0])

    def rows(self, rank: int, epoch: int = 0, first_step: int = 0, num_steps: int | None = None) -> Ids:
        """Return what the turns of one rank hold: (turn, slot), -1 where there is nothing."""
        first_step, num_steps = checked_steps(self.num_steps, first_step, num_steps)
        packs_per_turn = self._plan.packs_per_step // self._turns
        rows = np.full((num_steps, self._plan.most_samples * packs_per_turn), -1, dtype=np.int64)
        for row, packs in zip(rows, self._packs(rank, epoch, first_step, num_steps), strict=True):
            pieces = np.concatenate(packs)
            row[: pieces.size] = pieces
        return rows

    def lists(self, rank: int, epoch: int) -> Iterator[list[Any]]:
        """Yield the turns of one rank: a list of numbers for a pack, and a list of these lists for a step.

        Where samples were cut or split, a step has (sample, first token, number of tokens) in the place of numbers.
        """
        for step in range(0, self._plan.num_steps, _STEPS_AT_ONCE):
            num_steps = min(_STEPS_AT_ONCE, self._plan.num_steps - step)
            if not self._whole_steps:
                for packs in self._plan.piece_ids(rank, epoch, step, num_steps):
                    yield from (pack.tolist() for pack in packs)
            elif self._plan.num_cut:
                for packs in self._plan.pieces(rank, epoch, step, num_steps):
                    yield [[tuple(span) for span in pack.tolist()] for pack in packs]
            else:
                for packs in self._plan.packs(rank, epoch, step, num_steps):
                    yield [pack.tolist() for pack in packs]

    def where(self, sample: int, epoch: int = 0) -> tuple[int, int, int] | None:
        """Return the first (rank, turn, pack of the turn) that sees a sample, or None."""
        found = self._plan.where(sample, epoch)
        if found is None or self._whole_steps:
            return found
        rank, step, pack = found
        return rank, step * self._turns + pack, 0

    def progress(self, step: int, *, epoch: int | None = None) -> dict[str, Any]:
        """Return what a checkpoint must hold after some turns of an epoch, which end a step of the plan."""
        steps, packs = divmod(whole_number("step", step, least=0, most=self.num_steps), self._turns)
        if packs:
            raise InputError(
                f"a state can only be taken at the end of a step, which has {self._turns} packs: {packs} of it were "
                f"consumed; the gradients of these would be lost"
            )
        return self._plan.progress(steps, self._epoch if epoch is None else epoch)

    def at(self, progress: Mapping[str, Any]) -> PackSteps:
        """Return the rest of the epoch after the progress that another plan of these packs made."""
        epoch = whole_number("epoch", progress.get("epoch", 0), least=0)
        return PackSteps(self._plan.at(progress), whole_steps=self._whole_steps, epoch=epoch)

    def _packs(self, rank: int, epoch: int, first: int, count: int) -> list[list[Ids]]:
        """Return the packs of some turns."""
        if count == 0:
            return []
        first_step, last_step = first // self._turns, (first + count - 1) // self._turns
        packs = self._plan.piece_ids(rank, epoch, first_step, last_step - first_step + 1)
        if self._whole_steps:
            return packs
        each = [[pack] for of_step in packs for pack in of_step]
        return each[first - first_step * self._turns :][:count]
