"""What one rank does for all: its result, or its error, reaches every rank. Checkpoints are written whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from paceline.comm import Comm
from paceline.errors import PacelineError, whole_number
from paceline.loader.agreement.objects import gather_user_value, pack_user_value, unpack_user_value
from paceline.loader.agreement.problem import Problem
from paceline.process.whole_files import open_whole

T = TypeVar("T")


class OneRankError(PacelineError):
    """A task that one rank did for all has failed. Every rank raises it.

    Attributes:
        rank: The rank that failed.
        is_of_another_rank: Whether it is not this one; the guard reads it.
    """

    def __init__(self, rank: int, problem: Problem, is_of_another_rank: bool = False) -> None:
        super().__init__(f"rank {rank} failed: {problem.text}")
        self.rank, self.problem, self.is_of_another_rank = rank, problem, is_of_another_rank
        self.add_note(f"on rank {rank}:\n{problem.trace}")

    def __reduce__(self) -> tuple[type[OneRankError], tuple[int, Problem, bool]]:
        return OneRankError, (self.rank, self.problem, self.is_of_another_rank)


def on_one_rank(comm: Comm, function: Callable[[], T], *, rank: int = 0) -> T:
    """Call a function on one rank, and return what it returns on all of them. All ranks call this.

    >>> from paceline.comm.alone_comm import AloneComm
    >>> on_one_rank(AloneComm(), lambda: "downloaded")
    'downloaded'

    Args:
        comm: The ranks.
        function: What to do; what it returns is pickled.
        rank: The rank that does it.

    Raises:
        OneRankError: On all ranks, if the function raises. `SystemExit` and `KeyboardInterrupt` stay what they are on
            the rank that raised them.
    """
    rank = whole_number("rank", rank, least=0, most=comm.world_size - 1)
    result, problem, ending = b"", None, None
    if comm.rank == rank:
        try:
            result = pack_user_value(function())
        except BaseException as error:  # the others wait, whatever has ended it
            problem = Problem.of(error)
            ending = None if isinstance(error, Exception) else error
    result, problem = gather_user_value(comm, result, problem, rank)
    if ending is not None:
        raise ending
    if problem is not None:
        raise OneRankError(rank, problem, is_of_another_rank=comm.rank != rank)
    returned: T = unpack_user_value(result)
    return returned


def save_whole(comm: Comm, state: Any, path: str | os.PathLike[str], *, rank: int = 0) -> None:
    """Save a checkpoint from one rank. The file is the old one or the new one, never a part. All ranks call this.

    It is written beside the old file, flushed to the disk, and renamed. If that fails (a full disk, say), the old file
    stays and all ranks raise.

    Args:
        comm: The ranks.
        state: What `torch.save` takes; that of the saving rank is saved.
        path: The file.
        rank: The rank that saves.

    Raises:
        OneRankError: On all ranks, if it could not be saved.
    """
    on_one_rank(comm, lambda: _save(state, Path(path)), rank=rank)


def _save(state: Any, path: Path) -> None:
    with open_whole(path, to_disk=True) as file:
        torch.save(state, file)
