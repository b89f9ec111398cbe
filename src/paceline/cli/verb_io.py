"""What verbs share in reading arguments and writing lines: subcommands, help with examples, and checks of options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.cli.desktop.unread_output import drop_stream
from paceline.errors import InputError

_EXAMPLES = "examples:\n"


class ExamplesFormatter(argparse.HelpFormatter):
    """Wraps descriptions to the terminal, and leaves an epilog of examples as it is written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLES) else super()._fill_text(text, width, indent)


def add_subcommand(subcommands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> Any:
    """Add a subcommand of a verb, which one sentence describes; return its parser."""
    parser = subcommands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(run=run)
    return parser


def say(text: str) -> None:
    """Write a line to standard error, if it can be written: standard output is the job's."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:  # its reader has left, or its disk is full: there is nobody to tell
        drop_stream(sys.stderr)


def pass_on(output: bytes) -> None:
    """Write what a rank has printed to standard error, as it is, if it can be written."""
    try:
        sys.stderr.flush()
        sys.stderr.buffer.write(output)
        sys.stderr.buffer.flush()
    except OSError:  # as above
        drop_stream(sys.stderr)


def check_positive(name: str, value: float) -> float:
    """Return a number that must be more than 0; `name` is the option that gives it."""
    if not value > 0:
        raise InputError(f"{name} must be more than 0, not {value}")
    return value


def check_writable(*files: str | Path | None) -> None:
    """Refuse a file that cannot be opened for writing, before the work is done and not after; None is skipped."""
    for file in files:
        if file is not None:
            try:
                with open(file, "ab"):
                    pass
            except OSError as error:
                raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None


def make_folder(folder: Path | None) -> None:
    """Make a folder; refuse one that cannot be made before the work is done and not after. None is skipped."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None


def write_output(path: Path, text: str) -> bool:
    """Write a file that was asked for; if that fails, as on a full disk, say so and return False.

    It is not written aside: it may be a device, or a pipe.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        say(f"paceline: {path} cannot be written: {error.strerror}")
        return False
    return True


def add_metrics_option(parser: argparse.ArgumentParser) -> None:
    """Add the option to the parser of a verb."""
    parser.add_argument(
        "--metrics", action="append", default=[], metavar="KIND[:WHERE]",
        help="hand rates, waits, imbalance and padding to prometheus, tensorboard, wandb or opentelemetry",
    )  # fmt: skip
