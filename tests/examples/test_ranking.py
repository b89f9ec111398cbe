"""The ranking job gives the same figures on any number of ranks, in batches and in packs, and after a kill."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.examples.test_examples import EXAMPLES, FINDING_CODE, TRAIN, paceline, run

JOB_SECONDS = 400.0  # at most: ranks start in seconds, if nothing else runs
pytestmark = [pytest.mark.examples, pytest.mark.timeout(3 * JOB_SECONDS)]

SMALL = (str(TRAIN), "--users", "60", "--steps", "14")  # an epoch has 10 steps
PACKS = ("--packed", "512")


def figures(folder: Path, ranks: int, *arguments: str) -> dict[str, list[float]]:
    """Run the job to its end; return the loss of each step and the AUC after each epoch."""
    job = paceline("run", "-n", str(ranks), *SMALL, *arguments, "--figures", "figures.json")
    run(*job, folder=folder, deadline=JOB_SECONDS)
    told: dict[str, list[float]] = json.loads((folder / "figures.json").read_text())
    assert len(told["losses"]) == 14
    assert len(told["auc"]) == 2
    return told


@pytest.fixture(scope="module")
def of_one_rank(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    return figures(tmp_path_factory.mktemp("one"), 1)


def assert_same(found: dict[str, list[float]], expected: dict[str, list[float]]) -> None:
    assert found["losses"] == pytest.approx(expected["losses"], abs=5e-6)
    assert found["auc"] == pytest.approx(expected["auc"], abs=2e-3)


@pytest.mark.parametrize(("ranks", "arguments"), [(2, ()), (4, ("--workers", "1")), (1, PACKS), (4, PACKS)])
def test_figures_are_those_of_one_rank(
    ranks: int, arguments: tuple[str, ...], of_one_rank: dict[str, list[float]], tmp_path: Path
) -> None:
    assert_same(figures(tmp_path, ranks, *arguments), of_one_rank)


def test_a_killed_job_goes_on_with_other_ranks(of_one_rank: dict[str, list[float]], tmp_path: Path) -> None:
    saved = ("--checkpoint", "state.pt")
    killing = (*PACKS, *saved, "--save-every", "4", "--kill-after", "6")
    said = run(
        *paceline("run", "-n", "4", *SMALL, *killing), folder=tmp_path, expected=FINDING_CODE, deadline=JOB_SECONDS
    )
    assert "rank 3 was killed (by SIGKILL)" in said
    assert len(torch.load(tmp_path / "state.pt", weights_only=True)["losses"]) == 4
    assert_same(figures(tmp_path, 2, *saved, "--resume"), of_one_rank)
    assert not list(tmp_path.glob(".state.pt*"))


def ranking_module(name: str) -> Any:
    sys.path.insert(0, str(EXAMPLES / "ranking"))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)


def test_a_sample_scores_the_same_alone_and_beside_others() -> None:
    ranker, num_candidates = ranking_module("model").Ranker(50), ranking_module("data").NUM_CANDIDATES
    lengths = torch.tensor([5, 104, 12])
    random = torch.Generator().manual_seed(0)
    items = torch.randint(0, 50, (int(lengths.sum()),), generator=random)
    actions = torch.randint(0, 6, items.shape, generator=random)
    together = ranker(items, actions, lengths)
    alone = [
        ranker(item, action, length[None])
        for item, action, length in zip(
            torch.split(items, lengths.tolist()), torch.split(actions, lengths.tolist()), lengths, strict=True
        )
    ]
    torch.testing.assert_close(together, torch.cat(alone))
    # a candidate does not see another one
    changed = items.clone()
    changed[-1] = (items[-1] + 1) % 50
    scores = ranker(changed, actions, lengths)
    torch.testing.assert_close(scores.flatten(0, 1)[:-1], together.flatten(0, 1)[:-1])
    assert not torch.equal(scores[-1, num_candidates - 1], together[-1, num_candidates - 1])
