"""Runs a command under the guard and shows it: notices and the live view while it runs, the result at the end.

What it returns is what the guard returns; a fault in showing never reaches the run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paceline.cli.verb_io import check_positive, say
from paceline.errors import InputError, name_ranks
from paceline.guard.judge.stragglers import Notice
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.run.watched_run import RunResult, watched_run
from paceline.process.exit_codes import signal_name
from paceline.report.text.finding_text import failures_as_text, finding_as_text, notice_as_text

if TYPE_CHECKING:
    from paceline.cli.live_output import LiveOutput

_LINE_SECONDS = 10.0  # between two lines of the live view, where there is no terminal


def shown_run(command: Sequence[str], options: WatchOptions, *, live: LiveOutput | None = None) -> RunResult:
    """Run a command under the guard; show notices, the live view if there is one, and the result."""

    def show_notice(notice: Notice) -> None:
        if live is not None:
            live.note(notice)
        say(notice_as_text(notice))

    options = replace(options, on_notice=show_notice, on_fault=lambda fault: say(f"paceline: {fault}"))
    if live is not None:
        options = replace(options, on_look=live.look)
    try:
        result = watched_run(command, options)
    finally:
        if live is not None:
            live.close()
    if live is not None and live.problem is not None:
        say(f"paceline: {live.problem}")
    _say_result(result)
    return result


def live_output(is_wanted: bool, every: float | None = None) -> LiveOutput | None:
    """Return the live view that the options `--live` and `--every` ask for."""
    if not is_wanted:
        if every is not None:
            raise InputError("--every goes with --live")
        return None
    from paceline.cli.live_output import LiveOutput  # with rich, which a run without a view does not need

    return LiveOutput(_LINE_SECONDS if every is None else check_positive("--every", every))


def _say_result(result: RunResult) -> None:
    """Say on the terminal how the job ended."""
    for problem in result.problems:
        say(f"paceline: not everything was watched: {problem}")
    for problem in result.unwritten:
        say(f"paceline: {problem}")
    if result.finding is not None:
        if result.lost_ranks:
            ranks = name_ranks(result.lost_ranks)
            say(f"paceline: {ranks}: the record was full, so not every message could be checked")
        say(finding_as_text(result.finding, result.records, colours=sys.stderr.isatty()))
    elif result.stopped_by is not None:
        say(f"paceline: ended by {signal_name(result.stopped_by)}")
    elif result.launcher_signal is not None:
        name = signal_name(result.launcher_signal)
        say(f"paceline: the launcher was killed (by {name}) before any rank had failed; its ranks ended because of it")
    elif result.fault is not None:
        say(f"paceline: the job ended with code {result.exit_code}; the guard had failed, so nothing is concluded")
    elif result.exit_code and result.num_ranks:
        say(failures_as_text(result.exit_code, result.failures))
    elif result.num_ranks == 0 and not result.problems:
        say("paceline: no rank was seen: nothing that was started uses mpi4py or torch.distributed in Python")
