"""Runs for the tests of reports: records written by real recorders in this process, without ranks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory.operations import BY_NAME

WORLD = "feedbeef0000.0"


class Job:
    """Recorders of several ranks, whose calls a test makes one by one."""

    def __init__(self, folder: Path, num_ranks: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.recorders = [
            Recorder(folder, f"{WORLD}.{rank}", rank=rank, world_size=num_ranks) for rank in range(num_ranks)
        ]
        self.worlds: list[Communicator] = []
        for rank, recorder in enumerate(self.recorders):
            world = recorder.communicator("mpi-world", "WORLD", range(num_ranks), rank)
            assert world is not None
            self.worlds.append(world)

    def enter(self, rank: int, operation: str, **arguments: Any) -> int:
        return self.recorders[rank].begin_collective(self.worlds[rank], BY_NAME[operation].code, depth=1, **arguments)

    def leave(self, rank: int, number: int) -> None:
        self.recorders[rank].unblock(number)

    def together(self, operation: str, late: int | None = None, seconds: float = 0.0, **arguments: Any) -> None:
        """Let all ranks make a call, one of them late."""
        order = [rank for rank in range(len(self.recorders)) if rank != late]
        numbers = {rank: self.enter(rank, operation, **arguments) for rank in order}
        if late is not None:
            time.sleep(seconds)
            numbers[late] = self.enter(late, operation, **arguments)
        for rank, number in numbers.items():
            self.leave(rank, number)

    def finish(self, finding: dict[str, Any] | None = None, ends: Sequence[dict[str, Any]] = (), **more: Any) -> Path:
        """Write what the guard writes beside the records."""
        outcome = "finding" if finding else more.pop("outcome", "ok")
        about = {
            "version": 1, "command": ["mpiexec", "train.py"], "ended": "2026-01-02T03:04:05+0000",
            "ended_ns": time.monotonic_ns(), "ranks_left_out": [],
            "worlds": [{"name": WORLD, "world_size": len(self.recorders), "ends": list(ends)}],
        }  # fmt: skip
        values = {
            "run.json": about,
            "diagnosis.json": {
                "version": 1,
                "outcome": outcome,
                "exit_code": more.pop("exit_code", 90 if finding else 0),
                "finding": finding,
                "warnings": more.pop("warnings", []),
            },
            "sources.json": {"version": 1, "lines": more.pop("lines", {})},
        }
        for name, value in values.items():
            (self.folder / name).write_text(json.dumps(value))
        return self.folder


def finding(**values: Any) -> dict[str, Any]:
    """Return a finding as JSON has it."""
    usual = {
        "kind": "mismatch", "field": "operation", "ranks": [1], "summary": "rank 1 fell out of line",
        "cause": "call-order", "advice": "put the calls in one order", "latency_ms": 3.0, "groups": [],
        "divergence": None,
    }  # fmt: skip
    return {**usual, **values}
