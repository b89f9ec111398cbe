"""Programs for the tests of causes: generators that yield their calls, with real lines, on simulated ranks.

A program is a generator function of one argument, the rank's side of the job. It yields a call wherever a real one
would make it, and may be split into helpers by `yield from`. The site of a call is the line of the innermost generator.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import GeneratorType
from typing import Any

from tests.guard.simulation import Job
from tests.guard.verdict.simulated import SPLIT, WORLD

from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, Membership

OTHER_SPLIT = "mpi-other-split"  # of the ranks that are not in the split communicator

Calls = Generator[Call, None, None]
Program = Callable[["Side"], Calls]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What a program knows of the job, and the calls that it can yield."""

    rank: int
    size: int
    members: tuple[int, ...] = ()  # of the split communicator

    def barrier(self, on: str = WORLD) -> Call:
        return Call(operation="Barrier", communicator=on)

    def all_reduce(self, count: int = 8, on: str = WORLD) -> Call:
        return Call(
            operation="Allreduce", communicator=on, reduction="SUM", dtype="f4", num_bytes=4 * count, count=count
        )

    def all_gather(self, count: int = 8, on: str = WORLD) -> Call:
        return Call(operation="Allgather", communicator=on, dtype="f4", num_bytes=4 * count, count=count)

    def bcast(self, root: int = 0, on: str = WORLD) -> Call:
        return Call(operation="bcast", communicator=on, root=root)

    def gather(self, root: int = 0, on: str = WORLD) -> Call:
        return Call(operation="gather", communicator=on, root=root)

    def send(self, peer: int, tag: int = 0) -> Call:
        return Call(operation="Ssend", communicator=WORLD, peer=peer, tag=tag)

    def isend(self, peer: int, tag: int = 0) -> Call:
        return Call(operation="Bsend", communicator=WORLD, peer=peer, tag=tag)

    def recv(self, peer: int, tag: int = 0) -> Call:
        return Call(operation="Recv", communicator=WORLD, peer=peer, tag=tag)


class _LazyProgram(Sequence[Call]):
    """The calls of a generator, asked for one by one as the rank comes to them."""

    def __init__(self, generator: Calls) -> None:
        self._generator = generator
        self._calls: list[Call] = []
        self._is_over = False

    def __len__(self) -> int:
        """Return the calls so far, with the next one if there is one: the rank has just left the last."""
        if not self._is_over:
            try:
                call = next(self._generator)
            except StopIteration:
                self._is_over = True
            else:
                sites = tuple(_sites(self._generator))
                at_site = 1 + sum((past.site, *past.callers) == sites for past in self._calls)
                self._calls.append(replace(call, site=sites[0], callers=sites[1:], at_site=at_site))
        return len(self._calls)

    def __getitem__(self, index: Any) -> Any:
        return self._calls[index]


def _sites(generator: Any) -> Iterator[str]:
    """Return the lines of a suspended generator and of those it delegates to, innermost first."""
    sites = []
    while isinstance(generator, GeneratorType):
        frame = generator.gi_frame
        assert frame is not None
        sites.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        generator = generator.gi_yieldfrom
    return reversed(sites)


def run_script(
    program: Program, size: int, *, split: tuple[int, ...] = (), ends: dict[int, End] | None = None,
    dice: random.Random | None = None,
) -> Finding | None:  # fmt: skip
    """Run a program on simulated ranks until something is certain, or nothing moves; return the finding.

    With dice some ranks are slower than others.
    """
    communicators = {WORLD: Membership(name="WORLD", ranks=tuple(range(size)))}
    if split:
        communicators[SPLIT] = Membership(name="Split", ranks=split)
        others = tuple(rank for rank in range(size) if rank not in split)
        communicators[OTHER_SPLIT] = Membership(name="Split", ranks=others)
    programs = [_LazyProgram(program(Side(rank=rank, size=size, members=split))) for rank in range(size)]
    job = Job(programs, communicators, buffers=False, ends=ends or {})
    while ready := [rank for rank in range(size) if job.can_move(rank)]:
        for rank in ready if dice is None else [dice.choice(ready)]:
            if job.can_move(rank):
                job.move(rank)
        finding = find_certain(Inspection(job.snapshot(), source_of))
        if finding is not None:
            _let_others_come(job, finding)
            return find_certain(Inspection(job.snapshot(), source_of))
    at_the_end = Inspection(job.snapshot(), source_of)
    return find_certain(at_the_end) or find_stuck(at_the_end, cautious=False)


def _let_others_come(job: Job, finding: Finding) -> None:
    """Let slower ranks come to the collective that a finding is about: the judge waits for them, too."""

    def progress(rank: int) -> int:
        return job.ranks[rank].positions.get(WORLD, 0)

    reached = min(map(progress, finding.ranks))
    while slower := [rank for rank in range(len(job.ranks)) if job.can_move(rank) and progress(rank) < reached]:
        job.move(slower[0])


def calls_of(generator: Calls) -> list[Call]:
    """Return all calls of a program, which does not wait for anybody."""
    program, num_known = _LazyProgram(generator), 0
    while (num_calls := len(program)) > num_known:  # every look at its length asks for one more
        num_known = num_calls
    return list(program[:])


def source_of(path: str) -> str | None:
    """Return the text of a program's file."""
    file = Path(path)
    return file.read_text() if file.is_file() else None


def line_with(program: Callable[..., Calls], text: str) -> str:
    """Return the site of the line of a program's file that has this text."""
    file = inspect.getsourcefile(program)
    assert file is not None
    (line,) = [number for number, line in enumerate(Path(file).read_text().splitlines(), 1) if text in line]
    return f"{file}:{line}"


__all__ = ["OTHER_SPLIT", "SPLIT", "WORLD", "Calls", "Program", "Side", "line_with", "run_script"]
