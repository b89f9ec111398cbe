"""Which running cluster a driver of Ray would connect to: the same rules by which Ray itself finds it.

A driver that finds none starts its own on this machine, whose workers inherit the environment.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.launch.launcher_command.node_command import has_launcher

_ADDRESS = "RAY_ADDRESS"
_LOCAL_RANKS = "paceline.launch.local_ranks"  # what `paceline run -n` runs: its ranks are here
_OPEN = ("", "auto")  # Ray is to look for a cluster
_MOST_BYTES = 1000  # of a file that holds one address
_CONNECT_SECONDS = 1.0


class RayCluster(NamedTuple):
    """Where a cluster is found.

    Attributes:
        host: The host that keeps its books.
        port: The port there.
    """

    host: str
    port: int


def find_cluster(command: Sequence[str], environ: Mapping[str, str]) -> RayCluster | None:
    """Return the cluster that runs now and that a driver would connect to; None if the command is no driver."""
    if has_launcher(command) or _LOCAL_RANKS in command:
        return None
    cluster = named_cluster(environ.get(_ADDRESS, "")) or noted_cluster(environ)
    return cluster if cluster is not None and _answers(cluster) else None


def named_cluster(address: str) -> RayCluster | None:
    """Return the cluster that an address names.

    >>> named_cluster("10.0.0.1:6379"), named_cluster("[fd00::1]:6379")
    (RayCluster(host='10.0.0.1', port=6379), RayCluster(host='fd00::1', port=6379))
    >>> named_cluster("auto") is None, named_cluster("ray://10.0.0.1:10001") is None
    (True, True)
    """
    host, _, port = address.strip().rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 0xFFFF:
        return None
    return RayCluster(host.strip("[]"), int(port))


def noted_cluster(environ: Mapping[str, str]) -> RayCluster | None:
    """Return the cluster that the last `ray start` on this machine has made or joined, if the address is left open."""
    if environ.get(_ADDRESS, "") not in _OPEN:
        return None
    note = Path(environ.get("RAY_TMPDIR") or environ.get("TMPDIR") or "/tmp", "ray", "ray_current_cluster")
    try:
        # anybody may have put it there: a pipe, for example, would keep us waiting
        with open(os.open(note, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return named_cluster(os.fsdecode(file.read(_MOST_BYTES))) if is_file else None
    except OSError:  # there is none
        return None


def _answers(cluster: RayCluster) -> bool:
    """Say whether somebody listens there: a cluster that was killed leaves its note behind."""
    import socket

    try:
        with socket.create_connection(cluster, timeout=_CONNECT_SECONDS):
            return True
    except (OSError, UnicodeError):
        return False
