"""The page in a real browser: it opens from a file, asks for nothing, and can be used by mouse, touch and keys."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page
from tests.report.recorded import Job, finding
from tests.report.test_page import SHOWN, hostile_run

from paceline.report.evidence.run_files import read_run
from paceline.report.page.render import render_page
from paceline.report.page.run_page import page_of_run
from synthetic_run import write_run

pytestmark = pytest.mark.browser

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@dataclass  # without slots: playwright keeps notes on what it calls
class Tab:
    """A page that is open, and what the browser had to say about it."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def refuse(self, dialog: Dialog) -> None:
        """Note what the page asks; it should ask nothing."""
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def view(self) -> tuple[float, float]:
        """Return the part of the timeline that is shown, once what was asked for is drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        lanes = self.page.locator("#lanes")
        return float(lanes.get_attribute("data-x0") or "nan"), float(lanes.get_attribute("data-x1") or "nan")

    def state(self, name: str) -> str:
        self.view()
        return self.page.locator("#lanes").get_attribute(f"data-{name}") or ""


Open = Callable[..., AbstractContextManager[Tab]]


@pytest.fixture
def opened(browser: Browser) -> Open:
    """Return what opens a file; afterwards nothing may have been asked for or complained about."""

    @contextmanager
    def opened_page(path: Path, **settings: Any) -> Iterator[Tab]:
        page = browser.new_page(**{"viewport": DESKTOP, "reduced_motion": "reduce", **settings})
        tab = Tab(page)
        page.on("request", lambda request: tab.requests.append(request.url))
        page.on("console", lambda message: tab.complaints.append(message.text))
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        page.on("dialog", tab.refuse)
        page.goto(path.as_uri())
        try:
            yield tab
            assert tab.requests == [path.as_uri()]
            assert tab.complaints == []
        finally:
            page.close()

    return opened_page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the page of a made-up run by its name; each is made once."""
    parent = tmp_path_factory.mktemp("pages")
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            folder = {"hang": hang, "large": large, "hostile": hostile_run, "well": well}[name](parent / name)
            made[name] = parent / f"{name}.html"
            made[name].write_text(render_page(page_of_run(read_run(folder))), encoding="utf-8")
        return made[name]

    return make


def hang(folder: Path) -> Path:
    """Four ranks with many barriers; then the last makes another call."""
    job = Job(folder, 4)
    for number in range(30):
        job.together("Barrier", late=number % 4, seconds=0.001)
    for rank in range(3):
        job.enter(rank, "Barrier")
    job.enter(3, "Allreduce")
    common = {"state": "blocked", "communicator": "WORLD", "sequence": 31}
    groups = [
        {"ranks": [0, 1, 2], "call": "Barrier", "site": "train.py:7", **common},
        {"ranks": [3], "call": "Allreduce", "site": "train.py:9", **common},
    ]
    divergence = {"sequence": 31, "communicator": "WORLD", "groups": groups}
    lines = {"train.py": {str(number): f"source of line {number}" for number in range(1, 14)}}
    return job.finish(finding(ranks=[3], groups=groups, divergence=divergence), lines=lines)


def large(folder: Path) -> Path:
    write_run(folder, 150, 900, noted_steps=10)
    return folder


def well(folder: Path) -> Path:
    write_run(folder, 3, 60, noted_steps=50)
    (folder / "diagnosis.json").write_text('{"version": 1, "outcome": "ok", "exit_code": 0, "finding": null}')
    return folder


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_open_without_a_request_or_a_complaint_and_fit_the_screen(
    opened: Open, pages: Callable[[str], Path], tmp_path: Path, theme: str, size: dict[str, int]
) -> None:
    with opened(pages("hang"), viewport=size, color_scheme=theme) as tab:
        assert tab.state("ready") == "yes"
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(14, 20, 25)") == (theme == "dark")
        picture = tab.page.screenshot(full_page=True)
        (tmp_path / "page.png").write_bytes(picture)
        assert len(picture) > 20_000  # more than an empty page


@pytest.mark.parametrize("name", ["well", "large"])
def test_other_pages_open_as_well(opened: Open, pages: Callable[[str], Path], name: str) -> None:
    with opened(pages(name)) as tab:
        assert tab.state("ready") == "yes"
        assert tab.page.locator("#work .chart polyline").count() == 2


def test_the_timeline_zooms_and_moves_by_buttons_wheel_and_drag(opened: Open, pages: Callable[[str], Path]) -> None:
    with opened(pages("hang")) as tab:
        page = tab.page
        page.click("#by-time")
        whole = tab.view()
        page.click("#zoom-in")
        near = tab.view()
        assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2)
        page.click("#pan-right")
        assert tab.view()[0] > near[0]
        page.click("#fit")
        assert tab.view() == pytest.approx(whole)
        box = page.locator("#calls").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 600, box["y"] + 60)
        page.keyboard.down("Control")
        page.mouse.wheel(0, -200)
        page.keyboard.up("Control")
        wheeled = tab.view()
        assert wheeled[1] - wheeled[0] < whole[1] - whole[0]
        page.mouse.down()
        page.mouse.move(box["x"] + 500, box["y"] + 60, steps=4)
        page.mouse.up()
        assert tab.view()[0] > wheeled[0]
        assert tab.state("selected") == ""  # a drag is not a click


def test_pointing_at_a_call_shows_its_details_and_a_click_keeps_them(
    opened: Open, pages: Callable[[str], Path]
) -> None:
    with opened(pages("hang")) as tab:
        page = tab.page
        page.click("#by-call")
        box = page.locator("#calls").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 300, box["y"] + 50)
        page.wait_for_selector("#tip:not([hidden])")
        assert re.match(r"rank 0: Barrier, call \d+ on WORLD\n", page.inner_text("#tip"))
        assert "recorded.py" in page.inner_text("#tip")
        page.mouse.click(box["x"] + 300, box["y"] + 50)
        assert tab.state("selected").startswith("0-")
        assert "WORLD" in page.inner_text("#call-details")


def test_a_finding_with_a_first_difference_opens_by_call_at_that_call(
    opened: Open, pages: Callable[[str], Path]
) -> None:
    with opened(pages("hang")) as tab:
        assert tab.page.get_attribute("#by-call", "aria-pressed") == "true"
        first, last = tab.view()
        assert last - first < 12
        tab.page.click("#by-time")
        assert tab.page.get_attribute("#by-time", "aria-pressed") == "true"


def test_a_tap_on_a_phone_shows_the_details_of_a_call(opened: Open, pages: Callable[[str], Path]) -> None:
    with opened(pages("hang"), viewport=PHONE, has_touch=True, is_mobile=True) as tab:
        tab.page.locator("#by-call").tap()
        box = tab.page.locator("#calls").bounding_box()
        assert box is not None
        tab.page.touchscreen.tap(box["x"] + 200, box["y"] + 50)
        assert tab.state("selected").startswith("0-")


def test_keys_go_from_call_to_call_and_rank_to_rank(opened: Open, pages: Callable[[str], Path]) -> None:
    with opened(pages("hang")) as tab:
        page = tab.page
        page.click("#by-time")
        page.focus("#lanes")
        page.keyboard.press("ArrowRight")
        assert tab.state("selected") == "3-1"  # the rank of the finding first
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowUp")
        assert tab.state("selected") == "2-2"
        page.keyboard.press("End")
        assert tab.state("selected") == "2-31"
        assert "still inside at the end" in page.inner_text("#call-details")
        before = tab.view()
        page.keyboard.press("+")
        assert tab.view()[1] - tab.view()[0] < before[1] - before[0]
        page.keyboard.press("a")
        assert tab.view() == pytest.approx(before)


def test_everything_can_be_reached_by_the_tab_key(opened: Open, pages: Callable[[str], Path]) -> None:
    with opened(pages("hang")) as tab:
        reached = set()
        for _ in range(60):
            tab.page.keyboard.press("Tab")
            reached.add(tab.page.evaluate("document.activeElement.id || document.activeElement.className"))
        assert {"theme", "by-call", "zoom-in", "fit", "lanes", "show", "skip"} <= reached


def test_the_verdict_leads_to_the_call_on_the_timeline(opened: Open, pages: Callable[[str], Path]) -> None:
    with opened(pages("hang")) as tab:
        links = tab.page.locator("#verdict a.show")
        links.nth(1).click()
        assert (tab.state("selected"), tab.state("mode")) == ("3-31", "time")
        assert tab.page.locator("#timeline").evaluate("(e) => e.getBoundingClientRect().top") < 300
        links.nth(2).click()  # the first difference, call by call
        assert (tab.state("selected"), tab.state("mode")) == ("0-31", "call")
        first, last = tab.view()
        assert first < 31 < last < first + 12
        in_verdict = re.findall(r"call \d+ on WORLD", tab.page.inner_text("#verdict"))
        assert set(in_verdict) == {"call 31 on WORLD"}
        assert tab.page.inner_text("#call-details h3") == "rank 0: Barrier, call 31 on WORLD"
        assert "31st call of this rank" in tab.page.inner_text("#call-details")


def test_a_link_to_a_call_opens_at_that_call(opened: Open, pages: Callable[[str], Path], tmp_path: Path) -> None:
    copy = shutil.copy(pages("hang"), tmp_path / "page.html")
    with opened(Path(copy)) as tab:
        tab.page.goto(f"{Path(copy).as_uri()}#call-2-17")
        assert tab.state("selected") == "2-17"


def test_the_theme_can_be_chosen(opened: Open, pages: Callable[[str], Path]) -> None:
    with opened(pages("hang"), color_scheme="light") as tab:
        ground = "getComputedStyle(document.body).backgroundColor"
        light = tab.page.evaluate(ground)
        tab.page.click("#theme")
        assert tab.page.evaluate(ground) == light
        tab.page.click("#theme")
        assert tab.page.evaluate(ground) == "rgb(14, 20, 25)"
        tab.page.emulate_media(color_scheme="dark")
        tab.page.click("#theme")
        assert tab.page.evaluate(ground) == "rgb(14, 20, 25)"


def test_a_block_of_many_ranks_opens(opened: Open, pages: Callable[[str], Path]) -> None:
    with opened(pages("large")) as tab:
        page = tab.page
        page.evaluate("document.getElementById('timeline').scrollIntoView()")
        before = page.evaluate("document.getElementById('lanes').scrollHeight")
        box = page.locator("#calls").bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 40, box["y"] + 66)  # below the rank of the finding
        tab.view()
        assert page.evaluate("document.getElementById('lanes').scrollHeight") > before
        page.locator("#verdict a.show").first.click()
        assert tab.state("selected") == "0-900"


def test_what_strangers_wrote_does_nothing(opened: Open, pages: Callable[[str], Path]) -> None:
    with opened(pages("hostile")) as tab:
        tab.page.focus("#lanes")
        tab.page.keyboard.press("ArrowRight")
        assert SHOWN in tab.page.inner_text("#call-details")
        assert SHOWN in tab.page.inner_text("#verdict-title")
        assert tab.page.locator("img").count() == 0


def test_a_real_run_whose_names_and_words_are_markup(opened: Open, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>.py"
    raised = "raise RuntimeError('</script><script>alert(2)</script><!--\\x1b[31m\\u202e')"
    script = f"from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 1:\n    {raised}\nMPI.COMM_WORLD.Barrier()\n"
    (tmp_path / name).write_text(script)
    run = [sys.executable, "-m", "paceline"]
    done = subprocess.run([*run, "run", "--out", "out", "-n", "3", name], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == 90
    subprocess.run([*run, "report", "out", "-o", "page.html"], cwd=tmp_path, check=True, capture_output=True)
    with opened(tmp_path / "page.html") as tab:
        text = tab.page.inner_text("main")
        assert "</script><script>alert(2)</script><!--" in text
        assert f"{name}:3" in text
        assert "\\u202e" in text
