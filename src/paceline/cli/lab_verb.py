"""`paceline lab`: the catalogue of breaks, to look at, to run, to repair, and to check."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.verb_io import add_subcommand
from paceline.process.exit_codes import FINDING_CODE

if TYPE_CHECKING:
    from paceline.lab.case import Case


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "lab",
        help="classic ways to break a distributed job: see them fail, diagnosed, and repaired",
        description="The catalogue of breaks: small jobs that fail as real ones do, with real ranks. "
        "The exit code is 90 if the guard has a finding or a check fails; a warning does not change it.",
    )
    subcommands = parser.add_subparsers(title="subcommands", dest="subcommand", required=True, metavar="SUBCOMMAND")
    add_subcommand(subcommands, "list", _list, "list all cases, by concept")
    _add_case(add_subcommand(subcommands, "show", _show, "show the symptom and the code of a case"))
    hint = _add_case(add_subcommand(subcommands, "hint", _hint, "give a hint: 1 is vague, 3 is almost the answer"))
    hint.add_argument(
        "number", metavar="N", type=int, nargs="?", choices=(1, 2, 3), default=1, help="1 (default), 2, 3"
    )
    run = _add_case(add_subcommand(subcommands, "run", _run, "run a case under the guard"))
    how = run.add_mutually_exclusive_group()
    how.add_argument("--bare", action="store_true", help="run it without the guard, until it ends or hangs")
    how.add_argument("--fixed", action="store_true", help="run the repaired version, and show the repair")
    _add_case(add_subcommand(subcommands, "solve", _solve, "copy the broken program here, to repair it"))
    check = add_subcommand(subcommands, "check", _check, "check a repair, or that cases behave as stated")
    check.add_argument("what", metavar="FILE|ID", nargs="*", help="a repair made with `solve`, or cases (default: all)")
    check.add_argument("--carrier", choices=("mpi", "torch"), help="only cases of this carrier")
    check.add_argument("--jobs", type=int, default=2, metavar="J", help="number of cases at a time (default: 2)")


def _add_case(parser: Any) -> Any:
    parser.add_argument("id", metavar="ID", help="a case from `paceline lab list`")
    return parser


def _list(options: argparse.Namespace) -> int:
    from paceline.lab.case import all_cases
    from paceline.report.text.lab_text import cases_as_text

    print(cases_as_text(all_cases()))
    return 0


def _show(options: argparse.Namespace) -> int:
    from paceline.lab.case import find_case
    from paceline.report.text.lab_text import case_as_text

    print(case_as_text(find_case(options.id)))
    return 0


def _hint(options: argparse.Namespace) -> int:
    from paceline.lab.case import find_case
    from paceline.report.text.lab_text import hint_as_text

    print(hint_as_text(find_case(options.id), options.number))
    return 0


def _run(options: argparse.Namespace) -> int:
    from paceline.lab.case import find_case
    from paceline.lab.check_cases import run_seen_test, run_under_guard
    from paceline.lab.run_case import library_of, run_bare
    from paceline.report.text.lab_text import bare_as_text, fix_as_text, guarded_as_text

    case = find_case(options.id)
    if options.bare:
        print(bare_as_text(case, library_of(case), run_bare(case, case.program("broken"))))
        return 0
    ended = run_under_guard(case, case.program("fixed" if options.fixed else "broken"))
    print(guarded_as_text(case, ended))
    if options.fixed:
        print(f"\n{fix_as_text(case)}")
    elif case.has("seen"):
        print("\n".join(["how to see it:", *(f"  {line}" for line in run_seen_test(case, "broken"))]))
    return ended.exit_code if ended.exit_code is not None else FINDING_CODE


def _solve(options: argparse.Namespace) -> int:
    from paceline.lab.case import find_case
    from paceline.lab.check_cases import copy_to_solve

    path = copy_to_solve(find_case(options.id), Path.cwd())
    print(f"written: {path.name}; repair it, then: paceline lab check {path.name}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from paceline.errors import InputError, whole_number
    from paceline.lab.case import all_cases, find_case

    files = [Path(name) for name in options.what if name.endswith(".py")]
    missing = [str(path) for path in files if not path.is_file()]
    if missing:
        raise InputError(f"there is no file {missing[0]!r}; `paceline lab solve ID` makes one")
    named = [find_case(name) for name in options.what if not name.endswith(".py")]
    cases = named if options.what else list(all_cases())
    cases = [case for case in cases if options.carrier in (None, case.carrier)]
    holds = _check_repairs(files)
    return 0 if _check_cases(cases, whole_number("--jobs", options.jobs, least=1)) and holds else FINDING_CODE


def _check_repairs(files: Sequence[Path]) -> bool:
    from paceline.lab.check_cases import case_of, check_repair

    holds = True
    for path in files:
        verdict = check_repair(case_of(path), path)
        print(f"{path}: {'the repair holds' if verdict.holds else 'NOT repaired'}: {verdict.text}", flush=True)
        holds = holds and verdict.holds
    return holds


def _check_cases(cases: Sequence[Case], at_a_time: int) -> bool:
    from paceline.lab.check_cases import check_all
    from paceline.report.text.lab_text import verdicts_as_text

    if not cases:
        return True
    start = time.monotonic()
    verdicts_of_case = check_all(
        cases, at_a_time=at_a_time, done=lambda case, verdicts: print(verdicts_as_text(case, verdicts), flush=True)
    )
    broken = [name for name, verdicts in verdicts_of_case.items() if not all(verdict.holds for verdict in verdicts)]
    names = f": {', '.join(broken)}" if broken else ""
    seconds = time.monotonic() - start
    print(f"{len(verdicts_of_case)} cases in {seconds:.0f} s, {len(broken)} broken{names}", flush=True)
    return not broken
