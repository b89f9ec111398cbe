"""Reads what came out of torch's collectives that give all members the same: the tensors, and a checksum of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.remarks.compared_results import ComparedResults, checksum_of
from paceline.guard.rank.torch.torch_module import TorchWatch

_UNREADABLE = (TypeError, ValueError, AttributeError, RuntimeError, NotImplementedError)
_Group = Any
_Result = tuple[Iterable[Any], _Group]


def _of_all_reduce(tensor: Any, op: Any = None, group: Any = None, *args: Any, **_: Any) -> _Result:
    return [tensor], group


def _of_broadcast(tensor: Any, src: Any = None, group: Any = None, *args: Any, **_: Any) -> _Result:
    return [tensor], group


def _of_all_gather(tensor_list: Any, tensor: Any, group: Any = None, *args: Any, **_: Any) -> _Result:
    return tensor_list, group


def _of_all_gather_into(output_tensor: Any, input_tensor: Any, group: Any = None, *args: Any, **_: Any) -> _Result:
    return [output_tensor], group


# function -> what returns the tensors that hold the same on all members afterwards, and the group
_RESULTS: dict[str, Callable[..., _Result]] = {
    "all_reduce": _of_all_reduce,
    "broadcast": _of_broadcast,
    "all_gather": _of_all_gather,
    "all_gather_into_tensor": _of_all_gather_into,
    "all_gather_single": _of_all_gather_into,
    "_all_gather_base": _of_all_gather_into,
}


class TorchResults:
    """Compares results for one torch.distributed."""

    def __init__(self, watch: TorchWatch) -> None:
        self._watch, self._compared = watch, ComparedResults()

    def making(self, name: str) -> Callable[..., Any]:
        """Return what makes a blocking collective: with a look at its result, if all members get the same."""
        result_of, make_blocked_call = _RESULTS.get(name), self._watch.make_blocked_call
        if result_of is None:
            return make_blocked_call

        def make(recorder: Recorder, number: int, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
            value = make_blocked_call(recorder, number, function, args, named)
            tensors, group = result_of(*args, **named)
            communicator = self._watch.communicator(group)
            if communicator is None or communicator.call_flags:
                return value  # a backend that only enqueues: the result may not be there yet
            checksum = _checksum(tensors)
            if checksum is not None:
                self._compared.compare(recorder, number, communicator, checksum)
            return value

        return make


def _checksum(tensors: Iterable[Any]) -> int | None:
    """Return the checksum of tensors; None if that cannot be had, or some of their numbers are not a number.

    Those have many forms, and which one comes out of a sum depends on the order. So does the sign of a zero.
    """
    import torch

    parts = []
    try:
        for tensor in tensors:
            plain = tensor.detach()
            if plain.is_floating_point() or plain.is_complex():
                plain = plain + 0
                if bool((plain != plain).any()):
                    return None
            parts.append(plain.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    except _UNREADABLE:
        return None
    return checksum_of(b"".join(parts))
