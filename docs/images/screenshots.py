"""Makes the pictures in README and docs from real runs: a break of the catalogue, and the ranking example.

`make screenshots` runs it. Times differ from run to run, and so do the pictures, but not what they show.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MOST_BYTES, MOST_HEIGHT = 150_000, 590


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        stuck, trained = Path(folder) / "stuck.html", Path(folder) / "trained.html"
        case = ROOT / "src/paceline/lab/cases/last-rank-short/broken.py"
        make_page(Path(folder), case, ["-n", "7", "train.py"], stuck)
        make_page(Path(folder), None, ["-n", "4", str(ROOT / "examples/ranking/train.py")], trained)
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        take(browser, stuck, "report-verdict.png", part="#verdict", width=1100)
        take(browser, stuck, "report-timeline.png", part="#timeline", width=1100, theme="dark", link=3)
        take(browser, trained, "report-work.png", part="#work", width=1000)
        take(browser, stuck, "report-phone.png", width=390, theme="dark")
        browser.close()


def make_page(folder: Path, script: Path | None, arguments: list[str], page: Path) -> None:
    """Run a job under the guard and make its page."""
    if script is not None:
        shutil.copy(script, folder / arguments[-1])
    paceline = [sys.executable, "-m", "paceline"]
    out = folder / page.stem
    subprocess.run([*paceline, "run", "--out", str(out), *arguments], cwd=folder, check=False, timeout=300)
    subprocess.run([*paceline, "report", str(out), "-o", str(page)], check=True, timeout=60)


def take(
    browser: Browser,
    page: Path,
    name: str,
    *,
    part: str = "",
    width: int,
    theme: str = "light",
    link: int | None = None,
) -> None:
    """Take a picture of a part of a page, or of what a phone shows of it; a link may be followed first."""
    settings = {"viewport": {"width": width, "height": 780}, "reduced_motion": "reduce", "color_scheme": theme}
    tab = browser.new_page(**settings)  # type: ignore[arg-type]
    tab.goto(page.as_uri())
    if link is not None:
        tab.locator("#verdict a.show").nth(link).click()
    tab.wait_for_timeout(300)
    tab.mouse.move(0, 0)
    raw = tab.screenshot(clip=clip_of(tab, part), full_page=True) if part else tab.screenshot()
    (HERE / name).write_bytes(raw)
    assert len(raw) < MOST_BYTES, f"{name} has {len(raw)} bytes"
    print(f"written: docs/images/{name} ({len(raw) // 1000} kB)")
    tab.close()


def clip_of(tab: Page, part: str) -> FloatRect:
    """Return where a part is on the whole page; of a long one, the upper end."""
    box = tab.locator(part).evaluate(
        "(e) => { const b = e.getBoundingClientRect(); return [b.x + scrollX, b.y + scrollY, b.width, b.height]; }"
    )
    return {"x": box[0], "y": box[1], "width": box[2], "height": min(box[3], MOST_HEIGHT)}


if __name__ == "__main__":
    main()
