"""For the reference: examples in docstrings stand in fences, so that Markdown does not take `>>>` for a quotation."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?!\1?\s*$)\1.*)*", flags=re.MULTILINE)  # up to an empty line


class FencedExamples(griffe.Extension):  # type: ignore[misc]
    """Puts each example of each docstring into a fence."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match[str]) -> str:
    return f"{example[1]}```pycon\n{example[0]}\n{example[1]}```"
