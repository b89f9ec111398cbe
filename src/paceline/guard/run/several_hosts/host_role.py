"""What this process is in a job that may run on several hosts: alone, the head of all, or one that follows a head.

A port is opened only if the command shows that there are other hosts. What needs paceline[hosts] is imported only then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.errors import InputError
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.watched_process import RUN_FOLDER
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.watch_options import WatchOptions, variables_of
from paceline.guard.shared_memory.host_folder import BATCH_JOB, HEAD, JOB, PYTHON
from paceline.launch.launcher_command.handing_on import batch_job, handing_on, with_names
from paceline.launch.launcher_command.launcher_words import launcher_elsewhere
from paceline.launch.launcher_command.node_command import (
    NodeMeeting,
    StepTask,
    node_meeting,
    rank_meeting,
    step_task,
)
from paceline.launch.launcher_command.ray_cluster import RayCluster, find_cluster

if TYPE_CHECKING:
    import socket

    from paceline.guard.run.several_hosts.viewers_place import ViewersPlace

_NEEDED = ("zmq", "msgspec")
_KEY = "PACELINE_KEY"
_ALONE = "this job runs on several hosts, and each is watched alone"
_RAY_ALONE = "a cluster of Ray runs, and workers on other hosts are not watched"
_TASK_ALONE = "srun has started this command for each rank, and each is watched alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRole:
    """What this process is: alone, as most are.

    Attributes:
        command: The command, as it is to be started.
        variables: What is added to its environment.
        is_quiet: Whether a finding is told and kept by another process of the same job, which prints to the same place.
    """

    command: Sequence[str]
    variables: dict[str, str] = field(default_factory=dict, repr=False)  # the secret is among them
    is_quiet: bool = False

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
    viewers: ViewersPlace | None = None

    def rings(self, folder: Path) -> LocalRings:
        """Return the records of all hosts."""
        from paceline.guard.hosts.head_rings import HeadRings
        from paceline.guard.hosts.link import HeadLink

        link = HeadLink(self.listening, self.secret)
        serve = partial(self.viewers.serve, folder) if self.viewers is not None else None
        return HeadRings(folder, link, self.address, owns_hosts=self.owns_hosts, serve_viewers=serve)

    def close(self, folder: Path | None = None) -> None:
        """Have no port after all; leave nothing of a head that had it in the folder of the run."""
        self.listening.close()
        if self.viewers is not None:
            self.viewers.close(folder)
        if folder is not None:
            _forget_other_hosts(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerRole(HostRole):
    """One that watches the ranks of its node, or of its task, for a head elsewhere."""

    address: str
    secret: bytes = field(repr=False)
    part: str = ""  # which of several commands on this host it is

    def judged(self, rings: LocalRings, folder: Path, options: WatchOptions) -> JudgedRun:
        """Return one that tells the head, and says what the head finds."""
        from paceline.guard.run.several_hosts.following_run import FollowingRun

        return FollowingRun(rings, folder, options, self.command, self.address, self.secret, self.part)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjudgedRole(HostRole):
    """One whose heads were killed: it holds the launcher, and nothing is judged."""

    fault: str

    def judged(self, rings: LocalRings, folder: Path, options: WatchOptions) -> JudgedRun:
        """Return one that only knows the time limit of the user."""
        judged = JudgedRun(rings, folder, options, self.command)
        judged.give_up(self.fault)
        return judged


def rings_of(role: HostRole, folder: Path, options: WatchOptions) -> LocalRings:
    """Return where the records come from: the job runs already, and must not end because other hosts are not heard."""
    try:
        return role.rings(folder)
    except Exception as error:
        options.on_unseen(f"other hosts cannot be watched, and each is watched alone: {error}")
        if isinstance(role, HeadRole):
            _forget_other_hosts(folder)
        return LocalRings(folder)


def _forget_other_hosts(folder: Path) -> None:
    """Remove what a head before us has mirrored: nobody tells any more what becomes of those ranks."""
    from paceline.guard.hosts.taking_over import remove_mirrors

    remove_mirrors(folder)


def judge_of(role: HostRole, rings: LocalRings, folder: Path, options: WatchOptions) -> JudgedRun:
    """Return who judges: this host alone if its head cannot be spoken to."""
    try:
        return role.judged(rings, folder, options)
    except Exception as error:
        options.on_unseen(f"the head cannot be told of this host, which is watched alone: {error}")
        return JudgedRun(rings, folder, options, role.command)


def host_role(command: Sequence[str], options: WatchOptions) -> HostRole:
    """Return what this process is for a command; say in one line through which address other hosts are watched."""
    alone = HostRole(command=command)
    meeting, launcher = node_meeting(command, os.environ), launcher_elsewhere(command)
    task = step_task(command, os.environ) if meeting is None and launcher is None else None
    cluster = find_cluster(command, os.environ) if meeting is None and launcher is None and task is None else None
    if cluster is not None:
        return _driver_role(command, cluster, options)
    if meeting is None and launcher is None and not os.environ.get("SLURM_JOB_NODELIST"):
        return alone
    from paceline.launch.launcher_command.host_names import (
        is_this_host,
        named_hosts,
    )  # with what a job on one machine does not need

    if meeting is None and task is None:
        hosts = named_hosts(command, os.environ)
        elsewhere = [host for host in hosts if not is_this_host(host)]
        if not elsewhere and (hosts or launcher != "srun"):
            return alone
    if _is_anything_missing():
        options.on_unseen(
            f"{_ALONE}: to watch them as one, pip install 'paceline[hosts]' on all of them"
            if task is None
            else f"{_TASK_ALONE}: to watch them as one, pip install 'paceline[hosts]', or `paceline run -- srun ...`"
        )
        return alone
    try:
        if task is not None:
            return _task_role(command, task, options)
        return _node_role(command, meeting, options) if meeting is not None else _head(command, elsewhere, options)
    except (InputError, OSError, OverflowError, ImportError) as error:
        options.on_unseen(f"{_ALONE if task is None else _TASK_ALONE}: {error}")
        return alone


def enabled_role(options: WatchOptions) -> HostRole:
    """Return what the judge of ranks is that have switched the guard on by themselves, by their variables."""
    alone = HostRole(command=())
    try:
        meeting = rank_meeting(os.environ)
        if meeting is None:
            return alone
        if isinstance(meeting, str):
            raise InputError(f"{meeting} does not tell ranks where the others are; `paceline run -- ...` finds them")
        if _is_anything_missing():
            raise InputError("to watch them as one, pip install 'paceline[hosts]' on all of them")
        if isinstance(meeting, StepTask):
            return _task_role((), meeting, options)
        return _node_role((), meeting, options)
    except (InputError, OSError, OverflowError, ImportError) as error:
        options.on_unseen(f"{_ALONE}: {error}")
        return alone


def _is_anything_missing() -> bool:
    return any(find_spec(name) is None for name in _NEEDED)


def _head(command: Sequence[str], elsewhere: Sequence[str], options: WatchOptions) -> HostRole:
    """Return the head of a job whose launcher starts ranks on other hosts."""
    from paceline.guard.hosts.keys import new_secret
    from paceline.guard.hosts.link import listen
    from paceline.launch.launcher_command.host_names import own_addresses

    addresses = own_addresses(elsewhere)
    if not addresses:
        raise InputError("no address of this host leads to the others")
    listening, secret = listen(addresses[0]), new_secret()
    address = _shown(addresses[0], listening.getsockname()[1])
    variables = {HEAD: address, _KEY: secret.hex(), PYTHON: sys.executable}
    if batch_job(os.environ):
        variables[BATCH_JOB] = batch_job(os.environ)
    # only those that are set: Open MPI aborts for others
    names = [*variables, RUN_FOLDER, "PYTHONPATH", *variables_of(options)]
    variables |= handing_on(command, names, os.environ)
    viewers = _say_head(options, _through(address), addresses[0], shown=addresses[0])
    return HeadRole(
        command=with_names(command, names), variables=variables, listening=listening, secret=secret,
        address=address, owns_hosts=True, viewers=viewers,
    )  # fmt: skip


def _driver_role(command: Sequence[str], cluster: RayCluster, options: WatchOptions) -> HostRole:
    """Return what this process is for a driver of Ray: the head, unless nobody else can be in the cluster.

    The secret is not handed on: Ray shows the variables of workers to others.
    """
    from secrets import token_hex

    from paceline.guard.rank.ray.runtime_env_hook import hook_variables
    from paceline.launch.launcher_command.host_names import is_loopback, own_addresses

    variables = hook_variables(os.environ)
    addresses = own_addresses([cluster.host])
    if addresses and is_loopback(addresses[0]):
        return HostRole(command=command, variables=variables)
    try:
        if _is_anything_missing():
            raise InputError("to watch them, pip install 'paceline[hosts]' on all of them")
        if not addresses:
            raise InputError("no address of this host leads to the others")
        from paceline.guard.hosts.keys import job_secret
        from paceline.guard.hosts.link import listen

        job = f"ray {token_hex(8)}"
        secret = job_secret(os.environ, job)
        listening = listen(addresses[0])
    except (InputError, OSError, OverflowError, ImportError) as error:
        options.on_unseen(f"{_RAY_ALONE}: {error}")
        return HostRole(command=command, variables=variables)
    address = _shown(addresses[0], listening.getsockname()[1])
    viewers = _say_head(options, _through(address), addresses[0], shown=addresses[0])
    return HeadRole(
        command=command, variables={**variables, HEAD: address, JOB: job, PYTHON: sys.executable},
        listening=listening, secret=secret, address=address, owns_hosts=True, viewers=viewers,
    )  # fmt: skip


def _node_role(command: Sequence[str], meeting: NodeMeeting, options: WatchOptions) -> HostRole:
    """Return the head where the nodes of a job meet, and one that follows it on the others."""
    from paceline.guard.hosts.keys import job_secret, port_of
    from paceline.guard.hosts.link import listen
    from paceline.launch.launcher_command.host_names import is_this_host, own_address

    secret = job_secret(os.environ, f"{meeting.host}:{meeting.port} {meeting.job}")
    port = port_of(secret)
    address = _shown(meeting.host, port)
    if not is_this_host(meeting.host):
        options.on_unseen(f"the ranks of this host are judged with all others by Paceline at {address} (encrypted)")
        return FollowerRole(command=command, address=address, secret=secret)
    listening = listen(own_address(meeting.host), port)
    viewers = _say_head(options, _through(address), own_address(meeting.host), shown=meeting.host)
    return HeadRole(
        command=command, listening=listening, secret=secret, address=address, owns_hosts=False, viewers=viewers
    )


def _task_role(command: Sequence[str], task: StepTask, options: WatchOptions) -> HostRole:
    """Return the head in the first task of a step of Slurm, and one that follows it in the others, without a word."""
    from paceline.guard.hosts.keys import job_secret, port_of
    from paceline.guard.hosts.link import listen
    from paceline.launch.launcher_command.host_names import own_address

    secret = job_secret(os.environ, f"step {task.step}")
    port, host = port_of(secret), task.hosts[0] if len(task.hosts) > 1 else "127.0.0.1"
    address = _shown(host, port)
    if not task.is_first:
        return FollowerRole(command=command, address=address, secret=secret, is_quiet=True, part=task.number)
    own = own_address(host) if len(task.hosts) > 1 else host
    listening = listen(own, port)
    viewers = _say_head(options, f"the other tasks of this step through {address} (encrypted)", own, shown=host)
    return HeadRole(
        command=command, listening=listening, secret=secret, address=address, owns_hosts=False, viewers=viewers
    )


def _say_head(options: WatchOptions, what: str, own: str, *, shown: str) -> ViewersPlace | None:
    """Say what is watched, and how others can look on; return where, None if that is not possible.

    Args:
        options: Of the run.
        what: What is watched, and through which address.
        own: The address of this host that others reach.
        shown: The same, as people write it.
    """
    from paceline.guard.run.several_hosts.viewers_place import viewers_place

    viewers = None
    try:
        viewers = viewers_place(own)
        how = viewers.how_to_look(shown)
    except OSError as error:
        how = f"nobody else can look on: {error}"
    options.on_unseen(f"watching {what}; {how}")
    return viewers


def _through(address: str) -> str:
    return f"other hosts through {address} (encrypted, with a key of this run)"


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
