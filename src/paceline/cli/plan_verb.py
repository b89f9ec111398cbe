"""`paceline plan`: what each tail does with N samples, W ranks and batch B."""

from __future__ import annotations

import argparse
import json
from typing import Any

_TAILS = ("drop", "even", "pad", "repeat")  # as in paceline.plan.Tail, which would load numpy here


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "plan",
        help="show what each policy does with the remainder, per rank",
        description="Shows what each policy does with the samples that do not fill a step, "
        "and what the common ceil(N/W) split with a shorter last rank would do.",
    )
    parser.add_argument("--samples", type=int, required=True, metavar="N", help="number of samples")
    parser.add_argument("--ranks", type=int, required=True, metavar="W", help="number of ranks")
    parser.add_argument("--batch", type=int, required=True, metavar="B", help="rows per batch on each rank")
    parser.add_argument("--tail", choices=_TAILS, help="show only this policy")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    from paceline.errors import InputError
    from paceline.plan import Tail
    from paceline.report.text.plan_text import compare_tails, tails_as_json, tails_as_text

    report = compare_tails(
        options.samples,
        world_size=options.ranks,
        batch_size=options.batch,
        tails=[Tail(options.tail)] if options.tail else list(Tail),
    )
    if options.tail and report.rows[0].problem:
        raise InputError(report.rows[0].problem)
    print(json.dumps(tails_as_json(report), indent=2) if options.json else tails_as_text(report))
    return 0
