"""What is promised of a job in which something goes wrong, and whether it held."""

from __future__ import annotations

import functools
import json
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.jobs.stream import NUM_SHARDS, SHARD_SAMPLES
from tests.chaos.jobs.training import EPOCHS, NUM_SAMPLES
from tests.chaos.lives import DEADLINE, ROOT, Life, ScenarioRun
from tests.chaos.scenarios import Fault, Place, Scenario

# the job goes on as if nothing had been
_HARMLESS = {Fault.STOP, Fault.CLOCK, Fault.FULL_MEMORY}
# words of a finding or an error that tell the fault
# (which signal it was is not known if the launcher is faster than the guard, before Linux 6.15)
_SIGNAL = "killed (by a signal"
_WORDS = {
    Fault.KILL: ("SIGKILL", _SIGNAL), Fault.TERMINATE: ("SIGTERM", _SIGNAL), Fault.EXCEPTION: ("ChaosError",),
    Fault.NO_MEMORY: ("MemoryError", "Cannot allocate", "can't allocate"), Fault.NO_SPACE: ("No space left",),
    Fault.BAD_SAMPLE: ("Input/output error",), Fault.CUT_FILE: ("cut off", "truncated", "cannot be read"),
    Fault.KILL_WORKER: ("worker", "SIGKILL"), Fault.FULL_MEMORY: ("shared memory", "No space left"),
}  # fmt: skip


# whoever meets them raises on all ranks, guard or not
_OF_SAMPLES = {Fault.BAD_SAMPLE, Fault.CUT_FILE}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a scenario."""

    scenario: Scenario
    was_reached: bool = False
    is_found: bool = False
    is_wrong: bool = False  # another rank was named, or something was said of a job that is right
    is_lost: bool = False  # a sample, a step or a checkpoint
    is_leaked: bool = False
    has_hung: bool = False
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run_scenario(scenario: Scenario, spoiled_calls: Path | None) -> Outcome:
    """Run a scenario, and hold what came against what is promised."""
    outcome = Outcome(scenario=scenario)
    began = time.monotonic()
    with _folder() as folder:
        job = ScenarioRun(scenario, folder, spoiled_calls)
        life = job.live(is_disturbed=True, num_ranks=scenario.num_ranks)
        outcome.was_reached = life.was_reached
        _check_end(outcome, life)
        if life.was_reached and not outcome.has_hung:
            _check_finding(outcome, life)
        if scenario.job == "training" and not outcome.has_hung:
            _check_training(outcome, job, life)
        if scenario.job == "stream" and life.code == 0 and scenario.fault is not Fault.KILL_JUDGE:
            _check_seen(outcome, job, times=1, number=NUM_SHARDS * SHARD_SAMPLES)
        if outcome.problems:
            outcome.problems.append(
                f"code {life.code}, finding {life.finding and life.finding['summary']}\n{life.output[-3000:]}"
            )
    outcome.seconds = time.monotonic() - began
    return outcome


def _check_end(outcome: Outcome, life: Life) -> None:
    if life.code is None:
        outcome.has_hung = True
        outcome.problems.append(f"it did not end in {DEADLINE:.0f} s")
    if life.left:
        outcome.is_leaked = True
        outcome.problems.append(f"it left behind {life.left}")
    if "Traceback" in life.output and f"{ROOT}/src/paceline/cli" in life.output:
        outcome.is_wrong = True
        outcome.problems.append("a traceback of ours")


def _check_finding(outcome: Outcome, life: Life) -> None:
    chosen, finding = outcome.scenario, life.finding
    if finding is not None:
        outcome.is_found = True
    if chosen.fault in _HARMLESS:
        is_well = finding is None and life.code == 0
        # workers hand tensors over in shared memory: then the job fails as it does without us, and says why
        is_told = chosen.num_workers > 0 and any(word in life.output for word in _WORDS.get(chosen.fault, ()))
        if not is_well and not is_told:
            outcome.is_wrong = True
            outcome.problems.append("a job that is right did not end well")
        return
    if chosen.fault is Fault.KILL_JUDGE:
        return  # nobody is left to say anything: the launcher is told to end
    if life.code == 0:
        outcome.is_wrong = True
        outcome.problems.append("a job that has failed ended with code 0")
    if chosen.fault in (Fault.INTERRUPT, Fault.KILL_LAUNCHER):
        if finding is not None and finding["ranks"]:
            outcome.is_wrong = True
            outcome.problems.append(f"ranks {finding['ranks']} were named for what came from outside")
        return
    if finding is not None:
        if finding["ranks"] != [chosen.victim]:
            outcome.is_wrong = True
            outcome.problems.append(f"ranks {finding['ranks']} were named, not {chosen.victim}")
        if not any(word in json.dumps(finding) + life.output for word in _WORDS[chosen.fault]):
            outcome.is_wrong = True
            outcome.problems.append(f"nothing says {_WORDS[chosen.fault]}")
    elif _must_be_found(chosen) and killed_together(life.output) != set(range(chosen.num_ranks)):
        outcome.is_wrong = True
        outcome.problems.append("nothing was found")
    else:
        is_told = any(word in life.output for word in _WORDS[chosen.fault])
        outcome.is_found = is_told and (chosen.job == "bench" or f"rank {chosen.victim}" in life.output)
        if chosen.fault in _OF_SAMPLES and not is_told:
            outcome.is_wrong = True
            outcome.problems.append(f"nothing says {_WORDS[chosen.fault]}")


def _must_be_found(chosen: Scenario) -> bool:
    """Whether the guard has seen the rank, and others need it."""
    is_fault_of_a_rank = chosen.fault in (Fault.KILL, Fault.TERMINATE, Fault.EXCEPTION)
    has_joined = chosen.place in (Place.BETWEEN, Place.INSIDE)
    return chosen.is_guarded and is_fault_of_a_rank and has_joined and chosen.job in ("mpi", "torch", "training")


def killed_together(output: str) -> set[int]:
    """Return the ranks of which the guard says that they were killed, and that nobody can tell which was the first.

    A launcher kills all others for one that was killed. If the guard had no processor meanwhile, it sees all of them
    gone at once, as when somebody ends the whole job: then it names nobody.
    """
    told = re.search(r"no rank fell out of line \((.*)\)", output)
    named = re.findall(r"(?:^|; )ranks? ([\d, -]+) killed", told[1]) if told else []
    ranges = [part.split("-") for ranks in named for part in ranks.split(", ")]
    return {rank for ends in ranges for rank in range(int(ends[0]), int(ends[-1]) + 1)}


def _check_training(outcome: Outcome, job: ScenarioRun, life: Life) -> None:
    chosen = outcome.scenario
    num_ranks = chosen.num_ranks
    if not job.result.exists():  # another life: it starts from what was saved
        num_ranks = chosen.ranks_afterwards
        again = job.live(is_disturbed=False, num_ranks=num_ranks)
        if again.code != 0:
            outcome.is_lost = True
            outcome.problems.append(f"the second life ended with code {again.code}: {again.output[-2000:]}")
            return
        if again.left:
            outcome.is_leaked = True
            outcome.problems.append(f"the second life left behind {again.left}")
    _check_seen(outcome, job, times=EPOCHS, number=NUM_SAMPLES)
    if num_ranks == chosen.num_ranks:
        expected = undisturbed(chosen.num_ranks)
        came = json.loads(job.result.read_text())["weights"]
        if came != expected:
            outcome.is_lost = True
            outcome.problems.append(f"weights {came}, undisturbed {expected}")


def _check_seen(outcome: Outcome, job: ScenarioRun, *, times: int, number: int) -> None:
    seen = json.loads(job.result.read_text())["seen"]
    wrong = {index: count for index, count in enumerate(seen) if count != times}
    if wrong or len(seen) != number:
        outcome.is_lost = True
        outcome.problems.append(f"samples that were not met {times} times: {wrong}")


@functools.cache
def undisturbed(num_ranks: int) -> list[float]:
    """Return the weights of a training without a fault; neither balance nor workers change them."""
    scenario = Scenario(seed=0, job="training", num_ranks=num_ranks, is_guarded=False, place=Place.IMPORT,
                        fault=Fault.STOP, victim=0, step=0)  # fmt: skip
    with _folder() as folder:
        job = ScenarioRun(scenario, folder, None)
        life = job.live(is_disturbed=False, num_ranks=num_ranks)
        assert life.code == 0, life.output
        weights: list[float] = json.loads(job.result.read_text())["weights"]
        return weights


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="chaos-run") as name:
        yield Path(name)
