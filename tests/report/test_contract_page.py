"""The page of a check: the verdict, how ranks differ, and what became of the samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paceline.loader import check_contract
from paceline.report.page.contract_page import page_of_contract
from paceline.report.page.render import render_page


def steps_of(counts: list[int]) -> Any:
    return lambda rank, _: [np.arange(3) for _ in range(counts[rank])]


def test_a_contract_that_holds_is_good_with_its_figures() -> None:
    page = page_of_contract(check_contract(lambda rank, size: [[rank, rank + size]], 2, num_samples=4), "mine:f")
    assert page.verdict is not None
    assert (page.verdict.tone, page.verdict.groups) == ("good", ())
    figures = {"steps of every rank": "1", "different samples": "4", "repeated": "0", "lost": "0"}
    assert dict(page.figures) == figures


def test_samples_that_do_not_come_exactly_once_break_it_if_that_was_asked_for() -> None:
    result = check_contract(lambda *_: [[0, 1]], 2, num_samples=3, exactly_once=True)
    page = page_of_contract(result, "mine:f")
    assert page.verdict is not None
    assert "not every sample comes exactly once" in page.verdict.summary
    assert dict(page.figures)["lost"] == "1 (such as 2)"


def raising(rank: int, _: int) -> Any:
    yield {"x": np.zeros(2)}
    if rank == 1:
        raise ValueError("a <bad> sample")
    yield {"x": np.zeros(2)}


DIFFERENT = {
    "steps": (steps_of([3, 3, 2]), "From step 2 on (counted from 0) not all ranks have a batch."),
    "shape": (lambda rank, _: [{"x": np.zeros(2 + (rank == 1))}], "At step 0 field 'x' of the batch has another shape"),
    "dtype": (lambda rank, _: [{"x": np.zeros(2, "f4" if rank else "f8")}], "has another dtype on "),
    "fields": (lambda rank, _: [{"xyz"[rank == 1]: np.zeros(2)}], "At step 0 rank 1 put other fields into the batch."),
    "raised": (raising, "Rank 1 raised, first at step 1."),
    "empty": (steps_of([0, 0, 0]), "No rank makes a step."),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_each_difference_has_a_sentence_an_advice_and_cards(kind: str) -> None:
    factory, sentence = DIFFERENT[kind]
    page = page_of_contract(check_contract(factory, 3), "mine:f")
    assert page.verdict is not None
    assert sentence in page.verdict.summary
    assert page.verdict.advice
    text = render_page(page)
    assert "<bad>" not in text
    assert all(card.ranks in text for card in page.verdict.groups)
