"""Where a process stands: arguments first, then torch.distributed, then the launcher."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed

from paceline import PacelineError
from paceline.comm import find_place


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "6", "PMI_SIZE": "7"}, (6, 7)),
        ({"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"}, (0, 2)),
        ({"SLURM_PROCID": "4", "SLURM_STEP_NUM_TASKS": "5"}, (4, 5)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "5"}, (0, 1)),  # a batch script, outside of srun
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, (1, 2)),
    ],
)
def test_the_launcher_says(environ: dict[str, str], expected: tuple[int, int]) -> None:
    place = find_place(environ=environ)
    assert (place.rank, place.world_size) == expected


def test_arguments_come_first() -> None:
    assert find_place(2, 5, environ={"RANK": "0", "WORLD_SIZE": "8"}).source == "arguments"


def test_torch_comes_before_the_launcher(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        place = find_place(environ={"RANK": "3", "WORLD_SIZE": "8"})
    finally:
        torch.distributed.destroy_process_group()
    assert (place.rank, place.world_size, place.source) == (0, 1, "torch.distributed")


@pytest.mark.parametrize(
    ("rank", "world_size", "environ", "message"),
    [
        (7, 7, {}, "rank .* from 0 to 6, got 7"),
        (-1, 7, {}, "rank .* got -1"),
        (0, 0, {}, "world_size must be"),
        (None, 7, {}, "world size 7 was given without a rank"),
        (0, None, {}, "rank 0 was given without the world size"),
        (None, None, {"RANK": "2"}, "RANK='2' is set in the environment without its partner"),
        (None, None, {"WORLD_SIZE": "2"}, "WORLD_SIZE='2' is set in the environment without its partner"),
        (None, None, {"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x'"),
        (None, None, {"RANK": "2", "WORLD_SIZE": "2"}, "from torchrun"),
    ],
)
def test_a_place_that_cannot_be_is_refused(
    rank: int | None, world_size: int | None, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        find_place(rank, world_size, environ=environ)
    assert isinstance(caught.value, PacelineError)


def test_one_argument_that_agrees_with_the_job_is_taken() -> None:
    place = find_place(None, 8, environ={"RANK": "3", "WORLD_SIZE": "8"})
    assert (place.rank, place.world_size) == (3, 8)
