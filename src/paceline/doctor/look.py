"""Looks at the jobs of some processes: finds their ranks, takes two looks at each, and puts the evidence together."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from paceline.doctor.observed_job import Look, SeenJob, SeenRank
from paceline.doctor.process_table import (
    Candidate,
    Process,
    check_pids,
    job_key,
    named_ranks,
    outermost_launcher,
    ranks_below,
    read_processes,
)
from paceline.doctor.spy import look_at
from paceline.doctor.stack_calls import is_worker, rank_in_stack
from paceline.errors import InputError, name_ranks
from paceline.process.hidden_secrets import without_secrets
from paceline.process.launchers import LaunchedRank
from paceline.process.native_stacks import SpyError
from paceline.process.procfs import folder_of

_MAX_NAME = 60
_AT_A_TIME = 4  # py-spy holds a process still while it reads; several at once keep the looks close together


@dataclass(slots=True)
class _Seen:
    """What is collected of one process."""

    candidate: Candidate
    looks: list[Look] = field(default_factory=list)
    problem: str | None = None


def look_at_jobs(program: str, pids: Sequence[int], *, user: int | None, seconds: float) -> list[SeenJob]:
    """Look twice, some seconds apart, at the jobs of these processes, or of a user.

    Args:
        program: where py-spy is.
        pids: ranks, or launchers: then all ranks below them.
        user: all ranks of this user, by number.
        seconds: between the two looks.
    """
    processes = read_processes()
    check_pids(processes, pids)
    candidates = ranks_below(processes, pids) if pids else []
    if user is not None:
        pythons = [
            each for each in processes.values() if each.uid == user and each.is_python and each.pid != os.getpid()
        ]
        known = {candidate.process.pid for candidate in candidates}
        candidates += [found for found in named_ranks(processes, pythons) if found.process.pid not in known]
    if not candidates:
        raise InputError("there is no rank: no Python process to which a launcher gave a rank")
    seen = _look_twice(program, candidates, seconds)
    if all(each.problem is not None for each in seen):
        raise InputError(f"no rank can be looked at; process {seen[0].candidate.process.pid}: {seen[0].problem}")
    jobs: dict[tuple[object, ...], list[_Seen]] = {}
    for each in seen:
        jobs.setdefault(job_key(processes, each.candidate), []).append(each)
    if len(jobs) > 1 and all(each.candidate.launched is None for each in seen):
        jobs = {(): seen}  # processes that were named one by one
    named_one_by_one = {candidate.process.pid for candidate in candidates} & set(pids)
    return [_job(processes, members, is_whole=not named_one_by_one) for members in jobs.values()]


def _look_twice(program: str, candidates: Sequence[Candidate], seconds: float) -> list[_Seen]:
    seen = [_Seen(candidate) for candidate in candidates]

    def look(each: _Seen) -> None:
        if each.problem is None:
            try:
                each.looks.append(look_at(program, each.candidate.process.pid, uid=each.candidate.process.uid))
            except SpyError as error:
                each.problem = str(error)

    with ThreadPoolExecutor(max_workers=_AT_A_TIME) as pool:
        began = time.monotonic()
        list(pool.map(look, seen))
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        list(pool.map(look, seen))
    return [
        each for each in seen if not (each.candidate.launched is None and each.looks and _is_worker(each.looks[-1]))
    ]


def _is_worker(look: Look) -> bool:
    return is_worker(look.main)


def _job(processes: Mapping[int, Process], members: Sequence[_Seen], *, is_whole: bool) -> SeenJob:
    launched = [each.candidate.launched for each in members if each.candidate.launched is not None]
    world_size = max((each.world_size for each in launched if each.world_size is not None), default=None)
    numbers, source = _numbers(members)
    notes = []
    ranks: dict[int, SeenRank] = {}
    unseen: dict[int, str] = {}
    for each, rank in zip(members, numbers, strict=True):
        pid = each.candidate.process.pid
        if rank in ranks or rank in unseen:
            notes.append(f"process {pid} says that it is rank {rank} too; it is left out")
        elif each.problem is not None or len(each.looks) < 2:
            unseen[rank] = f"process {pid}: {each.problem}"
        else:
            ranks[rank] = SeenRank(rank=rank, pid=pid, first=each.looks[0], second=each.looks[1], cwd=folder_of(pid))
    ended = [rank for rank, why in unseen.items() if "has ended" in why]
    missing, elsewhere = _absent(set(numbers) - set(ended), launched, world_size, is_whole=is_whole)
    if not is_whole and elsewhere:
        notes.append(f"only {name_ranks(numbers)} of {world_size} ranks were named: name their launcher to see all")
    return SeenJob(
        name=_name(processes, members[0].candidate), ranks=tuple(ranks[rank] for rank in sorted(ranks)),
        world_size=world_size, missing=missing, num_elsewhere=elsewhere,
        unseen={rank: why for rank, why in unseen.items() if rank not in missing}, ranks_from=source,
        notes=tuple(notes),
    )  # fmt: skip


def _numbers(members: Sequence[_Seen]) -> tuple[list[int], str]:
    """Return the rank of each process, and what says so."""
    launched = [each.candidate.launched for each in members if each.candidate.launched is not None]
    if len(launched) == len(members):
        return [each.rank for each in launched], launched[0].launcher.rank
    ranks = [rank_in_stack(each.looks[-1].main if each.looks else None) for each in members]
    known = [rank for rank in ranks if rank is not None]
    if len(known) == len(members) == len(set(known)):
        return known, "a variable in their stacks"
    return list(range(len(members))), "the order in which they were started, since nothing says it"


def _absent(
    here: set[int], launched: Sequence[LaunchedRank], world_size: int | None, *, is_whole: bool
) -> tuple[tuple[int, ...], int]:
    """Return which ranks should be on this machine and are not, and how many are not to be expected here."""
    if world_size is None:
        return (), 0
    away = [rank for rank in range(world_size) if rank not in here]
    local = max((each.local_size or 0 for each in launched), default=0) or None
    # With ranks on several machines it is not known which of them belong here: only a whole world can be checked.
    if is_whole and (local is None or local == world_size):
        return tuple(away), 0
    return (), len(away)


def _name(processes: Mapping[int, Process], candidate: Candidate) -> str:
    launcher = outermost_launcher(processes, candidate)
    words = [os.path.basename(word) if "/" in word else word for word in without_secrets(launcher.command)]
    words = words or [launcher.name]
    if launcher.is_python and len(words) > 1:
        words = words[1:]
    text = " ".join(words)
    return f"{text if len(text) <= _MAX_NAME else f'{text[:_MAX_NAME]}...'} (pid {launcher.pid})"
