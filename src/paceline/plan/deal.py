"""How positions are dealt: position p goes to rank p mod W, slot (p div W) mod B, step p div (W B).

Step s thus holds the positions from s W B to (s + 1) W B, however many ranks share them: steps are equal by
construction, and the real rows of a step come first and differ by at most one between ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.errors import EmptyPlanError, whole_number
from paceline.plan.tail import Summary, Tail, TailLike

LARGEST_SIZE = 1 << 62  # of samples, and of rows in one step


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """The deal of `num_samples` positions to the ranks, by the policy of the tail."""

    num_samples: int
    world_size: int
    batch_size: int
    tail: Tail

    @property
    def samples_per_step(self) -> int:
        """Rows of one step over all ranks."""
        return self.world_size * self.batch_size

    @property
    def num_steps(self) -> int:
        """Steps of one epoch; zero where the tail leaves none."""
        if self.tail is Tail.DROP:
            return self.num_samples // self.samples_per_step
        if self.tail is Tail.EVEN:
            return -(-(self.num_samples // self.world_size) // self.batch_size)
        return -(-self.num_samples // self.samples_per_step)

    @property
    def num_used(self) -> int:
        """Positions that are dealt to some rank."""
        if self.tail is Tail.DROP:
            return self.num_steps * self.samples_per_step
        if self.tail is Tail.EVEN:
            return self.num_samples - self.num_samples % self.world_size
        return self.num_samples

    def summary(self) -> Summary:
        """Count what the tail does."""
        spare = self.num_steps * self.samples_per_step - self.num_used
        return Summary(
            num_steps=self.num_steps,
            num_used=self.num_used,
            num_dropped=self.num_samples - self.num_used,
            num_padded=spare if self.tail is Tail.PAD else 0,
            num_repeated=spare if self.tail is Tail.REPEAT else 0,
        )

    def num_dealt(self, num_steps: int) -> int:
        """Positions dealt in the first `num_steps` steps; a position dealt again is not counted again."""
        return min(num_steps * self.samples_per_step, self.num_used)

    def num_rows(self, step: int) -> int:
        """Rows with a sample in one step, over all ranks."""
        if self.tail is Tail.REPEAT:
            return self.samples_per_step
        return self.num_dealt(step + 1) - self.num_dealt(step)

    def num_real(self, rank: int, step: int) -> int:
        """Rows with a sample in one step of one rank."""
        # a step's rows go round the ranks: rank r has rows r, r + W, r + 2W, ... of them
        return -(-(self.num_rows(step) - rank) // self.world_size) if self.num_rows(step) > rank else 0

    def slots(self, rank: int, first_step: int, num_steps: int) -> tuple[int, int]:
        """Return the position in the first slot of one rank's steps, and how many of their slots hold one.

        From slot to slot positions grow by the number of ranks, and slots fill from the front, step after step. With
        the tail `repeat` all of them hold one: positions at and beyond `num_samples` are those that come again.
        """
        begin, num_slots = first_step * self.samples_per_step + rank, num_steps * self.batch_size
        if self.tail is Tail.REPEAT:
            return begin, num_slots
        num_left = -(-(self.num_used - begin) // self.world_size)
        return begin, min(max(0, num_left), num_slots)

    def where(self, position: int) -> tuple[int, int, int] | None:
        """Return (rank, step, slot) of a position, or None if no rank gets it."""
        limit = self.num_steps * self.samples_per_step if self.tail is Tail.REPEAT else self.num_used
        if not 0 <= position < limit:
            return None
        row, rank = divmod(position, self.world_size)
        step, slot = divmod(row, self.batch_size)
        return rank, step, slot


def make_deal(num_samples: int, *, start: int = 0, world_size: int, batch_size: int, tail: TailLike) -> Deal:
    """Return the deal of what is left of an epoch of `num_samples` samples after `start` of them.

    Raises:
        InputError: A number is out of bounds, or there is no such tail.
        EmptyPlanError: It has no step.
    """
    num_samples = whole_number("num_samples", num_samples, least=1, most=LARGEST_SIZE)
    world_size = whole_number("world_size", world_size, least=1, most=LARGEST_SIZE)
    batch_size = whole_number("batch_size", batch_size, least=1, most=LARGEST_SIZE // world_size)
    start = whole_number("start", start, least=0, most=num_samples)
    deal = Deal(num_samples=num_samples - start, world_size=world_size, batch_size=batch_size, tail=Tail.of(tail))
    if deal.num_steps == 0:
        raise EmptyPlanError(_why_empty(deal, start))
    return deal


def _why_empty(deal: Deal, start: int) -> str:
    if deal.num_samples == 0:
        return f"nothing is left of the epoch: all {start} samples are consumed; continue with the next epoch"
    left = f"the {deal.num_samples} samples that are left" if start else f"{deal.num_samples} samples"
    if deal.tail is Tail.DROP:
        needed = f"{deal.world_size} ranks x batch {deal.batch_size} = {deal.samples_per_step}"
    else:
        needed = f"one for each of {deal.world_size} ranks"
    return (
        f"no step can be made with tail={deal.tail.value!r}: {left} do not fill one step ({needed}); "
        f"use tail='pad', fewer ranks or a smaller batch"
    )
