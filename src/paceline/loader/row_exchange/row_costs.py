"""What the rows of all ranks cost, on every rank: one small message, on which ranks agree or fail together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from paceline.balance import whole_costs
from paceline.batch.batch import Batch
from paceline.batch.jagged import Jagged
from paceline.batch.parcel import bytes_per_row
from paceline.batch.schema import fingerprint
from paceline.comm import Comm
from paceline.errors import PacelineError
from paceline.loader.agreement.batch_form import described_fields
from paceline.loader.agreement.first_message import AgreementHeader, short_message_bytes
from paceline.loader.agreement.must_agree import MustAgree

_NUMBER_BYTES = 8

CostFunction = Callable[[Batch], Any]
Costs = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowCosts:
    """What this rank's rows cost; or why that is not known."""

    numbers: np.ndarray[Any, Any]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GlobalCosts:
    """What the rows of all ranks cost, rank after rank, padding with 0.

    Attributes:
        costs: One whole number for each of world_size * batch_size rows.
        real: Which rows are real.
        num_real: Real rows of each rank.
        num_bytes: What each rank's real rows take.
        hosts: The host of each rank, as a number of its own.
        factor: What the cost functions' numbers were multiplied with, to make them whole.
        move_nanoseconds: What each rank says that moving rows has taken it lately.
        look_nanoseconds: The same of learning these costs and deciding.
    """

    costs: Costs
    real: np.ndarray[Any, np.dtype[np.bool_]]
    num_real: list[int]
    num_bytes: list[int]
    hosts: list[int]
    factor: float
    move_nanoseconds: list[int]
    look_nanoseconds: list[int]

    @property
    def has_several_hosts(self) -> bool:
        """Whether ranks are on more than one host."""
        return len(set(self.hosts)) > 1

    @property
    def has_rank_without_rows(self) -> bool:
        """Whether a rank has no real row, and another could give it one."""
        return min(self.num_real) == 0 and max(self.num_real) > 1


def row_costs(cost: CostFunction, batch: Batch) -> RowCosts:
    """Ask what the rows of a batch cost. Nothing is raised here: the other ranks must learn of it first."""
    nothing = np.zeros(batch.batch_size, np.int64)
    try:
        costs = cost(batch)
        if isinstance(costs, torch.Tensor):
            costs = (costs.double() if costs.is_floating_point() else costs).detach().cpu().numpy()
        array = np.asarray(costs)
        if array.shape not in ((batch.batch_size,), (batch.num_real,)):
            wanted = f"{batch.batch_size} rows, or its {batch.num_real} real ones"
            return RowCosts(numbers=nothing, problem=f"costs must be one for each of {wanted}, got {array.shape}")
        numbers = np.zeros(batch.batch_size, np.float64 if array.dtype.kind == "f" else np.int64)
        whole_costs(array[: batch.num_real])  # raises if some cannot be used
        numbers[: batch.num_real] = array[: batch.num_real]
    except PacelineError as error:
        return RowCosts(numbers=nothing, problem=str(error))
    except Exception as error:
        return RowCosts(numbers=nothing, problem=f"the cost function raised {type(error).__name__}: {error}")
    return RowCosts(numbers=numbers)


def gather_costs(
    comm: Comm,
    batch: Batch,
    own_costs: RowCosts,
    settings: str,
    *,
    host: str = "",
    move_nanoseconds: int = 0,
    look_nanoseconds: int = 0,
) -> GlobalCosts:
    """Return what the rows of all ranks cost.

    Args:
        comm: The ranks.
        batch: This rank's rows.
        own_costs: What they cost.
        settings: What else must be the same on all ranks, as a reader sees it.
        host: Where this rank lives: the same name on the ranks of one host.
        move_nanoseconds: What moving rows has taken this rank lately.
        look_nanoseconds: What learning costs and deciding has taken it.

    Raises:
        DisagreementError: On all ranks, if they differ or the costs of one are not known.
    """
    agreement = AgreementHeader(
        fingerprints=(batch.batch_size, fingerprint(batch.schema()), _digest(settings)),
        has_problem=bool(own_costs.problem),
        describe=lambda: MustAgree(chosen=_described(batch, settings), problem=own_costs.problem),
    )
    numbers = own_costs.numbers
    times = [move_nanoseconds, look_nanoseconds]
    own = [_digest(host), *times, batch.num_real, bytes_in(batch), int(numbers.dtype.kind == "f")]
    header = [*agreement.numbers(), *own]
    sent = np.concatenate([np.array(header, np.int64), numbers.view(np.int64)])
    length = short_message_bytes(comm.world_size) // _NUMBER_BYTES
    first = np.zeros(length, np.int64)
    first[: min(length, sent.size)] = sent[:length]
    gathered = _all_gather(comm, first, batch.device)  # (rank, number)
    agreement.check(comm, gathered[:, : len(header)].tolist(), batch.device)
    if sent.size > length:  # all ranks have the same batch_size, so all make this second call
        gathered = np.concatenate([gathered, _all_gather(comm, sent[length:], batch.device)], axis=1)
    hosts, moves, looks, num_real, num_bytes, fractions = gathered[:, len(header) - len(own) : len(header)].T.tolist()
    content = gathered[:, len(header) : len(header) + batch.batch_size]
    # one rank may have whole numbers where another has fractions: then all are read as fractions
    rows = [
        row.view(np.float64) if fraction else row.astype(np.float64) if any(fractions) else row
        for row, fraction in zip(np.ascontiguousarray(content), fractions, strict=True)
    ]
    costs, factor = whole_costs(np.concatenate(rows))
    real = (np.arange(batch.batch_size) < np.array(num_real)[:, None]).reshape(-1)
    return GlobalCosts(
        costs=costs, real=real, num_real=num_real, num_bytes=num_bytes, hosts=hosts, factor=factor,
        move_nanoseconds=moves, look_nanoseconds=looks,
    )  # fmt: skip


def gather_row_bytes(comm: Comm, batch: Batch) -> Costs:
    """Return what each row of all ranks takes when it travels. Only jagged fields make a difference between rows."""
    own = bytes_per_row(batch)
    if any(isinstance(field, Jagged) for field in batch.to_dict().values()):  # on all ranks: they have agreed on fields
        return _all_gather(comm, own, batch.device).reshape(-1)
    return np.tile(own, comm.world_size)


def _described(batch: Batch, settings: str) -> dict[str, str]:
    return {
        "batch_size": f"{batch.batch_size}",
        **described_fields(batch.schema(), batch.pad_values),
        "settings of the balancer": settings,
    }


@lru_cache(maxsize=256)
def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")


def bytes_in(batch: Batch) -> int:
    """Return what the real rows of a batch take: what has to travel."""
    total = 0
    for field in batch.to_dict().values():
        if isinstance(field, Jagged):
            lists = [field.values] if field.weights is None else [field.values, field.weights]
            total += sum(tensor.numel() * tensor.element_size() for tensor in lists)
            total += batch.num_real * len(field.keys) * field.lengths.element_size()
        else:
            total += field[: batch.num_real].numel() * field.element_size()
    return total


def _all_gather(comm: Comm, numbers: Costs, device: torch.device) -> Costs:
    """Gather numbers by way of the batch's device: a carrier for GPUs carries nothing else."""
    if device.type == "cpu":
        return comm.all_gather(numbers)
    gathered: Costs = comm.all_gather(torch.from_numpy(numbers).to(device)).cpu().numpy()
    return gathered
