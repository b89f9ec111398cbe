"""A finding goes through JSON and comes back; its names are those that others rely on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.guard.verdict.finding import (
    Cause,
    Explanation,
    Finding,
    FindingField,
    FindingKind,
    FirstDifference,
    GroupState,
    RankGroup,
)
from paceline.guard.verdict.finding_json import diagnosis_to_json, finding_from_json, finding_to_json
from paceline.guard.verdict.rank_names import WorldRank

_texts = st.none() | st.text(max_size=8)
_ranks = st.lists(st.integers(0, 99), max_size=4).map(tuple)
_groups = st.builds(
    RankGroup, ranks=_ranks, state=st.sampled_from(GroupState), call=_texts, communicator=_texts,
    sequence=st.none() | st.integers(1, 10**12), site=_texts, count=st.none() | st.integers(0, 10**12), dtype=_texts,
    detail=st.text(max_size=8), has_returned=st.booleans(),
)  # fmt: skip
_difference_groups = st.builds(
    RankGroup, ranks=_ranks, state=st.just(GroupState.BLOCKED), call=_texts, site=_texts
)  # fmt: skip
_differences = st.builds(
    FirstDifference, sequence=st.integers(1, 99), communicator=st.text(max_size=8),
    groups=st.lists(_difference_groups, max_size=3).map(tuple),
)  # fmt: skip
_explanations = st.builds(
    Explanation, ranks=_ranks, summary=st.text(max_size=8), cause=st.sampled_from(Cause), advice=st.text(max_size=8)
)
findings = st.builds(
    Finding, kind=st.sampled_from(FindingKind), field=st.none() | st.sampled_from(FindingField), ranks=_ranks,
    summary=st.text(max_size=8), cause=st.sampled_from(Cause), advice=st.text(max_size=8),
    groups=st.lists(_groups, max_size=3).map(tuple), first_difference=st.none() | _differences,
    latency_ms=st.floats(0, 1e6), decided_ns=st.just(0), explanations=st.lists(_explanations, max_size=2).map(tuple),
    world_ranks=st.dictionaries(
        st.integers(0, 99), st.builds(WorldRank, rank=st.integers(0, 9), world=st.text(max_size=8)), max_size=2
    ),
)  # fmt: skip
ONE = Finding(
    kind=FindingKind.MISMATCH, field=FindingField.COUNT, ranks=(1,), summary="rank 1 differs", cause=Cause.SHAPE,
    advice="pad", groups=(RankGroup(ranks=(1,), state=GroupState.BLOCKED, call="Barrier"),),
)  # fmt: skip


@given(findings)
def test_a_finding_comes_back_as_it_was(finding: Finding) -> None:
    assert finding_from_json(json.loads(json.dumps(finding_to_json(finding)))) == finding


def test_the_names_are_those_that_others_rely_on() -> None:
    value = finding_to_json(replace(ONE, first_difference=FirstDifference(sequence=4, communicator="WORLD", groups=())))
    assert list(value) == [
        "kind", "field", "ranks", "summary", "cause", "advice", "latency_ms", "groups", "divergence", "explanations",
    ]  # fmt: skip
    assert {
        "ranks", "state", "call", "communicator", "sequence", "site", "count", "dtype", "detail",
    } <= value["groups"][0].keys()  # fmt: skip
    assert value["divergence"]["sequence"] == 4
    assert all(type(value[name]) is str for name in ("kind", "field", "cause"))


@pytest.mark.parametrize(
    ("exit_code", "finding", "outcome"), [(0, None, "ok"), (3, None, "failed"), (90, ONE, "finding")]
)
def test_the_outcome_of_a_run(exit_code: int, finding: Finding | None, outcome: str) -> None:
    value = diagnosis_to_json(exit_code, finding)
    assert (value["version"], value["outcome"], value["exit_code"]) == (1, outcome, exit_code)
    assert (value["finding"] is None) == (finding is None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "odd"}, {"cause": "odd"}, {"field": "odd"}, {"ranks": "1"}, {"ranks": [True]}, {"groups": [1]},
        {"groups": [{"ranks": [1], "state": "odd"}]}, {"summary": None}, {"divergence": 4}, {"latency_ms": "soon"},
        {"explanations": [{"cause": "odd"}]},
        {"divergence": {"sequence": None, "communicator": "W", "groups": []}},
    ],
)  # fmt: skip
def test_what_is_not_a_finding_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        finding_from_json({**finding_to_json(ONE), **wrong})


def test_every_cause_has_a_sentence_of_its_own() -> None:
    sentences = [cause.sentence for cause in Cause]
    assert all(sentence and not sentence.endswith(".") for sentence in sentences)
    assert len(set(sentences)) == len(sentences)
