"""`paceline run`: runs a launcher's command, or starts ranks itself, with every collective watched."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.cli.live_output import Live
    from paceline.guard.judge.stragglers import Notice
    from paceline.guard.run.watched_run import Result

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
        help="run a job and say which rank falls out of line, where and why",
        description="Runs COMMAND with every rank watched: mpi4py and torch.distributed calls, and how ranks end. "
        "The script needs no change. Exit code 90 if a finding ended the job, otherwise the job's own.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-n", type=int, metavar="N", dest="ranks", help="start N ranks of SCRIPT on this machine")
    parser.add_argument("--carrier", choices=("torch", "mpi"), help="with -n: what SCRIPT uses (default: seen from it)")
    parser.add_argument("--json", metavar="FILE", dest="json_file", help="write the outcome as JSON")
    parser.add_argument("--out", metavar="DIR", help="where records are kept (default: paceline-out, after a finding)")
    parser.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto, compressed if it ends in .gz")
    parser.add_argument("--timeout", type=float, metavar="S", help="end the job when a rank has waited for S seconds")
    parser.add_argument(
        "--notice", type=float, default=10.0, metavar="S", help="say who is waited for after S seconds (default: 10)"
    )
    parser.add_argument("--live", action="store_true", help="show ranks, rates and who waits while the job runs")
    parser.add_argument(
        "--every", type=float, metavar="S", help="with --live where there is no terminal: seconds between lines (10)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="-- and a launcher's command")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the job; print what was found; return the exit code."""
    return watch(_command(options), options, asked=_asked(options))


def watch(command: list[str], options: argparse.Namespace, *, asked: list[str]) -> int:
    """Run a command under the guard; print what was found; return the exit code.

    Args:
        command: What starts the ranks.
        options: As `paceline run` has them.
        asked: The command as the user gave it.
    """
    from paceline.cli.writable import check_writable
    from paceline.guard.run.kept_records import DEFAULT_FOLDER, keep_records
    from paceline.guard.run.run_registry import describe_run, write_outcome
    from paceline.guard.run.watched_run import Options, run_watched
    from paceline.guard.verdict.finding_json import diagnosis_to_json
    from paceline.report.text.finding_text import finding_as_text, notice_as_text

    out = Path(options.out) if options.out else DEFAULT_FOLDER if options.trace else None
    _make_folder(out)
    check_writable(options.json_file, options.trace)
    live = _live(options)

    def tell(notice: Notice) -> None:
        if live is not None:
            live.note(notice)
        _say(notice_as_text(notice))

    def tell_watchers(folder: Path, result: Result) -> None:
        text = finding_as_text(result.finding) if result.finding is not None else None
        records = str(result.records.absolute()) if result.records is not None else None
        write_outcome(folder, {"exit_code": result.exit_code, "text": text, "records": records})

    try:
        result = run_watched(
            command,
            Options(
                notice_seconds=_positive(options.notice, "--notice"),
                timeout_seconds=None if options.timeout is None else _positive(options.timeout, "--timeout"),
                keep=lambda folder, worlds, finding: keep_records(out, folder, worlds, finding, asked),
                on_notice=tell,
                on_begin=lambda folder: describe_run(folder, asked, out),
                on_look=live.look if live is not None else lambda rings: None,
                on_end=tell_watchers,
            ),
        )
    finally:
        if live is not None:
            live.close()
    outcome = diagnosis_to_json(result.exit_code, result.finding)
    if options.json_file:
        Path(options.json_file).write_text(json.dumps(outcome, indent=2) + "\n")
    if result.records is not None:
        (result.records / "diagnosis.json").write_text(json.dumps(outcome, indent=2) + "\n")
        if options.trace:
            _write_trace(result.records, Path(options.trace))
    if live is not None and live.problem is not None:
        _say(f"paceline: {live.problem}")
    _tell(result)
    return result.exit_code


def _tell(result: Result) -> None:
    """Say on the terminal how the job ended."""
    from paceline.errors import name_ranks
    from paceline.process.exit_codes import signal_name
    from paceline.report.text.finding_text import failures_as_text, finding_as_text

    for problem in result.problems:
        _say(f"paceline: not everything was watched: {problem}")
    if result.finding is not None:
        if result.lost:
            _say(f"paceline: {name_ranks(result.lost)}: too much to record, not all messages could be judged")
        _say(finding_as_text(result.finding, result.records, colours=sys.stderr.isatty()))
    elif result.ended_by is not None:
        _say(f"paceline: ended by {signal_name(result.ended_by)}")
    elif result.exit_code and result.num_ranks:
        _say(failures_as_text(result.exit_code, result.failures))
    elif result.num_ranks == 0 and not result.problems:
        _say("paceline: no rank was seen: nothing that was started uses mpi4py or torch.distributed in Python")


def _live(options: argparse.Namespace) -> Live | None:
    from paceline.errors import InputError

    if not options.live:
        if options.every is not None:
            raise InputError("--every goes with --live")
        return None
    from paceline.cli.live_output import Live

    return Live(10.0 if options.every is None else _positive(options.every, "--every"))


def _command(options: argparse.Namespace) -> list[str]:
    from paceline.errors import InputError, whole_number
    from paceline.launch.local_ranks import local_command
    from paceline.process.launchers import LAUNCHER_COMMANDS

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
    if command and Path(command[0]).name in LAUNCHER_COMMANDS:
        raise InputError(f"-n starts the ranks by itself: leave it out, or leave out {Path(command[0]).name}")
    if not command:
        raise InputError("give a script to run on every rank: paceline run -n 4 train.py")
    return local_command(options.ranks, options.carrier, command)


def _asked(options: argparse.Namespace) -> list[str]:
    """Return the command as it was asked for: with -n, what it became is our affair."""
    command = [part for part in options.command if part != "--"]
    return ["paceline", "run", "-n", str(options.ranks), *command] if options.ranks is not None else command


def _write_trace(records: Path, path: Path) -> None:
    from paceline.report.evidence.run_files import read_run
    from paceline.report.trace import write_trace

    write_trace(read_run(records), path)


def _make_folder(out: Path | None) -> None:
    """Refuse a folder that cannot be made before the job runs, not after."""
    from paceline.errors import InputError

    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None


def _positive(value: float, name: str) -> float:
    from paceline.errors import InputError

    if not value > 0:
        raise InputError(f"{name} must be more than 0, not {value}")
    return value


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
