"""The values of all ranks' samples, each sample once, in the order of samples: for metrics that must be exact."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from paceline.comm import Comm
from paceline.errors import InputError
from paceline.loader.agreement.first_message import gather_bytes
from paceline.loader.agreement.must_agree import MustAgree, check_agreement
from paceline.loader.agreement.objects import pack_user_value, unpack_user_value
from paceline.loader.epochs.delivered import DeliveredBatches
from paceline.plan.order import Ids

Rows = torch.Tensor | list[Any]

_SIZES = struct.Struct("<qq")  # bytes of the JSON, number of ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatherOffer:
    """What a rank offers to the others.

    Attributes:
        batches: Which batches its rows are of; empty where both answers are the same.
        kinds: The kind of each named part.
        problem: Why it has nothing to offer.
        ids: The samples of its rows.
        content: The rows, pickled: they may be anything. It is read only after ranks have agreed on the rest.
    """

    batches: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    ids: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    content: bytes = b""

    def to_bytes(self) -> bytes:
        """Return it in a form that travels."""
        head = json.dumps({"batches": self.batches, "kinds": dict(self.kinds), "problem": self.problem}).encode()
        return _SIZES.pack(len(head), self.ids.size) + head + self.ids.tobytes() + self.content

    @classmethod
    def from_bytes(cls, message: bytes) -> GatherOffer:
        """Return what `to_bytes` was made of."""
        head_bytes, num_ids = _SIZES.unpack_from(message)
        head_end = _SIZES.size + head_bytes
        ids_end = head_end + num_ids * np.dtype(np.int64).itemsize
        ids = np.frombuffer(message[head_end:ids_end], np.int64)
        return cls(**json.loads(message[_SIZES.size : head_end]), ids=ids, content=message[ids_end:])


def gather_rows(comm: Comm, values: Any, delivered: DeliveredBatches, device: torch.device | None) -> Any:
    """Return the values of all ranks' samples; see `Loader.gather_real`. If one rank cannot, all raise.

    Args:
        comm: The ranks.
        values: Rows of this rank.
        delivered: What its loop has received.
        device: The device to send from.
    """
    offer = _offer(values, delivered, comm.rank)
    offers = [GatherOffer.from_bytes(message) for message in gather_bytes(comm, offer.to_bytes(), device or "cpu")]
    for rank, each in enumerate(offers):
        if each.problem:
            raise InputError(f"rank {rank} cannot gather: {each.problem}")
    # a rank whose last batch is all it has fits to whatever the others offer
    batches = next((each.batches for each in offers if each.batches), "")
    check_agreement(
        [MustAgree(chosen=each.kinds, derived={"batches of the rows": each.batches or batches}) for each in offers]
    )
    all_ids = np.concatenate([each.ids for each in offers])
    _, first = np.unique(all_ids, return_index=True)  # sorted by sample; a repeated one counts once
    parts = [unpack_user_value(each.content) for each in offers]
    gathered = {
        name: _ordered([part[str(name)] for part in parts], first, device=_device_of(part))
        for name, part in _named(values).items()
    }
    return gathered if isinstance(values, Mapping) else gathered[""]


def _offer(values: Any, delivered: DeliveredBatches, rank: int) -> GatherOffer:
    try:
        named = {str(name): _rows(part) for name, part in _named(values).items()}
        batches, ids = _ids_for({len(part) for part in named.values()}, delivered, rank)
        return GatherOffer(
            batches=batches,
            kinds={f"values {name!r}": _kind(part) for name, part in named.items()},
            ids=ids,
            content=pack_user_value({name: _real_rows(part, ids.size) for name, part in named.items()}),
        )
    except Exception as error:  # every rank raises it
        return GatherOffer(problem=str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")


def _named(values: Any) -> Mapping[str, Any]:
    return values if isinstance(values, Mapping) else {"": values}


def _device_of(part: Any) -> torch.device | str:
    return part.device if isinstance(part, torch.Tensor) else "cpu"


def _rows(part: Any) -> Rows:
    if isinstance(part, torch.Tensor) and part.dim():
        return part.detach()
    if isinstance(part, np.ndarray) and part.ndim:
        return torch.from_numpy(part)
    if isinstance(part, list | tuple):
        return [item.detach().cpu() if isinstance(item, torch.Tensor) else item for item in part]
    raise InputError(f"values must be a tensor with a row for each sample, or a list, got {type(part).__name__}")


def _kind(part: Rows) -> str:
    return "tensor" if isinstance(part, torch.Tensor) else "list"


def _ids_for(sizes: set[int], delivered: DeliveredBatches, rank: int) -> tuple[str, Ids]:
    """Return the samples of this number of rows, and whether they are of the last batch or of all batches.

    Within the loop they are of the last batch, after it of all. The text is empty where that is the same.
    """
    if len(sizes) != 1:
        raise InputError(f"values must have the same number of rows each, got {sorted(sizes)}")
    size, last = sizes.pop(), delivered.last_ids
    is_last = size in (last.size, delivered.num_rows)
    if is_last and not delivered.has_ended and delivered.num_steps > 1:
        return "the last batch", last
    everything = delivered.all_ids(rank)
    if size == everything.size:
        return "all batches" if everything.size > last.size else "", everything
    if is_last:
        return "the last batch", last
    raise InputError(
        f"{size} rows are neither the last batch ({last.size}, with padding {delivered.num_rows}) nor all batches of "
        f"this pass ({everything.size} real rows)"
    )


def _real_rows(part: Rows, num_rows: int) -> Any:
    """Return the real rows in a form that travels: without what else is in their memory."""
    real = part[:num_rows]
    return real.cpu().clone() if isinstance(real, torch.Tensor) else real


def _ordered(parts: list[Rows], order: Ids, *, device: torch.device | str) -> Any:
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    if not tensors:
        items = [item for part in parts for item in part]
        return [items[index] for index in order]
    with_rows = [tensor for tensor in tensors if len(tensor)]
    if len({(tensor.shape[1:], tensor.dtype) for tensor in with_rows}) <= 1:
        joined = torch.cat(with_rows) if with_rows else tensors[0]
        return joined[torch.from_numpy(order)].to(device)
    rows = [row for tensor in tensors for row in tensor]
    return [rows[index].to(device) for index in order]
