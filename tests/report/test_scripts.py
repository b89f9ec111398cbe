"""The page's scripts: every fault that the check of scripts is for is seen, and modules become one script that runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import playwright
import pytest
from tests.report.lint_scripts import lint_modules, page_modules

from paceline.report.page.bundle import BundleError, bundle_modules
from paceline.report.page.render import page_script

ENTRY = '// Starts.\n\nimport { twice } from "./a.js";\n\ndocument.title = twice(2);\n'
OTHER = "// Numbers.\n\nexport function twice(number) {\n  return number * 2;\n}\n"
GOOD = {"main.js": ENTRY, "a.js": OTHER}
FAULTS = [
    ("document.title = titel;", "titel is not defined"),
    ("titel = 1;", "titel is not defined"),
    ("function f() {\n  return g;\n}\nf();", "g is not defined"),
    ("for (const one of [1]) {\n  document.title = two;\n}", "one is not used"),
    ("const unused = 1;", "unused is not used"),
    ("const f = (used, unused) => used;\nf();", "unused is not used"),
    ("function f() {\n  const { x, y } = document;\n  return x;\n}\nf();", "y is not used"),
    ("function f() {\n  let x = 1;\n  return x;\n}\nf();", "x never changes: use const"),
    ("const x = 1;\nx = 2;\ndocument.title = x;", "x must not be assigned again"),
    ("twice = 2;", "twice must not be assigned again"),
    ("const twice = 2;", "Identifier 'twice' has already been declared"),
    ("function f(twice) {\n  return twice;\n}\nf();", "twice hides another twice"),
    ("function f() {\n  const location = 1;\n  return location;\n}\nf();", "location hides another location"),
    ("let shared = 1;\nshared = 2;\ndocument.title = shared;", "a module shares no variable of its own"),
    ("const a_b = 1;\ndocument.title = a_b;", "a_b is not camelCase"),
    ("document.title = 1; document.title = 2;", "a statement begins on a line of its own"),
    ("const f = () => { document.title = 1; };\nf();", "a statement begins on a line of its own"),
    ("if (document) {\n    document.title = 1;\n}", "indented by 4, not by 2"),
    ("if (document) {\n  document.title = 1; }", "the closing brace stands below"),
    ("if (document) document.title = 1;", "if and else need braces"),
    ("while (document) document.title = 1;", "a loop needs braces"),
    ("const x = 1, y = 2;\ndocument.title = x + y;", "one declaration for each name"),
    ("document.title = 1", "a semicolon is missing"),
    ("document.title = 'x';", "texts stand in double quotes"),
    ("document.title = document == 1;", "== converts types"),
    ("document.title = 1, document.title = 2;", "a comma joins two statements"),
    ("document.body.innerHTML = 1;", "innerHTML makes markup of text"),
    ("console.log(1);", "console is not defined"),
    (f"document.title = {'1 + ' * 40}1;", "at most 120 fit"),
    ("function f() {\n" + "  document.title = 1;\n" * 60 + "}\nf();", "lines, at most 60 fit"),
    ("document.title = 1;\n" * 350, "at most 350 fit"),
    ("document.title = 1;  ", "spaces at the end of the line"),
    ("document.title = (;", "Unexpected token"),
]  # fmt: skip


def run_script(script: str) -> str:
    node = Path(playwright.__file__).parent / "driver" / "node"
    return subprocess.run([node, "-"], input=script, capture_output=True, text=True, check=True).stdout


def test_modules_without_a_fault_pass() -> None:
    assert lint_modules(GOOD) == []


@pytest.fixture(scope="module")
def faults() -> list[str]:
    """Return what is said of modules with one fault each, `0.js` and so on; all in one go, since Node starts slowly."""
    return lint_modules({**GOOD, **{f"{number}.js": f"{ENTRY}{code}\n" for number, (code, _) in enumerate(FAULTS)}})


@pytest.mark.parametrize("number", range(len(FAULTS)), ids=[words for _, words in FAULTS])
def test_a_fault_in_a_module_is_seen(faults: list[str], number: int) -> None:
    problems = [problem for problem in faults if problem.startswith(f"{number}.js:")]
    assert [problem for problem in problems if FAULTS[number][1] in problem], problems


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"main.js": ENTRY.replace("{ twice }", "{ thrice }")}, "a.js does not export thrice"),
        ({"main.js": ENTRY.replace("./a.js", "./b.js")}, "there is no module b.js"),
        ({"a.js": OTHER + "\nexport const half = 0.5;\n"}, "half is exported, and no module imports it"),
        ({"b.js": "// Alone.\n"}, "b.js:1: no module imports it"),
        ({"a.js": "// Back.\n\n" + 'import { one } from "./main.js";\n\nexport const twice = one;\n',
          "main.js": ENTRY + "export const one = 1;\n"}, "modules import each other"),
        ({"a.js": OTHER.removeprefix("// Numbers.\n\n")}, "a module begins with a comment"),
    ],
)  # fmt: skip
def test_a_fault_between_modules_is_seen(changed: dict[str, str], words: str) -> None:
    problems = lint_modules({**GOOD, **changed})
    assert [problem for problem in problems if words in problem], problems


def test_a_bundle_runs_and_each_module_has_names_of_its_own() -> None:
    modules = {
        "main.js": 'import { count } from "./in/a.js";\nimport { state } from "./state.js";\n'
        'const own = "main";\ncount();\ncount();\nconsole.log(own, state.count);\n',
        "in/a.js": 'import {\n  state,\n} from "../state.js";\nconst own = 1;\nexport function count() {\n'
        "  state.count += own;\n}\n",
        "state.js": "export const state = { count: 0 };\n",
    }
    assert run_script(bundle_modules(modules, "main.js")) == "main 2\n"


def test_a_bundle_depends_on_what_modules_hold_and_not_on_their_order() -> None:
    modules = page_modules()
    backwards = dict(reversed(modules.items()))
    assert bundle_modules(modules, "main.js") == bundle_modules(backwards, "main.js") == page_script()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"main.js": 'import { thrice } from "./a.js";\n'}, "main.js imports thrice, which a.js does not export"),
        ({"main.js": 'import { twice } from "./b.js";\n'}, "no such module"),
        ({"a.js": 'import { one } from "./main.js";\n'}, "import each other: main.js -> a.js -> main.js"),
        ({"main.js": 'import { main } from "./main.js";\n'}, "import each other: main.js -> main.js"),
        ({"main.js": 'import { twice as double } from "./a.js";\n'}, "'twice as double' cannot be imported"),
        ({"main.js": 'import * as all from "./a.js";\n'}, "not understood: import \\* as all"),
        ({"main.js": 'import "./a.js";\n'}, "not understood"),
        ({"main.js": "import { twice } from './a.js';\n"}, "not understood"),
        ({"main.js": 'import("./a.js").then(twice);\n'}, "not understood"),
        ({"main.js": "export default 1;\n"}, "not understood"),
        ({"main.js": "export let one = 1;\n"}, "not understood"),
        ({"main.js": "const one = 1;\nexport { one };\n"}, "not understood"),
        ({"main.js": 'document.title = "</SCRIPT>";\n'}, "must not contain '</script'"),
        ({"main.js": 'document.title = "<!--";\n'}, "must not contain '<!--'"),
    ],
)  # fmt: skip
def test_what_cannot_be_bundled_is_refused(changed: dict[str, str], words: str) -> None:
    with pytest.raises(BundleError, match=words):
        bundle_modules({**GOOD, **changed}, "main.js")
