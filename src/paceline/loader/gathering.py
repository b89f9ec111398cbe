"""The values of all ranks' samples, each sample once, in the order of samples: for metrics that must be exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from paceline.comm import Comm
from paceline.errors import InputError
from paceline.loader.meeting import check_facts
from paceline.loader.objects import gather_objects
from paceline.plan.order import Ids

Rows = torch.Tensor | list[Any]


def gather_rows(comm: Comm, values: Any, ids: Sequence[Ids], num_rows: int, device: torch.device | None) -> Any:
    """Return the values of all ranks' samples; see `Loader.gather_real`. If one rank cannot, all raise.

    Args:
        comm: The ranks.
        values: Rows of this rank.
        ids: The samples of its last batch, and of all of its batches.
        num_rows: Rows of its last batch, with padding.
        device: By way of which device ranks tell each other.
    """
    problem, kinds, known, named = "", dict[str, str](), np.empty(0, np.int64), dict[str, Any]()
    try:
        named = {name: _rows(part) for name, part in _named(values).items()}
        of, known = _ids_for({len(part) for part in named.values()}, ids, num_rows)
        kinds = {f"values {name!r}": _kind(part) for name, part in named.items()}
        kinds |= {"what the rows are of": of} if of else {}
    except InputError as error:
        problem = str(error)
    said = (problem, kinds, known, {name: _sent(part, known.size) for name, part in named.items()})
    told = gather_objects(comm, said, device or "cpu")
    for rank, (text, *_) in enumerate(told):
        if text:
            raise InputError(f"rank {rank} cannot gather: {text}")
    known_by_some = {name: value for _, kinds, *_ in told for name, value in kinds.items()}
    check_facts([known_by_some | kinds for _, kinds, *_ in told])
    all_ids = np.concatenate([their_ids for _, _, their_ids, _ in told])
    _, first = np.unique(all_ids, return_index=True)  # sorted by sample; a repeated one counts once
    gathered = {name: _ordered([parts[name] for *_, parts in told], first, values_of(values, name)) for name in named}
    return gathered if isinstance(values, Mapping) else gathered[""]


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


def _ids_for(sizes: set[int], ids: Sequence[Ids], num_rows: int) -> tuple[str, Ids]:
    """Say which samples so many rows are of: those of the last batch, or of all batches; "" if that is the same."""
    last, everything = ids
    if len(sizes) != 1:
        raise InputError(f"values must have the same number of rows each, got {sorted(sizes)}")
    size = sizes.pop()
    is_last, is_everything = size in (last.size, num_rows), size == everything.size
    if is_last and is_everything and size == last.size:  # what came before had no rows
        return "", last
    if is_last and is_everything:
        raise InputError(f"{size} rows may be of one batch or of all: leave out the padding (values[: batch.num_real])")
    if is_last or is_everything:
        return ("the last batch", last) if is_last else ("all batches", everything)
    raise InputError(
        f"{size} rows are neither the last batch ({last.size}, with padding {num_rows}) nor all batches of this pass "
        f"({everything.size} real rows)"
    )


def _sent(part: Rows, num_rows: int) -> Any:
    """Return the real rows in a form that travels."""
    real = part[:num_rows]
    return real.cpu() if isinstance(real, torch.Tensor) else real


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
