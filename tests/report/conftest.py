"""The browser that pages are opened in, one for each module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

# The sandbox needs rights that containers do not give, and the pages are our own. No process is kept in store: a test
# may leave none behind.
SETTINGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-features=SpareRendererForSitePerProcess"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "no browser: make test-browser says what to install"
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=SETTINGS)
        started.new_page().goto("about:blank")  # so that all its processes are there before the first test
        yield started
        started.close()
