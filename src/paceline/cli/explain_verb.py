"""`paceline explain`: says what a cause means and what to change, without a job."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import Any


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "explain",
        help="say what a cause means and what to change",
        description="Says what CAUSE means, what to change, and which case of the lab shows it. "
        "Causes are named in findings and warnings; without CAUSE all are listed.",
    )
    parser.add_argument("cause", metavar="CAUSE", nargs="?", help="such as uneven-steps")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one cause, or the list of all."""
    from paceline.report.text.cause_text import all_causes, cause_as_text
    from paceline.report.text.tables import table_text
    from paceline.report.text.text_layout import layout_for

    causes = all_causes()
    if options.cause is None:
        print(table_text(("cause", "what it means"), [(str(cause), cause.sentence) for cause in causes]))
        return 0
    found = [cause for cause in causes if cause == options.cause]
    if not found:
        raise _unknown(options.cause, list(map(str, causes)))
    layout = layout_for(sys.stdout)
    print("\n\n".join(cause_as_text(cause, _cases_of(cause), layout) for cause in found))
    return 0


def _unknown(name: str, causes: list[str]) -> Exception:
    from paceline.errors import InputError

    near = difflib.get_close_matches(name, causes, n=1)
    hint = f"did you mean {near[0]}?" if near else "paceline explain lists all"
    return InputError(f"there is no cause {name!r}; {hint}")


def _cases_of(cause: str) -> list[str]:
    """Return the cases of the lab that end with this cause, or give this warning."""
    from paceline.guard.verdict.finding import Cause
    from paceline.lab.case import all_cases

    if isinstance(cause, Cause):
        return [case.id for case in all_cases() if case.expected.cause == cause]
    return [case.id for case in all_cases() if case.expected.warning and case.expected.warning.cause == cause]
