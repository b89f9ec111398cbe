"""What launchers put into the environment of the ranks they start, and what they are called: the one table of it.

It lies below `comm`, which finds a rank's place by it, and the guard's part inside a watched rank reads it too. Nothing
here looks at the environment of this process unless it is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import NamedTuple

from paceline.errors import InputError

_MAX_DIGITS = 7  # a longer number is not a number of ranks, and the doctor counts up to what strangers wrote


class Launcher(NamedTuple):
    """The variables by which a launcher tells a process which rank it is.

    Attributes:
        name: What people call it.
        rank: The variable with the rank.
        world_size: The variable with the number of ranks.
        local_rank: The variable with the rank among those of this machine.
        local_size: The variable with the number of ranks on this machine, if there is one.
        is_mpi: Whether its ranks can talk over MPI.
        needs_size: Whether the rank counts only if the world size is there too.
    """

    name: str
    rank: str
    world_size: str
    local_rank: str
    local_size: str | None
    is_mpi: bool = True
    needs_size: bool = False


TORCHRUN = Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", is_mpi=False)
OPEN_MPI = Launcher(
    "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
)  # fmt: skip
# PMIx itself has no variable for the number of ranks. Some versions of Open MPI set theirs, but not their own rank.
PMIX = Launcher("PMIx", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
# Hydra, and with it Intel MPI. The local ones are called MPI_..., not PMI_...
MPICH = Launcher("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
MVAPICH = Launcher(
    "MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"
)
# A batch script, outside of any srun, has SLURM_PROCID=0 and SLURM_NTASKS too: it is not rank 0 of the job. Only a step
# has SLURM_STEP_NUM_TASKS. SLURM_STEP_TASKS_PER_NODE is a list like 4(x2),3, so nothing says how many are here. Whether
# the ranks have MPI depends on how Slurm was built.
SRUN = Launcher(
    "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", None, is_mpi=False, needs_size=True
)  # fmt: skip

# In the order in which they are believed. torchrun is first: it may itself run below mpiexec or srun, and then what it
# says is about the ranks and what they say is about the torchruns. srun is last: most others may run below it.
LAUNCHERS = (TORCHRUN, OPEN_MPI, PMIX, MPICH, MVAPICH, SRUN)

# Which job a rank is of: ranks of one job have the same, jobs that run at the same time mostly do not.
TORCH_JOB_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
LAUNCHER_JOB_VARIABLES = ("PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID")

_MPI_COMMANDS = ("mpiexec", "mpirun", "mpiexec.hydra", "orterun", "prterun", "srun")
# The kernel keeps 15 bytes of a name; hydra_pmi_proxy just fits.
_DAEMONS = ("hydra_pmi_proxy", "orted", "prted", "slurmstepd")
LAUNCHER_PROGRAMS = (*_MPI_COMMANDS, *_DAEMONS)  # as the kernel names them
LAUNCHER_SCRIPTS = ("torchrun", "accelerate", "deepspeed", "horovodrun")  # written in Python
LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
LAUNCHER_COMMANDS = (*_MPI_COMMANDS, *LAUNCHER_SCRIPTS)  # as people call them


class LaunchedRank(NamedTuple):
    """What a launcher says of a process.

    Attributes:
        launcher: Who says it.
        rank: Which rank it is.
        world_size: How many ranks there are; None if it does not say.
        local_size: How many of them are on this machine; None if it does not say.
        job: What is equal for the ranks of one job.
    """

    launcher: Launcher
    rank: int
    world_size: int | None
    local_size: int | None
    job: tuple[str, ...]


def launched_rank(environ: Mapping[str, str]) -> LaunchedRank | None:
    """Return which rank of which job an environment names; None if no launcher made it.

    A launcher that tells the number of ranks too is believed before one that tells the rank alone.

    >>> launched_rank({"PMI_RANK": "2", "PMI_SIZE": "4"})[1:3]
    (2, 4)

    Raises:
        InputError: What should be a number is not one.
    """
    named = [launcher for launcher in LAUNCHERS if launcher.rank in environ]
    complete = [launcher for launcher in named if launcher.world_size in environ]
    alone = [launcher for launcher in named if not launcher.needs_size]
    if not complete and not alone:
        return None
    launcher = (complete or alone)[0]
    rank = _number(environ, launcher.rank, launcher)
    assert rank is not None
    return LaunchedRank(
        launcher=launcher,
        rank=rank,
        world_size=_number(environ, launcher.world_size, launcher),
        local_size=_number(environ, launcher.local_size, launcher),
        job=tuple(environ.get(name, "") for name in (*TORCH_JOB_VARIABLES, *LAUNCHER_JOB_VARIABLES)),
    )


def hydra_job(command: Sequence[str]) -> str:
    """Return what is equal for all proxies of a job that hydra runs, on whatever machine; "" if it is not a proxy's.

    Jobs that a rank spawns have the same address and another number of their process group.

    >>> hydra_job(["/bin/hydra_pmi_proxy", "--control-port", "n1:35753", "--rmk", "user", "--pgid", "0"])
    'hydra n1:35753 0'
    """
    options = dict(pairwise(command))
    found = [options.get(name) for name in ("--control-port", "--pgid")]
    if not command or PurePath(command[0]).name != "hydra_pmi_proxy" or None in found:
        return ""
    return f"hydra {found[0]} {found[1]}"


def _number(environ: Mapping[str, str], name: str | None, launcher: Launcher) -> int | None:
    text = environ.get(name) if name is not None else None
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise InputError(f"{name}={text!r} of {launcher.name} is not a number")
    return int(text)


def torchrun_environment(rank: int, world_size: int, *, port: int) -> dict[str, str]:
    """Return what torchrun would put into the environment of a rank if all of them are on this machine."""
    numbers = {
        TORCHRUN.rank: rank, TORCHRUN.local_rank: rank, TORCHRUN.world_size: world_size,
        "LOCAL_WORLD_SIZE": world_size, "GROUP_RANK": 0, "MASTER_PORT": port,
    }  # fmt: skip
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in numbers.items()}}


def without_job(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for the ranks of a new job, without what would make them ranks of the job we are in.

    What Slurm says stays: an mpiexec finds the machines of its allocation by it.
    """
    dropped = {name for launcher in LAUNCHERS if launcher is not SRUN for name in launcher[1:5]}
    dropped |= {"GROUP_RANK", *TORCH_JOB_VARIABLES}
    return {name: value for name, value in environ.items() if name not in dropped}
