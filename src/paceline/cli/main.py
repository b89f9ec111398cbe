"""Reads the command line and hands over to the verb.

Exit codes: 0 success, 2 wrong usage, 90 a finding ended the job or a check found a broken contract. Otherwise `run`
gives the job's own code. It does not matter whether anybody reads what is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from paceline import __version__
from paceline.cli import bench_verb, check_verb, doctor_verb, lab_verb, plan_verb, report_verb, run_verb, watch_verb
from paceline.cli.unread_output import drop_unread_output
from paceline.cli.verb_io import say
from paceline.errors import InputError

WRONG_USAGE = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    parser = argparse.ArgumentParser(prog="paceline", description="Keeps every rank of a data-parallel job in line.")
    parser.add_argument("--version", action="version", version=f"paceline {__version__}")
    verbs = parser.add_subparsers(title="verbs", dest="verb", required=True, metavar="VERB")
    for verb in (plan_verb, check_verb, run_verb, watch_verb, report_verb, doctor_verb, lab_verb, bench_verb):
        verb.add_to(verbs)
    options, more = parser.parse_known_args(arguments)
    overrides = getattr(options, "overrides", None)
    if more and (overrides is None or any(word.startswith("-") for word in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if overrides is not None:  # argparse itself takes them only in front of options
        options.overrides = [*overrides, *more]
    try:
        with drop_unread_output():
            code: int = options.run(options)
    except InputError as error:
        say(f"paceline {options.verb}: {error}")
        return WRONG_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code
