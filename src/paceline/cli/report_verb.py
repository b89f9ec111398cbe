"""`paceline report`: one page, and a trace, of what a run has left on disk."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "report",
        help="make a page of a run: who fell out of line, a timeline, who waits for whom, how even the work is",
        description="Makes one HTML page, which needs nothing else, of the folder that `paceline run` has left. "
        "DIR is that folder, or the one that holds several: then the latest is taken.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="what paceline run named, or --out")
    parser.add_argument("-o", "--output", metavar="PAGE", type=Path, help="the page (default: report.html in DIR)")
    parser.add_argument(
        "--trace", metavar="FILE", type=Path, help="also write a trace for Perfetto; with .gz at the end, compressed"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write what was asked for, and say where it is."""
    from paceline.cli.writable import check_writable
    from paceline.report.evidence.run_files import find_run, read_run
    from paceline.report.page.render import render_page
    from paceline.report.page.run_page import page_of_run

    folder = find_run(options.folder)
    output = options.output or folder / "report.html"
    check_writable(output, options.trace)
    files = read_run(folder)
    output.write_text(render_page(page_of_run(files)), encoding="utf-8")
    for problem in files.missing:
        print(f"not everything is there: {problem}")
    if options.trace is not None:
        from paceline.report.trace import write_trace

        write_trace(files, options.trace)
        print(f"written: {options.trace} (open it at https://ui.perfetto.dev or chrome://tracing)")
    print(f"written: {output} (open it in a browser)")
    return 0
