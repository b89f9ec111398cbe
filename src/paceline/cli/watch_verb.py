"""`paceline watch`: shows a run in progress, from another terminal. It reads, and changes nothing."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.verb_io import add_metrics_option, check_positive, say
from paceline.process.exit_codes import FINDING_CODE

if TYPE_CHECKING:
    from paceline.cli.desktop.live_output import LiveOutput
    from paceline.guard.hosts.viewing.run_viewer import RunViewer
    from paceline.guard.observe.local_rings import LocalRings
    from paceline.guard.run.run_registry import OngoingRun, RunOutcome
    from paceline.report.metrics.metrics_output import MetricsOutput


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "watch",
        help="show a run in progress, from another terminal",
        description="Shows a run that `paceline run` started: states, rates, who waits for whom, who comes last. "
        "It reads what the judge reads, changes nothing, and ends when the run ends; Ctrl-C leaves the run alone.",
    )
    parser.add_argument(
        "where", nargs="?", metavar="DIR|HOST:PORT",
        help="where the run was started, or its --out folder (default: the only run in progress); or the address that "
        "a run on several hosts has printed, from any host with the same key",
    )  # fmt: skip
    parser.add_argument(
        "--every", type=float, default=10.0, metavar="S", help="without a terminal: seconds between lines (default: 10)"
    )
    add_metrics_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the run until it ends; say how."""
    from paceline.cli.desktop.attached_view import is_address
    from paceline.errors import InputError
    from paceline.guard.run.run_registry import find_runs
    from paceline.report.safe_text import terminal_safe

    every = check_positive("--every", options.every)
    folder = Path(options.where) if options.where is not None else None
    if folder is not None and is_address(options.where) and not folder.exists():
        return _follow_elsewhere(options.where, every, options.metrics)
    runs = find_runs(folder)
    if not runs and folder is not None:
        return _say_past_outcome(folder)
    if not runs:
        raise InputError("no run is in progress here: start one with paceline run")
    if len(runs) > 1:
        listed = "\n".join(
            terminal_safe(f"  {each.folder}   {' '.join(each.command)}   in {each.cwd}") for each in runs
        )
        raise InputError(f"{len(runs)} runs are in progress; name one by its folder:\n{listed}")
    return _follow(runs[0], every, options.metrics)


class _OpenView:
    """The view of a run, here or elsewhere, and what it reads from. Ctrl-C ends it, and `was_left` says so."""

    def __init__(self, live: LiveOutput, *others: MetricsOutput | LocalRings | RunViewer | None) -> None:
        self._live, self._others = live, others
        self.was_left = False

    def __enter__(self) -> _OpenView:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        self.was_left = isinstance(error, KeyboardInterrupt)
        try:
            self._live.close()  # first: what is said stands below the last picture
            if self.was_left:
                say("paceline: stopped watching; the run continues")
        finally:
            for each in self._others:
                if each is not None:
                    each.close()
        return self.was_left


def _follow(run: OngoingRun, every: float, asked: Sequence[str]) -> int:
    from paceline.cli.desktop.live_output import LiveOutput
    from paceline.errors import InputError
    from paceline.guard.observe.local_rings import LocalRings
    from paceline.guard.run.run_registry import is_ongoing, open_outcome, read_outcome, read_warnings
    from paceline.guard.run.watched_run import LOOK_SECONDS
    from paceline.report.metrics.metrics_output import metrics_output
    from paceline.report.safe_text import terminal_safe

    try:
        outcome_file = open_outcome(run)
    except OSError as error:
        raise InputError(f"{run.folder} cannot be read: {error.strerror}") from None
    began = time.monotonic() - (time.time() - run.began)
    metrics = metrics_output(asked, say, began=began, is_guard=False)
    say(f"paceline: watching {terminal_safe(' '.join(run.command))} (pid {run.pid}); Ctrl-C leaves it alone")
    rings, viewer = LocalRings(run.folder), _viewer_of(run)
    live = LiveOutput(every, began=began)
    num_warnings = 0
    with _OpenView(live, metrics, rings, viewer) as view:
        while is_ongoing(run) and live.problem is None:
            rings.wait(LOOK_SECONDS)
            if viewer is not None:
                viewer.wait(0.0)
            if viewer is not None and viewer.views is not None:
                live.show(viewer.views)
                metrics.show(viewer.views, run.folder)
            else:
                live.look(rings)
                metrics.look(rings)
            for warning in read_warnings(run)[num_warnings:]:
                num_warnings += 1
                live.warn(warning)
    if view.was_left:
        return 0
    if live.problem is not None and is_ongoing(run):  # otherwise the run ended and removed its folder under us
        raise InputError(live.problem)
    with outcome_file:
        return _say_outcome(read_outcome(outcome_file))


def _viewer_of(run: OngoingRun) -> RunViewer | None:
    """Return a view of a run on several hosts, of which the rings here do not tell all; None if it is on this one."""
    from paceline.guard.run.run_registry import VIEWERS

    if not (run.folder / VIEWERS).exists():
        return None
    from paceline.guard.hosts.link import LINK_ERRORS
    from paceline.guard.hosts.viewing.run_viewer import RunViewer
    from paceline.guard.run.several_hosts.viewers_place import find_place

    place = find_place(run.folder)
    try:
        return RunViewer(*place) if place is not None else None
    except LINK_ERRORS as error:
        say(f"paceline: ranks on other hosts are shown as they last stood still: {error}")
        return None


def _follow_elsewhere(address: str, every: float, asked: Sequence[str]) -> int:
    """Show a run on other hosts until it ends; say how."""
    from paceline.cli.desktop.attached_view import attach, follow
    from paceline.cli.desktop.live_output import LiveOutput
    from paceline.errors import InputError
    from paceline.report.metrics.metrics_output import metrics_output

    metrics = metrics_output(asked, say, is_guard=False)
    viewer = attach(address)
    say(f"paceline: watching the run at {address}; Ctrl-C leaves it alone")
    live = LiveOutput(every)

    def look() -> bool:
        live.show(viewer.views or ())
        metrics.show(viewer.views or ())
        return live.problem is None

    with _OpenView(live, metrics, viewer) as view:
        outcome = follow(viewer, address, look)
    if view.was_left:
        return 0
    if live.problem is not None:
        raise InputError(live.problem)
    return _say_outcome(outcome)


def _say_past_outcome(folder: Path) -> int:
    """Say what the last run that kept its records here has found."""
    from paceline.errors import InputError
    from paceline.guard.run.diagnosis_file import DIAGNOSIS
    from paceline.guard.run.kept_records import DEFAULT_FOLDER
    from paceline.guard.run.run_registry import parse_outcome
    from paceline.process.foreign_files import read_json

    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}, and no run in progress belongs to it")
    parents = (folder, folder / DEFAULT_FOLDER)
    paths = [path for parent in parents for path in (parent / DIAGNOSIS, *parent.glob(f"*/{DIAGNOSIS}"))]
    paths = sorted((path for path in paths if path.is_file()), key=lambda path: path.stat().st_mtime)
    if not paths:
        raise InputError(f"no run is in progress in {folder}, and none has left a diagnosis there")
    try:
        outcome = parse_outcome(read_json(paths[-1]), records=paths[-1].parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{paths[-1]} cannot be read: {type(error).__name__}: {error}") from None
    return _say_outcome(outcome)


def _say_outcome(outcome: RunOutcome | None) -> int:
    from paceline.report.safe_text import terminal_safe
    from paceline.report.text.finding_text import finding_as_text, warning_as_text

    if outcome is None:
        say("paceline: the run ended without reporting a result: its paceline process was killed")
        return 0
    warnings = [warning for warning in outcome.warnings if not warning.cause.is_note]
    how = "has ended" if outcome.exit_code is None else f"has ended with code {outcome.exit_code}"
    say(
        f"paceline: the run {how}"
        + (":" if outcome.finding is not None else "; nothing was found" if not warnings else ", with warnings:")
    )
    for warning in warnings:
        for line in warning_as_text(warning).splitlines():
            say(f"  {terminal_safe(line)}")
    if outcome.finding is not None:
        for line in finding_as_text(outcome.finding).splitlines():
            say(f"  {terminal_safe(line)}")
    if outcome.records is not None:
        say(f"  records: {terminal_safe(str(outcome.records))}")
    return FINDING_CODE if outcome.finding is not None else 0
