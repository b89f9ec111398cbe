"""Finds the carrier of the running job."""

from __future__ import annotations

import os
import sys

from paceline.comm.comm import Comm
from paceline.comm.place import find_place, place_in_torch
from paceline.errors import InputError
from paceline.process.launchers import LAUNCHERS, SRUN, launched_rank

_CARRIERS = ("alone", "torch", "mpi")
_MPI_LAUNCHERS = {launcher.name for launcher in LAUNCHERS if launcher.is_mpi}


def connect(carrier: str | None = None) -> Comm:
    """Return this process's end of the running job: torch.distributed, MPI, or alone.

    Without a name: torch.distributed where it is initialised; MPI where the program has imported mpi4py.MPI or
    a launcher of MPI has started more than one rank; otherwise this process is alone. A job of several ranks that
    has no carrier yet (torchrun before init_process_group) is an error, never a job of one.

    >>> connect("alone").world_size
    1
    """
    if carrier is None:
        carrier = _carrier_of_job()
    if carrier == "torch":
        return _connect_torch()
    if carrier == "mpi":
        from paceline.comm.mpi_comm import MpiComm

        return _same_job(MpiComm())
    if carrier == "alone":
        from paceline.comm.alone_comm import AloneComm

        return AloneComm()
    raise InputError(f"carrier must be one of {', '.join(_CARRIERS)}, got {carrier!r}")


def _carrier_of_job() -> str:
    if place_in_torch() is not None:
        return "torch"
    if "mpi4py.MPI" in sys.modules:
        return "mpi"
    place = find_place()
    if place.source in _MPI_LAUNCHERS and place.world_size > 1:
        return "mpi"
    if place.world_size > 1:
        raise InputError(
            f"this is rank {place.rank} of {place.world_size} ({place.source}), but nothing connects the ranks yet: "
            f"call torch.distributed.init_process_group first, or connect('mpi')"
        )
    return "alone"


def _same_job(comm: Comm) -> Comm:
    """Refuse an MPI that knows of fewer ranks than the launcher has started: each would think that it is alone."""
    launched = launched_rank(os.environ)
    if launched is not None and launched.launcher.is_mpi and launched.world_size is None:
        return comm  # PMIx tells the rank alone; find_place would refuse that, but MPI knows the rest
    place = find_place()
    if place.source not in ("torch.distributed", SRUN.name) and place.world_size not in (1, comm.world_size):
        raise InputError(
            f"MPI has {comm.world_size} ranks, but {place.source} has started {place.world_size}: start the job by "
            f"mpiexec, or call torch.distributed.init_process_group and connect('torch')"
        )
    return comm


def _connect_torch() -> Comm:
    from paceline.comm.torch_comm import TorchComm

    if not sys.modules["torch.distributed"].is_initialized():
        raise InputError("torch.distributed is not initialised: call init_process_group first")
    return TorchComm()
