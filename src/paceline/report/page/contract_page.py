"""The result of checking a loader, as a page: the verdict, how ranks differ, and what became of the samples."""

from __future__ import annotations

import time

from paceline.errors import name_ranks
from paceline.loader.check.contract_result import BrokenContract, ContractResult, Difference, IdCount
from paceline.report.page.page_values import Page, PageVerdict, RankCard

_ADVICE = {
    Difference.STEPS: "Give every rank the same number of batches: paceline.PlanSampler does.",
    Difference.FIELDS: "Let every rank put the same fields into a batch, also where a sample has no value for one.",
    Difference.SHAPE: "Pad batches to one shape, as paceline.Loader does, or allow the field to differ with --ragged.",
    Difference.DTYPE: "Convert the field to one dtype on every rank.",
    Difference.RAISED: "Fix what raised, or skip such samples on all ranks together: Loader(..., on_error='skip').",
    Difference.EMPTY: "Look at the size of the dataset and the batch size: no rank has a whole batch.",
}


def page_of_contract(result: ContractResult, name: str) -> Page:
    """Return the page of a check of `name`."""
    num_ranks = len(result.steps)
    return Page(
        title=f"check: {name}",
        header=(
            ("factory", name),
            ("ranks", f"{num_ranks}"),
            ("checked", time.strftime("%Y-%m-%d %H:%M:%S %z")),
        ),
        verdict=_contract_verdict(result),
        figures=_figures(result),
    )


def _contract_verdict(result: ContractResult) -> PageVerdict:
    notes = tuple(_notes(result))
    if result.holds:
        summary = "Every rank makes the same number of steps, with the same fields, shapes and dtypes."
        return PageVerdict(tone="good", label="the contract holds", summary=summary, notes=notes)
    if not result.broken:
        summary = "Ranks make equal steps of equal shapes, but not every sample comes exactly once."
        return PageVerdict(tone="bad", label="the contract is broken", summary=summary, notes=notes)
    first = result.broken[0]
    return PageVerdict(
        tone="bad", label="the contract is broken", summary=f"{_broken_text(first)}.",
        groups=tuple(card for broken in result.broken for card in _cards(broken)), groups_title="How ranks differ",
        advice=_ADVICE[first.kind], notes=notes,
    )  # fmt: skip


def _broken_text(broken: BrokenContract) -> str:
    who = name_ranks(broken.ranks)
    field = f"field {broken.field!r} of the batch" if broken.field else "the batch"
    return {
        Difference.STEPS: f"From step {broken.step} on (counted from 0) not all ranks have a batch",
        Difference.FIELDS: f"At step {broken.step} {who} put other fields into the batch",
        Difference.SHAPE: f"At step {broken.step} {field} has another shape on {who}",
        Difference.DTYPE: f"At step {broken.step} {field} has another dtype on {who}",
        Difference.RAISED: f"{who[0].upper()}{who[1:]} raised, first at step {broken.step}",
        Difference.EMPTY: "No rank makes a step",
    }[broken.kind]


def _cards(broken: BrokenContract) -> list[RankCard]:
    what = f"{broken.kind} of {broken.field}" if broken.field else str(broken.kind)
    return [
        RankCard(
            ranks=name_ranks(group.ranks),
            is_out_of_line=set(group.ranks) <= set(broken.ranks),
            call=what,
            detail=group.value,
        )
        for group in broken.groups
    ]


def _figures(result: ContractResult) -> tuple[tuple[str, str], ...]:
    least, most = min(result.steps), max(result.steps)
    figures = [("steps of every rank", f"{most:,}") if least == most else ("steps", f"{least:,} to {most:,}")]
    if result.ids is not None:
        figures += [
            ("different samples", f"{result.ids.num_distinct:,}"),
            ("repeated", _counted(result.ids.num_repeated, result.ids.repeated)),
            ("lost", _lost_text(result.ids)),
        ]
    return tuple(figures)


def _lost_text(ids: IdCount) -> str:
    return "not known" if ids.num_lost is None else _counted(ids.num_lost, ids.lost)


def _counted(number: int, examples: tuple[int, ...]) -> str:
    return f"{number:,} (such as {', '.join(map(str, examples[:5]))})" if examples else f"{number:,}"


def _notes(result: ContractResult) -> list[str]:
    notes = []
    if result.is_cut:
        notes.append("Ranks were stopped at --max-steps; what comes after was not compared.")
    if result.ids is None:
        notes.append("The batches carry no ids, so it is not known what is lost or repeated.")
    if result.unknown:
        notes.append(f"Not inspected, only the type was compared: {', '.join(result.unknown)}.")
    return notes
