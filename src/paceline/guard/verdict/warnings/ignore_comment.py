"""The comment that silences warnings at a line: `# paceline: ignore[handle-leak]`, or without brackets for all."""

from __future__ import annotations

import ast
import re

from paceline.guard.verdict.job_warning import WarningCause
from paceline.guard.verdict.source.user_source import parse

_COMMENT = re.compile(r"#\s*paceline:\s*ignore(?:\[(?P<causes>[^\]]*)\])?")


def is_ignored(source: str, line: int, cause: WarningCause) -> bool:
    """Say whether a comment at a line, or at another line of the same statement, silences a cause.

    >>> is_ignored("a = comm.Dup()  # paceline: ignore[handle-leak]", 1, WarningCause.HANDLE_LEAK)
    True
    >>> is_ignored("a = comm.Dup()  # paceline: ignore[handle-leak]", 1, WarningCause.BUFFER_IN_USE)
    False
    """
    lines = source.splitlines()
    for number in _lines_of_statement(source, line):
        for found in _COMMENT.finditer(lines[number - 1] if number <= len(lines) else ""):
            causes = found["causes"]
            if causes is None or str(cause) in [name.strip() for name in causes.split(",")]:
                return True
    return False


def _lines_of_statement(source: str, line: int) -> range:
    """Return the lines of the smallest statement that holds a line; of one that holds others only its head."""
    tree = parse(source)
    if tree is None:
        return range(line, line + 1)
    spans = [_span(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    around = [span for span in spans if line in span]
    return min(around, key=len, default=range(line, line + 1))


def _span(node: ast.stmt) -> range:
    body = getattr(node, "body", None)
    end = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
    return range(node.lineno, max(node.lineno, end) + 1)
