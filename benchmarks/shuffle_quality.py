"""Is the shuffle as random as numpy's? Serial correlation, position and difference tests over 20 seeds.

Each test gives a p-value. For a random permutation p-values are uniform: about 1 % are below 0.01. numpy's own
permutation takes the same tests, and so does grain's shuffle if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import Plan
from record import write_record

NUM_SEEDS = 20
LAGS = (1, 2, 8, 64, 256)
CELLS = 32
Permutation = NDArray[np.int64]


def p_of_normal(z: float) -> float:
    """Two-sided."""
    return math.erfc(abs(z) / math.sqrt(2))


def p_of_chi_square(value: float, degrees: int) -> float:
    """By the Wilson-Hilferty approximation, good to three digits at these degrees."""
    z = ((value / degrees) ** (1 / 3) - (1 - 2 / (9 * degrees))) / math.sqrt(2 / (9 * degrees))
    return 0.5 * math.erfc(z / math.sqrt(2))


def serial_correlation(samples: Permutation) -> Iterator[tuple[str, float]]:
    """Neighbours at several lags. A permutation's mean correlation is -1/(n-1), its deviation 1/sqrt(n)."""
    values = samples.astype(float)
    for lag in LAGS:
        correlation = float(np.corrcoef(values[:-lag], values[lag:])[0, 1])
        yield f"correlation, lag {lag}", p_of_normal((correlation + 1 / values.size) * math.sqrt(values.size))


def position_by_value(samples: Permutation) -> Iterator[tuple[str, float]]:
    """Where in the order samples of each part of the data stand: a table of counts, and parts modulo a number."""
    size = samples.size
    positions = np.arange(size)
    by_range = positions * CELLS // size, samples * CELLS // size
    by_remainder = positions % CELLS, samples % CELLS
    for name, (rows, columns) in {"position ranges": by_range, "position remainders": by_remainder}.items():
        counts = np.bincount(rows * CELLS + columns, minlength=CELLS * CELLS).reshape(CELLS, CELLS)
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / size
        # margins are fixed: a permutation's table has (n - 1) / n of the usual spread
        chi_square = float(((counts - expected) ** 2 / expected).sum()) * (size - 1) / size
        yield name, p_of_chi_square(chi_square, (CELLS - 1) ** 2)


def differences(samples: Permutation) -> Iterator[tuple[str, float]]:
    """Differences of neighbours modulo n are uniform over 1 .. n - 1; descents are (n - 1) / 2 of them."""
    size = samples.size
    steps = np.diff(samples) % size
    counts = np.bincount((steps - 1) * 256 // (size - 1), minlength=256)
    edges = -(-np.arange(257) * (size - 1) // 256)
    expected = np.diff(edges) * steps.size / (size - 1)
    yield "differences", p_of_chi_square(float(((counts - expected) ** 2 / expected).sum()), 255)
    descents = int((np.diff(samples) < 0).sum())
    yield "descents", p_of_normal((descents - (size - 1) / 2) / math.sqrt((size + 1) / 12))


TESTS = (serial_correlation, position_by_value, differences)


def paceline_order(size: int, seed: int) -> Permutation:
    return Plan(size, world_size=1, batch_size=size, seed=seed).rows(0).ravel()


def numpy_order(size: int, seed: int) -> Permutation:
    return np.random.default_rng(seed).permutation(size)


def grain_order(size: int, seed: int) -> Permutation:
    from grain._src.python.experimental.index_shuffle.python import index_shuffle_module

    shuffle = index_shuffle_module.index_shuffle
    return np.array([shuffle(position, max_index=size - 1, seed=seed, rounds=4) for position in range(size)])


def judge(order: Callable[[int, int], Permutation], size: int) -> dict[str, Any]:
    """Run all tests for all seeds."""
    p_values = []
    for seed in range(NUM_SEEDS):
        samples = order(size, seed)
        if np.unique(samples).size != size:
            return {"not_a_permutation": True}
        p_values += [found for test in TESTS for found in test(samples)]
    values = np.array([p for _, p in p_values])
    by_test: dict[str, float] = {}
    for name, p in p_values:
        by_test[name] = min(p, by_test.get(name, 1.0))
    return {
        "num_p_values": values.size,
        "share_below_0.01": float((values < 0.01).mean()),
        "share_below_1e-6": float((values < 1e-6).mean()),
        "smallest": float(values.min()),
        "smallest_by_test": by_test,
        "uniformity_p": kolmogorov_p(values),
    }


def kolmogorov_p(values: NDArray[np.float64]) -> float:
    """The probability of p-values at least this far from uniform, if they were uniform."""
    ordered = np.sort(values)
    steps = np.arange(ordered.size + 1) / ordered.size
    distance = float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
    scaled = (math.sqrt(ordered.size) + 0.12 + 0.11 / math.sqrt(ordered.size)) * distance
    terms = ((2.0 if k % 2 else -2.0) * math.exp(-2 * k * k * scaled * scaled) for k in range(1, 101))
    return min(1.0, max(0.0, sum(terms)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[65_536, 65_537, 1_048_577])
    options = parser.parse_args()
    orders = {"paceline": paceline_order, "numpy": numpy_order}
    if importlib.util.find_spec("grain"):
        orders["grain"] = grain_order
    print(f"{NUM_SEEDS} seeds; a random shuffle has 0.01 of its p-values below 0.01\n")
    print(f"{'order':10}{'N':>10}{'p < 0.01':>12}{'p < 1e-6':>12}{'smallest p':>12}{'uniform p':>12}")
    figures = []
    for size in options.sizes:
        for name, order in orders.items():
            if name == "grain" and size > 100_000:
                continue  # 4 us per call: 20 seeds would take minutes
            found = judge(order, size)
            figures.append({"order": name, "num_samples": size, **found})
            if "not_a_permutation" in found:
                print(f"{name:10}{size:>10}   not a permutation")
                continue
            shares = f"{found['share_below_0.01']:>12.4f}{found['share_below_1e-6']:>12.4f}"
            print(f"{name:10}{size:>10}{shares}{found['smallest']:>12.2g}{found['uniformity_p']:>12.2g}")
    write_record("shuffle_quality", figures, packages=["numpy"], seed=0)


if __name__ == "__main__":
    main()
