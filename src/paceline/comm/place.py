"""Where this process stands: its rank and the number of ranks, as the running job says.

It asks what is already there and starts nothing: torch is looked at only if the program has imported it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from paceline.errors import InputError, whole_number

# Name of the launcher, then the variables that hold rank and world size. The first pair that is there counts.
_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH", "PMI_RANK", "PMI_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    # SLURM_NTASKS would also be there in a batch script, outside of any srun
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A rank among `world_size` ranks, and who says so."""

    rank: int
    world_size: int
    source: str

    def __post_init__(self) -> None:
        whole_number("world_size", self.world_size, least=1)
        whole_number(f"rank (from {self.source})", self.rank, least=0, most=self.world_size - 1)


def find_place(
    rank: int | None = None,
    world_size: int | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Place:
    """Return the place of this process: from the arguments, torch.distributed, the launcher, or alone.

    >>> find_place(2, 7)
    Place(rank=2, world_size=7, source='arguments')
    >>> find_place(environ={"RANK": "1", "WORLD_SIZE": "4"})
    Place(rank=1, world_size=4, source='torchrun')
    """
    if rank is not None and world_size is not None:
        return Place(rank=rank, world_size=world_size, source="arguments")
    if rank is not None:  # it would pass on one rank and fail on the others
        raise InputError(f"rank {rank} was given without the world size: give both, or neither")
    found = _from_torch() or _from_launcher(os.environ if environ is None else environ)
    found = found or Place(rank=0, world_size=1, source="no launcher: this process is alone")
    if world_size is not None and world_size != found.world_size:
        raise InputError(
            f"world size {world_size} was given without a rank, but this is rank {found.rank} of {found.world_size} "
            f"({found.source}): give both, or neither"
        )
    return found


def _from_torch() -> Place | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    return Place(
        rank=distributed.get_rank(),
        world_size=distributed.get_world_size(),
        source="torch.distributed",
    )


def _from_launcher(environ: Mapping[str, str]) -> Place | None:
    if ("RANK" in environ) != ("WORLD_SIZE" in environ):
        known = "RANK" if "RANK" in environ else "WORLD_SIZE"
        raise InputError(
            f"{known}={environ[known]!r} is set in the environment without its partner: "
            f"set both RANK and WORLD_SIZE as torchrun does, or neither"
        )
    for launcher, rank_name, size_name in _LAUNCHERS:
        if rank_name in environ and size_name in environ:
            rank, size = environ[rank_name], environ[size_name]
            if not (rank.isdecimal() and size.isdecimal()):
                raise InputError(f"{rank_name}={rank!r} and {size_name}={size!r} of {launcher} are not numbers")
            return Place(rank=int(rank), world_size=int(size), source=launcher)
    return None
