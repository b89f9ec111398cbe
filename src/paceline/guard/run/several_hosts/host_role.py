"""What this process is in a job that may run on several hosts: alone, the head of all, or one that follows a head.

A port is opened only if the command shows that there are other hosts. What needs paceline[hosts] is imported only then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from paceline.errors import InputError
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.watched_process import RUN_FOLDER
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.watch_options import WatchOptions, variables_of
from paceline.guard.shared_memory.host_folder import BATCH_JOB, HEAD, PYTHON
from paceline.launch.launcher_words import find_launcher, launcher_elsewhere, launcher_options
from paceline.launch.node_command import NodeMeeting, node_meeting

if TYPE_CHECKING:
    import socket

_NEEDED = ("zmq", "msgspec")
_KEY = "PACELINE_KEY"
_ENV_LIST = "OMPI_MCA_mca_base_env_list"  # names of variables that Open MPI hands on to other hosts
_BATCH_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")  # what batch systems tell every process of a job
_VERSION_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRole:
    """What this process is: alone, as most are.

    Attributes:
        command: The command, as it is to be started.
        variables: What is added to its environment.
    """

    command: Sequence[str]
    variables: dict[str, str] = field(default_factory=dict)

    def rings(self, folder: Path) -> LocalRings:
        """Return where the records come from."""
        return LocalRings(folder)

    def judged(self, rings: LocalRings, folder: Path, options: WatchOptions) -> JudgedRun:
        """Return who judges."""
        return JudgedRun(rings, folder, options, self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRole(HostRole):
    """The head: watchers of other hosts call it."""

    listening: socket.socket
    secret: bytes = field(repr=False)
    address: str
    owns_hosts: bool

    def rings(self, folder: Path) -> LocalRings:
        """Return the records of all hosts."""
        from paceline.guard.hosts.head_rings import HeadRings
        from paceline.guard.hosts.link import HeadLink

        link = HeadLink(self.listening, self.secret)
        return HeadRings(folder, link, self.address, owns_hosts=self.owns_hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerRole(HostRole):
    """One that watches the ranks of its node for a head on another."""

    address: str
    secret: bytes = field(repr=False)

    def judged(self, rings: LocalRings, folder: Path, options: WatchOptions) -> JudgedRun:
        """Return one that tells the head, and says what the head finds."""
        from paceline.guard.run.several_hosts.following_run import FollowingRun

        return FollowingRun(rings, folder, options, self.command, self.address, self.secret)


def host_role(command: Sequence[str], options: WatchOptions) -> HostRole:
    """Return what this process is for a command; say in one line through which address other hosts are watched."""
    alone = HostRole(command=command)
    meeting, launcher = node_meeting(command, os.environ), launcher_elsewhere(command)
    if meeting is None and launcher is None and not os.environ.get("SLURM_JOB_NODELIST"):
        return alone
    from paceline.launch.host_names import is_this_host, named_hosts  # with what a job on one machine does not need

    if meeting is None:
        hosts = named_hosts(command, os.environ)
        elsewhere = [host for host in hosts if not is_this_host(host)]
        if not elsewhere and (hosts or launcher != "srun"):
            return alone
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        options.on_unseen(
            "this job runs on several hosts, and each is watched alone: to watch them as one, "
            "pip install 'paceline[hosts]' on all of them"
        )
        return alone
    try:
        return _node_role(command, meeting, options) if meeting is not None else _head(command, elsewhere, options)
    except (InputError, OSError, OverflowError, ImportError) as error:
        options.on_unseen(f"this job runs on several hosts, and each is watched alone: {error}")
        return alone


def _head(command: Sequence[str], elsewhere: Sequence[str], options: WatchOptions) -> HostRole:
    """Return the head of a job whose launcher starts ranks on other hosts."""
    from paceline.guard.hosts.keys import new_secret
    from paceline.guard.hosts.link import listen
    from paceline.launch.host_names import own_addresses

    addresses = own_addresses(elsewhere)
    if not addresses:
        raise InputError("no address of this host leads to the others")
    listening, secret = listen(addresses[0]), new_secret()
    address = _shown(addresses[0], listening.getsockname()[1])
    variables = {HEAD: address, _KEY: secret.hex(), PYTHON: sys.executable, **_batch_job()}
    # only those that are set: Open MPI aborts for others
    names = [*variables, RUN_FOLDER, "PYTHONPATH", *variables_of(options)]
    variables |= _handed_on(command, names)
    _say_head(options, address)
    return HeadRole(
        command=_with_exports(command, names), variables=variables, listening=listening, secret=secret,
        address=address, owns_hosts=True,
    )  # fmt: skip


def _node_role(command: Sequence[str], meeting: NodeMeeting, options: WatchOptions) -> HostRole:
    """Return the head where the nodes of a job meet, and one that follows it on the others."""
    from paceline.guard.hosts.keys import derive_secret, port_of, read_secret, user_secret
    from paceline.guard.hosts.link import listen
    from paceline.launch.host_names import is_this_host, own_address

    own = os.environ.get(_KEY)
    job = f"{meeting.host}:{meeting.port} {meeting.job}"
    secret = derive_secret(read_secret(own) if own else user_secret(), job)
    port = port_of(secret)
    address = _shown(meeting.host, port)
    if not is_this_host(meeting.host):
        options.on_unseen(f"the ranks of this host are judged with all others by Paceline at {address} (encrypted)")
        return FollowerRole(command=command, address=address, secret=secret)
    listening = listen(own_address(meeting.host), port)
    _say_head(options, address)
    return HeadRole(command=command, listening=listening, secret=secret, address=address, owns_hosts=False)


def _batch_job() -> dict[str, str]:
    """Return what tells ranks of this batch job from those of jobs that one of them submits."""
    return next(({BATCH_JOB: f"{name}={os.environ[name]}"} for name in _BATCH_JOBS if os.environ.get(name)), {})


def _say_head(options: WatchOptions, address: str) -> None:
    options.on_unseen(f"watching other hosts through {address} (encrypted, with a key of this run)")


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _handed_on(command: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return what makes Open MPI hand our variables on; other launchers hand on everything.

    Open MPI 4 aborts a job that has both this and an option -x of the user's.
    """
    launcher = find_launcher(command)
    if launcher is None or PurePath(command[launcher]).name not in ("mpirun", "mpiexec", "prterun", "orterun"):
        return {}
    version = _open_mpi_version(command[launcher])
    if not version or (version < 5 and any(option.name == "x" for option in launcher_options(command))):
        return {}
    before = os.environ.get(_ENV_LIST, "")
    return {_ENV_LIST: ";".join([*filter(None, [before]), *names])}


def _open_mpi_version(program: str) -> int:
    """Return the main version of Open MPI; 0 if it is another MPI."""
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
        )
        words = asked.stdout.partition("(Open MPI)")[2].split()
        if words and words[0].partition(".")[0].isdecimal():
            return int(words[0].partition(".")[0])
    return 0


def _with_exports(command: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the command with our variables in the list that srun hands on, if it has one. Only names are added."""
    words, launcher = list(command), find_launcher(command)
    if launcher is None or PurePath(command[launcher]).name != "srun":
        return words
    for option in launcher_options(command):
        if option.name == "export" and option.value not in ("NONE", "ALL", "NIL"):
            words[option.at] = f"{words[option.at]},{','.join(names)}"
    return words
