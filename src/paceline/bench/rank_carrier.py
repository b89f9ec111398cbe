"""What the ranks of the benchmark talk over on this machine, and the search for mpiexec, which takes a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec

from paceline.launch.mpiexec import MpiError, find_mpiexec


def default_carrier() -> str:
    """Return `mpi` if mpi4py is installed, otherwise `torch`."""
    return "mpi" if find_spec("mpi4py") is not None else "torch"


@contextmanager
def searching_for_mpiexec(carrier: str) -> Iterator[None]:
    """Search for mpiexec while something else is done: mpi4py is asked in a process of its own.

    What is found is remembered by `find_mpiexec`.
    """
    if carrier != "mpi":
        yield
        return
    search = threading.Thread(target=_search)
    search.start()
    try:
        yield
    finally:
        search.join()  # the guard starts ranks by a fork, which must find no other thread


def _search() -> None:
    with suppress(MpiError):  # it is raised again when ranks are started
        find_mpiexec()
