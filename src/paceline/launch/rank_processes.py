"""Ranks as processes: started, watched and, if need be, ended, with nothing left behind."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import current_process, spawn
from pathlib import Path
from typing import Any

from paceline.errors import InputError
from paceline.launch.job_folder import JobFolder, read_pickle
from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.launch.mpiexec import find_mpiexec
from paceline.launch.outcome import Outcome, RankError
from paceline.process.exit_codes import signal_name
from paceline.process.launchers import without_job
from paceline.process.own_programs import own_module
from paceline.process.procfs import wait_until_gone
from paceline.process.stacks import OF_STARTER, ask_for_stacks
from paceline.process.whole_files import write_whole

_POLL_SECONDS = 0.01
_STACKS_SECONDS = 1.0  # how long a rank may take to begin to write its stacks


def run_processes(
    function: Callable[..., Any],
    world_size: int,
    args: Sequence[Any],
    carrier: str,
    deadline: float,
    grace: float,
) -> list[Outcome]:
    """Run the function on processes over the carrier and return how each rank ended."""
    if getattr(current_process(), "_inheriting", False):
        raise InputError(
            "run_ranks was called while a rank was importing its main module: put the call under "
            "`if __name__ == '__main__':`, as for multiprocessing"
        )
    shared_files = shared_files_now()
    with _job_folder(function, args) as folder:
        write_whole(folder.shared_files, "\n".join(sorted(map(str, shared_files))).encode())
        job = _StartedJob(folder=folder, world_size=world_size)
        try:
            _start(job, carrier)
            reasons = job.watch(deadline, grace)
            return [job.outcome(rank, reasons.get(rank)) for rank in range(world_size)]
        finally:
            job.end()
            remove_leftovers(shared_files)


@contextmanager
def _job_folder(function: Callable[..., Any], args: Sequence[Any]) -> Iterator[JobFolder]:
    try:
        pickled = pickle.dumps((function, tuple(args)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"ranks are processes of their own, so the function must be defined at the top of a module "
            f"and its arguments must be picklable: {error}"
        ) from error
    folder = JobFolder(Path(tempfile.mkdtemp(prefix="paceline-")))  # readable by this user only
    try:
        prepared = spawn.get_preparation_data("rank")
        prepared.pop("authkey", None)  # a secret of multiprocessing's own channels, which ranks do not use
        write_whole(folder.call, pickle.dumps((prepared, pickled)))
        yield folder
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


def _start(job: _StartedJob, carrier: str) -> None:
    """Start all ranks by one process of our own, which leads their group and is the job's from the first moment."""
    module = [*own_module("paceline.launch"), str(job.folder.path), carrier, str(os.getpid())]
    # Ranks of one machine talk over the loopback; what launchers leave in a temporary folder goes with ours.
    environ = without_job(os.environ)
    environ |= {"TMPDIR": str(job.folder.path), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    world_size = job.world_size
    command = [*find_mpiexec().command(world_size), *module] if carrier == "mpi" else [*module, str(world_size)]
    with (job.folder.path / "launcher").open("wb") as log:
        job.begun = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why a rank was ended."""

    text: str
    timed_out: bool = False


@dataclass(slots=True)
class _StartedJob:
    """Ranks that have been started."""

    folder: JobFolder
    world_size: int
    begun: subprocess.Popen[bytes] | None = None
    pids: dict[int, tuple[int, int]] = field(default_factory=dict)  # rank -> (worker, keeper)
    stacks: dict[int, str] = field(default_factory=dict)  # of ranks that had to be ended

    def watch(self, deadline: float, grace: float) -> dict[int, _Reason]:
        """Wait until all ranks have ended, or must be; return why those were ended that had to be."""
        end = time.monotonic() + deadline
        failed_at = None
        while waiting := self._running():
            now = time.monotonic()
            failure = self._first_failure()
            if failure and failed_at is None:
                failed_at = now
            if now >= end:
                return self._stop(waiting, _Reason(f"was still running after {deadline} s", timed_out=True))
            if failed_at is not None and now >= failed_at + grace:
                return self._stop(waiting, _Reason(f"was ended because {failure}"))
            if self.begun is not None and self.begun.poll() is not None:
                time.sleep(10 * _POLL_SECONDS)  # what ranks wrote last may only now be there
                reason = _Reason(f"ended without reporting a result; the launcher wrote: {self._launcher_output()}")
                return self._stop(self._running(), reason)
            time.sleep(_POLL_SECONDS)
        return {}

    def outcome(self, rank: int, reason: _Reason | None) -> Outcome:
        """Put together how a rank ended."""
        result_file, output = self.folder.of_rank(rank, "result"), self.folder.of_rank(rank, "output")
        text = output.read_text(errors="replace") if output.exists() else ""
        result = read_pickle(result_file) if result_file.exists() else {}
        if reason is not None:
            return Outcome(
                rank=rank,
                error=RankError(f"rank {rank} {reason.text}"),
                timed_out=reason.timed_out,
                stacks=self.stacks.get(rank),
                output=text,
            )
        code = self._status(rank)
        assert code is not None  # it is not among those that were stopped
        killed_by = -code if code < 0 else None
        error = result.get("error")
        if error is None and code != 0:
            how = f"was killed by {signal_name(killed_by)}" if killed_by else f"exited with code {code}"
            error = RankError(f"rank {rank} {how}")
        return Outcome(
            rank=rank,
            value=result.get("value"),
            error=error,
            traceback=result.get("traceback"),
            signal=killed_by,
            exit_code=None if killed_by else code,
            output=text,
        )

    def end(self) -> None:
        """Leave no process behind."""
        with suppress(FileNotFoundError):
            write_whole(self.folder.end, b"")
        self.pids |= self.folder.pids()
        for rank, (worker, keeper) in self.pids.items():
            status = self._status(rank)
            if status is None:
                _kill(worker)
            if status != 0:  # a keeper whose worker has ended well is gone, and its number may be another's
                _kill(keeper)
        if self.begun is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.begun.pid, signal.SIGKILL)
            self.begun.wait()
        wait_until_gone(pid for pair in self.pids.values() for pid in pair)

    def _running(self) -> list[int]:
        return [rank for rank in range(self.world_size) if self._status(rank) is None]

    def _status(self, rank: int) -> int | None:
        path = self.folder.of_rank(rank, "status")
        return int(path.read_text()) if path.exists() else None

    def _first_failure(self) -> str | None:
        for rank in range(self.world_size):
            code = self._status(rank)
            if code:
                outcome = self.outcome(rank, None)
                return f"rank {rank} failed: {type(outcome.error).__name__}: {outcome.error}"
        return None

    def _stop(self, ranks: list[int], reason: _Reason) -> dict[int, _Reason]:
        """Ask ranks for their stacks and kill them."""
        self.pids |= self.folder.pids()
        asked = [rank for rank in ranks if rank in self.pids]
        workers = {rank: self.pids[rank][0] for rank in asked}
        files = {workers[rank]: self.folder.of_rank(rank, "stacks") for rank in asked}
        stacks = ask_for_stacks(files, OF_STARTER, seconds=_STACKS_SECONDS)
        self.stacks |= {rank: stacks[worker] for rank, worker in workers.items()}
        for worker in workers.values():
            _kill(worker)
        return dict.fromkeys(ranks, reason)

    def _launcher_output(self) -> str:
        log = self.folder.path / "launcher"
        return log.read_text(errors="replace").strip()[-2000:] or "nothing"


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
