"""Reads a user's source just enough to say how two lines of one function stand to each other."""

from __future__ import annotations

import ast
import functools
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBlock:
    """A loop or a condition: the line of its head, and the head itself."""

    line: int
    head: str
    file: str = ""  # if it is not the file that the context is about


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRelation:
    """How two lines of one function stand to each other.

    Attributes:
        first_loop: The outermost loop that holds the first line and not the second.
        second_loop: The other way round.
        share_a_loop: Whether some loop holds both.
        loop_variables: The names that the heads of these loops set.
        first_condition: The innermost `if` that holds a call of the first line and not the second line, without those
            that come out the same in the same round of a loop.
        second_condition: The other way round.
        fork: The `if` of which one branch holds the first line and another the second.
        fork_calls_differ: Whether its branches make different calls, not only in another order.
        second_clean_up: The `except` or `finally` that holds the second line, of a `try` that holds the first.
        first_is_above: Whether the first line stands above the second.
        file: The file that both are in, if the caller said it.
    """

    first_loop: SourceBlock | None = None
    second_loop: SourceBlock | None = None
    share_a_loop: bool = False
    loop_variables: frozenset[str] = frozenset()
    first_condition: SourceBlock | None = None
    second_condition: SourceBlock | None = None
    fork: SourceBlock | None = None
    fork_calls_differ: bool = False
    second_clean_up: SourceBlock | None = None
    first_is_above: bool = True
    file: str = ""


def relate(source: str, first: int, second: int) -> LineRelation | None:
    r"""Relate two lines; None if they are not in one function, or the source cannot be read.

    >>> code = "for x in xs:\n    a()\nif rank == 0:\n    b()\n"
    >>> relation = relate(code, 2, 4)
    >>> relation.first_loop.head, relation.second_condition.head, relation.share_a_loop
    ('for x in xs', 'rank == 0', False)
    """
    tree = parse(source)
    if tree is None:
        return None
    function, other = function_of(tree, first), function_of(tree, second)
    if function is not other:
        return None
    around_first, around_second = list(around(function, first)), list(around(function, second))
    fork = _fork(around_first, around_second)
    shared_loops = [node for node in around_first if isinstance(node, LOOPS) and node in around_second]
    settled = settled_names(shared_loops)
    return LineRelation(
        first_loop=_loop(around_first, around_second),
        second_loop=_loop(around_second, around_first),
        share_a_loop=bool(shared_loops),
        loop_variables=frozenset(name for loop in shared_loops for name in _set_by(loop)),
        first_condition=_condition(around_first, around_second, settled),
        second_condition=_condition(around_second, around_first, settled),
        fork=_block(fork, ast.unparse(fork.test)) if fork is not None else None,
        fork_calls_differ=fork is not None and _calls_in(fork.body) != _calls_in(fork.orelse),
        second_clean_up=_clean_up(around_first, around_second),
        first_is_above=first < second,
    )


def condition_around(source: str, line: int) -> SourceBlock | None:
    """Return the innermost `if` that holds a call of this line."""
    tree = parse(source)
    return _condition(list(around(function_of(tree, line), line)), []) if tree is not None else None


def loop_around(source: str, line: int) -> SourceBlock | None:
    r"""Return the innermost `for` of a function that holds a line.

    >>> loop_around("for hook in hooks:\n    hook()\n", 2)
    SourceBlock(line=1, head='for hook in hooks', file='')
    """
    tree = parse(source)
    held_by = list(around(function_of(tree, line), line)) if tree is not None else []
    for node in reversed(held_by):
        if isinstance(node, ast.For | ast.AsyncFor) and holds_in_branch(node, held_by):
            return loop_block(node)
    return None


def function_line(source: str, line: int) -> int | None:
    """Return where the innermost function that holds a line begins; None for the module."""
    tree = parse(source)
    return getattr(function_of(tree, line), "lineno", None) if tree is not None else None


def calls_by_name(source: str, line: int, name: str) -> bool:
    r"""Say whether a line makes a call of this name, in whatever case.

    >>> calls_by_name("loss.backward()\ndist.all_reduce(x)\n", 2, "all_reduce")
    True
    """
    tree = parse(source)
    nodes = around(tree, line) if tree is not None else ()
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = [getattr(call, "attr", getattr(call, "id", "")) for call in calls]
    return _plain(name) in map(_plain, names)


def in_other_cases(source: str, first: int, second: int) -> bool:
    r"""Say whether two lines stand in different cases of one `match`.

    >>> in_other_cases("match rank:\n    case 0:\n        a()\n    case _:\n        b()\n", 3, 5)
    True
    """
    tree = parse(source)
    if tree is None or function_of(tree, first) is not function_of(tree, second):
        return False
    one, other = list(around(tree, first)), list(around(tree, second))
    shared = [node for node in one if isinstance(node, ast.Match) and node in other]
    return any(
        any(inner in case.body for inner in one) != any(inner in case.body for inner in other)
        for node in shared
        for case in node.cases
    )


def calls_a_method(source: str, line: int) -> bool:
    r"""Say whether a line calls a method, or a function that is kept in an object.

    >>> calls_a_method("self.report()\nsave()\n", 1), calls_a_method("self.report()\nsave()\n", 2)
    (True, False)
    """
    tree = parse(source)
    nodes = around(tree, line) if tree is not None else ()
    return any(isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Subscript) for node in nodes)


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


@functools.lru_cache(maxsize=16)  # one finding asks for the same few files again and again
def parse(source: str) -> ast.Module | None:
    """Return the tree of a source; None if it is not one of this Python, or nested too deeply for it.

    What Python warns of in a script was shown when the script was run.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def function_of(tree: ast.AST, line: int) -> ast.AST:
    """Return the innermost function that holds a line, or the module."""
    functions = [node for node in around(tree, line) if isinstance(node, _FUNCTIONS)]
    return functions[-1] if functions else tree


def around(node: ast.AST, line: int) -> Iterator[ast.AST]:
    """Return the nodes that hold a line, from the outside in."""
    levels = [ast.iter_child_nodes(node)]  # each `elif` is a level: more than Python calls functions inside another
    while levels:
        child = next(levels[-1], None)
        if child is None:
            levels.pop()
            continue
        begin, end = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if begin is not None and end is not None:
            if not begin <= line <= end:
                continue
            yield child
        levels.append(ast.iter_child_nodes(child))


def _loop(held_by: Sequence[ast.AST], other: Sequence[ast.AST]) -> SourceBlock | None:
    for node in held_by:
        if isinstance(node, LOOPS) and node not in other and holds_in_branch(node, held_by):
            return loop_block(node)
    return None


def loop_block(node: ast.For | ast.AsyncFor | ast.While) -> SourceBlock:
    """Return the head of a loop as it reads, without what it does."""
    head = node.test if isinstance(node, ast.While) else node.iter
    target = "while" if isinstance(node, ast.While) else f"for {ast.unparse(node.target)} in"
    return _block(node, f"{target} {ast.unparse(head)}")


def _set_by(loop: ast.AST) -> list[str]:
    """Return the names that the head of a loop sets."""
    if isinstance(loop, ast.While):
        return []
    return [node.id for node in ast.walk(getattr(loop, "target", loop)) if isinstance(node, ast.Name)]


def settled_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that loops give the same value in the same round on every rank."""
    return frozenset(name for loop in nodes for name in _settled_by(loop))


def _settled_by(loop: ast.AST) -> list[str]:
    """Return the names to which the head of a loop gives the same value in the same round on every rank."""
    if not isinstance(loop, ast.For | ast.AsyncFor) or not isinstance(loop.iter, ast.Call):
        return []
    counter, arguments = getattr(loop.iter.func, "id", ""), loop.iter.args
    names = [loop.target] if counter == "range" and all(isinstance(part, ast.Constant) for part in arguments) else []
    if counter == "enumerate" and len(arguments) == 1 and isinstance(loop.target, ast.Tuple):
        names = loop.target.elts[:1]
    stored = [node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [name.id for name in names if isinstance(name, ast.Name) and stored.count(name.id) == 1]


def _condition(
    held_by: Sequence[ast.AST], other: Sequence[ast.AST], settled: frozenset[str] = frozenset()
) -> SourceBlock | None:
    """Return the innermost `if` around a call; a line that only jumps, as `break` does, is not under it as a call.

    One whose test has no other names than these comes out the same on every rank that is in the same round.
    """
    if not any(isinstance(node, ast.Call) for node in held_by):
        return None
    for node in reversed(held_by):
        is_condition = isinstance(node, ast.If) and node not in other and holds_in_branch(node, held_by)
        if isinstance(node, ast.If) and is_condition and not names_in(node.test) <= settled | {"__name__"}:
            test, is_else = ast.unparse(node.test), any(inner in node.orelse for inner in held_by)
            return _block(node, f"not ({test})" if is_else else test)
    return None


def names_in(expression: ast.expr) -> set[str]:
    """Return the names that an expression uses."""
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _fork(held_by: Sequence[ast.AST], other: Sequence[ast.AST]) -> ast.If | None:
    """Return the innermost `if` that holds both lines, in different branches."""
    for node in reversed(held_by):
        if isinstance(node, ast.If) and node in other:
            if not (holds_in_branch(node, held_by) and holds_in_branch(node, other)):
                return None  # one of them stands in its test, which all make
            in_body = [any(inner in node.body for inner in side) for side in (held_by, other)]
            return node if in_body[0] != in_body[1] else None
    return None


def _clean_up(held_by: Sequence[ast.AST], other: Sequence[ast.AST]) -> SourceBlock | None:
    """Return the `except` or `finally` that holds the other line, at the `try` whose body holds this one."""
    for node in reversed(held_by):
        if not isinstance(node, ast.Try | ast.TryStar) or not any(inner in node.body for inner in held_by):
            continue
        if any(inner in node.finalbody for inner in other):
            return _block(node, "finally")
        for handler in node.handlers:
            if handler in other:
                head = f"except {ast.unparse(handler.type)}" if handler.type is not None else "except"
                return _block(node, head)
    return None


def holds_in_branch(node: ast.AST, held_by: Sequence[ast.AST]) -> bool:
    """Say whether an `if` or a loop decides about a line: one in the test of an `if` is reached in any case."""
    if isinstance(node, ast.While):
        return True  # its test is made in every round
    branches = [*getattr(node, "body", ()), *getattr(node, "orelse", ())]
    return any(inner in branches for inner in held_by)


def _calls_in(branch: Sequence[ast.stmt]) -> Counter[str]:
    """Count the methods and functions that a branch calls, by name."""
    nodes = [node for statement in branch for node in ast.walk(statement) if isinstance(node, ast.Call)]
    names = [getattr(node.func, "attr", getattr(node.func, "id", "")) for node in nodes]
    return Counter(name for name in names if name)


def _block(node: ast.stmt, head: str) -> SourceBlock:
    return SourceBlock(line=node.lineno, head=head)
