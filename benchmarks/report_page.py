"""What a page costs: to make, on disk, and to open in a real browser, for a small run and a very large one.

The runs are synthetic (`synthetic_run.py`); everything else is real: the records on disk, `paceline report` in a
process of its own, headless Chromium that opens a file. A page is open when its timeline is drawn and painted.
Goals: 1,024 ranks with 1,000,000 calls open within 3 s, from less than 20 MB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from record import write_record
from synthetic_run import write_run

SIZES = ((4, 250, 100), (1024, 977, 100))  # ranks, calls of each, steps that its loader noted
SECONDS, MEGABYTES, RUNS = 3.0, 20.0, 5


def main() -> None:
    figures = []
    with tempfile.TemporaryDirectory() as parent, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for num_ranks, num_calls, noted_steps in SIZES:
            folder = Path(parent) / f"{num_ranks}"
            write_run(folder, num_ranks, num_calls, noted_steps=noted_steps)
            figures.append({"ranks": num_ranks, "calls": num_ranks * num_calls, **measure(folder, browser)})
            tell(figures[-1])
        browser.close()
    write_record("report_page", figures, packages=["jinja2", "numpy", "playwright"], seed=0)


def measure(folder: Path, browser: Browser) -> dict[str, Any]:
    page, trace = folder / "report.html", folder / "trace.json.gz"
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "paceline", "report", str(folder)], check=True, capture_output=True)
    made = time.perf_counter() - begin
    command = [sys.executable, "-m", "paceline", "report", str(folder), "--trace", str(trace)]
    subprocess.run(command, check=True, capture_output=True)
    opened = sorted(open_page(page, browser) for _ in range(RUNS))
    return {
        "seconds_to_make": round(made, 2),
        "megabytes": round(page.stat().st_size / 1e6, 2),
        "seconds_to_open": {"median": round(opened[RUNS // 2], 2), "longest": round(opened[-1], 2)},
        "trace_megabytes": round(trace.stat().st_size / 1e6, 2),
        "browser": browser.version,
    }


def open_page(path: Path, browser: Browser) -> float:
    """Return the seconds from asking for the page until it is drawn."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    begin = time.perf_counter()
    tab.goto(path.as_uri())
    tab.wait_for_selector("#lanes[data-ready][data-x0]")
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seconds = time.perf_counter() - begin
    tab.close()
    return seconds


def tell(figure: dict[str, Any]) -> None:
    opened = figure["seconds_to_open"]
    is_reached = opened["longest"] < SECONDS and figure["megabytes"] < MEGABYTES
    print(
        f"{figure['ranks']:,} ranks, {figure['calls']:,} calls: made in {figure['seconds_to_make']} s, "
        f"{figure['megabytes']} MB, opens in {opened['median']} s (longest {opened['longest']}); "
        f"goal {SECONDS:g} s and {MEGABYTES:g} MB: {'reached' if is_reached else 'MISSED'}; "
        f"trace {figure['trace_megabytes']} MB"
    )


if __name__ == "__main__":
    main()
