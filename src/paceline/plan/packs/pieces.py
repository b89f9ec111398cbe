"""What is packed: whole samples, or pieces of those that are longer than a pack."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paceline.plan.buckets import check_fits, checked_lengths
from paceline.plan.order import Ids

Narrow = NDArray[Any]  # whole numbers, as narrow as they fit: of 16 bits, 32 or 64


class TooLong(StrEnum):
    """What becomes of a sample that is longer than a pack."""

    RAISE = "raise"  # it is an error
    CUT = "cut"  # its end is left out
    SPLIT = "split"  # it becomes several pieces, which are packed like samples


TooLongLike = TooLong | Literal["raise", "cut", "split"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """What is packed. Piece p is sample p, or its begin; the further pieces of samples that were split follow.

    Attributes:
        lengths: Tokens of each piece, none above the budget.
        further: The sample of each further piece, rising; None where no sample was split.
        max_tokens: Tokens of every piece of a sample but the last.
        num_samples: Samples in all.
        num_cut: Samples that were cut or split.
        digest: Tells these lengths from others.
    """

    lengths: Narrow
    further: Narrow | None
    max_tokens: int
    num_samples: int
    num_cut: int
    digest: str

    @property
    def num_pieces(self) -> int:
        """Pieces in all."""
        return int(self.lengths.size)

    def samples_of(self, pieces: Ids) -> Ids:
        """Return the sample of each piece."""
        if self.further is None:
            return pieces
        samples = pieces.copy()
        is_further = pieces >= self.num_samples
        samples[is_further] = self.further[pieces[is_further] - self.num_samples]
        return samples

    def spans(self, pieces: Ids) -> Ids:
        """Return (sample, first token, number of tokens) of each piece."""
        samples, begins = self.samples_of(pieces), np.zeros_like(pieces)
        if self.further is not None:
            is_further = pieces >= self.num_samples
            numbers = pieces[is_further] - self.num_samples
            first = np.searchsorted(self.further, samples[is_further])  # the second piece of the same sample
            begins[is_further] = (numbers - first + 1) * self.max_tokens
        return np.stack([samples, begins, self.lengths[pieces].astype(np.int64)], axis=1)


def make_pieces(lengths: ArrayLike, max_tokens: int, too_long: TooLong) -> Pieces:
    """Return what is packed of samples of these lengths."""
    checked = checked_lengths(lengths)
    digest = hashlib.blake2b(checked.astype("<i8").tobytes(), digest_size=8).hexdigest()
    if too_long is TooLong.RAISE:
        check_fits(checked, max_tokens)
    num_cut = int((checked > max_tokens).sum())
    kept, further = np.minimum(checked, max_tokens), None
    if too_long is TooLong.SPLIT and num_cut:
        long = np.flatnonzero(checked > max_tokens)
        counts = (checked[long] - 1) // max_tokens  # of further pieces
        further = np.repeat(long, counts)
        rest = np.full(further.size, max_tokens)
        rest[np.cumsum(counts) - 1] = checked[long] - counts * max_tokens
        kept = np.concatenate([kept, rest])
    return Pieces(
        lengths=narrowed(kept, max_tokens),
        further=None if further is None else narrowed(further, checked.size),
        max_tokens=max_tokens,
        num_samples=int(checked.size),
        num_cut=num_cut,
        digest=digest,
    )


def narrowed(numbers: Ids, most: int) -> Narrow:
    """Return numbers from 0 to `most` in as few bits as they fit: plans of many samples are kept in memory."""
    return numbers.astype(np.uint16 if most < 1 << 16 else np.int32 if most < 1 << 31 else np.int64)
