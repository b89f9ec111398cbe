"""Reads a user's source just enough to say how two lines of one function stand to each other."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBlock:
    """A loop or a condition: the line of its head, and the head itself."""

    line: int
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRelation:
    """How two lines of one function stand to each other.

    Attributes:
        first_loop: The outermost loop that holds the first line and not the second.
        second_loop: The other way round.
        share_a_loop: Whether some loop holds both.
        first_condition: The innermost `if` that holds a call of the first line and not the second line.
        second_condition: The other way round.
        fork: The `if` of which one branch holds the first line and another the second.
        fork_calls_differ: Whether its branches make different calls, not only in another order.
        first_is_above: Whether the first line stands above the second.
        file: The file that both are in, if the caller said it.
    """

    first_loop: SourceBlock | None = None
    second_loop: SourceBlock | None = None
    share_a_loop: bool = False
    first_condition: SourceBlock | None = None
    second_condition: SourceBlock | None = None
    fork: SourceBlock | None = None
    fork_calls_differ: bool = False
    first_is_above: bool = True
    file: str = ""


def relate(source: str, first: int, second: int) -> LineRelation | None:
    r"""Relate two lines; None if they are not in one function, or the source cannot be read.

    >>> code = "for x in xs:\n    a()\nif rank == 0:\n    b()\n"
    >>> relation = relate(code, 2, 4)
    >>> relation.first_loop.head, relation.second_condition.head, relation.share_a_loop
    ('for x in xs', 'rank == 0', False)
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    function, other = _function_of(tree, first), _function_of(tree, second)
    if function is not other:
        return None
    around_first, around_second = list(_around(function, first)), list(_around(function, second))
    fork = _fork(around_first, around_second)
    return LineRelation(
        first_loop=_loop(around_first, around_second),
        second_loop=_loop(around_second, around_first),
        share_a_loop=any(isinstance(node, _LOOPS) and node in around_second for node in around_first),
        first_condition=_condition(around_first, around_second),
        second_condition=_condition(around_second, around_first),
        fork=_block(fork, ast.unparse(fork.test)) if fork is not None else None,
        fork_calls_differ=fork is not None and _calls_in(fork.body) != _calls_in(fork.orelse),
        first_is_above=first < second,
    )


def condition_around(source: str, line: int) -> SourceBlock | None:
    """Return the innermost `if` that holds a call of this line."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return _condition(list(_around(_function_of(tree, line), line)), [])


def _function_of(tree: ast.AST, line: int) -> ast.AST:
    """Return the innermost function that holds a line, or the module."""
    functions = [node for node in _around(tree, line) if isinstance(node, _FUNCTIONS)]
    return functions[-1] if functions else tree


def _around(node: ast.AST, line: int) -> Iterator[ast.AST]:
    """Return the nodes that hold a line, from the outside in."""
    for child in ast.iter_child_nodes(node):
        begin, end = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if begin is None or end is None:
            yield from _around(child, line)
        elif begin <= line <= end:
            yield child
            yield from _around(child, line)


def _loop(around: Sequence[ast.AST], other: Sequence[ast.AST]) -> SourceBlock | None:
    for node in around:
        if isinstance(node, _LOOPS) and node not in other:
            head = node.test if isinstance(node, ast.While) else node.iter
            target = "while" if isinstance(node, ast.While) else f"for {ast.unparse(node.target)} in"
            return _block(node, f"{target} {ast.unparse(head)}")
    return None


def _condition(around: Sequence[ast.AST], other: Sequence[ast.AST]) -> SourceBlock | None:
    """Return the innermost `if` around a call; a line that only jumps, as `break` does, is not under it as a call."""
    if not any(isinstance(node, ast.Call) for node in around):
        return None
    for node in reversed(around):
        if isinstance(node, ast.If) and node not in other and "__name__" not in ast.unparse(node.test):
            test, is_else = ast.unparse(node.test), any(inner in node.orelse for inner in around)
            return _block(node, f"not ({test})" if is_else else test)
    return None


def _fork(around: Sequence[ast.AST], other: Sequence[ast.AST]) -> ast.If | None:
    """Return the innermost `if` that holds both lines, in different branches."""
    for node in reversed(around):
        if isinstance(node, ast.If) and node in other:
            in_body = [any(inner in node.body for inner in side) for side in (around, other)]
            return node if in_body[0] != in_body[1] else None
    return None


def _calls_in(branch: Sequence[ast.stmt]) -> Counter[str]:
    """Count the methods and functions that a branch calls, by name."""
    nodes = [node for statement in branch for node in ast.walk(statement) if isinstance(node, ast.Call)]
    names = [getattr(node.func, "attr", getattr(node.func, "id", "")) for node in nodes]
    return Counter(name for name in names if name)


def _block(node: ast.stmt, head: str) -> SourceBlock:
    return SourceBlock(line=node.lineno, head=head)
