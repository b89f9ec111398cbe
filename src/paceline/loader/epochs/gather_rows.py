"""The values of all ranks' samples, each sample once, in the order of samples: for metrics that must be exact."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from paceline.comm import Comm
from paceline.errors import InputError
from paceline.loader.agreement.meeting import check_facts
from paceline.loader.agreement.objects import gather_objects
from paceline.loader.epochs.epoch_pass import Handed
from paceline.plan.order import Ids

Rows = torch.Tensor | list[Any]


def gather_rows(comm: Comm, values: Any, handed: Handed, device: torch.device | None) -> Any:
    """Return the values of all ranks' samples; see `Loader.gather_real`. If one rank cannot, all raise.

    Args:
        comm: The ranks.
        values: Rows of this rank.
        handed: What its loop has got.
        device: By way of which device ranks tell each other.
    """
    said = _Said()
    try:
        named = {str(name): _rows(part) for name, part in _named(values).items()}
        said.of, said.ids = _ids_for({len(part) for part in named.values()}, handed, comm.rank)
        said.kinds = {f"values {name!r}": _kind(part) for name, part in named.items()}
        said.content = pickle.dumps({name: _sent(part, said.ids.size) for name, part in named.items()}, protocol=5)
    except Exception as error:
        said.problem = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    told: list[_Said] = gather_objects(comm, said, device or "cpu")
    for rank, rank_said in enumerate(told):
        if rank_said.problem:
            raise InputError(f"rank {rank} cannot gather: {rank_said.problem}")
    check_facts([rank_said.kinds for rank_said in told])
    # where the last batch is all there is, whatever others say fits
    of = next((rank_said.of for rank_said in told if rank_said.of), "")
    check_facts([{"what the rows are of": rank_said.of or of} for rank_said in told])
    all_ids = np.concatenate([rank_said.ids for rank_said in told])
    _, first = np.unique(all_ids, return_index=True)  # sorted by sample; a repeated one counts once
    parts = [pickle.loads(rank_said.content) for rank_said in told]
    gathered = {
        name: _ordered([part[str(name)] for part in parts], first, values_of(values, name)) for name in _named(values)
    }
    return gathered if isinstance(values, Mapping) else gathered[""]


@dataclass(slots=True)
class _Said:
    """What a rank brings."""

    problem: str = ""
    of: str = ""
    kinds: dict[str, str] = field(default_factory=dict)
    ids: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    content: bytes = b""


def values_of(values: Any, name: str) -> Any:
    """Return the part of what was given that has a name."""
    return values[name] if isinstance(values, Mapping) else values


def _named(values: Any) -> Mapping[str, Any]:
    return values if isinstance(values, Mapping) else {"": values}


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


def _ids_for(sizes: set[int], handed: Handed, rank: int) -> tuple[str, Ids]:
    """Say which samples so many rows are of: in the loop of the last batch, or else of all batches.

    The text is empty where that is the same.
    """
    if len(sizes) != 1:
        raise InputError(f"values must have the same number of rows each, got {sorted(sizes)}")
    size, last = sizes.pop(), handed.last
    is_last = size in (last.size, handed.num_rows)
    if is_last and not handed.has_ended and handed.num_steps > 1:
        return "the last batch", last
    everything = handed.ids_of(rank)
    if size == everything.size:
        return "all batches" if everything.size > last.size else "", everything
    if is_last:
        return "the last batch", last
    raise InputError(
        f"{size} rows are neither the last batch ({last.size}, with padding {handed.num_rows}) nor all batches of this "
        f"pass ({everything.size} real rows)"
    )


def _sent(part: Rows, num_rows: int) -> Any:
    """Return the real rows in a form that travels: without what else is in their memory."""
    real = part[:num_rows]
    return real.cpu().clone() if isinstance(real, torch.Tensor) else real


def _ordered(parts: list[Rows], order: Ids, given: Any) -> Any:
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    if not tensors:
        items = [item for part in parts for item in part]
        return [items[place] for place in order]
    filled = [tensor for tensor in tensors if len(tensor)]
    device = given.device if isinstance(given, torch.Tensor) else "cpu"
    if len({(tensor.shape[1:], tensor.dtype) for tensor in filled}) <= 1:
        joined = torch.cat(filled) if filled else tensors[0]
        return joined[torch.from_numpy(order)].to(device)
    rows = [row for tensor in tensors for row in tensor]
    return [rows[place].to(device) for place in order]
