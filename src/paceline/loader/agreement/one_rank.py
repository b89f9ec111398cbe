"""What one rank does for all: its result, or its error, reaches every rank. Checkpoints are written whole."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from paceline.comm import Comm
from paceline.errors import PacelineError, whole_number
from paceline.loader.agreement.objects import gather_objects
from paceline.loader.agreement.problem import Problem
from paceline.process.whole_files import open_whole

T = TypeVar("T")


class OneRankError(PacelineError):
    """A task that one rank did for all has failed. Every rank raises it.

    Attributes:
        rank: The rank that failed.
    """

    def __init__(self, rank: int, problem: Problem) -> None:
        super().__init__(f"rank {rank} failed: {problem.text}")
        self.rank, self.problem = rank, problem
        self.add_note(f"on rank {rank}:\n{problem.trace}")

    def __reduce__(self) -> tuple[type[OneRankError], tuple[int, Problem]]:
        return OneRankError, (self.rank, self.problem)


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
        OneRankError: On all ranks, if the function raises.
    """
    rank = whole_number("rank", rank, least=0, most=comm.world_size - 1)
    result, problem = b"", None
    if comm.rank == rank:
        try:
            result = pickle.dumps(function())
        except Exception as error:
            problem = Problem.of(error)
    result, problem = gather_objects(comm, (result, problem))[rank]
    if problem is not None:
        raise OneRankError(rank, problem)
    returned: T = pickle.loads(result)
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
