"""The page as text: what strangers wrote stays text, parts may be missing, nothing is fetched."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from tests.report.recorded import Job, finding

from paceline.guard.verdict.finding import GroupState, RankGroup
from paceline.guard.verdict.finding_json import finding_from_json, finding_to_json
from paceline.report.evidence.run_files import find_run, read_run
from paceline.report.page.page_values import Page, PageVerdict, RankCard
from paceline.report.page.render import embedded_json, render_page
from paceline.report.page.run_page import page_of_run
from paceline.report.safe_text import page_safe, terminal_safe

HOSTILE = "</script><img src=x onerror=alert(1)><!-- \x1b[31m\x00\u202e\u2028 &amp; {{ 7*7 }} \udcff '\""
SHOWN = "</script><img src=x onerror=alert(1)><!-- ␛[31m␀\\u202e\\u2028 &amp; {{ 7*7 }} \\udcff '\""


class Elements(HTMLParser):
    """What a browser would make of a page: its elements, their attributes and texts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.data = ""
        self._inside: str | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self._inside = tag if tag in ("script", "style") else None
        if dict(attrs).get("id") == "timeline-data":
            self._inside = "data"

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "data":
            self.data += data
        elif self._inside is None:
            self.texts.append(data)


def hostile_run(folder: Path) -> Path:
    job = Job(folder, 2)
    site = f"{HOSTILE}.py:3"
    recorder = job.recorders[0]
    recorder.ring.write_text({"site": 1, "frames": [[f"{HOSTILE}.py", 3, HOSTILE]]})
    job.together("Barrier")
    for other in job.recorders:
        other.ring.write_text({"site": 1, "frames": [[f"{HOSTILE}.py", 3, HOSTILE]]})
        other.ring.write_text({"comm": 0, "id": "mpi-world", "name": HOSTILE, "size": 2, "first": 0})
    group = {"ranks": [1], "state": "raised", "call": HOSTILE, "site": site, "detail": f"RuntimeError: {HOSTILE}"}
    hostile_finding = finding(
        summary=HOSTILE, advice=HOSTILE, groups=[group],
        divergence={"sequence": 1, "communicator": HOSTILE, "groups": [group]},
    )  # fmt: skip
    ends = [{"rank": 1, "kind": HOSTILE, "detail": HOSTILE, "site": site, "at_ns": 5}]
    lines = {f"{HOSTILE}.py": {str(number): HOSTILE for number in range(1, 6)}}
    hostile_warning = {
        "cause": "handle-leak", "ranks": [1], "summary": HOSTILE, "advice": HOSTILE, "sites": [site],
    }  # fmt: skip
    job.finish(hostile_finding, ends=ends, lines=lines, warnings=[hostile_warning])
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**about, "command": [HOSTILE], "ended": HOSTILE}))
    return folder


@pytest.mark.parametrize(("part", "value"), [("kind", HOSTILE), ("cause", HOSTILE), ("groups", 7), ("ranks", ["1"])])
def test_a_finding_that_cannot_be_read_is_listed_and_the_page_is_made_without_it(
    tmp_path: Path, part: str, value: object
) -> None:
    job = Job(tmp_path, 2)
    job.together("Barrier")
    page = page_of_run(read_run(job.finish(finding(**{part: value}))))
    assert page.verdict is not None
    assert (page.verdict.tone, page.verdict.groups) == ("bad", ())
    assert any("the finding in diagnosis.json cannot be read" in text for text in page.missing)
    assert "<img" not in render_page(page)


def test_warnings_are_shown_with_their_lines_and_notes_come_last(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.together("Barrier")
    leak = {
        "cause": "handle-leak", "ranks": [1], "summary": "64 communicators made at train.py:7 are not freed",
        "advice": "call Free", "sites": ["train.py:7"],
    }  # fmt: skip
    race = {**leak, "cause": "message-race", "summary": "two messages could meet", "sites": []}
    lines = {"train.py": {"6": "for x in y:", "7": "    comm.Dup()"}}
    page = page_of_run(read_run(job.finish(warnings=[race, leak], lines=lines)))
    assert [(warning.cause, warning.is_note) for warning in page.warnings] == [
        ("handle-leak", False), ("message-race", True),
    ]  # fmt: skip
    text = render_page(page)
    assert text.index("64 communicators made at train.py:7") < text.index("Two messages could meet")
    for words in ("comm.Dup()", "What to change: Call Free", 'href="#warnings"'):
        assert words in text


def test_a_page_without_warnings_does_not_speak_of_them(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.together("Barrier")
    assert "Warnings" not in render_page(page_of_run(read_run(job.finish())))


def test_a_job_that_strict_made_fail_is_said_to_have_ended_well(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    warning = {"cause": "handle-leak", "ranks": [1], "summary": "leak", "advice": "free", "sites": []}
    page = page_of_run(read_run(job.finish(outcome="failed", exit_code=90, warnings=[warning])))
    assert page.verdict is not None
    assert (page.verdict.tone, "because of --strict" in page.verdict.summary) == ("warn", True)


def test_warnings_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    page = page_of_run(read_run(Job(tmp_path, 2).finish(warnings=[{"cause": "odd"}])))
    assert page.warnings == ()
    assert any("the warnings in diagnosis.json cannot be read" in text for text in page.missing)


def test_what_strangers_wrote_is_text(tmp_path: Path) -> None:
    page = render_page(page_of_run(read_run(hostile_run(tmp_path))))
    page.encode("utf-8")  # no half of a character is left
    found = Elements(page)
    assert "img" not in found.names
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert found.names.count("script") == 2
    texts = "\n".join(found.texts)
    for words in (SHOWN, f"{SHOWN}.py:3", f"RuntimeError: {SHOWN}"):
        assert words in texts
    data = json.loads(found.data)
    assert f"{SHOWN}.py:3" in data["sites"]
    assert SHOWN in data["communicators"][0][0]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", page)


@pytest.mark.parametrize("text", ["</script>", "<!--", "<script>", "]]>", "&lt;", "\u2028\u2029", "</SCRIPT >"])
def test_embedded_values_cannot_end_their_element(text: str) -> None:
    found = embedded_json({"a": text, text: ["x", text]})
    assert not set("<>&\u2028\u2029") & set(found)
    assert json.loads(found)["a"] == page_safe(text)


def test_usual_text_is_left_as_it_is() -> None:
    for text in ("train.py:3", "Ünïcode ファイル.py", "a\tb\nc", "\U0001f680"):
        assert page_safe(text) == text


def test_a_terminal_gets_one_line_without_codes() -> None:
    shown = terminal_safe(HOSTILE)
    assert shown.isprintable()
    assert "\\x1b[31m\\x00\\u202e\\u2028" in shown
    assert terminal_safe("a\tb\nc") == "a\\tb\\nc"
    assert terminal_safe("Ünïcode ファイル.py") == "Ünïcode ファイル.py"


def test_a_page_may_have_a_verdict_alone() -> None:
    card = RankCard(ranks="rank 3", state="blocked", call="recv", site="a.py:1")
    verdict = PageVerdict(
        tone="bad", label="stuck", summary="Rank 3 hangs.", groups=(card,), notes=("It may be slow.",)
    )
    page = render_page(Page(title="doctor", verdict=verdict))
    found = Elements(page)
    texts = " ".join(found.texts)
    for words in ("Rank 3 hangs.", "a.py:1", "It may be slow."):
        assert words in texts
    assert ("div", "id", "lanes") not in found.attributes
    assert 'href="#timeline"' not in page


def test_a_page_may_have_nothing_at_all() -> None:
    assert "<main>" in render_page(Page(title="nothing"))


def test_nothing_is_fetched(tmp_path: Path) -> None:
    page = render_page(page_of_run(read_run(hostile_run(tmp_path))))
    found = Elements(page)
    asking = {"src", "srcset", "data", "action", "background", "poster"}
    assert not [entry for entry in found.attributes if entry[1] in asking]
    assert not [value for tag, name, value in found.attributes if name == "href" and not str(value).startswith("#")]
    assert "url(" not in page
    assert "@import" not in page


def test_a_run_that_ended_well_says_so(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.together("Barrier", late=1, seconds=0.01)
    page = page_of_run(read_run(job.finish()))
    assert page.verdict is not None
    assert (page.verdict.tone, page.verdict.summary) == ("good", "All 2 ranks stayed in line and ended well.")
    assert ("kept the others waiting longest", "rank 1") in page.figures


def test_a_run_that_failed_shows_who_raised_and_where(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.together("Barrier")
    ends = [
        {"rank": rank, "kind": "raised", "detail": "ValueError: x", "site": "a.py:2", "at_ns": 5} for rank in (0, 1)
    ]
    folder = job.finish(ends=ends, outcome="failed", lines={"a.py": {"1": "one", "2": "two"}})
    verdict = page_of_run(read_run(folder)).verdict
    assert verdict is not None
    (group,) = verdict.groups
    assert (verdict.tone, group.ranks, group.detail) == ("warn", "ranks 0-1", "ValueError: x")
    assert [(line.number, line.is_site) for line in group.source] == [(1, False), (2, True)]


def test_the_page_names_hosts_and_counts_very_many_ranks(tmp_path: Path) -> None:
    num_ranks, odd = 102_400, 76_805
    others = tuple(rank for rank in range(num_ranks) if rank != odd)
    call = RankGroup(
        ranks=(odd,), state=GroupState.BLOCKED, call="broadcast", communicator="WORLD", sequence=7, hosts=("n9600",)
    )
    hosts = tuple(f"n{number}" for number in range(64))
    groups = (replace(call, ranks=others, call="all_reduce", hosts=hosts, num_hosts=12_800), call)
    told = finding_to_json(replace(finding_from_json(finding(ranks=[odd])), groups=groups))
    run = read_run(Job(tmp_path, 2).finish(finding=told))
    verdict = page_of_run(run).verdict
    assert verdict is not None
    assert [card.ranks for card in verdict.groups] == ["102,399 ranks on 12,800 hosts", "rank 76805 (n9600)"]
    assert [card.is_out_of_line for card in verdict.groups] == [False, True]
    assert len(render_page(page_of_run(run))) < 1_000_000


def test_the_verdict_points_to_calls_that_the_timeline_has(tmp_path: Path) -> None:
    job = Job(tmp_path, 3)
    job.together("Barrier")
    for rank in (0, 2):
        job.enter(rank, "Barrier")
    job.enter(1, "Allreduce")
    groups: list[dict[str, Any]] = [
        {"ranks": [0, 2], "state": "blocked", "call": "Barrier", "communicator": "WORLD", "sequence": 2},
        {"ranks": [1], "state": "blocked", "call": "Allreduce", "communicator": "WORLD", "sequence": 2},
    ]
    divergence = {"sequence": 2, "communicator": "WORLD", "groups": groups}
    page = page_of_run(read_run(job.finish(finding(groups=groups, divergence=divergence))))
    assert page.verdict is not None
    assert page.timeline is not None
    assert [group.focus for group in page.verdict.groups] == [(0, 2), (1, 2)]
    assert [group.is_out_of_line for group in page.verdict.groups] == [False, True]
    assert page.timeline["divergence"]["number"] == 2
    assert page.timeline["arrows"] == [[0, 2, 1], [2, 2, 1]]


OUT_OF_LINE = """
from mpi4py import MPI

world = MPI.COMM_WORLD
half = world.Split(world.rank % 2)
for _ in range(3):
    half.Barrier()
    world.Barrier()
if world.rank == 1:
    world.Barrier()
world.allreduce(1)
"""


def shown_calls(timeline: Mapping[str, Any], rank: int) -> list[tuple[int, str, int]]:
    """Return number, communicator and sequence of each call of a rank, as the page's script reads them."""
    columns = next(columns for columns in timeline["ranks"] if columns["rank"] == rank)
    names = [timeline["communicators"][number][0] for number in columns["communicator"]]
    return list(zip(accumulate(columns["number"]), names, columns["sequence"], strict=True))


def test_the_page_counts_calls_as_the_text_does(tmp_path: Path) -> None:
    """Calls on another communicator are in between, so a rank's own count is not the sequence on WORLD."""
    (tmp_path / "train.py").write_text(OUT_OF_LINE)
    command = [sys.executable, "-m", "paceline", "run", "--out", "out", "-n", "3", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    in_text = set(re.findall(r"call \d+ on WORLD", done.stderr))
    assert in_text == {"call 5 on WORLD"}, done.stderr  # the split, three barriers, and the one that differs
    page = page_of_run(read_run(find_run(tmp_path / "out")))
    assert page.verdict is not None
    assert page.timeline is not None
    assert {group.position for group in page.verdict.groups} == in_text
    assert {page.verdict.first_difference_position, page.timeline["divergence"]["position"]} == in_text
    for card in (*page.verdict.groups, *page.verdict.first_difference):
        assert card.focus is not None
        rank, number = card.focus
        calls = shown_calls(page.timeline, rank)
        assert [shown for shown, _, _ in calls] == list(range(1, len(calls) + 1))
        assert {f"call {sequence} on {name}" for shown, name, sequence in calls if shown == number} == in_text
