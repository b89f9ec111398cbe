"""To which variable the user's source assigns what a line makes."""

from __future__ import annotations

import ast

from paceline.guard.verdict.source.user_source import around, parse


def assigned_name(source: str, line: int) -> str:
    r"""Return the one variable, attribute or item to which a line assigns what it calls; nothing if there is none.

    >>> assigned_name("data = world.Dup()\nself.comm: Comm = make(world)\n", 1)
    'data'
    >>> assigned_name("row, column = world.Split(0), world.Split(1)", 1)
    ''
    """
    tree = parse(source)
    for node in around(tree, line) if tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            target = node.target
        else:
            continue
        return "" if isinstance(target, ast.Tuple | ast.List) else ast.unparse(target)
    return ""
