"""The sampler in the loaders that people have: the real packages, in real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset
from torchdata.stateful_dataloader import StatefulDataLoader

from paceline import Plan, PlanSampler
from paceline.errors import InputError

pytestmark = [
    pytest.mark.packages,
    # torchdata 0.11 calls what torch 2.13 calls deprecated
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

SCRIPTS = Path(__file__).parent / "scripts"
NUM_SAMPLES = 53


class Ids(Dataset[int]):
    """A dataset whose samples are their own ids."""

    def __init__(self, num_samples: int = 100) -> None:
        self.num_samples = num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> int:
        return index


def sampler_of(rank: int = 0, ranks: int = 2, batch: int = 2, **options: Any) -> PlanSampler:
    return PlanSampler(100, batch_size=batch, num_replicas=ranks, rank=rank, seed=7, **options)


def lists(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize(("num_workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_a_plain_dataloader_gives_the_plan_in_every_epoch(num_workers: int, persistent: bool) -> None:
    sampler = sampler_of(rank=1, ranks=7, batch=3, stand_in=0)
    loader = DataLoader(Ids(), batch_sampler=sampler, num_workers=num_workers, persistent_workers=persistent)
    plan = Plan(100, world_size=7, batch_size=3, seed=7)
    assert len(loader) == plan.num_steps
    for epoch in range(3):
        sampler.set_epoch(epoch)
        expected = plan.rows(1, epoch)
        expected[expected < 0] = 0
        assert lists(loader) == expected.tolist()
    del loader


def test_without_workers_the_sampler_knows_what_was_consumed() -> None:
    sampler = sampler_of()
    loader = iter(DataLoader(Ids(), batch_sampler=sampler))
    assert sampler.state_dict()["consumed"] == 0
    lists(islice(loader, 9))
    assert sampler.state_dict() == sampler.state_dict(step=9)


def test_with_workers_ahead_the_loop_says_what_was_consumed() -> None:
    sampler = sampler_of()
    whole = list(sampler)
    loader = iter(DataLoader(Ids(), batch_sampler=sampler, num_workers=2))
    consumed = lists(islice(loader, 9))
    with pytest.raises(InputError, match=r"not known: \d\d were handed out.*state_dict\(step=7\)"):
        sampler.state_dict()
    state = sampler.state_dict(step=9)
    del loader
    assert state["consumed"] == 9 * 4
    other = sampler_of()
    other.load_state_dict(state)
    rest = lists(DataLoader(Ids(), batch_sampler=other, num_workers=1))
    assert consumed + rest == whole


@pytest.mark.parametrize("num_workers", [0, 2])
def test_num_real_is_of_the_batch_in_hand_also_in_a_resumed_epoch_with_workers_ahead(num_workers: int) -> None:
    sampler = sampler_of(rank=6, ranks=7, batch=3, stand_in=0)
    sampler.load_state_dict(sampler.state_dict(step=3))
    loader = DataLoader(
        Ids(), batch_sampler=sampler, num_workers=num_workers, prefetch_factor=4 if num_workers else None
    )
    plan = Plan(100, world_size=7, batch_size=3, seed=7)
    for first in (3, 0):  # what is left, then the whole epoch
        real, lengths = zip(*((sampler.num_real(step), len(loader)) for step, _ in enumerate(loader)), strict=True)
        assert list(real) == [plan.num_real(step, rank=6) for step in range(first, 5)]
        assert set(lengths) == {5 - first}, "the length of a pass does not change while it is made"


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("step", [0, 1, 9, 24])
def test_a_stateful_dataloader_resumes_where_the_loop_was(num_workers: int, step: int) -> None:
    whole = {epoch: _epoch_of(epoch) for epoch in (1, 2)}
    first = _stateful(num_workers)
    first.batch_sampler.set_epoch(1)
    iterator = iter(first)
    consumed = lists(islice(iterator, step))
    state = first.state_dict()
    del iterator, first
    assert consumed == whole[1][:step]

    second = _stateful(num_workers)
    second.load_state_dict(state)
    second.batch_sampler.set_epoch(1)
    assert lists(second) == whole[1][step:]
    second.batch_sampler.set_epoch(2)
    assert lists(second) == whole[2], "the epoch after a resumed one is whole"
    del second


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stateful_dataloader_saved_at_the_end_of_an_epoch_gives_the_next_one_whole(num_workers: int) -> None:
    first = _stateful(num_workers)
    first.batch_sampler.set_epoch(1)
    assert lists(first) == _epoch_of(1)
    state = first.state_dict()
    del first
    second = _stateful(num_workers)
    second.load_state_dict(state)
    second.batch_sampler.set_epoch(2)
    assert lists(second) == _epoch_of(2)
    del second


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stateful_dataloader_saved_with_the_last_batch_has_ended_that_epoch(num_workers: int) -> None:
    first = _stateful(num_workers)
    iterator = iter(first)
    assert lists(islice(iterator, 25)) == _epoch_of(0)
    state = first.state_dict()
    del iterator, first
    second = _stateful(num_workers)
    second.load_state_dict(state)
    seen = []
    for epoch in range(2):
        second.batch_sampler.set_epoch(epoch)
        seen.append(lists(second))
    assert seen == [[], _epoch_of(1)]
    del second


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stateful_dataloader_begun_anew_is_at_the_begin(num_workers: int) -> None:
    first = _stateful(num_workers)
    lists(islice(iter(first), 3))
    iterator = iter(first)
    state = first.state_dict()
    del iterator, first
    second = _stateful(num_workers)
    second.load_state_dict(state)
    assert lists(second) == _epoch_of(0)
    del second


def _stateful(num_workers: int) -> Any:
    return StatefulDataLoader(Ids(), batch_sampler=sampler_of(), num_workers=num_workers)


def _epoch_of(epoch: int) -> list[list[int]]:
    sampler = sampler_of()
    sampler.set_epoch(epoch)
    return list(sampler)


def test_lightning_trains_every_sample_once_and_each_epoch_in_its_own_order(tmp_path: Path) -> None:
    results = _run_ranks("with_lightning.py", tmp_path)
    for epoch in range(2):
        _assert_is_plan(results, epoch)
    assert results[0]["seen"][0] != results[0]["seen"][1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_accelerate_divides_the_lists_of_all_ranks_as_the_plan_does(tmp_path: Path, num_workers: int) -> None:
    results = _run_ranks("with_accelerate.py", tmp_path, "undivided", str(num_workers))
    for epoch in range(2):
        _assert_is_plan(results, epoch)


def test_lists_that_accelerate_would_divide_again_are_refused(tmp_path: Path) -> None:
    done = _start_ranks("with_accelerate.py", tmp_path, "divided", "0")
    assert done.returncode != 0
    assert "would be divided among 2 processes again" in done.stderr
    assert "batch_sampler=sampler.undivided()" in done.stderr


def _assert_is_plan(results: list[dict[str, Any]], epoch: int) -> None:
    plan = Plan(NUM_SAMPLES, world_size=2, batch_size=4, seed=1)
    for rank, result in enumerate(results):
        rows = plan.rows(rank, epoch)
        rows[rows < 0] = 0
        assert result["seen"][epoch] == rows.tolist()
        assert [plan.num_real(step, rank=rank) for step in range(plan.num_steps)] == result["real"]
    real = Counter(
        sample
        for result in results
        for batch, num_real in zip(result["seen"][epoch], result["real"], strict=True)
        for sample in batch[:num_real]
    )
    assert real == Counter(range(NUM_SAMPLES))


def _run_ranks(script: str, out: Path, *arguments: str) -> list[dict[str, Any]]:
    done = _start_ranks(script, out, *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(2)]


def _start_ranks(script: str, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script on two ranks by torchrun, which picks a free port itself."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [*launcher, str(SCRIPTS / script), str(out), *arguments],
        env=os.environ | {"TMPDIR": str(out)},  # torchrun leaves a folder behind
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
