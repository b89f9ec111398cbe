"""Tries inputs of one kind one by one, within bounds of time and memory, and counts what came of them."""

from __future__ import annotations

import random
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.fuzz.kinds import Kind

SECONDS = 20  # of the processor for one input
_WAITING = 200  # of the clock, on a machine that has other work
MEMORY_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzOutcome:
    """What came of many inputs of one kind.

    Attributes:
        num_inputs: How many were tried.
        num_refused: How many of them ended with an error of ours; all others were read.
        failures: What else came, and how often; each with the seed of an input.
        grown_bytes: How much more memory was used at the most.
        seconds: How long it took.
    """

    num_inputs: int
    num_refused: int
    failures: Mapping[str, int]
    grown_bytes: int
    seconds: float

    def problems(self) -> list[str]:
        """Return what did not hold."""
        found = [f"{count} x {text}" for text, count in self.failures.items()]
        if self.grown_bytes >= MEMORY_BYTES:
            found.append(f"{self.grown_bytes >> 20} MiB more than before")
        return found


def fuzz(name: str, kind: Kind, folder: Path, *, num_inputs: int, seed: int) -> FuzzOutcome:
    """Try inputs of one kind."""
    failures: Counter[str] = Counter()
    example: dict[str, str] = {}
    num_refused = 0
    attempt = kind.prepare(folder)
    memory, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    for number in range(num_inputs):
        try:
            with _limits():
                attempt(random.Random(f"{name} {seed} {number}"))
        except kind.allowed:
            num_refused += 1
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
            failures[text] += 1
            example.setdefault(text, f"{str(error)[:80]!r}, seed {seed}, input {number}")
    return FuzzOutcome(
        num_inputs=num_inputs,
        num_refused=num_refused,
        failures={f"{text} ({example[text]})": count for text, count in failures.most_common()},
        grown_bytes=(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) << 10,
        seconds=round(time.monotonic() - began, 1),
    )


@contextmanager
def _limits() -> Iterator[None]:
    """Raise in what takes too long."""

    def too_late(number: int, frame: FrameType | None) -> None:
        raise BaseExceptionGroup("no answer", [KeyboardInterrupt()])

    before = {number: signal.signal(number, too_late) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.alarm(_WAITING)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
