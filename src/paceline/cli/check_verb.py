"""`paceline check`: proves that every rank makes equal steps of equal shapes, in one process."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli.verb_io import check_writable, write_output
from paceline.process.exit_codes import FINDING_CODE

if TYPE_CHECKING:
    from paceline.loader.check.contract_result import ContractResult

_FAILED = 1


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "check",
        help="run the batches of every rank in one process, and compare them",
        description="Calls FACTORY(rank, world_size) for every rank and checks that all ranks make the same number of "
        "steps with the same fields, shapes and dtypes; counts lost and repeated samples. The exit code is 90 if ranks "
        "differ.",
    )
    parser.add_argument("factory", metavar="MODULE:FACTORY", help="a module or file.py, and a function in it")
    parser.add_argument("--ranks", type=int, required=True, metavar="W", help="number of ranks")
    parser.add_argument("--ids", metavar="FIELD", help="the field that holds sample ids, e.g. meta.id")
    parser.add_argument("--samples", type=int, metavar="N", help="number of samples in the dataset")
    parser.add_argument("--max-steps", type=int, metavar="S", help="stop each rank after S steps")
    parser.add_argument(
        "--ragged",
        action="append",
        default=[],
        metavar="FIELD",
        help="a field whose shape may differ between ranks; may be repeated",
    )
    parser.add_argument(
        "--exactly-once",
        action="store_true",
        help="also fail on a lost or repeated sample",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", metavar="FILE", type=Path, help="also write a page for the browser")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the verdict; return the exit code."""
    from paceline.cli.factory import load_factory
    from paceline.loader.check.contract import check_contract
    from paceline.report.text.contract_text import contract_as_json, contract_as_text

    check_writable(options.page)
    # what the user's code prints must not get into our output, which may be JSON
    with redirect_stdout(sys.stderr), _progress(options.ranks) as on_step:
        factory = load_factory(options.factory)
        result = check_contract(
            factory,
            options.ranks,
            ids=options.ids,
            num_samples=options.samples,
            max_steps=options.max_steps,
            ragged=options.ragged,
            exactly_once=options.exactly_once,
            on_step=on_step,
        )
    if options.json:
        print(json.dumps(contract_as_json(result, options.factory), indent=2))
    else:
        print(contract_as_text(result, options.factory))
    if options.page is not None and not _write_page(options.page, result, options.factory):
        return _FAILED
    return 0 if result.holds else FINDING_CODE


def _write_page(path: Path, result: ContractResult, factory: str) -> bool:
    from paceline.report.page.contract_page import page_of_contract
    from paceline.report.page.render import render_page

    if not write_output(path, render_page(page_of_contract(result, factory))):
        return False
    print(f"written: {path} (open it in a browser)", file=sys.stderr)  # standard output may be JSON
    return True


@contextmanager
def _progress(world_size: int) -> Iterator[Callable[[int, int], None]]:
    """Show ranks and steps: a bar on a terminal, elsewhere a line after 10 s of steps, 20 s, 40 s and so on."""
    if not sys.stderr.isatty():
        yield _polite_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("rank {task.fields[rank]}"), BarColumn(), TextColumn("{task.fields[at]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("check", total=world_size, rank=0, at="")

        def on_step(rank: int, step: int) -> None:
            bar.update(task, completed=rank, rank=rank, at=f"step {step}")

        yield on_step


def _polite_lines() -> Callable[[int, int], None]:
    first_step: float | None = None  # what comes before, such as importing the user's module, says nothing of batches
    wait = 10.0

    def on_step(rank: int, step: int) -> None:
        nonlocal first_step, wait
        now = time.monotonic()
        first_step = now if first_step is None else first_step
        if now - first_step > wait:
            wait *= 2
            print(
                f"paceline check: rank {rank} is at step {step}; if its batches never end, give --max-steps",
                file=sys.stderr,
            )

    return on_step
