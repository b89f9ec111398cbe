"""What an MPI leaves behind is removed; what another job has in use is not."""

from __future__ import annotations

import mmap
import os
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline.launch import mpi_leftovers
from paceline.launch.mpi_leftovers import mpi_files_now, remove_mpi_leftovers


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use folders of their own: tests beside this one remove what their jobs leave."""
    memory, temporary = tmp_path / "memory", tmp_path / "temporary"
    memory.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(mpi_leftovers, "_MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return memory


@pytest.mark.parametrize("prefix", ["mpich_shm_", "ucx_shm_posix_", "vader_segment."])
def test_only_segments_that_nobody_uses_are_removed(memory: Path, prefix: str) -> None:
    before = mpi_files_now()
    names = [f"{prefix}left", f"{prefix}opened", f"{prefix}mapped", "of-another-kind"]
    for name in names:
        (memory / name).write_bytes(bytes(4096))
    with (memory / names[2]).open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    with mapped, (memory / names[1]).open("rb"):
        remove_mpi_leftovers(before)
        assert {path.name for path in memory.iterdir()} == set(names[1:])
    remove_mpi_leftovers(before)
    assert {path.name for path in memory.iterdir()} == {names[3]}


def test_a_segment_that_only_another_container_uses_stays(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for look in ("files_opened", "files_mapped"):  # /proc does not show its processes
        monkeypatch.setattr(mpi_leftovers, look, lambda folder: set())
    (memory / "mpich_shm_1").write_bytes(bytes(4096))
    with (memory / "mpich_shm_1").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    with mapped:
        remove_mpi_leftovers(set())
        assert (memory / "mpich_shm_1").exists()
    remove_mpi_leftovers(set())
    assert not (memory / "mpich_shm_1").exists()


def test_a_segment_at_which_another_run_is_looking_is_removed(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (memory / "mpich_shm_1").write_bytes(bytes(4096))
    looking = (memory / "mpich_shm_1").open("rb")
    monkeypatch.setattr(mpi_leftovers, "time", SimpleNamespace(sleep=lambda seconds: looking.close()))
    remove_mpi_leftovers(set())
    assert looking.closed
    assert not (memory / "mpich_shm_1").exists()


def test_segments_that_were_there_before_stay(memory: Path) -> None:
    (memory / "mpich_shm_1").write_bytes(b"")
    remove_mpi_leftovers(mpi_files_now())
    assert (memory / "mpich_shm_1").exists()


def test_only_folders_of_launchers_that_have_gone_are_removed() -> None:
    temporary = Path(tempfile.gettempdir())
    gone = [subprocess.Popen(["true"]) for _ in range(2)]
    for process in gone:
        process.wait()
    earlier, left, of_another = (temporary / f"ompi.{pid}" for pid in (gone[0].pid, gone[1].pid, os.getpid()))
    earlier.mkdir()
    before = mpi_files_now()
    assert before == {earlier}
    for folder in (left / "0" / "1", of_another, temporary / "ompi.txt"):
        folder.mkdir(parents=True)
    (left / "pmix.tool").write_text("")
    remove_mpi_leftovers(before)
    assert {path.name for path in temporary.iterdir()} == {earlier.name, of_another.name, "ompi.txt"}
