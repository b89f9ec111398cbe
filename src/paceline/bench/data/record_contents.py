"""What is in records, by arithmetic: how long each is, and its bytes. Names and numbers of files need none of it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from paceline.bench.workload.sections import Dataset
from paceline.plan.shuffle_keys import fold, random_words

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
_SIZES, _CONTENTS = 1, 2  # streams of random numbers


def mean_length(dataset: Dataset) -> int:
    """Return the mean length of records, in bytes."""
    item = np.dtype(dataset.record_element_type).itemsize
    if dataset.record_dims:
        return math.prod(dataset.record_dims) * item
    whole = int(_fitting(dataset, np.array([dataset.record_length_bytes], np.int64))[0])
    return whole // item * item or 1


def record_lengths(dataset: Dataset, stream: int, first: int, count: int) -> Numbers:
    """Return the bytes of `count` records: a normal distribution, cut off evenly so that the mean stays.

    Args:
        dataset: What records are like.
        stream: The number of their split.
        first: The first record.
        count: How many.
    """
    mean = mean_length(dataset)
    if not dataset.record_length_bytes_stdev:
        return np.full(count, mean, np.int64)
    counters = np.arange(2 * first, 2 * (first + count), dtype=np.uint64)
    words = random_words(fold(dataset.seed, _SIZES, stream), counters).reshape(-1, 2)
    uniform = (words + 0.5) / 2.0**32
    normal = np.sqrt(-2.0 * np.log(uniform[:, 0])) * np.cos(2.0 * math.pi * uniform[:, 1])
    reach = mean - max(1, mean // 16)
    varied = mean + np.clip(normal * dataset.record_length_bytes_stdev, -reach, reach)
    return _fitting(dataset, np.rint(varied).astype(np.int64))


def record_content(dataset: Dataset, stream: int, sample: int, length: int) -> Bytes:
    """Return the bytes of a record of a split."""
    key = fold(dataset.seed, _CONTENTS, stream, sample)
    return np.random.SFC64(key).random_raw((length + 7) // 8).astype("<u8").view(np.uint8)[:length]


def _fitting(dataset: Dataset, lengths: Numbers) -> Numbers:
    """Return lengths that the format can hold: an image is a square."""
    if dataset.format not in ("jpeg", "png"):
        return lengths
    return np.maximum(1, np.rint(np.sqrt(lengths)).astype(np.int64)) ** 2
