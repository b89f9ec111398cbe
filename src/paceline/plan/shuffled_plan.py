"""What plans of known lengths have in common: a seed, whether they shuffle, and a fingerprint of what comes of it."""

from __future__ import annotations

import hashlib

from paceline.errors import whole_number
from paceline.plan.plan import LARGEST_SEED, ORDER_VERSION, checked_shuffle


class ShuffledPlan:
    """The base of a plan that shuffles by a seed.

    Args:
        shuffle: Whether samples are shuffled.
        seed: Chooses the family of orders.
    """

    def __init__(self, *, shuffle: bool, seed: int) -> None:
        self._shuffle = checked_shuffle(shuffle)
        self._seed = whole_number("seed", seed, least=0, most=LARGEST_SEED)
        self._fingerprint = ""

    def _sign(self, *settings: object) -> None:
        """Take the fingerprint of all settings that make a difference to the order."""
        self._fingerprint = hashlib.blake2b(repr((ORDER_VERSION, *settings)).encode(), digest_size=8).hexdigest()

    @property
    def shuffle(self) -> bool:
        """Whether samples are shuffled, and what they are put together into."""
        return self._shuffle

    @property
    def seed(self) -> int:
        """The seed of the orders."""
        return self._seed

    @property
    def fingerprint(self) -> str:
        """A short text that is equal for plans of the same order."""
        return self._fingerprint
