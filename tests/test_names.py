"""The house is easy to walk through: names exist once, and rooms, modules and functions are small."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "paceline"
CASES = SOURCE / "lab" / "cases"  # programs as users write them
MOST_MODULES = 15  # in a folder
MOST_LINES = 350  # of a module
MOST_FUNCTION_LINES = 60  # without its docstring
ALLOWED = SOURCE.parents[1] / "vulture_allowed.py"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if not path.is_relative_to(CASES))


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCE.parent))


def named_modules() -> list[Path]:
    return [path for path in MODULES if path.stem not in ("__init__", "__main__")]


def doubles(named: Iterable[tuple[str, str]]) -> list[str]:
    """Names that exist more than once, leading underscores aside, each with all its places."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, where in named:
        found[name.lstrip("_")].append(where)
    return [f"{name}: {', '.join(places)}" for name, places in sorted(found.items()) if len(places) > 1]


def definitions(path: Path, kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind))


def test_every_module_name_exists_once() -> None:
    assert doubles((path.stem, shown(path)) for path in named_modules()) == []


def test_no_module_is_named_like_a_package_that_does_not_contain_it() -> None:
    packages = [path.parent for path in MODULES if path.name == "__init__.py"]
    assert doubles((package.name, f"{shown(package)}/") for package in packages) == []
    assert [
        f"{path.stem}: {shown(path)}, {shown(package)}/"
        for path in named_modules()
        for package in packages
        if path.stem.lstrip("_") == package.name and package not in path.parents
    ] == []


def test_every_class_name_exists_once() -> None:
    classes = [
        (node.name, f"{shown(path)}:{node.lineno}")
        for path in MODULES
        for node in definitions(path, ast.ClassDef)
        if isinstance(node, ast.ClassDef)
    ]
    assert doubles(classes) == []


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=shown)
def test_a_folder_has_few_modules(folder: Path) -> None:
    modules = [path.name for path in named_modules() if path.parent == folder]
    assert len(modules) <= MOST_MODULES, f"{shown(folder)} has {len(modules)} modules: {', '.join(modules)}"


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_a_module_and_its_functions_are_short(path: Path) -> None:
    num_lines = len(path.read_text().splitlines())
    assert num_lines <= MOST_LINES, f"{shown(path)} has {num_lines} lines"
    long = [
        f"{shown(path)}:{node.lineno} {node.name} has {length} lines"
        for node in definitions(path, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (length := lines_of(node)) > MOST_FUNCTION_LINES
    ]
    assert long == []


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from `def` on, without its docstring."""
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    without = 0 if docstring is None else (docstring.end_lineno or 0) - docstring.lineno + 1
    return (function.end_lineno or 0) - function.lineno + 1 - without


def test_doubles_are_seen_whatever_their_underscores() -> None:
    assert doubles([("Board", "a.py:1"), ("_Board", "b.py:2"), ("Ring", "c.py:3")]) == ["Board: a.py:1, b.py:2"]


def test_every_name_that_may_look_unused_still_exists() -> None:
    allowed = [node.attr for node in ast.walk(ast.parse(ALLOWED.read_text())) if isinstance(node, ast.Attribute)]
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in MODULES)))
    assert allowed
    assert [name for name in allowed if name not in words] == []
