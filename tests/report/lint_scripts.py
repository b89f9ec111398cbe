"""Checks the page's modules of JavaScript: undefined and unused names, imports, and how they are written.

`make lint` runs it. No linter of JavaScript comes as a Python package, but a parser does: the playwright package, which
drives the browser of the page's tests, brings Node, and Node brings acorn. The rules are in `script_lint/`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import playwright

import paceline.report.page

SCRIPTS = Path(paceline.report.page.__file__).parent / "assets" / "scripts"
_NODE = Path(playwright.__file__).parent / "driver" / "node"
_LINT = Path(__file__).parent / "script_lint" / "lint.cjs"


def page_modules() -> dict[str, str]:
    """Return the page's modules by their path."""
    return {path.relative_to(SCRIPTS).as_posix(): path.read_text("utf-8") for path in sorted(SCRIPTS.rglob("*.js"))}


def lint_modules(modules: Mapping[str, str], *, entry: str = "main.js") -> list[str]:
    """Return what is wrong with modules, as `path:line: what`."""
    # acorn is inside Node, which gives it to nobody unless asked
    command = [str(_NODE), "--no-warnings", "--expose-internals", str(_LINT)]
    done = subprocess.run(
        command,
        input=json.dumps({"entry": entry, "modules": dict(modules)}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the check of scripts failed: {done.stderr}")
    return [f"{path}:{line}: {message}" for path, line, message in json.loads(done.stdout)]


def main() -> int:
    """Print what is wrong with the page's modules."""
    modules = page_modules()
    problems = lint_modules(modules)
    for problem in problems:
        print(f"{os.path.relpath(SCRIPTS)}/{problem}")
    print(f"scripts of the page: {len(modules)} modules, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
