"""Watches the ranks of one host for a head elsewhere.

`python -m paceline.guard.run.several_hosts.host_watcher FOLDER PID TIME` starts it.

The first rank of the host starts it. It exits after the ranks, and removes the folder and what an MPI has left. If the
process that watches is killed, another one takes its place: the head knows it by its name, and is told everything anew.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from paceline.guard.hosts.keys import KEY, job_secret, read_secret
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.kernel_view import end_all
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.watched_process import RUN_FOLDER
from paceline.guard.run.run_folder import become_judge, name_judge, remove_stale_folders, stop_judging
from paceline.guard.run.several_hosts.kept_head import judge_in_child
from paceline.guard.shared_memory.host_folder import HEAD, JOB
from paceline.launch.leftovers import remove_leftovers, remove_segments_of, shared_files_now
from paceline.process.private_files import write_private

_DOES = "watches the ranks of this host"
_AFTER_SECONDS = 2.0  # how long to wait for others once all ranks have ended
_FIRST_SECONDS = 30.0  # how long to wait for the first rank once the process that started us has gone


def main(arguments: Sequence[str]) -> int:
    """Watch until all ranks have ended."""
    folder, starter, began = Path(arguments[0]), int(arguments[1]), float(arguments[2])
    before = {path for path in shared_files_now() if _made_at(path) < began}
    with ExitStack() as afterwards:
        afterwards.callback(remove_leftovers, before)
        afterwards.callback(os.close, become_judge(folder))
        afterwards.callback(shutil.rmtree, folder, ignore_errors=True)
        remove_stale_folders()  # of runs whose watchers were killed with them
        secret, name = _secret(os.environ), secrets.token_hex(8).encode()
        os.environ.pop(KEY, None)
        killed: list[str] = []
        if judge_in_child(lambda how: _note_killed(folder, killed, how), does=_DOES) is not None:
            stop_judging(folder)
            return 1
        name_judge(folder)
        rings = afterwards.enter_context(closing(LocalRings(folder)))
        watching = Watching(rings, os.environ[HEAD].split(","), secret, name=name, life=len(killed))
        afterwards.enter_context(closing(watching))
        _watch(rings, watching, starter, folder)
    return 0


def _note_killed(folder: Path, killed: list[str], how: str) -> None:
    """Note that a watcher was killed, for whoever comes after it and for the head."""
    killed.append(how)
    with suppress(OSError):  # no room: the head hears the new one all the same
        write_private(folder / f"problem.watcher{len(killed)}", how.encode())


def _secret(environ: Mapping[str, str]) -> bytes:
    """Return the secret of the run: as it was handed on, or as it follows from the key of the user."""
    return job_secret(environ, environ[JOB]) if JOB in environ else read_secret(environ[KEY])


def _made_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it has just gone
        return 0.0


def _watch(rings: LocalRings, watching: Watching, starter: int, folder: Path) -> None:
    alone_since = None  # since when no rank is left
    is_pool = JOB in os.environ  # Ray keeps processes that may become ranks later
    while True:
        watching.wait()
        watching.look()
        if watching.has_ended:
            _end_ranks(rings, watching)
            return
        ranks = [held.rank for held in rings.held_rings() if held.rank is not None]
        starting = [started for started, _ in rings.started() if not started.process.has_ended()]
        if starting or any(not rank.process.has_ended() for rank in ranks):
            alone_since = None
            continue
        if alone_since is None:
            rings.remove_files_of_ended()  # now: a batch system may kill us as soon as its tasks have ended
        if not ranks and not is_pool and Path(f"/proc/{starter}").exists():
            continue
        alone_since = alone_since or time.monotonic()
        if time.monotonic() - alone_since > (_AFTER_SECONDS if ranks else _FIRST_SECONDS):
            if not (is_pool and watching.was_heard_within(_FIRST_SECONDS) and is_used(folder)):
                return
            alone_since = None


def _end_ranks(rings: LocalRings, watching: Watching) -> None:
    """Kill the ranks of this host; if the job ends by a finding, remove first what they would leave.

    A batch system that tracks processes by cgroup kills us together with them. Ranks are stopped before: one that waits
    for a word before a call would go on without a judge.
    """
    processes = [held.rank.process for held in rings.held_rings() if held.rank is not None]
    processes += [started.process for started, _ in rings.started()]
    if watching.finding:
        living = [process for process in processes if not process.has_ended()]
        for process in living:
            process.send_signal(signal.SIGSTOP)
        rings.remove_folder()
        remove_segments_of(process.pid for process in living)
        watching.leave_before_ranks()
    end_all([], also=processes)
    watching.look()


def is_used(folder: Path) -> bool:
    """Say whether a process of this user lives that was started to write its records there."""
    wanted = f"{RUN_FOLDER}={folder}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has just gone, or is somebody else's
            if wanted in environ.read_bytes().split(b"\0"):
                return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
