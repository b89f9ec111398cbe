"""The extension module refuses what would lead it out of its memory, keeps none, and lets other threads run."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paceline.balance import partition
from paceline.compiled import extension
from paceline.plan import Plan


def ids(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


def room(size: int = 3) -> Any:
    return np.full(size, -7, dtype=np.int64)


COSTS, ORDER, GROUPS, REAL = ids(9, 5, 1), ids(0, 1, 2), ids(0, 1, 0), np.array([True, False, True])
NOTHING = ids()
FROZEN = room()
FROZEN.flags.writeable = False


def on_hosts(**wrong: Any) -> tuple[Any, ...]:
    """Return the arguments of `even_out_hosts`, one of them wrong."""
    right: dict[str, Any] = {
        "falling": COSTS, "order": ORDER, "costs": COSTS, "num_bytes": COSTS, "real": REAL, "host_of": ids(0, 1),
        "host_target": 7, "target": 8, "limit": -1, "max_sweeps": 9, "sent": ids(0, 0), "received": ids(0, 0),
        "group_of": ids(0, 1, 0),
    }  # fmt: skip
    return tuple((right | wrong).values())


WRONG_KINDS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (extension.heaviest_first, (COSTS.astype(np.int32), room())),
    (extension.heaviest_first, (COSTS.astype(np.float64), room())),
    (extension.heaviest_first, (COSTS.astype(np.uint64), room())),
    (extension.heaviest_first, (COSTS.astype(">i8"), room())),
    (extension.heaviest_first, ([9, 5, 1], room())),
    (extension.heaviest_first, (None, room())),
    (extension.heaviest_first, (COSTS, b"01234567" * 3)),
    (extension.list_members, (GROUPS, GROUPS, room(), room(2))),
    (extension.best_fit, (COSTS.astype(np.int32), 9, room())),
    (extension.even_out_hosts, on_hosts(real=COSTS)),
    (extension.shuffle_table, (room(), 1)),
    (extension.permute, (COSTS, "9", 1, False, room())),
    (extension.deal_longest_first, (COSTS, ORDER, 2.5, room())),
    (extension.deal_longest_first, (COSTS, ORDER, 2)),
]
WRONG_MEMORY: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (extension.heaviest_first, (COSTS, FROZEN)),
    (extension.heaviest_first, (np.arange(6)[::2], room())),
    (extension.heaviest_first, (COSTS, room(6)[::2])),
]
WRONG_NUMBERS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (extension.heaviest_first, (COSTS, room(2))),
    (extension.heaviest_first, (COSTS, room(4))),
    (extension.heaviest_first, (ids(9, -2, 1), room())),
    (extension.heaviest_first, (ids(9, -(1 << 63), 1), room())),
    (extension.add_up_groups, (ids(0, (1 << 63) - 1, 0), COSTS, room())),
    (extension.add_up_groups, (ids(0, -(1 << 63), 0), COSTS, room())),
    (extension.add_up_groups, (GROUPS, COSTS[:2], room())),
    (extension.add_up_groups, (GROUPS, COSTS, room(1))),
    (extension.add_up_groups, (ids(0, -1, 0), COSTS, room())),
    (extension.add_up_groups, (GROUPS, COSTS, NOTHING)),
    (extension.list_members, (GROUPS, REAL[:2], room(), room(2))),
    (extension.list_members, (GROUPS, REAL, room(2), room(2))),
    (extension.list_members, (GROUPS, REAL, room(), room(1))),
    (extension.list_members, (ids(0, 2, 0), REAL, room(), room(2))),
    *[(deal, given) for deal in (extension.deal_longest_first, extension.deal_by_differencing) for given in [
        (COSTS, ORDER, 0, room()), (COSTS, ORDER, -1, room()), (COSTS, ORDER, 1 << 31, room()),
        (COSTS[:2], ORDER, 2, room()), (COSTS, ORDER[:2], 2, room()), (COSTS, ORDER, 2, room(4)),
        (COSTS, ids(0, 1, 3), 2, room()), (COSTS, ids(0, -1, 2), 2, room()),
    ]],
    (extension.swap_until_even, (COSTS, ORDER, 2, 8, NOTHING, 5, 9, ids(0, 1, 0))),
    (extension.swap_until_even, (COSTS, ORDER, 2, 8, NOTHING, -1, 9, ids(0, 2, 0))),
    (extension.swap_until_even, (COSTS, ORDER, 2, 8, NOTHING, -1, 9, ids(0, -1, 0))),
    (extension.swap_until_even, (COSTS, ORDER, 2, 8, NOTHING, -1, 9, ids(0, 0, 0))),
    (extension.swap_until_even, (COSTS, ids(0, 1, 7), 2, 8, NOTHING, -1, 9, ids(0, 1, 0))),
    (extension.swap_until_even, (COSTS, ORDER, 0, 8, NOTHING, -1, 9, ids(0, 1, 0))),
    *[(extension.even_out_hosts, on_hosts(**{name: wrong})) for name, wrong in [
        ("order", ids(0, 1, 3)), ("order", ids(0, 1)), ("costs", ids(1, 2)), ("num_bytes", ids(1, 2)),
        ("real", REAL[:2]), ("host_of", ids(0, 2)), ("host_of", ids(0, -1)), ("host_of", NOTHING), ("sent", ids(0)),
        ("received", ids(0)), ("group_of", ids(0, 2, 0)), ("group_of", ids(0, 1)), ("host_target", 9),
        ("host_target", -1), ("order", ids(1, 1, 1)),
    ]],
    (extension.spread_pieces, (COSTS, COSTS[:2], ORDER, 2, 9, 3, room())),
    (extension.spread_pieces, (COSTS, COSTS, ids(0, 1, 3), 2, 9, 3, room())),
    (extension.spread_pieces, (COSTS, COSTS, ORDER, 0, 9, 3, room())),
    (extension.spread_pieces, (COSTS, COSTS, ORDER, 2, 8, 3, room())),
    (extension.spread_pieces, (COSTS, COSTS, ORDER, 2, 9, 0, room())),
    (extension.spread_pieces, (COSTS, COSTS, ORDER, 2, 9, 3, room(2))),
    (extension.best_fit, (COSTS, 8, room())),
    (extension.best_fit, (ids(3, -1, 2), 9, room())),
    (extension.best_fit, (COSTS, 9, room(2))),
    (extension.best_fit, (COSTS, -1, room())),
    (extension.best_fit, (COSTS, (1 << 30) + 1, room())),
    (extension.shuffle_table, (np.empty(65_537, dtype=np.uint16), 1)),
    (extension.permute, (ids(0, 3), 3, 1, False, room(2))),
    (extension.permute, (ids(0, -1), 3, 1, True, room(2))),
    (extension.permute, (ids(0, 1), 3, 1, False, room(3))),
    (extension.permute, (NOTHING, 0, 1, False, NOTHING.copy())),
    (extension.permute, (NOTHING, (1 << 62) + 1, 1, False, NOTHING.copy())),
    (extension.permute_along, (-1, 2, 9, 1, room())),
    (extension.permute_along, (0, -2, 9, 1, room())),
    (extension.permute_along, (0, 2, 0, 1, room())),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "call", "given"),
    [
        *[(TypeError, *wrong) for wrong in WRONG_KINDS],
        *[(ValueError, *wrong) for wrong in WRONG_MEMORY],
        *[(ValueError, *wrong) for wrong in WRONG_NUMBERS],
    ],
)
def test_what_does_not_fit_is_refused(error: type[Exception], call: Callable[..., Any], given: tuple[Any, ...]) -> None:
    if any(isinstance(value, bytes) for value in given):
        error = BufferError  # of bytes, which cannot be written to
    with pytest.raises(error):
        call(*given)


def test_numbers_that_do_not_fit_64_bits_are_refused() -> None:
    with pytest.raises(OverflowError):
        extension.permute(ids(0), 1 << 70, 1, False, room(1))
    with pytest.raises(OverflowError):
        extension.swap_until_even(COSTS, ORDER, 2, 1 << 64, NOTHING, -1, 9, ids(0, 1, 0))


def test_short_memory_is_an_error_of_python() -> None:
    """In a process of its own with little memory, for more groups than fit into it."""
    code = """
import resource
import numpy as np
from paceline.compiled import extension as kernels
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
numbers, into, most = np.arange(9), np.zeros(9, np.int64), (1 << 31) - 1
calls = [
    lambda: kernels.deal_by_differencing(numbers, numbers, most, into),
    lambda: kernels.deal_longest_first(numbers, numbers, most, into),
    lambda: kernels.swap_until_even(numbers, numbers, most, 0, numbers, -1, 9, into),
]
for call in calls:
    try:
        call()
    except MemoryError:
        print("no memory")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "no memory\n" * 3, done.stderr


def test_nothing_in_nothing_out() -> None:
    extension.heaviest_first(NOTHING, NOTHING.copy())
    extension.permute(NOTHING, 5, 1, False, NOTHING.copy())
    extension.permute_along(0, 1, 5, 1, NOTHING.copy())
    extension.shuffle_table(np.empty(0, dtype=np.uint16), 1)
    for deal in (extension.deal_longest_first, extension.deal_by_differencing):
        deal(NOTHING, NOTHING, 3, NOTHING.copy())
    sums = room()
    extension.add_up_groups(NOTHING, NOTHING, sums)
    assert sums.tolist() == [0, 0, 0]


def use_everything(times: int) -> None:
    """Call every function, with success and without."""
    costs = np.arange(1200) * 7919 % 10_007
    placement, real = np.arange(1200) % 200, np.arange(1200) % 9 > 0
    plan = Plan(70_001, world_size=3, batch_size=4, tail="repeat")
    for number in range(times):
        partition(costs, 200, "differencing", placement, real=real)
        partition(costs, 200, "longest_first")
        partition(costs, 200, "swap_in_place", placement, memory=costs, memory_limit=50_000, tolerance=0.01)
        plan.rows(1, number % 7, 3, 20)
        plan.where(number)
        for call, given in WRONG_NUMBERS:
            try:
                call(*given)
            except ValueError:
                continue


class HeapFigures(ctypes.Structure):
    """What glibc tells of its heap."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "mapped",
            "usmblks",
            "fsmblks",
            "in_use",
            "fordblks",
            "rest",
        )
    ]


def bytes_in_use() -> int:
    """Bytes that were allocated and not freed, by malloc alone: Python's own small objects lie elsewhere."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = HeapFigures
    figures = ask()
    return int(figures.in_use + figures.mapped)


def test_memory_stays_flat() -> None:
    """The least that a kernel could keep are four bytes for each of 200 groups: 800 bytes or more of each round."""
    use_everything(50)
    before = bytes_in_use()
    use_everything(400)
    assert bytes_in_use() - before < 100_000


def test_other_threads_run_meanwhile() -> None:
    """Only they can see that the first number is there and the last is not: with the GIL, both come at once."""
    for _ in range(200):
        results = np.full(3_000_000, -1, dtype=np.int64)
        worker = threading.Thread(target=extension.permute_along, args=(0, 1, 10**9, 3, results))
        worker.start()
        while results[0] < 0:
            pass
        is_under_way = results[-1] < 0
        worker.join()
        assert (results >= 0).all()
        if is_under_way:
            return
    raise AssertionError("nobody ever saw a kernel under way")


PARTITIONS = """
import resource
import numpy as np
from paceline.balance import partition
from paceline.balance.kernels import deal_by_differencing, deal_longest_first, heaviest_first, members_of, sums_of
from paceline.balance.kernels import swap_until_even

costs, real, nothing = np.arange(24) * 7 % 31, np.arange(24) % 5 > 0, np.empty(0, np.int64)

def make_partitions(num):
    for _ in range(num):
        order = heaviest_first(costs)
        falling = costs.take(order)
        for deal in (deal_longest_first, deal_by_differencing):
            group_of = deal(falling, order, 4)
            swap_until_even(falling, order, group_of, 4, int(sums_of(group_of, costs, 4).mean()), nothing, -1, 9)
        members_of(group_of, real, 4)

def make_whole_ones(num):
    for number in range(num):
        partition(costs, 4, real=real, placement=np.arange(24) % 4 if number % 2 else None)

make_partitions(5000)
make_whole_ones(500)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
make_partitions(500_000)  # of two deals each
make_whole_ones(5000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.timeout(300)
def test_a_million_partitions_leave_the_memory_as_it_was() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARTITIONS], capture_output=True, text=True, timeout=290, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1024  # KiB
