"""The folder of a run on a host that it was not started on: the first rank there makes it, and starts a watcher.

The rank must not suffer from it: nothing of the rank's is held open, and the watcher is not its child.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

HEAD = "PACELINE_HEAD"  # the variable that says where the head can be reached, as HOST:PORT,HOST:PORT
BATCH_JOB = (
    "PACELINE_BATCH_JOB"  # the variable that says in which batch job the run is, as NAME=ID: jobs inherit others'
)
# the variable with the name of a job whose secret follows from it and from the user's own key, because what hands the
# variables on shows them to others
JOB = "PACELINE_JOB"
PYTHON = "PACELINE_PYTHON"  # the variable with the interpreter that the run was started by
DRIVER = "driver"  # the file in the folder of a run by which a driver of Ray says that it asks for workers
_WATCHER = (
    "paceline.guard.run.several_hosts.host_watcher"  # by name: it is of a layer above, and of another interpreter
)
# of the rank, and not of whoever watches it
_OF_RANK = ("PACELINE_RUN_FOLDER", "PACELINE_RANK_PROCESS", "LD_PRELOAD")
_BOOT = os.path.join("paceline", "guard", "boot")


def make_host_folder(folder: str) -> None:
    """Make the folder, if nobody on this host has yet, and start the watcher of this host."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
    _start_watcher(folder)


def _start_watcher(folder: str) -> None:
    import sys
    import time

    wanted = os.environ.get(PYTHON, "")
    program = wanted if os.access(wanted, os.X_OK) else sys.executable
    command = [program, "-P", "-m", _WATCHER, folder, str(os.getpid()), str(time.time())]
    environment = watcher_environment(os.environ)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:  # a child of a child: the script must not find it among its own
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        log = os.open(os.path.join(folder, "watcher.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, number)
        os.closerange(3, 4096)  # a pipe of the launcher's that it held would keep the launcher waiting
        os.posix_spawn(program, command, environment)
    finally:
        os._exit(0)


def watcher_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a watcher: that of the rank, without what makes a process a watched one.

    >>> watcher_environment({"PYTHONPATH": "/x/paceline/guard/boot:/y", "PACELINE_RUN_FOLDER": "/z"})
    {'PYTHONPATH': '/y'}
    """
    kept = {name: value for name, value in environ.items() if name not in _OF_RANK}
    paths = [path for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path and not path.endswith(_BOOT)]
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        kept.pop("PYTHONPATH", None)
    return kept
