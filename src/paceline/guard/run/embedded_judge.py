"""The judge of a job that called `paceline.guard.enable()`: it starts no launcher and has only ranks to look at."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from paceline.guard.observe.kernel_view import end_all
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.run.diagnosis_file import DIAGNOSIS, write_diagnosis
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.kept_records import keep_records
from paceline.guard.run.run_folder import become_judge, name_judge
from paceline.guard.run.run_registry import RunOutcome, announce_run, write_outcome
from paceline.guard.run.several_hosts.host_role import HeadRole, enabled_role, judge_of, rings_of
from paceline.guard.run.several_hosts.kept_head import judge_in_child
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.run.watched_run import LOOK_SECONDS
from paceline.guard.verdict.finding import Finding
from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.process.exit_codes import FINDING_CODE

_JOIN_SECONDS = 3.0  # how long to wait for the first rank once the one that started us has exited
_ASKED = ("a job that switched the guard on",)


def judge_ranks(folder: Path, starter: int, options: WatchOptions) -> RunOutcome:
    """Judge until all ranks have exited or a finding is certain; then kill them and keep their records.

    The exit code of the outcome is None: only the job's launcher knows it. The folder is removed at the end.

    Args:
        folder: The folder of the run, which the first rank has made.
        starter: The process of that rank.
        options: As for a run of our own; there is no command to pass `variables` to.
    """
    shared_files = shared_files_now()
    announce_run(folder, _ASKED, options.out)
    write_outcome(folder, RunOutcome(exit_code=None, finding=None, records=None))
    with _judging(folder, options) as (rings, judged, is_quiet):
        finding = _watch(judged, rings, starter)
        judged.tell_problems()
        warnings, records, unwritten = tuple(judged.warnings), None, None
        if finding is not None:
            jobs = rings.known_jobs()
            _end_everywhere(rings, finding)
            if not (is_quiet and judged.was_heard):
                options.on_finding(finding)  # first: keeping records may fail
            remove_leftovers(shared_files)
        if finding is not None and not judged.was_heard:  # who has found it keeps the records of all
            try:
                records = keep_records(options.out, folder, jobs, finding, options.asked or _ASKED)
                if records is not None:
                    write_diagnosis(records / DIAGNOSIS, FINDING_CODE, finding, warnings)
            except Exception as error:  # a full disk, or a ring that is damaged
                unwritten = f"the records cannot be written: {error}"
        outcome = RunOutcome(exit_code=None, finding=finding, records=records, warnings=warnings, unwritten=unwritten)
        write_outcome(folder, outcome)
        return outcome


@contextmanager
def _judging(folder: Path, options: WatchOptions) -> Iterator[tuple[LocalRings, JudgedRun, bool]]:
    """Yield the rings, who judges, and whether a finding of another process is told by that one alone."""
    with ExitStack() as afterwards:
        afterwards.callback(os.close, become_judge(folder))
        afterwards.callback(shutil.rmtree, folder, ignore_errors=True)
        role = enabled_role(options)
        if isinstance(role, HeadRole):
            fault = judge_in_child(options.on_unseen)
            if fault is not None:
                options.on_unseen(fault)
                raise SystemExit(1)
        rings = afterwards.enter_context(closing(rings_of(role, folder, options)))
        name_judge(folder)
        yield rings, judge_of(role, rings, folder, options), role.is_quiet


def _end_everywhere(rings: LocalRings, finding: Finding) -> None:
    """End the ranks here, and then those of other hosts."""
    end_all([], also=[process for process in rings.processes_to_end() if not process.host])
    rings.tell_finding(finding)
    rings.end_elsewhere(after_launcher=False)


def _watch(judged: JudgedRun, rings: LocalRings, starter: int) -> Finding | None:
    alone_since = None  # since when there is neither a rank nor the process that started us
    while True:
        judged.wait(LOOK_SECONDS)
        finding = judged.look()
        if finding is not None:
            return finding
        jobs = judged.jobs()
        if jobs and all(process.has_ended() for process in rings.processes_to_end()):
            judged.unless_at_fault(lambda: rings.hear_last_words(failed=True))
            return judged.look_back(failed=True)
        if not jobs and not Path(f"/proc/{starter}").exists():
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > _JOIN_SECONDS:
                return None
