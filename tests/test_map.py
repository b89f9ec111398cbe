"""The map in docs/design.md is the tree as it is: every path on it exists, and every room and layer is on it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "paceline"
DESIGN = (ROOT / "docs" / "design.md").read_text()


def section(title: str) -> str:
    """Return the text under a heading, up to the next one of the same level or a higher one."""
    rest = DESIGN.split(f"\n{title}\n", 1)[1]
    return re.split(rf"^#{{1,{title.count('#')}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rooms() -> set[str]:
    """The folders with modules in them. A case of the lab is a user's program, not a room."""
    folders = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*.py")} - {Path()}
    return {f"{folder}/" for folder in folders if folder.parts[:2] != ("lab", "cases")}


def test_every_path_on_the_map_exists() -> None:
    paths = re.findall(r"`([\w/]+/(?:\w+\.py)?)`", section("## Map").replace("src/paceline/", ""))
    assert len(paths) > 60
    assert [path for path in paths if not (SOURCE / path).exists()] == []


def test_every_room_is_on_the_map_once() -> None:
    folders = re.findall(r"^\| `([\w/]+/)` \|", section("## Map"), flags=re.MULTILINE)
    assert sorted(rooms() - set(folders)) == []
    assert len(folders) == len(set(folders))


@pytest.mark.parametrize("walk", ["### From a collective to the page", "### From a sample to the batch"])
def test_a_walk_opens_one_file_after_another(walk: str) -> None:
    stops = re.findall(r"^\d+\. (.*)", section(walk), flags=re.MULTILINE)
    assert len(stops) > 10
    assert [stop for stop in stops if not re.match(r"`[\w/]+\.py` \w", stop)] == []


def test_the_layers_shown_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract.get("containers") == ["paceline"]]
    block = section("## Layers").split("```")[1].strip().splitlines()
    assert [re.split(r"\s{2,}", line)[0] for line in block] == layers
