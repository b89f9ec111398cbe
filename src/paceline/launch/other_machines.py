"""Whether a command may start its ranks on other machines than this one. It looks at the words of the command alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from paceline.launch.launcher_words import find_launcher, launcher_options

# which options name hosts, and which name files of hosts; -H of srun is something else
MPI_HOSTS, SRUN_HOSTS = ("host", "hosts", "hostlist", "H", "add-host"), ("w", "nodelist")
MPI_HOST_FILES, SRUN_HOST_FILES = (
    ("hostfile", "machinefile", "machine", "f", "default-hostfile", "add-hostfile"),
    ("F", "nodefile"),
)
_SRUN = "srun"  # it asks the batch system, and runs on the machines of the allocation


def launcher_elsewhere(command: Sequence[str]) -> str | None:
    """Return the launcher of a command that may start ranks on other machines; None if it starts them here.

    >>> launcher_elsewhere(["mpiexec", "-hosts", "n1,n2", "python", "train.py"])
    'mpiexec'
    >>> launcher_elsewhere(["mpiexec", "-n", "4", "./run.sh", "-f", "cfg.toml"]) is None
    True
    """
    at = find_launcher(command)
    if at is None:
        return None
    name = PurePath(command[at]).name
    names_hosts = any(option.name in (*MPI_HOSTS, *MPI_HOST_FILES) for option in launcher_options(command))
    return name if name == _SRUN or names_hosts else None
