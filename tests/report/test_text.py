"""Text for people: short names for ranks, columns that line up, nothing cut off."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import name_ranks
from paceline.guard.judge.stragglers import Late, Notice
from paceline.guard.verdict.finding import (
    Cause,
    Finding,
    FindingKind,
    FirstDifference,
    GroupState,
    RankGroup,
)
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.snapshot import End, EndKind
from paceline.loader import check_contract
from paceline.loader.check.contract import Factory
from paceline.plan import Tail
from paceline.report.text.contract_text import contract_as_json, contract_as_text
from paceline.report.text.finding_text import (
    failures_as_text,
    finding_as_text,
    notice_as_text,
    records_as_text,
    warning_as_text,
)
from paceline.report.text.plan_text import compare_tails, tails_as_json, tails_as_text
from paceline.report.text.tables import groups_text, table_text


def test_runs_of_ranks_are_shortened() -> None:
    assert name_ranks([0, 1, 2, 3, 7, 9, 10]) == "ranks 0-3, 7, 9-10"
    assert name_ranks([4]) == "rank 4"


def test_groups_follow_the_ranks() -> None:
    assert groups_text([3, 2, 3]) == "3 on ranks 0, 2; 2 on rank 1"


def test_long_cells_are_not_cut() -> None:
    long = "x" * 300
    assert long in table_text(["a", "b"], [[long, 1]])


def test_the_classic_case_says_that_it_will_deadlock() -> None:
    text = tails_as_text(compare_tails(100, world_size=7, batch_size=3, tails=list(Tail)))
    assert "full batches 5 on ranks 0-5; 3 on rank 6" in text
    assert "will deadlock" in text


def test_equal_counts_are_not_called_a_deadlock() -> None:
    report = compare_tails(84, world_size=7, batch_size=3, tails=list(Tail))
    assert not report.clamped_deadlocks
    assert "this will deadlock" not in tails_as_text(report)


def test_a_tail_that_cannot_make_a_step_says_why_beside_the_others() -> None:
    report = compare_tails(5, world_size=7, batch_size=3, tails=list(Tail))
    text = tails_as_text(report)
    assert "drop: no step can be made" in text
    assert "No rank has a full batch" in text
    rows = {row["tail"]: row for row in tails_as_json(report)["tails"]}
    assert rows["drop"]["problem"] is not None
    assert rows["pad"]["last_step_real_rows"] == [1, 1, 1, 1, 1, 0, 0]


def test_every_kind_of_difference_has_its_words() -> None:
    def raising(rank: int, world_size: int) -> list[object]:
        raise OSError("disk on fire")

    cases: dict[str, Factory] = {
        "unequal steps": lambda rank, _: [[0]] * (1 + rank),
        "unequal shapes at step 0, field 'x'": lambda rank, _: [{"x": [0] * (1 + rank)}],
        "unequal dtypes at step 0, the batch": lambda rank, _: [[1 if rank else 1.0]],
        "unequal fields at step 0": lambda rank, _: [{"xy"[rank]: 1}],
        "no rank makes a step": lambda rank, _: [],
        "OSError: disk on fire": raising,
    }
    for words, factory in cases.items():
        result = check_contract(factory, 2)
        text = contract_as_text(result, "m:f")
        assert words in text
        assert "BROKEN" in text
        assert contract_as_json(result, "m:f")["outcome"] == "broken"


def test_what_a_rank_says_is_shown_on_the_terminal_and_never_obeyed() -> None:
    hostile = "cannot read '\x1b]0;title\x07\x1b[2J\x1b[32mall is fine\u202e\r'\n"
    group = RankGroup(
        ranks=(1,), state=GroupState.BLOCKED, call=hostile, communicator=hostile, sequence=1, site=hostile,
        detail=hostile,
    )  # fmt: skip
    finding = Finding(
        kind=FindingKind.PEER_GONE, field=None, ranks=(1,), summary=hostile, cause=Cause.EXCEPTION, advice=hostile,
        groups=(group,), first_difference=FirstDifference(sequence=1, communicator=hostile, groups=(group,)),
    )  # fmt: skip
    warning = JobWarning(cause=WarningCause.HANDLE_LEAK, ranks=(0,), summary=hostile, advice=hostile)
    notice = Notice(
        seconds=1, summary=hostile, late=(Late(rank=1, doing=hostile, stack=(hostile,)),), blind=hostile
    )  # fmt: skip
    end = End(kind=EndKind.RAISED, detail=hostile, site=hostile, at_ns=0)
    for text in (
        finding_as_text(finding),
        warning_as_text(warning),
        notice_as_text(notice),
        failures_as_text(1, [(1, end)]),
        records_as_text(Path(hostile)),
    ):
        assert all(line.isprintable() for line in text.split("\n")), repr(text)
        assert r"\x1b[2J" in text
    assert finding_as_text(finding, colours=True).count("\033[0m") == 3  # our own colours stay
