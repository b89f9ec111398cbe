"""What an MPI leaves in shared memory is removed; what another job has in use is not."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from paceline.launch import segments


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a folder of its own: tests beside this one remove what their jobs leave."""
    monkeypatch.setattr(segments, "_FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize("prefix", ["mpich_shm_", "ucx_shm_posix_", "vader_segment."])
def test_only_segments_that_nobody_uses_are_removed(memory: Path, prefix: str) -> None:
    before = segments.segments_now()
    names = [f"{prefix}left", f"{prefix}opened", f"{prefix}mapped", "of-another-kind"]
    for name in names:
        (memory / name).write_bytes(bytes(4096))
    with (memory / names[2]).open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    with mapped, (memory / names[1]).open("rb"):
        segments.remove_left_segments(before)
        assert {path.name for path in memory.iterdir()} == set(names[1:])
    segments.remove_left_segments(before)
    assert {path.name for path in memory.iterdir()} == {names[3]}


def test_segments_that_were_there_before_stay(memory: Path) -> None:
    (memory / "mpich_shm_1").write_bytes(b"")
    segments.remove_left_segments(segments.segments_now())
    assert (memory / "mpich_shm_1").exists()
