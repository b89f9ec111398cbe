"""Whether a command may start its ranks on other machines than this one. It looks at the words of the command alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from paceline.process.launchers import LAUNCHER_PROGRAMS

_ALWAYS = ("srun",)  # it asks the batch system, and runs on the machines of the allocation
_HOST_OPTIONS = ("host", "hosts", "hostlist", "hostfile", "machinefile", "default-hostfile", "add-host", "add-hostfile")
_SHORT_HOST_OPTIONS = ("-H", "-f", "-machine")


def launcher_elsewhere(command: Sequence[str]) -> str | None:
    """Return the launcher of a command that may start ranks on other machines; None if it starts them here.

    >>> launcher_elsewhere(["mpiexec", "-hosts", "n1,n2", "python", "train.py"])
    'mpiexec'
    >>> launcher_elsewhere(["mpiexec", "-n", "4", "python", "train.py"]) is None
    True
    """
    for at, word in enumerate(command):
        name = PurePath(word).name
        if name in _ALWAYS:
            return name
        if name in LAUNCHER_PROGRAMS:
            return name if any(map(_names_hosts, command[at + 1 :])) else None
    return None


def _names_hosts(word: str) -> bool:
    return word in _SHORT_HOST_OPTIONS or (word.startswith("-") and word.lstrip("-").partition("=")[0] in _HOST_OPTIONS)
