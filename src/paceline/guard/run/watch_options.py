"""How a command is to be run under the guard: one value, for a run in this process and for one in a process of its own.

`run_command` spells the value as `paceline run` reads it. A guard owns its process: it takes the signals, adopts what
its job leaves behind and in the end kills all of it. Two guards at a time therefore need two processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paceline.guard.judge.stragglers import Notice
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.watched_process import BUFFERS, RESULTS
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.process.own_programs import own_module


def _show_nothing(shown: object) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How to run a command under the guard.

    Attributes:
        asked: The command as the user gave it, for the records; the command that is run if it is empty.
        out: Where records are kept; None keeps them only after a finding, in `paceline-out`.
        json_file: Also write the diagnosis to this file.
        notice_seconds: Show who is waited for after this time.
        timeout_seconds: End the job when a rank has waited for this time.
        variables: What is added to our environment for the command.
        ignored: Causes of warnings that are not told.
        strict: Causes of warnings that make the exit code of a job that ended well 90.
        compares_buffers: Whether ranks compare what their requests send before and after.
        compares_results: Whether ranks compare what came out of collectives that give all the same.
        on_warning: Tells what is certain and does not stop the job.
        on_notice: Shows who is waited for.
        on_problem: Tells what cannot be watched, each reason once; must not raise.
        on_fault: Tells at once why nothing is judged any more, in a sentence; must not raise.
        on_unseen: Tells which ranks of the job are not watched, and why that may be; must not raise.
        on_finding: Shows a finding, as soon as the job has ended and before anything is kept; must not raise.
        on_output: Shows what a rank prints once nobody has caught its exception; must not raise. None leaves it to the
            rank. After a finding, the output of ranks that ended because of others is only kept in the records.
        on_look: Shows the run; called after each look at the rings, and must not raise.
    """

    asked: tuple[str, ...] = ()
    out: Path | None = None
    json_file: Path | None = None
    notice_seconds: float = 10.0
    timeout_seconds: float | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    ignored: frozenset[WarningCause] = frozenset()
    strict: frozenset[WarningCause] = frozenset()
    compares_buffers: bool = True
    compares_results: bool = False
    on_warning: Callable[[JobWarning], None] = _show_nothing
    on_notice: Callable[[Notice], None] = _show_nothing
    on_problem: Callable[[str], None] = _show_nothing
    on_fault: Callable[[str], None] = _show_nothing
    on_unseen: Callable[[str], None] = _show_nothing
    on_finding: Callable[[Finding], None] = _show_nothing
    on_output: Callable[[bytes], None] | None = None
    on_look: Callable[[LocalRings], None] = _show_nothing


def run_command(command: Sequence[str], options: WatchOptions) -> list[str]:
    """Return the command line that runs a command under the guard in a process of its own.

    What shows the run, and `asked` and `variables`, are of this process: that one has its own.

    >>> run_command(["mpiexec", "train"], WatchOptions(out=Path("kept"), notice_seconds=0.5))[1:]
    ['-P', '-m', 'paceline', 'run', '--notice', '0.5', '--out', 'kept', '--', 'mpiexec', 'train']
    """
    words = [*own_module("paceline"), "run", "--notice", repr(options.notice_seconds)]
    if options.out is not None:
        words += ["--out", str(options.out)]
    if options.json_file is not None:
        words += ["--json", str(options.json_file)]
    if options.timeout_seconds is not None:
        words += ["--timeout", repr(options.timeout_seconds)]
    if options.strict:
        words.append(f"--strict={','.join(sorted(options.strict))}")
    if options.ignored:
        words += ["--ignore", ",".join(sorted(options.ignored))]
    if not options.compares_buffers:
        words += ["--buffers", "off"]
    if options.compares_results:
        words.append("--results")
    return [*words, "--", *command]


def variables_of(options: WatchOptions) -> dict[str, str]:
    """Return the variables by which the ranks learn what is asked of them.

    >>> variables_of(WatchOptions(compares_buffers=False, compares_results=True, variables={"SEED": "1"}))
    {'PACELINE_BUFFERS': 'off', 'PACELINE_RESULTS': 'on', 'SEED': '1'}
    """
    asked = {} if options.compares_buffers else {BUFFERS: "off"}
    if options.compares_results:
        asked[RESULTS] = "on"
    return {**asked, **options.variables}
