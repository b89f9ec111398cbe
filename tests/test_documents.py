"""What the documents show is what happens: every `$ paceline` block is run and compared."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs import write_benchmarks

from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.job_warning import WarningCause

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def shown_commands() -> list[tuple[str, str, str]]:
    """Every command in a console block, with the output that the document shows."""
    commands = []
    for document in DOCUMENTS:
        for block in re.findall(r"```console\n(.*?)```", document.read_text(), flags=re.DOTALL):
            for command, output in re.findall(r"\$ (paceline .*)\n((?:(?!\$ ).*\n?)*)", block):
                commands.append((document.name, command, output))
    return commands


@pytest.mark.parametrize(("document", "command", "output"), shown_commands())
def test_the_output_shown_is_the_real_one(document: str, command: str, output: str, tmp_path: Path) -> None:
    arguments = shlex.split(command)
    # a folder as a clone has it, so that paths are printed as a user sees them and records are not left behind
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    # seven ranks on two cores: one may still be on its way out of a barrier when the finding is made
    for _ in range(3 if arguments[1] == "run" else 1):
        done = subprocess.run(
            [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False
        )
        printed = done.stderr if arguments[1] == "run" else done.stdout
        if without_time(printed) == without_time(output):
            return
    assert without_time(printed) == without_time(output), f"{document}: {command}"


def without_time(text: str) -> str:
    """Mask the one thing that differs between runs: the time in the name of the folder with the records.

    >>> without_time("  records: paceline-out/20261116-004001 (as printed)\\n")
    'records: paceline-out/TIME (as printed)'
    """
    return re.sub(r"(?<=records: paceline-out/)\d{8}-\d{6}\b", "TIME", text).strip()


def test_the_page_of_benchmarks_is_made_of_the_records() -> None:
    assert (ROOT / "docs" / "benchmarks.md").read_text() == write_benchmarks.document(ROOT / "benchmarks" / "results")


def test_the_readme_shows_the_classic_case() -> None:
    commands = [command for document, command, _ in shown_commands() if document == "README.md"]
    assert "paceline plan --samples 100 --ranks 7 --batch 3" in commands
    assert "paceline run -n 7 examples/classic.py" in commands


def test_every_cause_is_documented_with_its_sentence() -> None:
    findings, _, warnings = (ROOT / "docs" / "guard.md").read_text().partition("## Warnings")
    causes: list[tuple[str, type[Cause] | type[WarningCause]]] = [(findings, Cause), (warnings, WarningCause)]
    for text, kind in causes:
        rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*?) \|(?: .* \|)?$", text, flags=re.MULTILINE))
        assert {str(cause): rows.get(str(cause)) for cause in kind} == {str(cause): cause.sentence for cause in kind}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("with_*.md")), ids=lambda path: path.name)
def test_lines_to_change_are_those_of_the_example(document: Path) -> None:
    text = document.read_text()
    example, *_ = re.findall(r"\]\(\.\./(examples/ecosystem/\w+\.py)\)", text)  # others are linked below it
    lines = {line.strip() for line in (ROOT / example).read_text().splitlines()}
    added = [line[1:].strip() for block in re.findall(r"```diff\n(.*?)```", text, flags=re.DOTALL)
             for line in block.splitlines() if line.startswith("+")]  # fmt: skip
    assert added
    assert [line for line in added if line not in lines] == []
