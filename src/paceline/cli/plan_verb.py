"""`paceline plan`: what each tail does with N samples, W ranks and batch B; or what packs become of lengths."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

_TAILS = ("drop", "even", "pad", "repeat")  # as in paceline.plan.Tail, which would load numpy here
_TOO_LONG = ("raise", "cut", "split")  # as in paceline.plan.packs.pieces.TooLong


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "plan",
        help="show what each policy does with the remainder, per rank; or how lengths would be packed",
        description="Shows what each policy does with the samples that do not fill a step, "
        "and what the common ceil(N/W) split with a shorter last rank would do. With --lengths it shows "
        "how samples of these lengths would be packed.",
    )
    parser.add_argument("--ranks", type=int, required=True, metavar="W", help="number of ranks")
    parser.add_argument("--samples", type=int, metavar="N", help="number of samples")
    parser.add_argument("--batch", type=int, metavar="B", help="rows per batch on each rank")
    parser.add_argument("--tail", choices=_TAILS, help="show only this policy")
    packs = parser.add_argument_group("packs")
    packs.add_argument("--lengths", type=Path, metavar="FILE", help="each sample's length: one per line, or a .npy")
    packs.add_argument("--max-tokens", type=int, metavar="T", help="the most tokens in a pack")
    packs.add_argument("--packs", type=int, default=1, metavar="P", help="packs per rank and step (default: 1)")
    packs.add_argument("--too-long", choices=_TOO_LONG, default="raise", help="what to do with longer samples")
    packs.add_argument("--width", type=int, metavar="D", help="count the work of transformer layers of this width")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    as_json, as_text = _packs(options) if options.lengths is not None else _tails(options)
    print(json.dumps(as_json, indent=2) if options.json else as_text)
    return 0


def _tails(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from paceline.errors import InputError
    from paceline.plan import Tail
    from paceline.report.text.plan_text import compare_tails, tails_as_json, tails_as_text

    if options.samples is None or options.batch is None:
        raise InputError("pass --samples and --batch, or --lengths and --max-tokens for packs")
    if options.max_tokens is not None or options.width is not None:
        raise InputError("--max-tokens and --width are for packs: pass --lengths instead of --samples and --batch")
    report = compare_tails(
        options.samples,
        world_size=options.ranks,
        batch_size=options.batch,
        tails=[Tail(options.tail)] if options.tail else list(Tail),
    )
    if options.tail and report.rows[0].problem:
        raise InputError(report.rows[0].problem)
    return tails_as_json(report), tails_as_text(report)


def _packs(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from functools import partial

    from paceline.balance import quadratic
    from paceline.errors import InputError
    from paceline.plan import PackPlan
    from paceline.report.text.pack_text import packs_as_json, packs_as_text, report_packs

    if options.samples is not None or options.batch is not None or options.tail is not None:
        raise InputError("--lengths says what there is to pack: leave out --samples, --batch and --tail")
    if options.max_tokens is None:
        raise InputError("--max-tokens is missing: pass the tokens of a pack")
    lengths = _read_lengths(options.lengths)
    plan = PackPlan(
        lengths, world_size=options.ranks, max_tokens=options.max_tokens, packs_per_step=options.packs,
        too_long=options.too_long, cost=None if options.width is None else partial(quadratic, width=options.width),
    )  # fmt: skip
    report = report_packs(plan, lengths)
    return packs_as_json(report), packs_as_text(report)


def _read_lengths(path: Path) -> Any:
    import numpy as np

    from paceline.errors import InputError

    try:
        if path.suffix == ".npy":
            return np.load(path).reshape(-1)  # pickles are refused
        return np.array([int(line) for line in path.read_text().split()], dtype=np.int64)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, OverflowError, EOFError) as error:
        raise InputError(f"{path} must have one whole number for each sample: {error}") from None
