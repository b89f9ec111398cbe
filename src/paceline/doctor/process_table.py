"""The processes of this machine as /proc shows them, and which of them are the ranks of a job."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from paceline.errors import InputError
from paceline.process.launchers import (
    LAUNCHER_MODULES,
    LAUNCHER_PROGRAMS,
    LAUNCHER_SCRIPTS,
    LaunchedRank,
    launched_rank,
)
from paceline.process.procfs import all_pids, command_of, environ_of, read_stat, user_of

_PYTHON = re.compile(r"(python|pypy)[\d.]*$")
_MODULES = (*LAUNCHER_MODULES, "paceline", "paceline.launch.local_ranks")
_SCRIPTS = (*LAUNCHER_SCRIPTS, "paceline")
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process."""

    pid: int
    parent: int
    uid: int
    name: str
    command: tuple[str, ...]
    began: int

    @property
    def is_python(self) -> bool:
        """Whether it is a Python interpreter."""
        return bool(self.command) and _PYTHON.search(self.command[0]) is not None

    @property
    def is_launcher(self) -> bool:
        """Whether it starts ranks and is not one itself."""
        if self.name in LAUNCHER_PROGRAMS:
            return True
        arguments = list(self.command[1:])
        while arguments and arguments[0].startswith("-") and arguments[0] != "-m":
            arguments.pop(0)
        if arguments[:1] == ["-m"]:
            return len(arguments) > 1 and arguments[1] in _MODULES
        return bool(arguments) and os.path.basename(arguments[0]) in _SCRIPTS

    @property
    def is_helper(self) -> bool:
        """Whether multiprocessing started it for itself."""
        return any(name in argument for argument in self.command[1:4] for name in _HELPERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A process that is taken for a rank."""

    process: Process
    launched: LaunchedRank | None  # what its launcher says of it


def read_processes() -> dict[int, Process]:
    """Return all processes that live now."""
    found = {}
    for pid in all_pids():
        with suppress(OSError):  # it has ended in the meantime
            stat = read_stat(pid)
            if stat.state not in "ZX":
                found[pid] = Process(
                    pid=pid, parent=stat.parent, uid=user_of(pid), name=stat.name, command=command_of(pid),
                    began=stat.start_time,
                )  # fmt: skip
    return found


def below(processes: Mapping[int, Process], roots: Collection[int]) -> list[Process]:
    """Return these processes and all they have started, parents first."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found = [processes[root] for root in roots if root in processes]
    seen = {process.pid for process in found}
    for process in found:  # grows while it is gone through
        for child in sorted(children.get(process.pid, ()), key=lambda each: each.pid):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
    return found


def check_pids(processes: Mapping[int, Process], pids: Sequence[int]) -> None:
    """Refuse numbers that name no process, or one that has nothing to do with Python."""
    gone = [pid for pid in pids if pid not in processes]
    if gone:
        raise InputError(f"there is no process {', '.join(map(str, gone))}")
    for pid in pids:
        if not any(process.is_python for process in below(processes, [pid])):
            name = processes[pid].name
            raise InputError(f"process {pid} ({name!r}) is not a Python process and has not started one")


def ranks_below(processes: Mapping[int, Process], roots: Sequence[int]) -> list[Candidate]:
    """Return the ranks among these processes and what they have started."""
    tree = [process for process in below(processes, roots) if process.is_python]
    named = named_ranks(processes, tree)
    if named:
        return named
    return [Candidate(process=process, launched=None) for process in _unnamed_ranks(tree)]


def named_ranks(processes: Mapping[int, Process], tree: Sequence[Process]) -> list[Candidate]:
    """Return the Python processes to which a launcher gave a rank; not what ranks have started in their turn."""
    named: dict[int, LaunchedRank] = {}
    for process in tree:
        if not process.is_launcher and not process.is_helper:
            with suppress(InputError):  # what should be a number is none: its launcher says nothing of use
                launched = launched_rank(environ_of(process.pid))
                if launched is not None:
                    named[process.pid] = launched
    # torchrun in a job step of Slurm has a number itself, and its ranks have another name for theirs
    launchers = {
        pid for child, launched in named.items() for pid in _ancestors(processes, child)
        if pid in named and named[pid].launcher != launched.launcher
    }  # fmt: skip
    found = []
    for process in tree:
        if process.pid in named and process.pid not in launchers:
            above = [pid for pid in _ancestors(processes, process.pid) if pid in named and pid not in launchers]
            if not above:
                found.append(Candidate(process=process, launched=named[process.pid]))
    return found


def _ancestors(processes: Mapping[int, Process], pid: int) -> list[int]:
    found: list[int] = []
    while (process := processes.get(pid)) is not None and process.parent not in (0, pid):
        pid = process.parent
        found.append(pid)
    return found


def _unnamed_ranks(tree: Sequence[Process]) -> list[Process]:
    """Return what a program has started with multiprocessing; the program itself if it has started nothing."""
    pids = {process.pid: process for process in tree}
    topmost = [process for process in tree if process.parent not in pids]
    children = [process for process in tree if process.parent in pids and not _is_server(process, pids)]
    # what a child of the program has started itself are its workers
    parents = {process.pid for process in topmost} | {p.pid for p in tree if p.is_helper or p.is_launcher}
    ranks = [process for process in children if process.parent in parents and not process.is_launcher]
    return ranks or [process for process in topmost if not process.is_launcher]


def _is_server(process: Process, pids: Mapping[int, Process]) -> bool:
    """Say whether it is a helper of multiprocessing; children of its fork server look the same and are none."""
    return process.is_helper and not pids[process.parent].is_helper


def outermost_launcher(processes: Mapping[int, Process], candidate: Candidate) -> Process:
    """Return what the user has started: the outermost launcher, else the program above, else the process itself."""
    above = [processes[pid] for pid in _ancestors(processes, candidate.process.pid) if pid in processes]
    launchers = [process for process in above if process.is_launcher]
    pythons = [process for process in above[:1] if process.is_python]
    return next(iter(launchers[::-1] or pythons), candidate.process)


def job_key(processes: Mapping[int, Process], candidate: Candidate) -> tuple[object, ...]:
    """Return what is equal for the ranks of one job, and differs between jobs."""
    launcher = next(
        (
            pid
            for pid in _ancestors(processes, candidate.process.pid)
            if pid in processes and processes[pid].is_launcher
        ),
        candidate.process.parent,
    )
    return (launcher, candidate.launched.job if candidate.launched is not None else ())
