"""Reads a user's source just enough to say how two lines stand to each other: in one loop, after it, under an if."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRelation:
    """How a line stands to a loop that holds another."""

    loop_line: int | None  # the innermost loop around the first line
    second_in_loop: bool
    first_condition: str | None  # the test of an `if` that holds the first line and not the second
    second_condition: str | None  # and the other way round
    first_condition_line: int | None = None
    second_condition_line: int | None = None
    file: str = ""


def relate(source: str, first: int, second: int) -> LineRelation | None:
    r"""Say how the second line stands to the innermost loop around the first.

    >>> code = "for x in xs:\n    a()\nif rank == 0:\n    b()\n"
    >>> relation = relate(code, 2, 4)
    >>> relation.loop_line, relation.second_in_loop, relation.second_condition
    (1, False, 'rank == 0')
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    around_first, around_second = list(_around(tree, first)), list(_around(tree, second))
    loop = next((node for node in reversed(around_first) if isinstance(node, _LOOPS)), None)
    first_if, second_if = _condition(around_first, around_second), _condition(around_second, around_first)
    return LineRelation(
        loop_line=loop.lineno if loop is not None else None,
        second_in_loop=loop is not None and loop in around_second,
        first_condition=ast.unparse(first_if.test) if first_if is not None else None,
        second_condition=ast.unparse(second_if.test) if second_if is not None else None,
        first_condition_line=first_if.lineno if first_if is not None else None,
        second_condition_line=second_if.lineno if second_if is not None else None,
    )


def _around(node: ast.AST, line: int) -> Iterator[ast.AST]:
    """Return the nodes that hold a line, from the outside in."""
    for child in ast.iter_child_nodes(node):
        begin, end = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if begin is None or end is None:
            yield from _around(child, line)
        elif begin <= line <= end:
            yield child
            yield from _around(child, line)


def _condition(around: list[ast.AST], other: list[ast.AST]) -> ast.If | None:
    for node in reversed(around):
        if isinstance(node, ast.If) and node not in other and "__name__" not in ast.unparse(node.test):
            return node
    return None
