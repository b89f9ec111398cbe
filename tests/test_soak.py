"""The soak measures what the guard has for itself: shared memory that it reads counts as records."""

from __future__ import annotations

import mmap
import os
from typing import Any

import soak

_BYTES = 64 << 20


def test_shared_memory_that_a_process_touches_is_told_from_its_own() -> None:
    before = soak.memory_kib(os.getpid())
    handle = os.memfd_create("touched")
    os.ftruncate(handle, _BYTES)
    with mmap.mmap(handle, _BYTES) as touched:
        touched.write(b"\1" * _BYTES)
        after = soak.memory_kib(os.getpid())
    os.close(handle)
    assert after["shared"] - before["shared"] == _BYTES >> 10
    assert after["all"] - before["all"] >= _BYTES >> 10


def test_a_process_that_has_ended_has_no_memory() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert soak.memory_kib(child) == {}, "a zombie"
    os.waitpid(child, 0)
    assert soak.memory_kib(child) == {}


def test_a_guard_that_has_shared_memory_beside_the_records_is_told() -> None:
    flat = {"before_kib": 1, "after_kib": 1, "growth": 1.0}
    memory = dict.fromkeys(("guard", "records", "rank 0"), flat)
    figures: dict[str, Any] = {
        "exit_code": 0,
        "finding": None,
        "warnings": [],
        "calls": 1,
        "num_ranks": 1,
        "memory": memory,
        "measured_share": 0.5,
    }
    assert soak.problems_of({**figures, "most_kib": {"records": 9, "records that it reads": 9}}, 1) == []
    (problem,) = soak.problems_of({**figures, "most_kib": {"records": 9, "records that it reads": 10}}, 1)
    assert "shared memory that is not records" in problem
    (problem,) = soak.problems_of(
        {**figures, "most_kib": {"records": 9, "records that it reads": 9}, "measured_share": 0.1}, 1
    )
    assert "rings were full for 10% of the time" in problem


def test_the_time_in_which_rings_fill_up_is_left_out_and_a_leak_is_not() -> None:
    rings = [0, 40, 80, 99, 100, 100, 100]
    warm = soak.after_warm_up({"records that it reads": rings, "guard": [5, 6, 7, 8, 8, 8, 8]})
    assert warm["guard"] == [8, 8, 8, 8]
    leak = soak.after_warm_up({"records that it reads": list(range(1000)), "guard": list(range(1000))})
    assert len(leak["guard"]) < 50, "shared memory that grows for ever leaves next to nothing to measure"
    assert soak.after_warm_up({}) == {}
