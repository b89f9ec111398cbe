"""Reads the command line and hands over to the verb.

Exit codes: 0 success, 2 wrong usage, 90 a finding ended the job or a check found a broken contract. Otherwise `run`
gives the job's own code; 1 is a verb that failed. It does not matter whether anybody reads what is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from paceline import __version__
from paceline.cli import (
    bench_verb,
    check_verb,
    completion_verb,
    doctor_verb,
    explain_verb,
    lab_verb,
    plan_verb,
    report_verb,
    run_verb,
    watch_verb,
)
from paceline.cli.desktop.unread_output import drop_unread_output
from paceline.cli.verb_io import say
from paceline.errors import InputError, PacelineError, missing_extra
from paceline.guard.rank.watched_process import RUN_FOLDER
from paceline.report.safe_text import terminal_safe

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
VERBS = (
    run_verb, explain_verb, report_verb, watch_verb, doctor_verb, check_verb, plan_verb, lab_verb, bench_verb,
    completion_verb,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    parser = argparse.ArgumentParser(prog="paceline", description="Keeps every rank of a data-parallel job in line.")
    parser.add_argument("--version", action="version", version=f"paceline {__version__}")
    verbs = parser.add_subparsers(title="verbs", dest="verb", required=True, metavar="VERB")
    for verb in VERBS:
        verb.add_to(verbs)
    options, more = parser.parse_known_args(run_verb.spell_out(sys.argv[1:] if arguments is None else arguments))
    overrides = getattr(options, "overrides", None)
    if more and (overrides is None or any(word.startswith("-") for word in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if overrides is not None:  # argparse itself takes them only in front of options
        options.overrides = [*overrides, *more]
    try:
        with drop_unread_output() as output:
            code: int = options.run(options)
    except (PacelineError, ModuleNotFoundError, OSError) as error:
        sentence = missing_extra(error) if isinstance(error, ModuleNotFoundError) else str(error)
        # what cannot be read or written is mostly no fault of ours: a full disk, a folder that has gone
        is_failure = isinstance(error, PacelineError | OSError) and not isinstance(error, InputError)
        # a fault of ours: its traceback tells more; and of a rank that fails, the guard must see why
        if sentence is None or (is_failure and RUN_FOLDER in os.environ):
            raise
        say("\n".join(map(terminal_safe, f"paceline {options.verb}: {sentence}".split("\n"))))
        return FAILED if is_failure else WRONG_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    if output.error is not None:
        say(f"paceline {options.verb}: standard output cannot be written: {output.error.strerror}")
        return code or FAILED
    return code
