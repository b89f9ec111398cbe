"""Simulated jobs for the tests of rules: calls by name, run until nothing moves, and the finding that follows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from tests.guard.simulation import Job

from paceline.guard.shared_memory.layout import STOP_ARGUMENT, STOP_COLLECTIVE, STOP_MESSAGE
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection, no_sources
from paceline.guard.verdict.snapshot import Call, End, Membership, RankState, Snapshot, Stop, Waiting

WORLD, SPLIT = "mpi-world", "mpi-split"


def collective(operation: str, line: int, communicator: str = WORLD, **fields: Any) -> Call:
    """Return a collective made at a line of train.py."""
    return Call(operation=operation, communicator=communicator, site=f"train.py:{line}", **fields)


def message(operation: str, line: int, peer: int, tag: int = 0, communicator: str = WORLD, **fields: Any) -> Call:
    """Return a message sent or received at a line of train.py."""
    return Call(
        operation=operation, communicator=communicator, site=f"train.py:{line}", peer=peer, tag=tag, **fields
    )  # fmt: skip


def communicators(world_size: int, split: tuple[int, ...] = ()) -> dict[str, Membership]:
    """Return WORLD, and Split if it has members."""
    known = {WORLD: Membership(name="WORLD", ranks=tuple(range(world_size)))}
    return known | ({SPLIT: Membership(name="Split", ranks=split)} if split else {})


def source_of(text: str) -> Any:
    """Return sources in which train.py has this text, whose first line is line 1."""
    code = textwrap.dedent(text).lstrip("\n")
    return lambda path: code if path == "train.py" else None


def judge(
    programs: Sequence[Sequence[Call]],
    *,
    ends: Mapping[int, End] | None = None,
    split: tuple[int, ...] = (),
    source: str = "",
    buffers: bool = False,
) -> Finding:
    """Move all ranks in turn until something is certain, or nothing moves; return the finding."""
    job = Job(programs, communicators(len(programs), split), buffers=buffers, ends=dict(ends or {}))
    sources = source_of(source) if source else no_sources
    while ready := [rank for rank in range(len(programs)) if job.can_move(rank)]:
        for rank in ready:
            if job.can_move(rank):
                job.move(rank)
        finding = find_certain(Inspection(job.snapshot(), sources))
        if finding is not None:
            return finding
    finding = find_stuck(Inspection(job.snapshot(), sources), cautious=False)
    assert finding is not None
    return finding


def stopped(rank: int, call: Call, peer: int = 0, reason: int = STOP_MESSAGE, **more: Any) -> RankState:
    """Return a rank that refuses to make a call."""
    stop = Stop(call=call, reason=reason, peer=peer)
    return RankState(rank=rank, threads=(Waiting(call=call),), stop=stop, **{"history": (call,), **more})


def waits(rank: int, call: Call, **more: Any) -> RankState:
    """Return a rank that is inside a call."""
    positions = {call.communicator: call.sequence} if call.sequence else {}
    return RankState(rank=rank, threads=(Waiting(call=call),), positions=positions, history=(call,), **more)


def certain(*ranks: RankState, split: tuple[int, ...] = (), source: str = "", **more: Any) -> Finding:
    """Return the certain finding about these ranks."""
    snapshot = Snapshot(ranks=ranks, communicators=communicators(len(ranks), split), **more)
    finding = find_certain(Inspection(snapshot, source_of(source)) if source else Inspection(snapshot))
    assert finding is not None
    return finding


__all__ = [
    "SPLIT",
    "STOP_ARGUMENT",
    "STOP_COLLECTIVE",
    "WORLD",
    "certain",
    "collective",
    "communicators",
    "judge",
    "message",
    "source_of",
    "stopped",
    "waits",
]
