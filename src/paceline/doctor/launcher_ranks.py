"""Which rank of which job a process is: from the environment its launcher gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# rank, world size, ranks on this machine; in the order in which they are believed: torchrun may run below srun
_NAMES = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", ""),
)
_JOB_NAMES = (
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a launcher says of a process."""

    rank: int
    source: str  # the variable that says so
    world_size: int | None
    local_size: int | None
    job: tuple[str, ...]  # equal for the ranks of one job


def place_of(environ: Mapping[str, str]) -> Place | None:
    """Return the rank that the environment names, or None.

    >>> place_of({"PMI_RANK": "2", "PMI_SIZE": "4"}).rank
    2
    """
    for rank_name, size_name, local_name in _NAMES:
        rank = _number(environ.get(rank_name))
        if rank is not None:
            return Place(
                rank=rank,
                source=rank_name,
                world_size=_number(environ.get(size_name)),
                local_size=_number(environ.get(local_name)),
                job=tuple(environ.get(name, "") for name in _JOB_NAMES),
            )
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 8 else None
