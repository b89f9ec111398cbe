"""Which functions of the user's source a line is in, and which of the same file these call."""

from __future__ import annotations

import ast

from paceline.guard.verdict.source.user_source import parse


def texts_around(source: str, line: int, *, with_called: bool) -> list[str]:
    """Return the text of the function that a line is in, and, if asked for, of those of the file that it calls.

    Of a line outside of all functions, it is what is outside of them.

    >>> lines = ["def hold(model):", "    return model.no_sync()", "def train(model):", "    hold(model).use()"]
    >>> source = chr(10).join(lines)
    >>> [text.splitlines()[0] for text in texts_around(source, 4, with_called=True)]
    ['def train(model):', 'def hold(model):']
    >>> [text.splitlines()[0] for text in texts_around(source, 1, with_called=True)]
    ['def hold(model):']
    """
    tree = parse(source)
    if tree is None:
        return []
    lines = source.splitlines()
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    around = [function for function in functions if function.lineno <= line <= _end(function)]
    if around:
        inner = max(around, key=lambda function: function.lineno)
        here: list[ast.stmt] = [inner]
    else:
        inner, here = None, [each for each in tree.body if each not in functions and not isinstance(each, ast.ClassDef)]
    called = [node for statement in here for node in ast.walk(statement) if with_called and isinstance(node, ast.Call)]
    names = {_name_of(call) for call in called}
    named = [function for function in functions if function.name in names and function is not inner]
    return ["\n".join(lines[each.lineno - 1 : _end(each)]) for each in (*here, *named)]


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _name_of(call: ast.Call) -> str:
    """Return the last name of what is called: `train` of `self.train(...)`."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
