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

Narrow = NDArray[Any]  # whole numbers, as narrow as they fit: of 32 bits, or of 64


class TooLong(StrEnum):
    """What becomes of a sample that is longer than a pack."""

    RAISE = "raise"  # it is an error
    CUT = "cut"  # its end is left out
    SPLIT = "split"  # it becomes several pieces, which are packed like samples


TooLongLike = TooLong | Literal["raise", "cut", "split"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """What is packed. Unless samples are split, piece p is sample p.

    Attributes:
        lengths: Tokens of each piece, none above the budget.
        sample_of: The sample of each piece; None where pieces are samples.
        begin_of: Where in its sample each piece begins; None where all begin at 0.
        num_samples: Samples in all.
        num_cut: Samples that were cut or split.
        digest: Tells these lengths from others.
    """

    lengths: Narrow
    sample_of: Narrow | None
    begin_of: Narrow | None
    num_samples: int
    num_cut: int
    digest: str

    @property
    def num_pieces(self) -> int:
        """Pieces in all."""
        return int(self.lengths.size)

    def samples_of(self, pieces: Ids) -> Ids:
        """Return the sample of each piece."""
        return pieces if self.sample_of is None else self.sample_of[pieces].astype(np.int64)

    def spans(self, pieces: Ids) -> Ids:
        """Return (sample, first token, number of tokens) of each piece."""
        begins = np.zeros_like(pieces) if self.begin_of is None else self.begin_of[pieces]
        return np.stack([self.samples_of(pieces), begins, self.lengths[pieces]], axis=1).astype(np.int64)


def make_pieces(lengths: ArrayLike, max_tokens: int, too_long: TooLong) -> Pieces:
    """Return what is packed of samples of these lengths."""
    checked = checked_lengths(lengths)
    digest = hashlib.blake2b(checked.astype("<i8").tobytes(), digest_size=8).hexdigest()
    if too_long is TooLong.RAISE:
        check_fits(checked, max_tokens)
    num_cut = int((checked > max_tokens).sum())
    sample_of = begin_of = None
    num_samples = int(checked.size)
    if too_long is TooLong.SPLIT and num_cut:
        counts = np.maximum(1, -(-checked // max_tokens))
        sample_of = np.repeat(np.arange(checked.size), counts)
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        begin_of = (np.arange(sample_of.size) - firsts) * max_tokens
        checked = checked[sample_of] - begin_of
    return Pieces(
        lengths=narrowed(np.minimum(checked, max_tokens), max_tokens),
        sample_of=None if sample_of is None else narrowed(sample_of, num_samples),
        begin_of=None if begin_of is None else narrowed(begin_of, int(begin_of.max())),
        num_samples=num_samples,
        num_cut=num_cut,
        digest=digest,
    )


def narrowed(numbers: Ids, most: int) -> Narrow:
    """Return numbers from 0 to `most` in 32 bits each where they fit: plans of many samples are kept in memory."""
    return numbers.astype(np.int32 if most < 1 << 31 else np.int64)
