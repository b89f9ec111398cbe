"""Runs a launcher's command with every rank watched: starts it, judges, and ends it when a finding is certain.

The command keeps our standard input and output; nothing of what it prints goes through us.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from paceline.errors import InputError
from paceline.guard.judge.judge import Judge
from paceline.guard.judge.stragglers import Notice, Stragglers
from paceline.guard.observe.kernel_view import end_all
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.rank.watched_process import RUN_FOLDER
from paceline.guard.run.run_registry import MEMORY, PREFIX
from paceline.guard.shared_memory.ring import judge_lives
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.snapshot import End, EndKind
from paceline.launch.local_ranks import SAVE_SECONDS
from paceline.launch.mpi_leftovers import mpi_files_now, remove_mpi_leftovers
from paceline.launch.terminal import is_foreground
from paceline.process.exit_codes import FINDING_CODE, shell_code, signal_code
from paceline.process.procfs import start_time

LOOK_SECONDS = 0.02
_BOOT = Path(__file__).parents[1] / "boot"
_PR_SET_CHILD_SUBREAPER, _PR_SET_PDEATHSIG = 36, 1
_END_SECONDS = 3.0  # how long all ranks may hang in their calls after a signal to end


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run."""

    notice_seconds: float = 10.0
    timeout_seconds: float | None = None
    keep: Callable[[Path, list[WatchedJob], Finding | None], Path | None] = lambda folder, worlds, finding: None
    on_notice: Callable[[Notice], None] = lambda notice: None
    on_begin: Callable[[Path], None] = lambda folder: None  # before anything is started
    on_look: Callable[[LocalRings], None] = lambda rings: None  # again and again; it must not raise
    on_end: Callable[[Path, Result], None] = lambda folder, result: None  # before the folder is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a watched run ended."""

    exit_code: int
    finding: Finding | None
    records: Path | None  # where the records were kept
    num_ranks: int  # ranks that were seen
    problems: tuple[str, ...]  # why some ranks could not be watched
    failures: tuple[tuple[int, End], ...]  # ranks that ended badly, if nothing was found
    lost: tuple[int, ...] = ()  # ranks of which not everything could be recorded
    ended_by: int | None = None  # the signal that we were sent


def run_watched(command: Sequence[str], options: Options) -> Result:
    """Run a command to its end, or to a finding."""
    remove_stale_folders()
    mpi_files = mpi_files_now()
    with run_folder() as folder, _Signals() as signals:
        options.on_begin(folder)
        _prctl(_PR_SET_CHILD_SUBREAPER)
        process = _start(command, watched_environment(folder))
        rings = LocalRings(folder)
        try:
            finding = _watch(process, rings, folder, options, signals)
            worlds = rings.jobs()
            by_itself = process.poll() is not None
            if finding is not None or signals.received is not None:
                end_all([os.getpid()], also=[held for world in worlds for held in world.processes()])
            code = FINDING_CODE if finding is not None else exit_code(process.wait(), None if by_itself else signals)
            result = Result(
                exit_code=code,
                finding=finding,
                records=options.keep(folder, worlds, finding),
                num_ranks=sum(len(world.ranks) for world in worlds),
                problems=tuple(rings.problems()),
                failures=_failures(worlds) if finding is None and code else (),
                lost=tuple(rank for world in worlds for rank in world.lost_ranks()),
                ended_by=signals.received,
            )
            options.on_end(folder, result)
            return result
        finally:
            _end(process, rings)
            rings.close()
            remove_mpi_leftovers(mpi_files)


def _watch(
    process: subprocess.Popen[bytes], rings: LocalRings, folder: Path, options: Options, signals: _Signals
) -> Finding | None:
    judge = Judge(rings, folder)
    stragglers = Stragglers(options.notice_seconds, options.timeout_seconds)
    ending = _Ending(rings)
    while process.poll() is None:
        rings.wait(LOOK_SECONDS)
        options.on_look(rings)
        if signals.received is not None:
            if signals.pass_on(process):
                _tell_who_waits(rings, stragglers, options)
            if signals.is_repeated or ending.is_in_vain():
                return None
        elif (folder / "judge").exists():
            finding = _unless_at_fault(folder, lambda: _look(judge, rings, stragglers, options))
            if finding is not None:
                return finding
    if signals.received is not None:
        return None
    return _unless_at_fault(folder, lambda: judge.look_back(failed=process.returncode != 0))


def _tell_who_waits(rings: LocalRings, stragglers: Stragglers, options: Options) -> None:
    """Someone ends a job that seems to hang: say where its ranks are."""
    for world in rings.jobs():
        notice = stragglers.now(world)
        if notice is not None:
            options.on_notice(notice)


class _Ending:
    """A job that was told to end. Ranks that save something have some time; those that hang have little."""

    def __init__(self, rings: LocalRings) -> None:
        self._rings = rings
        self._marks: dict[str, dict[int, tuple[int, ...]]] = {}
        self._since = time.monotonic()
        self._began: float | None = None

    def is_in_vain(self) -> bool:
        """Say whether every rank that lives has been inside the same call for a while: it sees no signal there.

        Or whether the time is up. Asked for the first time when the job is told to end.
        """
        self._began = self._began or time.monotonic()
        if time.monotonic() - self._began > SAVE_SECONDS:
            return True
        worlds = self._rings.jobs()
        marks = {world.name: world.marks() for world in worlds}
        if marks != self._marks or not all(_all_wait(world) for world in worlds):
            self._marks, self._since = marks, time.monotonic()
        return bool(worlds) and time.monotonic() - self._since > _END_SECONDS


def _all_wait(world: WatchedJob) -> bool:
    states = [state for state in world.snapshot(history=0).ranks if state is not None and state.end is None]
    return bool(states) and all(state.waits for state in states)


def _unless_at_fault(folder: Path, look: Callable[[], Finding | None]) -> Finding | None:
    """Look; a fault of ours must not end somebody's job, so it is told at the end, and nothing is judged any more."""
    try:
        return look()
    except Exception as error:
        (folder / "problem.judge").write_text(f"the guard itself failed: {type(error).__name__}: {error}")
        (folder / "judge").unlink(missing_ok=True)  # so that no rank waits for a word from us
        return None


def _look(judge: Judge, rings: LocalRings, stragglers: Stragglers, options: Options) -> Finding | None:
    found = judge.look()
    if found is not None:
        return found
    for world in rings.jobs():
        for notice in stragglers.look(world):
            if notice.finding is not None:
                return notice.finding
            options.on_notice(notice)
    return None


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        # no thread of ours runs yet, so it is safe to run Python between fork and exec
        return subprocess.Popen(list(command), env=environment, preexec_fn=_die_with_parent)  # noqa: PLW1509
    except FileNotFoundError:
        raise InputError(_not_found(command[0])) from None
    except OSError as error:
        raise InputError(f"{command[0]!r} cannot be started: {error.strerror}") from None


def _not_found(name: str) -> str:
    if Path(name).is_file():
        return f"{name!r} is no program: start ranks of it with -n (paceline run -n 4 {name}), or name its launcher"
    return f"there is no program {name!r} here or on the PATH; is its environment active?"


def _end(process: subprocess.Popen[bytes], rings: LocalRings) -> None:
    """Leave no process behind: the launcher, ranks that have outlived it, and what they started."""
    ranks = [held for world in rings.jobs() for held in world.processes()]
    if process.poll() is None or any(not held.has_ended() for held in ranks):
        end_all([os.getpid()], also=ranks)
    process.wait()


def watched_environment(folder: Path) -> dict[str, str]:
    """Return our environment, with the hooks in front of the Python path."""
    environment = dict(os.environ)
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_BOOT), before] if before else [str(_BOOT)])
    environment[RUN_FOLDER] = str(folder)
    return environment


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for the records in memory, private to the user, and remove it in the end."""
    parent = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        (folder / "judge").write_text(f"{os.getpid()} {start_time(os.getpid())}")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders() -> None:
    """Remove what a run has left that was killed."""
    for path in MEMORY.glob(f"{PREFIX}*"):
        with suppress(OSError):
            is_old = time.time() - path.stat().st_mtime > 60
            if path.stat().st_uid == os.getuid() and is_old and not judge_lives(path):
                shutil.rmtree(path, ignore_errors=True)


def exit_code(status: int, signals: _Signals | None) -> int:
    """Return the code of a command as a shell gives it; that of the signal to us if we have ended it."""
    if signals is not None and signals.received is not None:
        return signal_code(signals.received)
    return shell_code(status)


def _failures(worlds: Sequence[WatchedJob]) -> tuple[tuple[int, End], ...]:
    found = []
    for world in worlds:
        for state in world.snapshot(history=0).ranks:
            if state is not None and state.end is not None and state.end.kind is not EndKind.EXITED:
                found.append((state.rank, state.end))
    return tuple(found)


def _prctl(option: int, value: int = 1) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class _Signals:
    """Signals to us are for the job. The terminal sends Ctrl-C to all of its group; other senders reach only us."""

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

    def __init__(self) -> None:
        self.received: int | None = None  # the first one
        self.is_repeated = False
        self._before: dict[int, object] = {}
        self._passed_on = False

    def __enter__(self) -> _Signals:
        for number in self._NUMBERS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # nohup stays nohup
                self._before[number] = before
                signal.signal(number, self._note)
        return self

    def __exit__(self, *args: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.is_repeated = self.received is not None
        self.received = self.received or number

    def pass_on(self, process: subprocess.Popen[bytes]) -> bool:
        """Pass the first signal on to the launcher; say whether it is the first."""
        assert self.received is not None
        if self._passed_on:
            return False
        self._passed_on = True
        if self.received not in (signal.SIGINT, signal.SIGQUIT) or not is_foreground():
            process.send_signal(self.received)
        return True
