"""Runs a function on real ranks over any carrier, and says how each of them ended.

Ranks of a whole program are started by `local_ranks`, or by whatever launcher the user has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paceline.errors import InputError, whole_number
from paceline.launch.outcome import Outcome
from paceline.launch.rank_processes import run_processes
from paceline.launch.rank_threads import run_threads

CARRIERS = ("threads", "torch", "mpi")


def run_ranks(
    function: Callable[..., Any],
    world_size: int,
    args: Sequence[Any] = (),
    *,
    carrier: str = "torch",
    deadline: float = 60.0,
    grace: float = 3.0,
) -> list[Outcome]:
    """Call `function(comm, *args)` on every rank and return how each rank ended, in the order of ranks.

    It raises nothing for a rank that fails: that is an outcome. No process, port, temporary file or shared-memory
    segment is left, also when ranks are killed or this call is interrupted. Ranks of torch are split off one process
    that has imported torch; all else they import and set up by themselves.

    >>> [outcome.value for outcome in run_ranks(lambda comm: comm.rank * 10, 3, carrier="threads")]
    [0, 10, 20]

    Args:
        function: What each rank runs. For processes it must be defined at the top of a module.
        world_size: How many ranks.
        args: Further arguments, the same for every rank.
        carrier: `threads` (in this process), `torch` (processes, gloo) or `mpi` (mpiexec of mpi4py's MPI).
        deadline: Seconds after which ranks that still run are asked for their stacks and ended.
        grace: Seconds that the others have to end by themselves once a rank has failed.
    """
    world_size = whole_number("world_size", world_size, least=1)
    if carrier not in CARRIERS:
        raise InputError(f"carrier must be one of {', '.join(CARRIERS)}, got {carrier!r}")
    if carrier == "threads":
        return run_threads(function, world_size, args, deadline)
    return run_processes(function, world_size, args, carrier, deadline, grace)
