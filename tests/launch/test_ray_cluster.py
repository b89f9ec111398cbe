"""A driver of Ray is one that would connect to a cluster that runs: by address, or by the note of `ray start`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.launch.launcher_command.ray_cluster import RayCluster, find_cluster, named_cluster, noted_cluster
from paceline.launch.local_ranks import local_command

_DRIVER = ["python", "driver.py"]


@pytest.fixture
def address() -> Iterator[str]:
    """The address at which a cluster answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def _note(folder: Path, address: str) -> dict[str, str]:
    (folder / "ray").mkdir()
    (folder / "ray" / "ray_current_cluster").write_text(address)
    return {"RAY_TMPDIR": str(folder)}


def test_the_address_in_the_environment_is_that_of_the_cluster(address: str) -> None:
    assert find_cluster(_DRIVER, {"RAY_ADDRESS": address}) == named_cluster(address)


@pytest.mark.parametrize("asked", [{}, {"RAY_ADDRESS": ""}, {"RAY_ADDRESS": "auto"}])
def test_without_an_address_it_is_the_one_that_was_started_last(
    asked: dict[str, str], address: str, tmp_path: Path
) -> None:
    assert find_cluster(_DRIVER, {**asked, **_note(tmp_path, address)}) == named_cluster(address)


@pytest.mark.parametrize("asked", ["local", "ray://127.0.0.1:10001"])
def test_a_driver_that_asks_for_something_else_does_not_get_the_one_that_was_started_last(
    asked: str, address: str, tmp_path: Path
) -> None:
    assert find_cluster(_DRIVER, {"RAY_ADDRESS": asked, **_note(tmp_path, address)}) is None


def test_a_note_is_looked_for_where_ray_leaves_it(tmp_path: Path) -> None:
    environ = _note(tmp_path, "10.0.0.1:6379\n")
    assert noted_cluster({"TMPDIR": environ["RAY_TMPDIR"]}) == RayCluster("10.0.0.1", 6379)
    assert noted_cluster({"TMPDIR": environ["RAY_TMPDIR"], "RAY_TMPDIR": str(tmp_path / "other")}) is None


def test_a_cluster_that_was_killed_is_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    assert find_cluster(_DRIVER, _note(tmp_path, address)) is None


@pytest.mark.parametrize("text", ["", "no address", "host:port", "10.0.0.1:99999", "\udcff:1", "x" * 4000])
def test_a_spoiled_note_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_bytes(text.encode(errors="surrogateescape"))
    assert find_cluster(_DRIVER, {"RAY_TMPDIR": str(tmp_path)}) is None


@pytest.mark.parametrize("command", ["torchrun --nproc-per-node 2 train.py", "mpiexec -n 2 python train.py"])
def test_ranks_that_a_launcher_starts_are_not_those_of_ray(command: str, address: str) -> None:
    assert find_cluster(command.split(), {"RAY_ADDRESS": address}) is None


def test_ranks_that_we_start_ourselves_are_not_those_of_ray(address: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    command = local_command(2, "torch", [str(script)])
    assert find_cluster(command, {"RAY_ADDRESS": address}) is None
