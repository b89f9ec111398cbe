"""What may go wrong where: a job, a place in it and a fault, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What is done to a job."""

    KILL = "SIGKILL"
    TERMINATE = "SIGTERM"
    STOP = "SIGSTOP for 3 s"
    INTERRUPT = "Ctrl-C"
    EXCEPTION = "exception"
    NO_MEMORY = "ENOMEM"
    NO_SPACE = "ENOSPC"
    BAD_SAMPLE = "EIO on a sample"
    CUT_FILE = "truncated file"
    KILL_WORKER = "worker killed"
    FULL_MEMORY = "full /dev/shm"
    KILL_JUDGE = "judge killed"
    KILL_LAUNCHER = "launcher killed"
    CLOCK = "wall clock moved"


class Place(StrEnum):
    """Where in a job it is done."""

    IMPORT = "import"
    INIT = "init"
    BETWEEN = "between calls"
    INSIDE = "inside a collective"
    WORKER = "loading a sample"
    SAVE = "in a save"
    FINALIZE = "in finalize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One job with one fault."""

    seed: int
    job: str
    num_ranks: int
    is_guarded: bool
    place: Place
    fault: Fault
    victim: int
    step: int  # of the job, or of the samples that the rank has loaded
    is_balanced: bool = False
    num_workers: int = 0
    ranks_afterwards: int = 2  # with which training is resumed

    def __str__(self) -> str:
        guard = "under the guard" if self.is_guarded else "bare"
        return (
            f"seed {self.seed}: {self.job} on {self.num_ranks} ranks {guard}, {self.fault} {self.place} "
            f"on rank {self.victim}, step {self.step}, balanced {self.is_balanced}, {self.num_workers} workers"
        )


_SIGNALS = (Fault.KILL, Fault.TERMINATE, Fault.STOP)
_FROM_OUTSIDE = (Fault.INTERRUPT, Fault.KILL_JUDGE, Fault.KILL_LAUNCHER, Fault.CLOCK)
_CALLS = {
    Place.IMPORT: (*_SIGNALS, Fault.EXCEPTION, Fault.INTERRUPT),
    Place.INIT: (*_SIGNALS, Fault.EXCEPTION, Fault.INTERRUPT),
    Place.BETWEEN: (*_SIGNALS, *_FROM_OUTSIDE, Fault.EXCEPTION, Fault.NO_MEMORY, Fault.FULL_MEMORY),
    Place.INSIDE: (*_SIGNALS, *_FROM_OUTSIDE),
    Place.FINALIZE: (*_SIGNALS, Fault.EXCEPTION),
}
_LOADING = {Place.WORKER: (Fault.BAD_SAMPLE, Fault.EXCEPTION, Fault.NO_MEMORY, Fault.KILL, Fault.STOP)}
_TRAINING = _CALLS | _LOADING | {Place.SAVE: (Fault.NO_SPACE, Fault.EXCEPTION, Fault.KILL)}
_STREAM = {
    Place.BETWEEN: _CALLS[Place.BETWEEN],
    Place.WORKER: (Fault.CUT_FILE, Fault.BAD_SAMPLE, Fault.KILL, Fault.STOP),
}
_BENCH = {Place.BETWEEN: (Fault.KILL, Fault.TERMINATE, Fault.STOP, *_FROM_OUTSIDE, Fault.CUT_FILE)}
JOBS: Mapping[str, Mapping[Place, tuple[Fault, ...]]] = {
    "mpi": _CALLS, "torch": _CALLS, "training": _TRAINING, "stream": _STREAM, "bench": _BENCH,
}  # fmt: skip
SAVE_EVERY = 3  # steps of training
_WEIGHTS = {"mpi": 4, "torch": 2, "training": 4, "stream": 2, "bench": 1}


def draw(seed: int, *, without: Collection[Fault] = ()) -> Scenario:
    """Draw the scenario of a seed, without faults that cannot be injected on this machine."""
    chance = random.Random(f"chaos {seed}")
    job = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    place = chance.choice(list(JOBS[job]))
    fault = chance.choice([one for one in JOBS[job][place] if one not in without])
    num_ranks = chance.choice((2, 3)) if job != "mpi" else chance.choice((2, 3, 4))
    num_workers = chance.choice((0, 0, 1)) if job in ("training", "stream") else 0
    if place is Place.WORKER and num_workers and fault is Fault.KILL:
        fault = Fault.KILL_WORKER
    # without the guard a job has to end by itself where our own parts see the fault, or the launcher does
    may_be_bare = job in ("training", "stream") and fault not in (Fault.KILL_JUDGE, Fault.INTERRUPT)
    return Scenario(
        seed=seed, job=job, num_ranks=num_ranks, place=place, fault=fault,
        is_guarded=not may_be_bare or chance.random() < 0.7,
        victim=0 if place is Place.SAVE else chance.randrange(num_ranks),
        step=_step_of(place, chance.randrange(1, 9)), is_balanced=job == "training" and chance.random() < 0.5,
        num_workers=num_workers, ranks_afterwards=chance.choice((num_ranks, 2, 3)),
    )  # fmt: skip


def _step_of(place: Place, drawn: int) -> int:
    """Return a step in which a job gets to a place: only every third one is followed by a save."""
    return SAVE_EVERY * (1 + drawn % 3) if place is Place.SAVE else drawn
