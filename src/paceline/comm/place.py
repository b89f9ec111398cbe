"""Where this process stands: its rank and the number of ranks, as the running job says.

It asks what is already there and starts nothing: torch is looked at only if the program has imported it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from paceline.errors import InputError, whole_number
from paceline.process.launchers import TORCHRUN, launched_rank


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
    place = place_in_torch() or _from_launcher(os.environ if environ is None else environ)
    place = place or Place(rank=0, world_size=1, source="no launcher: this process is alone")
    if world_size is not None and world_size != place.world_size:
        raise InputError(
            f"world size {world_size} was given without a rank, but this is rank {place.rank} of {place.world_size} "
            f"({place.source}): give both, or neither"
        )
    return place


def place_in_torch() -> Place | None:
    """Return the place of this process in torch.distributed, if that is initialised."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    return Place(
        rank=distributed.get_rank(),
        world_size=distributed.get_world_size(),
        source="torch.distributed",
    )


def _from_launcher(environ: Mapping[str, str]) -> Place | None:
    if (TORCHRUN.rank in environ) != (TORCHRUN.world_size in environ):
        known = TORCHRUN.rank if TORCHRUN.rank in environ else TORCHRUN.world_size
        raise InputError(
            f"{known}={environ[known]!r} is set in the environment without its partner: "
            f"set both RANK and WORLD_SIZE as torchrun does, or neither"
        )
    launched = launched_rank(environ)
    if launched is None:
        return None
    if launched.world_size is None:  # it is not alone, and to think so would load all samples on every rank
        raise InputError(
            f"{launched.launcher.rank}={launched.rank} says which rank this is, but nothing says how many there are: "
            f"give both rank and world size, call torch.distributed.init_process_group first, or connect('mpi')"
        )
    return Place(rank=launched.rank, world_size=launched.world_size, source=launched.launcher.name)
