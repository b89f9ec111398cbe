"""The contract of ranks: at the first step, and where it is asked for, what they must have in common is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from paceline.batch import Batch
from paceline.comm import Comm
from paceline.errors import name_ranks
from paceline.loader.agreement.headers import DisagreementError
from paceline.loader.agreement.objects import gather_objects
from paceline.loader.agreement.problem import LoadError, Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Header:
    """What one rank says of a step.

    Attributes:
        facts: What must be the same on all ranks, by name, as a reader sees it. Those of a name with a star follow from
            others: they are told only if nothing else differs.
        empty: A row of padding with the fields of its batch, or None if it has no sample and does not know them.
        problem: Why it has no batch.
    """

    facts: Mapping[str, str]
    empty: Batch | None = None
    problem: Problem | None = None


def meet(comm: Comm, mine: Header, device: torch.device) -> Batch | None:
    """Compare what ranks say; return a row of padding with the fields on which all agree, if any rank knows them.

    Raises:
        LoadError: On all ranks, if one has a problem.
        DisagreementError: On all ranks, if they do not have the same in common.
    """
    told: list[Header] = gather_objects(comm, mine, device)
    raise_problem(header.problem for header in told)
    check_facts([header.facts for header in told])
    empties = [header.empty for header in told]
    known = next((empty for empty in empties if empty is not None), None)
    if known is not None:
        check_facts([fields_of(known if empty is None else empty) for empty in empties])
    return known


def check_facts(told: list[Mapping[str, Any]]) -> None:
    """Raise if ranks differ in something, with each rank's value."""
    differing = []
    for name in dict.fromkeys(name for facts in told for name in facts):
        ranks: dict[str, list[int]] = {}
        for rank, facts in enumerate(told):
            ranks.setdefault(str(facts.get(name, "nothing")), []).append(rank)
        if len(ranks) > 1:
            values = "; ".join(f"{value} on {name_ranks(members)}" for value, members in ranks.items())
            differing.append(f"{name}: {values}")
    if differing:
        first = [text for text in differing if not text.startswith("*")] or [text[1:] for text in differing]
        raise DisagreementError(f"ranks disagree on {' | '.join(first)}")


def raise_problem(problems: Any) -> None:
    """Raise the first of the problems that ranks have, if there is one."""
    first = min(filter(None, problems), key=lambda problem: (problem.step, problem.rank), default=None)
    if first is not None:
        raise LoadError(first)


def fields_of(batch: Batch) -> dict[str, str]:
    """Return the fields of a batch as facts."""
    kinds = {f"field {field.name!r}": str(field).removeprefix(f"{field.name}: ") for field in batch.schema()}
    return {**kinds, "padding values": str(dict(batch.padding()))}
