"""`paceline report`: makes a page, and a trace, from the records of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from paceline.cli.desktop.opened_page import open_page
from paceline.cli.verb_io import check_writable, write_output

_FAILED = 1


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "report",
        help="make a page of a run: who fell out of line, a timeline, who waits for whom, how even the work is",
        description="Makes one self-contained HTML page from the records that `paceline run` kept. "
        "DIR is the folder of a run, or one that holds several: then the latest is used.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder that paceline run printed, or its --out")
    parser.add_argument(
        "-o", "--output", metavar="PAGE", type=Path, help="where the page goes (default: report.html in DIR)"
    )
    parser.add_argument(
        "--trace", metavar="FILE", type=Path, help="also write a trace for Perfetto, compressed if FILE ends in .gz"
    )
    parser.add_argument("--open", action="store_true", dest="is_opened", help="open the page in the browser")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write what was asked for, and say where it is."""
    from paceline.report.evidence.run_files import find_run, read_run
    from paceline.report.page.render import render_page
    from paceline.report.page.run_page import page_of_run

    folder = find_run(options.folder)
    output = options.output or folder / "report.html"
    check_writable(output, options.trace)
    files = read_run(folder)
    if not write_output(output, render_page(page_of_run(files))):
        return _FAILED
    for problem in files.missing:
        print(f"not everything could be read: {problem}")
    if options.trace is not None:
        from paceline.report.trace import write_trace

        write_trace(files, options.trace)
        print(f"written: {options.trace} (open it at https://ui.perfetto.dev or chrome://tracing)")
    if options.is_opened and open_page(output):
        print(f"written: {output}, and opened in the browser")
    else:
        print(f"written: {output} (open it in a browser)")
    return 0
