"""What a sample costs: the usual formulas, and the whole numbers that all ranks compute with."""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline.errors import InputError, whole_number

Numbers = np.ndarray[Any, np.dtype[np.int64]]

LARGEST_SUM = 1 << 62
_FLOAT_BITS = 52


def linear(lengths: Any) -> Numbers:
    """Return the cost of samples whose work grows with their length: the length itself.

    >>> linear([3, 0, 5]).tolist()
    [3, 0, 5]
    """
    return _lengths(lengths)


def quadratic(lengths: Any, width: int, *, feed_forward: int | None = None, causal: bool = False) -> Numbers:
    """Return the cost of samples that pass a transformer layer: multiplications, as whole numbers.

    The projections and the feed-forward part take (4 width + 2 feed_forward) width per position; attention takes
    2 width per pair of positions, half of it if each position sees only those before it.

    >>> quadratic([1, 2, 4], width=8).tolist()
    [784, 1600, 3328]

    Args:
        lengths: Positions of each sample.
        width: Size of a position's vector.
        feed_forward: Size of the hidden layer; four times the width if not given.
        causal: Whether a position sees only those before it.
    """
    lengths = _lengths(lengths)
    width = whole_number("width", width, least=1)
    hidden = 4 * width if feed_forward is None else whole_number("feed_forward", feed_forward, least=0)
    longest = int(lengths.max(initial=0))
    per_position, per_pair = (4 * width + 2 * hidden) * width, width if causal else 2 * width
    if per_position * longest + per_pair * longest * longest > LARGEST_SUM:
        raise InputError(f"the cost of a sample of length {longest} at width {width} is too large")
    costs: Numbers = per_position * lengths + per_pair * lengths * lengths
    return costs


def whole_costs(costs: Any, name: str = "costs", *, added_up: bool = True) -> tuple[Numbers, float]:
    """Return costs as whole numbers, and the factor they were multiplied with.

    Whole numbers stay as they are. Others are scaled by a power of two that depends on the largest one and on how many
    there are, so ranks with the same numbers get the same integers.

    >>> numbers, factor = whole_costs([0.5, 2.0, 0.25])
    >>> (numbers / factor).tolist()
    [0.5, 2.0, 0.25]

    Args:
        costs: One number per sample.
        name: What an error calls them.
        added_up: Whether all of them will be added up, so that the sum must fit.

    Raises:
        InputError: If a cost is negative, not a number or infinite, or if they add up to more than 2**62.
    """
    array = np.asarray(costs)
    if array.ndim != 1:
        raise InputError(f"{name} must be one number per sample, got an array of shape {array.shape}")
    if array.size == 0:
        return np.empty(0, np.int64), 1.0
    if array.dtype.kind == "f":
        return _scaled(array.astype(np.float64), name)
    if array.dtype.kind not in "iub":
        raise InputError(f"{name} must be numbers, got {array.dtype}")
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0:
        raise InputError(f"{name} must not be negative: sample {int(array.argmin())} has {lowest}")
    # the product is a cheap first look; only where it may overflow are the numbers added, as Python's own integers
    too_much = highest * array.size > LARGEST_SUM and sum(array.tolist()) > LARGEST_SUM
    if highest > LARGEST_SUM or (added_up and too_much):
        raise InputError(f"{name} add up to more than 2**62")
    return array.astype(np.int64), 1.0


def _scaled(costs: np.ndarray[Any, np.dtype[np.float64]], name: str) -> tuple[Numbers, float]:
    bad = ~np.isfinite(costs) | (costs < 0)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise InputError(f"{name} must be finite and not negative: sample {first} has {costs[first]}")
    _, exponent = np.frexp(costs.max())
    bits = min(_FLOAT_BITS, 61 - int(costs.size).bit_length())  # the sum of all must stay below LARGEST_SUM
    shift = min(bits - int(exponent), 1000)  # the factor itself must be a finite float
    return np.rint(np.ldexp(costs, shift)).astype(np.int64), float(np.ldexp(1.0, shift))


def _lengths(lengths: Any) -> Numbers:
    array = np.asarray(lengths.detach().cpu() if hasattr(lengths, "detach") else lengths)  # a tensor, on any device
    if array.dtype.kind not in "iu" and array.size:
        raise InputError(f"lengths must be whole numbers, got {array.dtype}")
    numbers, _ = whole_costs(array.astype(np.int64) if array.size == 0 else array, "lengths", added_up=False)
    return numbers
