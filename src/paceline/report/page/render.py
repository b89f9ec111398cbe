"""Turns the values of a page into one HTML file. Template, style and script are inside; nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from paceline import __version__
from paceline.report.page.bundle import bundle_modules
from paceline.report.page.charts import cost_rows, epoch_rows, site_rows, step_boxes, work_lines
from paceline.report.page.page_values import Page
from paceline.report.safe_text import page_safe, page_safe_values

_FOLDER = Path(__file__).parent / "assets"
_SCRIPTS = _FOLDER / "scripts"
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_page(page: Page) -> str:
    """Return the page as HTML."""
    style, dark = (_FOLDER / "page.css").read_text("utf-8"), (_FOLDER / "dark.css").read_text("utf-8")
    script = page_script()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    costs, work = page.costs, page.work
    out_of_line = (page.timeline or {}).get("out_of_line", ())
    return environment.get_template("page.html.j2").render(
        page=page,
        version=__version__,
        style=Markup(style.replace("/* dark.css */", dark)),  # twice: for the system's choice and the reader's
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        timeline=None if page.timeline is None else Markup(embedded_json(page.timeline)),
        costs=None if costs is None else cost_rows(costs, out_of_line),
        sites=None if costs is None else site_rows(costs),
        steps=None if page.steps is None else step_boxes(page.steps),
        epochs=None if work is None else epoch_rows(work.epochs),
        lines=None if work is None else work_lines(work.steps),
    )


def page_script() -> str:
    """Return the script of every page: its modules in one."""
    texts = {path.relative_to(_SCRIPTS).as_posix(): path.read_text("utf-8") for path in _SCRIPTS.rglob("*.js")}
    return bundle_modules(texts, "main.js")


def embedded_json(value: Mapping[str, Any]) -> str:
    r"""Return JSON that can stand inside a script element: nothing in it ends the element or starts a comment.

    >>> print(embedded_json({"a": "</script>"}))
    {"a":"\u003c/script\u003e"}
    """
    text = json.dumps(page_safe_values(value), separators=(",", ":"), ensure_ascii=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    return text


def _finalize(value: Any) -> Any:
    """Return what the template writes: text from outside is made safe, our own markup is left as it is."""
    return page_safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value
