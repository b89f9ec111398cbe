"""What several verbs share: verbs that have parts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def add_part(parts: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> Any:
    """Add a part of a verb, which is described by one sentence; return its parser."""
    parser = parts.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(run=run)
    return parser
