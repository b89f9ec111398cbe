"""The result of checking a contract, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from paceline.errors import name_ranks
from paceline.loader.check.contract_result import BrokenContract, ContractResult, Difference, IdCount
from paceline.report.text.tables import groups_text


def contract_as_text(result: ContractResult, name: str) -> str:
    """Return the verdict on `name` as lines for a terminal or a file."""
    verdict = "the contract holds" if result.holds else "the contract is BROKEN"
    num_ranks = len(result.steps)
    lines = [f"{name} on {num_ranks} {'rank' if num_ranks == 1 else 'ranks'}: {verdict}"]
    lines.append(f"  steps: {groups_text(result.steps)}{' (stopped there)' if result.is_cut else ''}")
    for broken in result.broken:
        lines += _broken_lines(broken)
    if result.ids is None:
        lines.append("  ids: none found in the batches, so it is not known what is lost or repeated")
    else:
        lines += _id_lines(result.ids, result.exactly_once)
    if result.unknown:
        lines.append(f"  not inspected, only the type was compared: {', '.join(result.unknown)}")
    return "\n".join(lines)


def _broken_lines(broken: BrokenContract) -> Iterator[str]:
    who = name_ranks(broken.ranks)
    field = "the batch" if not broken.field else f"field {broken.field!r}"
    yield {
        Difference.STEPS: f"  unequal steps: from step {broken.step} on (counted from 0) not all ranks "
        f"have a batch; a collective in that step would hang",
        Difference.FIELDS: f"  unequal fields at step {broken.step}: {who} out of line",
        Difference.SHAPE: f"  unequal shapes at step {broken.step}, {field}: {who} out of line",
        Difference.DTYPE: f"  unequal dtypes at step {broken.step}, {field}: {who} out of line",
        Difference.RAISED: f"  {who} raised, first at step {broken.step}; ranks in a collective would wait forever",
        Difference.EMPTY: "  no rank makes a step: a run of it would do nothing",
    }[broken.kind]
    for group in broken.groups:
        unit = " steps" if broken.kind is Difference.STEPS else ""
        yield f"    {name_ranks(group.ranks)}: {group.value}{unit}"


def _id_lines(ids: IdCount, exactly_once: bool) -> Iterator[str]:
    yield f"  ids: {ids.num_distinct} different samples in {ids.num_rows} rows"
    yield f"    repeated: {ids.num_repeated}{_examples(ids.repeated)}"
    if ids.num_lost is None:
        yield "    lost: not known, because batches were left out or the dataset's size is unknown (--samples)"
    else:
        yield f"    lost: {ids.num_lost} of {ids.num_expected}{_examples(ids.lost)}"
    if ids.num_repeated or ids.num_lost:
        asked = "not exactly once, as --exactly-once demands" if exactly_once else "--exactly-once makes this an error"
        yield f"    {asked}"


def _examples(ids: tuple[int, ...]) -> str:
    return f" (such as {', '.join(map(str, ids[:5]))})" if ids else ""


def contract_as_json(result: ContractResult, name: str) -> dict[str, Any]:
    """Return the verdict on `name` as values that json can write."""
    ids = None if result.ids is None else {**asdict(result.ids), "num_repeated": result.ids.num_repeated}
    return {
        "version": 1,
        "factory": name,
        "outcome": "ok" if result.holds else "broken",
        "steps": list(result.steps),
        "is_cut": result.is_cut,
        "unknown_types": list(result.unknown),
        "broken": [asdict(broken) for broken in result.broken],
        "ids": ids,
    }
