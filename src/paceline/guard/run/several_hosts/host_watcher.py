"""Watches the ranks of one host for a head elsewhere.

`python -m paceline.guard.run.several_hosts.host_watcher FOLDER PID TIME` starts it.

The first rank of the host starts it. It exits after the ranks, and removes the folder and what an MPI has left.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from paceline.guard.hosts.keys import KEY, read_secret
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.kernel_view import end_all
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.run.run_folder import become_judge, remove_stale_folders
from paceline.guard.shared_memory.host_folder import HEAD
from paceline.launch.leftovers import remove_leftovers, shared_files_now

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
        rings = afterwards.enter_context(closing(LocalRings(folder)))
        secret = read_secret(os.environ.pop(KEY))
        watching = afterwards.enter_context(closing(Watching(rings, os.environ[HEAD].split(","), secret)))
        _watch(rings, watching, starter)
    return 0


def _made_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it has just gone
        return 0.0


def _watch(rings: LocalRings, watching: Watching, starter: int) -> None:
    alone_since = None  # since when no rank is left
    while True:
        watching.wait()
        watching.look()
        if watching.has_ended:
            end_all([], also=[held.rank.process for held in rings.held_rings() if held.rank is not None])
            end_all([], also=[started.process for started, _ in rings.started()])
            watching.look()
            return
        ranks = [held.rank for held in rings.held_rings() if held.rank is not None]
        starting = [started for started, _ in rings.started() if not started.process.has_ended()]
        if starting or any(not rank.process.has_ended() for rank in ranks):
            alone_since = None
            continue
        if not ranks and Path(f"/proc/{starter}").exists():
            continue
        alone_since = alone_since or time.monotonic()
        if time.monotonic() - alone_since > (_AFTER_SECONDS if ranks else _FIRST_SECONDS):
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
