"""`paceline watch`: looks at a run that is already going, from another terminal. It reads, and touches nothing."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.process.exit_codes import FINDING_CODE

if TYPE_CHECKING:
    from paceline.guard.run.run_registry import Run


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "watch",
        help="look at a run that is going on, from another terminal",
        description="Shows a run of `paceline run` while it goes: states, rates, who waits for whom, who is last. "
        "It reads what the judge reads, changes nothing, and ends when the run ends; Ctrl-C leaves the run alone.",
    )
    parser.add_argument(
        "place", nargs="?", metavar="DIR",
        help="where the run was started, or its --out folder (default: the only run that is going on)",
    )  # fmt: skip
    parser.add_argument("--every", type=float, default=10.0, metavar="S", help="seconds between lines, if no terminal")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the run until it ends; say how."""
    from paceline.errors import InputError
    from paceline.guard.run.run_registry import find_runs
    from paceline.report.safe_text import terminal_safe

    if not options.every > 0:
        raise InputError(f"--every must be more than 0, not {options.every}")
    place = Path(options.place) if options.place is not None else None
    found = find_runs(place)
    if not found and place is not None:
        return _tell_of_ended(place)
    if not found:
        raise InputError("no run is going on here: start one with paceline run")
    if len(found) > 1:
        listed = "\n".join(
            f"  {each.folder}   {terminal_safe(' '.join(each.command))}   in {each.cwd}" for each in found
        )
        raise InputError(f"{len(found)} runs are going on; name one by its folder:\n{listed}")
    return _follow(found[0], options.every)


def _follow(run: Run, every: float) -> int:
    from paceline.cli.live_output import Live
    from paceline.errors import InputError
    from paceline.guard.observe.local_rings import LocalRings
    from paceline.guard.run.run_registry import is_going, open_outcome, read_outcome
    from paceline.guard.run.watched_run import LOOK_SECONDS
    from paceline.report.safe_text import terminal_safe

    try:
        outcome = open_outcome(run)
    except OSError as error:
        raise InputError(f"{run.folder} cannot be read: {error.strerror}") from None
    _say(f"paceline: watching {terminal_safe(' '.join(run.command))} (pid {run.pid}); Ctrl-C leaves it alone")
    rings = LocalRings(run.folder)
    live = Live(every, began=time.monotonic() - (time.time() - run.began))
    try:
        while is_going(run) and live.problem is None:
            rings.wait(LOOK_SECONDS)
            live.look(rings)
    except KeyboardInterrupt:
        live.close()
        _say("paceline: left; the run goes on")
        return 0
    finally:
        live.close()
        rings.close()
    if live.problem is not None and is_going(run):  # otherwise it has ended and taken its folder along
        raise InputError(live.problem)
    with outcome:
        return _tell(read_outcome(outcome))


def _tell_of_ended(place: Path) -> int:
    """Say what the last run that kept its records here has found."""
    from paceline.errors import InputError

    if not place.is_dir():
        raise InputError(f"there is no folder {place}, and no run that is going on has to do with it")
    parents = (place, place / "paceline-out")
    kept = [path for parent in parents for path in (parent / "diagnosis.json", *parent.glob("*/diagnosis.json"))]
    kept = sorted((path for path in kept if path.is_file()), key=lambda path: path.stat().st_mtime)
    if not kept:
        raise InputError(f"no run is going on in {place}, and none has left a diagnosis there")
    try:
        outcome = json.loads(kept[-1].read_text())
        finding = outcome.get("finding") or {}
        told = {"exit_code": int(outcome["exit_code"]), "text": finding.get("summary"), "records": str(kept[-1].parent)}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{kept[-1]} cannot be read: {error}") from None
    return _tell(told)


def _tell(outcome: dict[str, Any] | None) -> int:
    from paceline.report.safe_text import terminal_safe

    if outcome is None:
        _say("paceline: the run has ended without a word: its paceline was killed")
        return 0
    code, text = outcome["exit_code"], outcome["text"]
    how = "has ended" if code is None else f"has ended with code {code}"
    _say(f"paceline: the run {how}" + (":" if text else "; nothing was found"))
    for line in str(text or "").splitlines():
        _say(f"  {terminal_safe(line)}")
    if outcome["records"]:
        _say(f"  records: {terminal_safe(str(outcome['records']))}")
    return FINDING_CODE if text else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
