"""Runs a command under the guard and shows it: notices and the live view while it runs, the result at the end.

What it returns is what the guard returns; a fault in showing never reaches the run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paceline.cli.verb_io import check_positive, pass_on, say
from paceline.errors import InputError, name_ranks
from paceline.guard.judge.stragglers import Notice
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.run.watched_run import RunResult, watched_run
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.job_warning import JobWarning
from paceline.process.exit_codes import signal_name
from paceline.report.safe_text import terminal_safe
from paceline.report.text.finding_text import (
    afterwards_as_text,
    failures_as_text,
    finding_as_text,
    notice_as_text,
    problem_as_text,
    records_as_text,
    warning_as_text,
)
from paceline.report.text.text_layout import layout_for

if TYPE_CHECKING:
    from paceline.cli.desktop.live_output import LiveOutput
    from paceline.guard.observe.local_rings import LocalRings

_LINE_SECONDS = 10.0  # between two lines of the live view, where there is no terminal


def shown_run(
    command: Sequence[str], options: WatchOptions, *, live: LiveOutput | None = None, is_raw: bool = False
) -> RunResult:
    """Run a command under the guard; show notices, the live view if there is one, and the result.

    What ranks print that ended because of others is folded into a line, unless `is_raw`.
    """

    def show_notice(notice: Notice) -> None:
        if live is not None:
            live.note(notice)
        say(notice_as_text(notice, layout_for(sys.stderr)))

    def show_warning(warning: JobWarning) -> None:
        if warning.cause.is_note and warning.cause not in options.strict:
            return
        if live is not None:
            live.warn(warning)
        say(warning_as_text(warning, layout_for(sys.stderr)))

    def show_finding(finding: Finding) -> None:
        if live is not None:
            live.close()  # the terminal is ours again
        say(finding_as_text(finding, layout_for(sys.stderr)))

    options = replace(
        options,
        on_notice=show_notice,
        on_warning=show_warning,
        on_unseen=lambda text: say(f"paceline: {terminal_safe(text)}"),
        on_problem=lambda problem: say(problem_as_text(problem)),
        on_fault=lambda fault: say(f"paceline: {terminal_safe(fault)}"),
        on_finding=show_finding,
        on_output=None if is_raw else pass_on,
    )
    if live is not None:
        options = replace(options, on_look=_both(options.on_look, live.look))
    try:
        result = watched_run(command, options)
    finally:
        if live is not None:
            live.close()
    if live is not None and live.problem is not None:
        say(f"paceline: {live.problem}")
    _say_result(result)
    return result


def _both(first: Callable[[LocalRings], None], second: Callable[[LocalRings], None]) -> Callable[[LocalRings], None]:
    def look(rings: LocalRings) -> None:
        first(rings)
        second(rings)

    return look


def live_output(is_wanted: bool, every: float | None = None) -> LiveOutput | None:
    """Return the live view that the options `--live` and `--every` ask for."""
    if not is_wanted:
        if every is not None:
            raise InputError("--every goes with --live")
        return None
    from paceline.cli.desktop.live_output import LiveOutput  # with rich, which a run without a view does not need

    return LiveOutput(_LINE_SECONDS if every is None else check_positive("--every", every))


def _say_result(result: RunResult) -> None:
    """Say on the terminal how the job ended."""
    if result.finding is not None:  # which is on the screen already
        if result.ended_afterwards and result.records is not None:
            details = {one.rank: one.detail for one in result.ended_afterwards}
            say(afterwards_as_text(details, result.finding, layout_for(sys.stderr)))
        if result.records is not None:
            say(records_as_text(result.records, layout_for(sys.stderr)))
        if result.lost_ranks:
            ranks = name_ranks(result.lost_ranks)
            say(f"paceline: {ranks}: the record was full, so not every message could be checked")
    for problem in result.unwritten:
        say(f"paceline: {terminal_safe(problem)}")
    if result.finding is not None or result.is_told_elsewhere:
        return
    if result.stopped_by is not None:
        say(f"paceline: ended by {signal_name(result.stopped_by)}")
    elif result.launcher_signal is not None:
        name = signal_name(result.launcher_signal)
        say(f"paceline: the launcher was killed (by {name}) before any rank had failed; its ranks ended because of it")
    elif result.fault is not None:
        say(f"paceline: the job ended with code {result.exit_code}; the guard had failed, so nothing is concluded")
    elif result.is_strict_failure:
        say(f"paceline: the job ended well, but with warnings: exit code {result.exit_code} because of --strict")
    elif result.exit_code and result.num_ranks:
        say(failures_as_text(result.exit_code, result.failures, layout_for(sys.stderr)))
    elif result.num_ranks == 0 and not result.problems:
        without = "or it started without Paceline's environment variables"
        say(f"paceline: no rank was seen: {_why_none_was_seen(result.exit_code)}, {without}")


def _why_none_was_seen(exit_code: int) -> str:
    """Say why no rank was seen: one that raises while it imports has not come to MPI or torch yet."""
    libraries = "mpi4py or torch.distributed in Python"
    if exit_code:
        return f"the job ended with code {exit_code} before anything in it used {libraries}"
    return f"nothing that was started uses {libraries}"
