"""Runs a launcher's command with every rank watched: starts it, judges, ends it when a finding is certain.

The run announces itself to `paceline watch`, keeps its records and writes its own diagnosis. The command keeps our
standard input and output. Nothing that it prints passes through us, except what ranks print after an exception that
nobody caught, if `on_output` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.run.diagnosis_file import DIAGNOSIS, write_diagnosis
from paceline.guard.run.held_output import EndedAfterwards, HeldOutput
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.kept_records import keep_records
from paceline.guard.run.run_folder import name_judge, remove_stale_folders, run_folder, watched_environment
from paceline.guard.run.run_registry import RunOutcome, announce_run, write_outcome
from paceline.guard.run.several_hosts.host_role import HeadRole, HostRole, UnjudgedRole, host_role, judge_of, rings_of
from paceline.guard.run.started_launcher import StartedLauncher, start_launcher
from paceline.guard.run.stopping_job import ForwardedSignals, StoppingJob
from paceline.guard.run.watch_options import WatchOptions, variables_of
from paceline.guard.shared_memory.last_output import allow_putting_aside
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.job_warning import JobWarning
from paceline.guard.verdict.snapshot import End, EndKind
from paceline.launch.launcher_command.batch_clients import end_clients
from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.process.exit_codes import FINDING_CODE, shell_code, signal_code

LOOK_SECONDS = 0.02
_SAME_LOOK_NS = 50_000_000  # ends that are noticed within this time may have come in any order
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a watched run ended.

    Attributes:
        exit_code: 90 after a finding, otherwise the job's own.
        finding: What is certainly wrong, if anything.
        records: Where the records were kept.
        num_ranks: How many ranks were seen.
        problems: Why some ranks could not be watched.
        unwritten: What could not be written, and why.
        failures: Ranks that ended badly, if there is no finding.
        lost_ranks: Ranks whose record was full, so that some of their messages are missing from it.
        stopped_by: The signal that we were sent.
        fault: Why nothing was judged from some moment on; it was told then.
        launcher_signal: The signal that killed the launcher before any rank had failed.
        warnings: What is certain and did not stop the job.
        ended_afterwards: Ranks that ended because of others, and whose last output is only in the records.
        is_told_elsewhere: Whether there is a finding, which another process of the same job tells and keeps.
        is_strict_failure: Whether the job itself ended well, and the exit code is 90 because of a warning.
    """

    exit_code: int
    finding: Finding | None
    records: Path | None
    num_ranks: int
    problems: tuple[str, ...]
    failures: tuple[tuple[int, End], ...]
    lost_ranks: tuple[int, ...]
    stopped_by: int | None
    unwritten: tuple[str, ...] = ()
    fault: str | None = None
    launcher_signal: int | None = None
    warnings: tuple[JobWarning, ...] = ()
    is_strict_failure: bool = False
    is_told_elsewhere: bool = False
    ended_afterwards: tuple[EndedAfterwards, ...] = ()


def watched_run(command: Sequence[str], options: WatchOptions) -> RunResult:
    """Run a command to its end, or to a finding; keep its records, its outcome and its diagnosis."""
    remove_stale_folders()
    shared_files = shared_files_now()
    asked = options.asked or tuple(command)
    with run_folder() as folder, ForwardedSignals() as signals:
        announce_run(folder, asked, options.out)
        held = _held_output(folder, options)
        role = host_role(command, options)
        variables = {**watched_environment(folder), **variables_of(options), **role.variables}
        launcher = start_launcher(role.command, variables)
        if isinstance(role, HeadRole):
            launcher, role = _become_head(launcher, role, folder, signals, options, held, shared_files)
        rings = rings_of(role, folder, options)
        name_judge(folder)
        rings.await_end(launcher.handle)
        try:
            judged = judge_of(role, rings, folder, options)
            finding = _watch(launcher, rings, judged, held, options, signals)
            jobs = judged.jobs()
            has_exited = launcher.poll() is not None
            if finding is not None or signals.received is not None:
                _end_everywhere(launcher, rings, finding)
            code = FINDING_CODE if finding is not None else _exit_code(launcher.wait(), None if has_exited else signals)
            if not code and signals.received is not None and judged.unless_at_fault(lambda: bool(_failures(jobs))):
                code = signal_code(signals.received)  # a launcher that is interrupted may lose the codes of its ranks
            afterwards = judged.unless_at_fault(lambda: held.settle(finding, jobs))
            if afterwards is None:
                held.show_all()
            is_told_elsewhere = role.is_quiet and judged.was_heard
            told = None if is_told_elsewhere else finding
            if told is not None:
                options.on_finding(told)  # first: keeping records may fail
            warned = code == 0 and any(warning.cause in options.strict for warning in judged.warnings)
            result = RunResult(
                exit_code=FINDING_CODE if warned else code,
                finding=told,
                records=None,
                num_ranks=sum(len(job.ranks) for job in jobs),
                problems=judged.tell_problems(),
                failures=(judged.unless_at_fault(lambda: _failures(jobs)) or ()) if finding is None and code else (),
                lost_ranks=tuple(rank for job in jobs for rank in job.lost_ranks()),
                stopped_by=signals.received,
                launcher_signal=_launcher_signal(launcher, judged) if finding is None else None,
                warnings=tuple(judged.warnings),
                is_strict_failure=warned,
                is_told_elsewhere=is_told_elsewhere,
                ended_afterwards=afterwards or (),
            )
            result = _with_files(folder, jobs, result, options, asked)
            if result.ended_afterwards and result.records is None:
                held.show_all()
            return replace(result, fault=judged.fault)
        except BaseException:
            held.show_all()  # the folder is removed in a moment
            raise
        finally:
            _end(launcher, rings)
            rings.close()
            launcher.close()
            remove_leftovers(shared_files)


def _with_files(
    folder: Path, jobs: Sequence[WatchedJob], result: RunResult, options: WatchOptions, asked: Sequence[str]
) -> RunResult:
    """Keep the records; write the outcome for whoever watches, and the diagnosis for reports and for the user.

    What cannot be written is told, and never the end of the run.
    """
    unwritten = []

    def attempt(what: str, write: Callable[[], _Value]) -> _Value | None:
        try:
            return write()
        except Exception as error:  # a full disk, or a ring that is damaged
            unwritten.append(f"{what} cannot be written: {error}")
            return None

    code, finding, warnings = result.exit_code, result.finding, result.warnings
    records = attempt("the records", lambda: keep_records(options.out, folder, jobs, finding, asked))
    outcome = RunOutcome(exit_code=code, finding=finding, records=records, warnings=warnings)
    attempt("the outcome", lambda: write_outcome(folder, outcome))
    if records is not None:
        attempt("the diagnosis", lambda: write_diagnosis(records / DIAGNOSIS, code, finding, warnings))
    if options.json_file is not None and not result.is_told_elsewhere:
        json_file = options.json_file
        # notes are for the page, unless they are asked for
        told = [warning for warning in warnings if not warning.cause.is_note or warning.cause in options.strict]
        attempt(str(json_file), lambda: write_diagnosis(json_file, code, finding, told))
    return replace(result, records=records, unwritten=tuple(unwritten))


def _watch(
    launcher: StartedLauncher,
    rings: LocalRings,
    judged: JudgedRun,
    held: HeldOutput,
    options: WatchOptions,
    signals: ForwardedSignals,
) -> Finding | None:
    """Look until the command has exited, a finding is certain, or the job is to be ended."""
    stopping = StoppingJob(rings)
    while launcher.poll() is None:
        judged.wait(LOOK_SECONDS)
        options.on_look(rings)
        judged.unless_at_fault(lambda: held.look(rings.known_jobs()))
        if signals.received is not None:
            if signals.forward(launcher):
                judged.show_who_waits()
            if signals.is_repeated or judged.unless_at_fault(stopping.is_hopeless) or stopping.is_late():
                return None
        elif not launcher.handle.has_ended():  # otherwise ranks may be ending because of it
            finding = judged.look()
            if finding is not None:
                return finding
    if signals.received is None:
        judged.unless_at_fault(lambda: rings.hear_last_words(failed=launcher.returncode != 0))
    if signals.received is not None or _launcher_signal(launcher, judged) is not None:
        return None
    return judged.look_back(failed=launcher.returncode != 0, code=launcher.returncode)


def _become_head(
    launcher: StartedLauncher,
    role: HeadRole,
    folder: Path,
    signals: ForwardedSignals,
    options: WatchOptions,
    held: HeldOutput,
    shared_files: set[Path],
) -> tuple[StartedLauncher, HostRole]:
    """Go on in a process that may be killed; in this one only if that has happened too often."""
    from paceline.guard.run.several_hosts.kept_launcher import judge_beside  # a job on one host needs none of it

    try:
        launcher, fault = judge_beside(launcher, signals, options.on_unseen)
    except SystemExit:  # the head was killed while it ended the job
        held.show_all()
        launcher.close()
        remove_leftovers(shared_files)
        raise
    if fault is None:
        return launcher, role
    role.close(folder)
    return launcher, UnjudgedRole(command=role.command, fault=fault)


def _held_output(folder: Path, options: WatchOptions) -> HeldOutput:
    if options.on_output is not None:
        allow_putting_aside(folder)
    return HeldOutput(folder, options.on_output)


def _launcher_signal(launcher: StartedLauncher, judged: JudgedRun) -> int | None:
    """Return the signal that killed the launcher, if that came first: then what became of its ranks says nothing."""
    status = launcher.returncode
    if status is None or status >= 0:
        return None
    jobs = judged.jobs()
    if any(member.pid == launcher.handle.pid for job in jobs for member in job.processes()):
        return None  # the command is itself a rank
    failed = judged.unless_at_fault(lambda: _failures(jobs)) or ()
    # ranks that end because of it may be noticed in the same look, and before it
    return None if any(end.at_ns < launcher.handle.ended_ns - _SAME_LOOK_NS for _, end in failed) else -status


def _end(launcher: StartedLauncher, rings: LocalRings) -> None:
    """Leave no process behind: not the launcher, nor ranks that have outlived it, nor what they started."""
    ranks = rings.processes_to_end(after_launcher=True)
    if launcher.poll() is None:
        end_clients(launcher.clients())
    if launcher.poll() is None or any(not member.has_ended() for member in ranks):
        launcher.end_all(ranks)
    launcher.wait()


def _end_everywhere(launcher: StartedLauncher, rings: LocalRings, finding: Finding | None) -> None:
    """End the job: first here, so that a launcher does not complain of ranks that end elsewhere."""
    here, clients = [process for process in rings.processes_to_end() if not process.host], launcher.clients()
    if clients:
        for process in here:
            process.kill()
        if finding is not None:
            rings.tell_finding(finding)  # now: a batch system may end watchers together with the ranks
            rings.await_leaving()
        end_clients(clients)
    launcher.end_all(here)
    if finding is not None:
        rings.tell_finding(finding)
    # whoever stops only us does not stop other nodes that have a launcher of their own
    rings.end_elsewhere(after_launcher=finding is None)


def _exit_code(status: int, signals: ForwardedSignals | None) -> int:
    """Return the code of a command as a shell gives it; the code of our own signal if we have ended the command."""
    if signals is not None and signals.received is not None:
        return signal_code(signals.received)
    return shell_code(status)


def _failures(jobs: Sequence[WatchedJob]) -> tuple[tuple[int, End], ...]:
    """Return the ranks that did not exit by themselves, by the numbers that people know, and how they ended."""
    return tuple(
        (job.rank_in_world(state.rank), state.end)
        for job in jobs
        for state in job.snapshot(history=0).ranks
        if state is not None and state.end is not None and state.end.kind is not EndKind.EXITED
    )
