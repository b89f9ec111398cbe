"""Text for people: short names for ranks, columns that line up, nothing cut off."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from pathlib import Path
from typing import TextIO, cast

import pytest

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
from paceline.report.text.text_layout import PLAIN, TextLayout, layout_for


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
    assert finding_as_text(finding, TextLayout(has_colours=True)).count("\033[0m") == 3  # our own colours stay


class _Terminal:
    """A stream that says that it is a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor


@pytest.mark.parametrize(
    ("environ", "has_colours"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, True),  # the convention: only a value that is not empty counts
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_terminal_has_colours_unless_its_user_or_its_kind_says_otherwise(
    environ: dict[str, str], has_colours: bool
) -> None:
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 72, 0, 0))
        layout = layout_for(cast(TextIO, _Terminal(theirs)), environ)
        assert layout == TextLayout(has_colours=has_colours, columns=72)
    finally:
        os.close(ours)
        os.close(theirs)


def test_what_is_not_a_terminal_gets_plain_text_on_one_line(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        assert layout_for(log, {"TERM": "xterm"}) == PLAIN
    assert PLAIN.wrap("word " * 100) == ["word " * 100]


def test_a_wrapped_finding_keeps_files_and_lines_whole() -> None:
    site = f"{'a_long_folder/' * 8}train.py:1234"
    group = RankGroup(
        ranks=(0, 1), state=GroupState.BLOCKED, call="all_reduce", communicator="WORLD", sequence=5, site=site
    )
    finding = Finding(
        kind=FindingKind.DEADLOCK, field=None, ranks=(2,), summary=f"rank 2 left the loop at {site} after 3 steps",
        cause=Cause.UNEVEN_STEPS, advice=f"give every rank the same number of steps at {site}", groups=(group,),
    )  # fmt: skip
    text = finding_as_text(finding, TextLayout(columns=60))
    assert site in text
    assert all(len(line) <= 60 or site in line for line in text.splitlines())
    unwrapped = finding_as_text(finding)
    assert text.split() == unwrapped.split()
