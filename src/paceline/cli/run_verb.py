"""`paceline run`: runs a launcher's command, or starts ranks itself, with every collective watched."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.verb_io import ExamplesFormatter, check_positive, check_writable, make_folder

if TYPE_CHECKING:
    from paceline.guard.run.watch_options import WatchOptions

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
    parser.add_argument("--live", action="store_true", help="show ranks, rates and who waits while the job runs")
    parser.add_argument(
        "--every", type=float, metavar="S", help="with --live and no terminal: seconds between lines (default: 10)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the launcher's command, after --")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the job; print what was found; return the exit code."""
    from paceline.cli.shown_run import live_output, shown_run

    command, watching = _command(options), _watch_options(options)
    make_folder(watching.out)
    check_writable(options.json_file, options.trace)
    result = shown_run(command, watching, live=live_output(options.live, options.every))
    if options.trace and result.records is not None:
        _write_trace(result.records, Path(options.trace))
    return result.exit_code


def _watch_options(options: argparse.Namespace) -> WatchOptions:
    """Return what the options ask of the guard."""
    from paceline.guard.run.kept_records import DEFAULT_FOLDER
    from paceline.guard.run.watch_options import WatchOptions

    return WatchOptions(
        asked=tuple(_asked(options)),
        out=Path(options.out) if options.out else DEFAULT_FOLDER if options.trace else None,
        json_file=Path(options.json_file) if options.json_file else None,
        notice_seconds=check_positive("--notice", options.notice),
        timeout_seconds=None if options.timeout is None else check_positive("--timeout", options.timeout),
    )


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

    write_trace(read_run(records), path)
