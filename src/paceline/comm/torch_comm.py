"""torch.distributed as a carrier: gloo on CPUs, NCCL by the same calls on GPUs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from paceline.comm.arrays import check_counts, check_reducible, check_root
from paceline.comm.comm import Array, CommError, Reduction
from paceline.errors import InputError

_REDUCE = {
    Reduction.SUM: dist.ReduceOp.SUM,
    Reduction.PRODUCT: dist.ReduceOp.PRODUCT,
    Reduction.MIN: dist.ReduceOp.MIN,
    Reduction.MAX: dist.ReduceOp.MAX,
}
# the name of all_gather_into_tensor from torch 2.13 on, which deprecates the old one
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_group_of: Any = dist.distributed_c10d._resolve_process_group  # type: ignore[attr-defined]
_DIRECT_BYTES = 256 * 1024
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _says_who_failed(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn the backend's error into a CommError that says which call it was."""

    @wraps(call)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return call(*args, **kwargs)
        except RuntimeError as error:  # what gloo and NCCL raise: a peer left, or was too late
            rank = dist.get_rank() if dist.is_initialized() else "?"
            raise CommError(f"{call.__name__} failed on rank {rank}: {error}") from error

    return wrapped


class TorchComm:
    """A process group of torch.distributed."""

    carrier = "torch"
    is_thread_safe = True

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        # By its name: a group that something holds when the interpreter ends may end it with an abort.
        self._name = None if group is None or group is dist.group.WORLD else group.group_name
        self._ranks = dist.get_process_group_ranks(self._group)
        # gloo gathers around a ring, one hop after the other; sending to each rank directly takes a third of the time
        self._passes_around = dist.get_backend(self._group) == "gloo" and len(self._ranks) > 1

    @property
    def _group(self) -> Any:
        return None if self._name is None else _group_of(self._name)

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return dist.get_rank(self._group)

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return len(self._ranks)

    @property
    def carries_host_memory(self) -> bool:
        """Whether arrays may be in the host's memory; NCCL takes only those on a GPU."""
        return dist.get_backend(self._group) != "nccl"

    @property
    def is_whole_job(self) -> bool:
        """Whether these are all ranks of the job."""
        return self.world_size == dist.get_world_size()

    @_says_who_failed
    def barrier(self) -> None:
        """Wait until all ranks are here."""
        dist.barrier(self._group)

    @_says_who_failed
    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Return the root's array on every rank."""
        check_root(root, self.world_size)
        result = _tensor(array).clone()
        dist.broadcast(_bytes(result), self._ranks[root], self._group)
        return _like(result, array)

    @_says_who_failed
    def all_gather(self, array: Array) -> Array:
        """Return all ranks' arrays, stacked."""
        own, world_size = _tensor(array), len(self._ranks)
        result = torch.empty((world_size, *own.shape), dtype=own.dtype, device=own.device)
        content = _bytes(own)
        if self._passes_around and content.numel() * world_size <= _DIRECT_BYTES:
            dist.all_to_all_single(_bytes(result), _repeated(content, world_size), group=self._group)
        elif own.numel():
            _all_gather(_bytes(result), content, self._group)
        return _like(result, array)

    @_says_who_failed
    def all_to_all(self, array: Array, send_counts: Sequence[int], receive_counts: Sequence[int]) -> Array:
        """Send rows to every rank and return the rows that came."""
        check_counts(array, send_counts, receive_counts, self.world_size)
        own = _tensor(array)
        if own.dtype is torch.uint8 and own.dim() == 1:  # bytes already, as batches are
            result = torch.empty(sum(receive_counts), dtype=torch.uint8, device=own.device)
            dist.all_to_all_single(result, own, list(receive_counts), list(send_counts), self._group)
            return _like(result, array)
        result = own.new_empty((sum(receive_counts), *own.shape[1:]))
        width = math.prod(own.shape[1:]) * own.element_size()
        dist.all_to_all_single(
            _bytes(result),
            _bytes(own),
            [count * width for count in receive_counts],
            [count * width for count in send_counts],
            self._group,
        )
        return _like(result, array)

    @_says_who_failed
    def all_reduce(self, array: Array, reduction: Reduction | str = Reduction.SUM) -> Array:
        """Return the elementwise sum, product, least or largest."""
        check_reducible(array)
        result = _tensor(array).clone()
        dist.all_reduce(result, _REDUCE[Reduction(reduction)], self._group)
        return _like(result, array)

    @_says_who_failed
    def duplicate(self) -> TorchComm:
        """Return a new process group of the same ranks.

        torch wants every rank of the job to take part in making a group: where this one is only a part of the job,
        the others must call `torch.distributed.new_group` with the same ranks at the same time.
        """
        return TorchComm(dist.new_group(self._ranks, backend=dist.get_backend(self._group)))

    def free(self) -> None:
        """Leave the process group to the end of the job.

        A job of torch 2.13 that has destroyed one group of gloo by itself may abort when it exits.
        """

    def abort(self, reason: str) -> None:
        """End this process at once: its peers' collectives fail as the connections close."""
        print(f"paceline: rank {self.rank} aborted: {reason}", file=sys.stderr, flush=True)
        os._exit(1)


def _tensor(array: Any) -> torch.Tensor:
    # of one element any stride counts as contiguous, and torch takes no negative one
    if type(array) is np.ndarray and array.flags.c_contiguous and array.size > 1:
        return torch.from_numpy(array)
    if isinstance(array, torch.Tensor):
        return array.detach().resolve_conj().resolve_neg().contiguous()
    if isinstance(array, np.ndarray):
        return torch.from_numpy(array.copy())
    raise InputError(f"expected a numpy array or a torch tensor, got {type(array).__name__}")


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's memory as bytes: every dtype travels, and none is promoted."""
    # of one element any stride counts as contiguous, and only 1 can be seen as bytes
    flat = tensor if tensor.stride() == (1,) else tensor.as_strided((tensor.numel(),), (1,))
    return flat if flat.dtype is torch.uint8 else flat.view(torch.uint8)


def _repeated(content: torch.Tensor, times: int) -> torch.Tensor:
    """Return bytes several times over.

    In the host's memory torch would let threads help it, and wake them: another set of them for each thread that calls.
    Between calls they spin, and take the processors from the job.
    """
    if content.device.type != "cpu":
        return torch.cat([content] * times)
    return torch.from_numpy(np.concatenate([content.numpy()] * times))


def _like(result: torch.Tensor, array: Array) -> Array:
    converted: Any = result.numpy() if isinstance(array, np.ndarray) else result
    return converted  # type: ignore[no-any-return]
