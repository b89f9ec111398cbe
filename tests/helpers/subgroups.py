"""Several numbers of ranks in one job: starting ranks takes longer than what most tests do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline import run_ranks
from paceline.comm import Comm


def first_ranks(comm: Comm, num: int) -> Comm | None:
    """Return a group of the first ranks of a job; None on the others. All ranks call it."""
    if comm.carrier == "torch":
        import torch.distributed as dist

        from paceline.comm.torch_comm import TorchComm

        group = dist.new_group(list(range(num)))
        return TorchComm(group) if comm.rank < num else None
    from mpi4py import MPI

    from paceline.comm.mpi_comm import MpiComm

    part: Any = MPI.COMM_WORLD.Split(int(comm.rank >= num))
    return MpiComm(part) if comm.rank < num else None


def on_first_ranks(comm: Comm, function: Callable[..., Any], arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
    """Call the function on the first ranks, for each number of them."""
    found = {}
    for num, given in arguments.items():
        part = first_ranks(comm, num)
        if part is not None:
            found[num] = function(part, *given)
    return found


def run_sizes(
    function: Callable[..., Any], arguments: dict[int, tuple[Any, ...]], carrier: str, *, duplicates: bool = False
) -> dict[int, list[Any]]:  # fmt: skip
    """Return what every rank returned, by the number of ranks. Processes are started once, for the largest.

    Unless the function duplicates its group on torch, which wants all ranks of a job to take part in that.
    """
    if carrier == "threads" or (carrier == "torch" and duplicates):
        outcomes = {
            num: run_ranks(function, num, args=given, carrier=carrier, deadline=100) for num, given in arguments.items()
        }
        for ended in outcomes.values():
            assert [outcome.traceback for outcome in ended if not outcome.ok] == []
        return {num: [outcome.value for outcome in ended] for num, ended in outcomes.items()}
    ended = run_ranks(on_first_ranks, max(arguments), args=(function, arguments), carrier=carrier, deadline=110)
    assert [outcome.traceback or outcome for outcome in ended if not outcome.ok] == []
    return {num: [ended[rank].value[num] for rank in range(num)] for num in arguments}
