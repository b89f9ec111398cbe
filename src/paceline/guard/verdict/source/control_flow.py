"""What the source of one function says of a line: whether it may be passed over, and whether a loop repeats it.

Lines are known, columns are not, so nothing is said of the branches of an expression.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.guard.verdict.source.user_source import (
    LOOPS,
    SourceBlock,
    around,
    function_of,
    holds_in_branch,
    loop_block,
    names_in,
    parse,
    settled_names,
)

_FIXED_NUMBER = re.compile(r"^for .* in range\([\d, ]+\)$")


def goes_a_fixed_number_of_times(loop: SourceBlock) -> bool:
    """Say whether the head of a loop gives the number of its rounds, the same for every rank."""
    return _FIXED_NUMBER.match(loop.head) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFlow:
    """How a line is reached inside one function, or inside one of its loops.

    Attributes:
        conditions: The tests of the `if`s that it is under, and of those in an expression.
        settled: Those of them that come out the same on every rank in the same round.
        is_caught: Whether an exception before it can be caught without leaving the function, or the loop, and without
            another try.
        is_retried: Whether a loop around it tries again after an exception, and ends when all went well.
        is_in_match: Whether it stands in a case of a `match`.
        loops: The heads of the loops around it, from the outside in.
        outermost_loop: The first of these loops.
        has_continue_above: Whether a `continue` of one of its loops stands above it.
        has_return_above: Whether a `return` stands above it.
        has_break: Whether a `break` or `return` may end a loop around it.
        is_in_else: Whether it stands in the `else` of a loop, which a `break` passes over.
    """

    conditions: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    is_caught: bool = False
    is_retried: bool = False
    is_in_match: bool = False
    loops: tuple[str, ...] = ()
    outermost_loop: SourceBlock | None = None
    has_continue_above: bool = False
    has_return_above: bool = False
    has_break: bool = False
    is_in_else: bool = False

    @property
    def may_be_passed_over(self) -> bool:
        """Whether one round may come to its end without this line, on one rank and not on another."""
        jumps = self.has_continue_above or self.is_in_else
        return self.is_under_condition or self.is_caught or self.is_in_match or jumps

    @property
    def is_under_condition(self) -> bool:
        """Whether it is under an `if` that may come out differently on ranks in the same round."""
        return bool(set(self.conditions) - set(self.settled))

    @property
    def may_be_repeated(self) -> bool:
        """Whether a loop around it may make it more or less often on one rank than on another."""
        is_fixed = all(_FIXED_NUMBER.match(loop) for loop in self.loops)
        return bool(self.loops) and (not is_fixed or self.may_be_passed_over or self.has_break)


def flow_of(source: str, line: int, *, loop_at: int | None = None, without: int | None = None) -> LineFlow | None:
    r"""Say how a line is reached; None if the source cannot be read.

    Args:
        source: The text of the file.
        line: The line.
        loop_at: Where the head of a loop stands, if only what is inside of it counts.
        without: Another line: an `if` or a loop that holds both does not count.

    >>> flow_of("for x in xs:\n    if not x:\n        continue\n    a()\n", 4, loop_at=1).has_continue_above
    True
    """
    tree = parse(source)
    if tree is None:
        return None
    whole = function = function_of(tree, line)
    nodes = list(around(function, line))
    if loop_at is not None:
        begin = next((at for at, node in enumerate(nodes) if isinstance(node, LOOPS) and node.lineno == loop_at), None)
        if begin is None:
            return None
        function, nodes = nodes[begin], nodes[begin + 1 :]
    shared = list(around(function, without)) if without is not None else []
    own = [node for node in nodes if node not in shared]
    loops = [node for node in own if isinstance(node, LOOPS) and holds_in_branch(node, nodes)]
    breaks = [function] if isinstance(function, LOOPS) else loops
    tries = [node for node in nodes if isinstance(node, ast.Try | ast.TryStar) and node.handlers]
    retried = [node for node in tries if _is_tried_again(node, nodes)]
    tests = [node.test for node in own if isinstance(node, ast.If) and holds_in_branch(node, nodes)]
    known = settled_names(around(whole, line))
    return LineFlow(
        conditions=tuple(map(ast.unparse, [*tests, *_tests_in_expressions(own)])),
        settled=tuple(ast.unparse(test) for test in tests if names_in(test) <= known),
        is_caught=len(tries) > len(retried) or any(map(_suppresses, nodes)),
        is_retried=bool(retried),
        is_in_match=any(isinstance(node, ast.Match) for node in own),
        loops=(*(loop_block(node).head for node in loops), *_loops_in_expressions(own)),
        outermost_loop=loop_block(loops[0]) if loops else None,
        has_continue_above=any(_continues_past(function, jump, line) for jump in _jumps(function, ast.Continue)),
        has_return_above=any(jump.lineno < line for jump in _jumps(function, ast.Return)),
        has_break=any(True for loop in breaks for _ in _jumps(loop, ast.Break, ast.Return)),
        is_in_else=any(_is_in_else(node, nodes) for node in nodes),
    )


def _is_in_else(loop: ast.AST, held_by: Sequence[ast.AST]) -> bool:
    """Say whether a line stands in the `else` of a loop that may end by a `break`."""
    if not isinstance(loop, LOOPS) or not any(inner in loop.orelse for inner in held_by):
        return False
    return any(True for _ in _jumps(loop, ast.Break))


def _jumps(node: ast.AST, *kinds: type[ast.stmt]) -> Iterator[ast.stmt]:
    """Return the jumps of a function or loop, without those of functions inside of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, kinds):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _jumps(child, *kinds)


def _continues_past(function: ast.AST, jump: ast.stmt, line: int) -> bool:
    """Say whether a `continue` leads over a line: it stands above, and the line is in the loop that it belongs to."""
    if jump.lineno >= line:
        return False
    loops: Sequence[ast.AST] = [node for node in (function, *around(function, jump.lineno)) if isinstance(node, LOOPS)]
    return bool(loops) and getattr(loops[-1], "end_lineno", 0) >= line


def _tests_in_expressions(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """Return the tests of expressions that decide about a call: `x and f()`, `f() if x else y`, an `if` of a list."""
    for node in nodes:
        if isinstance(node, ast.BoolOp) and any(_has_call(value) for value in node.values[1:]):
            yield node.values[0]
        elif isinstance(node, ast.IfExp) and (_has_call(node.body) or _has_call(node.orelse)):
            yield node.test
        yield from (test for part in getattr(node, "generators", ()) for test in part.ifs)


def _loops_in_expressions(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        for part in getattr(node, "generators", ()):
            yield f"for {ast.unparse(part.target)} in {ast.unparse(part.iter)}"


def _has_call(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(expression))


def _suppresses(node: ast.AST) -> bool:
    """Say whether a `with` lets no exception of some kind out, as contextlib.suppress does."""
    items = node.items if isinstance(node, ast.With | ast.AsyncWith) else []
    return any("suppress" in ast.unparse(item.context_expr) for item in items)


def _is_tried_again(attempt: ast.Try | ast.TryStar, held_by: Sequence[ast.AST]) -> bool:
    """Say whether a loop repeats what a `try` holds until it goes well, and ends then."""
    loops = [node for node in held_by[: held_by.index(attempt)] if isinstance(node, LOOPS)]
    if not loops:
        return False
    body = loops[-1].body
    after = body[body.index(attempt) + 1 :] if attempt in body else []
    is_left_after = any(True for handler in attempt.handlers for _ in _jumps(handler, ast.Continue)) and _leaves(after)
    return _leaves([*attempt.body, *attempt.orelse]) or is_left_after


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    """Say whether statements end in a `break` or `return` that is under no condition."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.With | ast.AsyncWith):
        return _leaves(last.body)
    return isinstance(last, ast.Break | ast.Return)


__all__ = ["LineFlow", "flow_of", "goes_a_fixed_number_of_times"]
