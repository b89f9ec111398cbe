"""What MkDocs does beyond the files in docs/: pages that are made from the tree, and links that leave docs/.

README becomes the first page, every case of the lab a page with its symptom as title, every public name an entry of
the reference. Files of the tree that pages link to become pages with their text, so the site needs no other host.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import sys
from collections.abc import Iterator, MutableMapping
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from docs.write_breaks import case_section  # noqa: E402

from paceline.lab.case import Case, all_cases  # noqa: E402

_LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)\s]*)?(\))")
_TOOLS = "The tools you use"
_MORE = "More"
_LANGUAGES = {".py": "python", ".json": "json", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
_MOST_SHOWN = 60_000  # characters; the rest of a long record helps nobody


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages into the navigation that it does not name: those of tools, and new ones."""
    nav: list[Any] = config["nav"]
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    rest = sorted(pages - set(_named(nav)))
    tools = [name for name in rest if name.startswith("with_")]
    for entry in nav:
        if _TOOLS in entry:
            entry[_TOOLS] = tools
    if others := [name for name in rest if name not in tools]:
        nav.append({_MORE: others})
    return config


def _named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for entry in nav.values() if isinstance(nav, MutableMapping) else nav if isinstance(nav, list) else ():
        yield from _named(entry)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    made = dict(_made_pages())
    for path in sorted(_linked_files(made)):
        made[f"source/{path}.md"] = _source_page(path)
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def _made_pages() -> Iterator[tuple[str, str]]:
    yield "index.md", (ROOT / "README.md").read_text()
    yield "api.md", _reference()
    figures = json.loads((ROOT / "benchmarks" / "results" / "lab.json").read_text())["figures"]
    cases = [case for case in all_cases() if case.id in figures]
    yield "symptoms/index.md", _symptoms(cases)
    for case in cases:
        yield f"symptoms/{case.id}.md", _symptom(case, figures[case.id])


def _symptoms(cases: list[Case]) -> str:
    lines = ["# Find your symptom", "", "What people type into a search engine, and the page that explains it.", ""]
    for concept, group in groupby(cases, key=lambda case: case.concept):
        lines += [f"## {concept[0].upper()}{concept[1:]}", ""]
        phrases = sorted(
            ((phrase, case.id) for case in group for phrase in case.search), key=lambda pair: pair[0].lower()
        )
        lines += [*(f"- [{phrase}]({name}.md)" for phrase, name in phrases), ""]
    return "\n".join(lines)


def _symptom(case: Case, results: MutableMapping[str, Any]) -> str:
    """Return the page of a case. Search engines get what people search for as title and description."""
    searched = ", ".join(f"“{phrase}”" for phrase in case.search)
    _, _, *body = case_section(case, results)  # without its short name and title, which the other page needs
    command = "torchrun --nproc-per-node 4 train.py" if case.carrier == "torch" else "mpiexec -n 4 python train.py"
    lines = [
        "---",
        f"title: {json.dumps(case.search[0], ensure_ascii=False)}",  # a JSON string is a YAML string
        f"description: {json.dumps('; '.join(case.search), ensure_ascii=False)}",
        "---",
        f"# {case.title}",
        f"\n*Also described as {searched}.*",
        *body,
        "\n## Is this your job?",
        "\nStart it under the guard, which names the rank, the line and the cause, without any change to the script:",
        f"\n```\npaceline run -- {command}\n```",
        "\n[More about the guard](../guard.md). If the job hangs right now, [look at it from outside](../doctor.md).",
    ]
    return "\n".join(lines) + "\n"


def _reference() -> str:
    """Return a page with every name that `import paceline` offers, read without importing it."""
    tree = ast.parse((ROOT / "src" / "paceline" / "__init__.py").read_text())
    (names,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
    ]
    entries = [f"::: paceline.{name}\n" for name in [*names, "guard.enable"]]
    return "\n".join(["# API", "", "Everything that users import. The rest of the package may change.", "", *entries])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that leave docs/ lead to the pages that were made of their targets."""
    name = page.file.src_uri
    if name.startswith("source/"):
        return markdown
    return _LINK.sub(lambda link: "".join([link[1], _target(name, link[2]), link[3] or "", link[4]]), markdown)


def _target(page: str, link: str) -> str:
    path = _path_in_tree(page, link)
    if path is None:
        return link
    folder = posixpath.dirname(page) or "."
    if path == "README.md":
        return posixpath.relpath("index.md", folder)
    if path.startswith("docs/"):
        return posixpath.relpath(path.removeprefix("docs/"), folder)
    return posixpath.relpath(f"source/{path}.md", folder)


def _path_in_tree(page: str, link: str) -> str | None:
    """Return the file of the tree that a link means; None if it stays within docs/."""
    folder = "" if page == "index.md" else posixpath.join("docs", posixpath.dirname(page))
    path = posixpath.normpath(posixpath.join(folder, link))
    is_within = page != "index.md" and path.startswith("docs/")
    return path if not is_within and (ROOT / path).is_file() else None


def _linked_files(made: MutableMapping[str, str]) -> set[str]:
    pages = {**made, **{path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}}
    found = {_path_in_tree(name, link[2]) for name, text in pages.items() for link in _LINK.finditer(text)}
    return {path for path in found if path is not None and not path.startswith("docs/") and path != "README.md"}


def _source_page(path: str) -> str:
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return _LINK.sub(lambda link: link[0] if link[2].startswith("http") else f"`{link[2]}`", text)
    shown = text[:_MOST_SHOWN]
    cut = "" if len(shown) == len(text) else "\n\nThe rest is in the file itself.\n"
    fence = "````"
    hidden = "---\nsearch:\n  exclude: true\n---\n" if path.endswith(".json") else ""
    return f"{hidden}# {path}\n\n{fence}{_LANGUAGES.get(Path(path).suffix, 'text')}\n{shown}\n{fence}\n{cut}"
