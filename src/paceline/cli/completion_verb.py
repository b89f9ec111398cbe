"""`paceline completion`: prints the script by which a shell completes our command line."""

from __future__ import annotations

import argparse
from typing import Any

from paceline.cli.desktop.completion_script import SCRIPTS, words_of
from paceline.cli.verb_io import ExamplesFormatter

_EPILOG = """\
examples:
  source <(paceline completion bash)      in ~/.bashrc
  source <(paceline completion zsh)       in ~/.zshrc
  paceline completion fish | source       in ~/.config/fish/config.fish
"""


def add_to(verbs: Any) -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "completion",
        help="print a script for bash, zsh or fish that completes verbs and options",
        description="Prints the script by which SHELL completes verbs, options, causes and cases.",
        epilog=_EPILOG,
        formatter_class=ExamplesFormatter,
    )
    parser.add_argument("shell", metavar="SHELL", choices=sorted(SCRIPTS), help="bash, zsh or fish")
    parser.set_defaults(run=lambda options: run(options, verbs))


def run(options: argparse.Namespace, verbs: Any) -> int:
    """Print the script."""
    from paceline.lab.case import all_cases
    from paceline.report.text.cause_text import all_causes

    words = words_of(verbs.choices)
    words["explain"] += list(dict.fromkeys(map(str, all_causes())))
    cases = [case.id for case in all_cases()]
    for subcommand in ("show", "hint", "run", "solve", "check"):
        words[f"lab {subcommand}"] += cases
    print(SCRIPTS[options.shell](words), end="")
    return 0
