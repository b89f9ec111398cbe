"""Values that show themselves in a notebook: what they say, and that text from outside stays text."""

from __future__ import annotations

from paceline import Plan
from paceline.guard.verdict.finding import Cause, Finding, FindingKind, GroupState, RankGroup
from paceline.loader import check_contract
from paceline.loader.epochs.epoch_summary import EpochSummary
from paceline.plan import LengthPlan, MixedPlan

HOSTILE = "<script>alert(1)</script>"


def test_plans_and_their_summaries_show_what_becomes_of_samples() -> None:
    plan = Plan(100, world_size=7, batch_size=3)
    assert "Plan: 100 samples on 7 ranks" in plan._repr_html_()
    for html in (plan._repr_html_(), plan.summary()._repr_html_()):
        assert "<tr><td>padded</td><td>5</td></tr>" in html
    assert "LengthPlan" in LengthPlan([5, 7, 3, 4], world_size=2, max_tokens=16)._repr_html_()
    assert "MixedPlan" in MixedPlan([10, 4], weights=[3, 1], world_size=2, batch_size=2)._repr_html_()


def test_a_finding_shows_groups_cause_and_change_and_no_markup_of_others() -> None:
    group = RankGroup(ranks=(0, 1), state=GroupState.BLOCKED, call="Barrier", site="train.py:3", detail=HOSTILE)
    finding = Finding(
        kind=FindingKind.PEER_GONE, field=None, ranks=(2,), summary=HOSTILE, cause=Cause.EXCEPTION, advice="mend it",
        groups=(group,),
    )  # fmt: skip
    html = finding._repr_html_()
    assert HOSTILE not in html
    assert "<td>ranks 0-1</td><td>Barrier</td><td>train.py:3</td>" in html
    assert "<b>cause:</b> exception: a rank raised" in html
    assert "<b>change:</b> mend it" in html


def test_a_check_shows_which_ranks_differ() -> None:
    html = check_contract(lambda rank, _: [[0]] * (1 + rank), 2)._repr_html_()
    assert "2 ranks: the contract is broken" in html
    assert "<td>rank 1</td><td>steps, from step 1</td><td>2</td>" in html
    assert "the contract holds" in check_contract(lambda rank, _: [[0]], 2)._repr_html_()


def test_a_pass_shows_its_share_of_waiting_and_what_was_skipped() -> None:
    summary = EpochSummary(
        epoch=3, num_steps=10, num_used=90, num_dropped=0, num_padded=0, num_repeated=0, num_skipped=1,
        skipped=((17, HOSTILE),), num_balanced=4, imbalance_before=1.5, imbalance_after=1.0, seconds=10.0,
        seconds_waiting=7.9,
    )  # fmt: skip
    html = summary._repr_html_()
    assert "<td>1.500 -&gt; 1.000 in the 4 steps that were looked at</td>" in html
    assert "<td>waiting for data</td><td>79%</td>" in html
    assert "skipped sample 17" in html
    assert HOSTILE not in html
