"""What a live view says of ranks, from rings as ranks write them: many ranks, late ranks, ranks that have gone."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.rings import write_rings

from paceline.guard.observe.gauges import Gauges, JobView
from paceline.guard.observe.watched_job import SharedMemory
from paceline.guard.shared_memory import layout
from paceline.report.live.live_view import live_lines, live_text

_CODES = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def rings(tmp_path: Path) -> Iterator[SharedMemory]:
    found = SharedMemory(tmp_path)
    yield found
    found.close()


def look(rings: SharedMemory) -> JobView:
    gauges = Gauges()
    for _ in range(3):
        gauges._sampled = 0.0
        gauges.sample(rings.worlds())
    (view,) = gauges.views(rings.worlds())
    return view


def text_of(view: JobView, *, columns: int = 100, rows: int = 12) -> list[str]:
    lines = [_CODES.sub("", line) for line in live_lines([view], columns=columns, rows=rows)]
    assert len(lines) <= rows
    assert all(len(line) < columns for line in lines)
    return lines


def test_who_waits_for_whom_and_who_is_last(tmp_path: Path, rings: SharedMemory) -> None:
    write_rings(tmp_path, 3, calls=10, late=1, inside=True)
    view = look(rings)
    assert [rank.state for rank in view.ranks] == ["waiting", "running", "waiting"]
    assert [rank.call for rank in view.ranks] == ["Barrier", "", "Barrier"]
    assert view.ranks[0].site.startswith("tests/helpers/rings.py:")
    assert (view.last_rank, view.ranks[1].share_last) == (1, 1.0)
    assert view.last_by_ms == pytest.approx(5.0, abs=0.01)
    assert [rank.share_in_calls for rank in view.ranks] == [1.0, 0.0, 1.0]
    assert view.steps == 10
    assert "rank 1 is the last to reach 100 % of calls, 5 ms after the median rank" in live_text([view])


def test_a_thousand_ranks_fit_with_the_odd_one_on_its_own(tmp_path: Path, rings: SharedMemory) -> None:
    write_rings(tmp_path, 1024, calls=10, late=513, inside=True)
    lines = text_of(look(rings))
    assert "1024 ranks" in lines[1]
    rows = [line.split() for line in lines[3:]]
    assert rows[0][:2] == ["513", "running"]
    assert rows[1][:4] == ["0-512,", "514-1023", "waiting", "Barrier"]
    assert "rank 513 is the last" in lines[-1]


def test_ranks_that_have_not_come_yet_and_ranks_that_have_gone(tmp_path: Path, rings: SharedMemory) -> None:
    write_rings(tmp_path, 4, calls=3, late=2, inside=False)
    (tmp_path / "ring.world.0.3").unlink()
    gone = bytearray((tmp_path / "ring.world.0.1").read_bytes())
    struct.pack_into("<Q", gone, layout.START_TIME * layout.WORD, 1)  # of a process that is no more
    (tmp_path / "ring.world.0.1").write_bytes(gone)
    view = look(rings)
    assert [rank.state for rank in view.ranks] == ["running", "killed", "running", "absent"]
    lines = text_of(view)
    assert "3 of 4 ranks" in lines[1]


def test_nothing_of_a_hostile_name_reaches_the_terminal_as_a_command(tmp_path: Path, rings: SharedMemory) -> None:
    write_rings(tmp_path, 3, calls=4, late=1, inside=True)
    hostile = "\x1b]0;owned\x07[red]x[/red]\u202e.py:3"
    seen = look(rings)
    view = replace(seen, ranks=tuple(replace(rank, site=hostile) for rank in seen.ranks), step_site=hostile)
    text = "\n".join(text_of(view, columns=120))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\\x1b]0;owned\\x07[red]x[/red]\\u202e.py:3" in text
    assert "\x1b" not in live_text([view])


def test_before_any_rank_has_come_there_is_a_word() -> None:
    assert "no rank has joined yet" in live_lines([], columns=80, rows=10)[1]
    assert live_text([]) == "paceline: no rank has joined yet"
