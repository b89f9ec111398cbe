"""`paceline run`: runs a launcher's command, or starts ranks itself, with every collective watched."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.verb_io import ExamplesFormatter, add_metrics_option, check_positive, check_writable, make_folder, say

if TYPE_CHECKING:
    from paceline.guard.run.watch_options import WatchOptions
    from paceline.guard.verdict.job_warning import WarningCause

# options that are followed by their value
TAKE_A_VALUE = (
    "-n", "--carrier", "--json", "--out", "--trace", "--timeout", "--notice", "--every", "--ignore", "--buffers",
    "--metrics",
)  # fmt: skip
_EPILOG = """\
examples:
  paceline run -- mpiexec -n 7 python train.py
  paceline run -- torchrun --nproc-per-node 4 train.py --lr 0.1
  paceline run -n 4 train.py
  paceline run -n 4 -- python -m package.train --lr 0.1
"""


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "run",
        help="run a job and report which rank falls out of line, where and why",
        description="Runs COMMAND and watches every rank: its mpi4py and torch.distributed calls, and how it exits. "
        "The script needs no change. The exit code is 90 if a finding ended the job, otherwise the job's own.",
        epilog=_EPILOG,
        formatter_class=ExamplesFormatter,
    )
    parser.add_argument("-n", type=int, metavar="N", dest="ranks", help="start N ranks of SCRIPT on this machine")
    parser.add_argument("--carrier", choices=("torch", "mpi"), help="with -n: what SCRIPT uses (default: detected)")
    parser.add_argument("--json", metavar="FILE", dest="json_file", help="write the diagnosis to FILE as JSON")
    parser.add_argument(
        "--out", metavar="DIR", help="always keep records, in DIR (default: after a finding, in paceline-out)"
    )
    parser.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto, compressed if FILE ends in .gz")
    parser.add_argument("--timeout", type=float, metavar="S", help="end the job when a rank has waited for S seconds")
    parser.add_argument(
        "--notice", type=float, default=10.0, metavar="S",
        help="show the ranks being waited for after S seconds (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--strict", nargs="?", const="", action="append", metavar="CAUSE,...",
        help="give exit code 90 if there was a warning, or one of these causes (with =)",
    )  # fmt: skip
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="CAUSE,...", help="do not show warnings of these causes"
    )
    parser.add_argument(
        "--buffers", choices=("on", "off"), default="on",
        help="whether to check that buffers do not change while a message is under way (default: on)",
    )  # fmt: skip
    parser.add_argument(
        "--results", action="store_true", help="compare the results of collectives that should give all ranks the same"
    )
    parser.add_argument(
        "--raw", action="store_true", help="show all output, including that of ranks that ended because of others"
    )
    parser.add_argument("--live", action="store_true", help="show ranks, rates and who waits while the job runs")
    parser.add_argument(
        "--every", type=float, metavar="S", help="with --live and no terminal: seconds between lines (default: 10)"
    )
    add_metrics_option(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the launcher's command, after --")
    parser.set_defaults(run=run)


def spell_out(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a bare `--strict` as `--strict=`: argparse would take the next word for its value.

    >>> spell_out(["run", "-n", "4", "--strict", "train.py", "--strict"])
    ['run', '-n', '4', '--strict=', 'train.py', '--strict']
    """
    words = list(arguments)
    at = 1
    while words[:1] == ["run"] and at < len(words) and words[at].startswith("-") and words[at] != "--":
        if words[at] == "--strict":
            words[at] = "--strict="
        at += 2 if words[at] in TAKE_A_VALUE else 1
    return words


def run(options: argparse.Namespace) -> int:
    """Run the job; print what was found; return the exit code."""
    from paceline.cli.shown_run import live_output, shown_run
    from paceline.report.metrics.metrics_output import metrics_output

    command, watching = _command(options), _watch_options(options)
    make_folder(watching.out)
    check_writable(options.json_file, options.trace)
    live = live_output(options.live, options.every)
    with metrics_output(options.metrics, say, is_guard=True) as metrics:
        result = shown_run(command, replace(watching, on_look=metrics.look), live=live, is_raw=options.raw)
    if options.trace and result.records is not None:
        _write_trace(result.records, Path(options.trace))
    return result.exit_code


def _watch_options(options: argparse.Namespace) -> WatchOptions:
    """Return what the options ask of the guard."""
    from paceline.guard.run.kept_records import DEFAULT_FOLDER
    from paceline.guard.run.watch_options import WatchOptions
    from paceline.guard.verdict.job_warning import read_causes

    return WatchOptions(
        asked=tuple(_asked(options)),
        out=Path(options.out) if options.out else DEFAULT_FOLDER if options.trace else None,
        json_file=Path(options.json_file) if options.json_file else None,
        notice_seconds=check_positive("--notice", options.notice),
        timeout_seconds=None if options.timeout is None else check_positive("--timeout", options.timeout),
        ignored=read_causes("--ignore", options.ignore),
        strict=_strict(options.strict),
        compares_buffers=options.buffers == "on",
        compares_results=options.results,
    )


def _strict(given: list[str] | None) -> frozenset[WarningCause]:
    """Return the causes for which `--strict` asks: all but those that are only notes, if it names none."""
    from paceline.guard.verdict.job_warning import WarningCause, read_causes

    if given is None:
        return frozenset()
    named = read_causes("--strict", given)
    return named if all(given) else named | {cause for cause in WarningCause if not cause.is_note}


def _command(options: argparse.Namespace) -> list[str]:
    from paceline.errors import InputError, whole_number
    from paceline.launch.local_ranks import local_command

    command = list(options.command)
    if command[:1] == ["--"]:
        command = command[1:]
    if options.ranks is None:
        if options.carrier:
            raise InputError("--carrier goes with -n, which starts ranks on this machine")
        if not command:
            raise InputError("give a command after --, such as: paceline run -- mpiexec -n 4 python train.py")
        return command
    whole_number("-n", options.ranks, least=1)
    from paceline.process.launchers import LAUNCHER_COMMANDS

    if command and Path(command[0]).name in LAUNCHER_COMMANDS:
        raise InputError(f"-n starts the ranks by itself: leave it out, or leave out {Path(command[0]).name}")
    if not command:
        raise InputError("give a script to run on every rank: paceline run -n 4 train.py")
    return local_command(options.ranks, options.carrier, command)


def _asked(options: argparse.Namespace) -> list[str]:
    """Return the command as the user gave it, and not what `-n` makes of it."""
    command = [part for part in options.command if part != "--"]
    return ["paceline", "run", "-n", str(options.ranks), *command] if options.ranks is not None else command


def _write_trace(records: Path, path: Path) -> None:
    from paceline.report.evidence.run_files import read_run
    from paceline.report.trace import write_trace

    try:
        write_trace(read_run(records), path)
    except OSError as error:
        say(f"paceline: {path} cannot be written: {error.strerror}")
