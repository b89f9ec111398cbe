"""What a library leaves behind is removed; what another job has in use is not."""

from __future__ import annotations

import mmap
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline.launch import leftovers
from paceline.launch.leftovers import remove_leftovers, remove_segments_of, shared_files_now
from paceline.process.own_programs import own_module


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use folders of their own: tests beside this one remove what their jobs leave."""
    memory, temporary = tmp_path / "memory", tmp_path / "temporary"
    memory.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(leftovers, "_MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return memory


@pytest.mark.parametrize("prefix", ["mpich_shm_", "ucx_shm_posix_", "vader_segment.", "sem.mp-"])
def test_only_segments_that_nobody_uses_are_removed(memory: Path, prefix: str) -> None:
    before = shared_files_now()
    names = [f"{prefix}left", f"{prefix}opened", f"{prefix}mapped", "of-another-kind"]
    for name in names:
        (memory / name).write_bytes(bytes(4096))
    with (memory / names[2]).open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    with mapped, (memory / names[1]).open("rb"):
        remove_leftovers(before)
        assert {path.name for path in memory.iterdir()} == set(names[1:])
    remove_leftovers(before)
    assert {path.name for path in memory.iterdir()} == {names[3]}


_MAPS = """
import mmap, sys, time
with open(sys.argv[1], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 4096)
print("mapped", flush=True)
time.sleep(600)
"""


def test_a_rank_that_is_on_its_way_out_is_waited_for(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that kills its ranks may end before they are gone."""
    segment = memory / "mpich_shm_1"
    segment.write_bytes(bytes(4096))
    with subprocess.Popen([sys.executable, "-c", _MAPS, str(segment)], stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        assert rank.stdout.readline() == b"mapped\n"
        remove_leftovers(set())
        assert segment.exists()
        rank.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, rank.pid, os.WSTOPPED)  # until it has stopped
        rank.terminate()  # it gets to the signal when it goes on

        def let_it_end(seconds: float) -> None:
            rank.send_signal(signal.SIGCONT)
            rank.wait()

        monkeypatch.setattr(leftovers, "time", SimpleNamespace(sleep=let_it_end))
        remove_leftovers(set())
        rank.kill()  # unless it has ended
        assert rank.returncode == -signal.SIGTERM
        assert not segment.exists()


def test_the_segments_of_ranks_that_are_killed_next_are_removed_by_name(memory: Path) -> None:
    for name in ("mpich_shm_1", "mpich_shm_2"):
        (memory / name).write_bytes(bytes(4096))
    with (memory / "mpich_shm_1").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    with mapped:
        remove_segments_of([1 << 22])  # nobody has this number
        assert (memory / "mpich_shm_1").exists()
        remove_segments_of([1 << 22, os.getpid()])
        assert [path.name for path in memory.iterdir()] == ["mpich_shm_2"]


def test_a_segment_that_only_another_container_uses_stays(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for look in ("files_opened", "files_mapped"):  # /proc does not show its processes
        monkeypatch.setattr(leftovers, look, lambda folder: set())
    (memory / "mpich_shm_1").write_bytes(bytes(4096))
    with (memory / "mpich_shm_1").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    with mapped:
        remove_leftovers(set())
        assert (memory / "mpich_shm_1").exists()
    remove_leftovers(set())
    assert not (memory / "mpich_shm_1").exists()


def test_a_segment_at_which_another_run_is_looking_is_removed(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (memory / "mpich_shm_1").write_bytes(bytes(4096))
    looking = (memory / "mpich_shm_1").open("rb")
    monkeypatch.setattr(leftovers, "time", SimpleNamespace(sleep=lambda seconds: looking.close()))
    remove_leftovers(set())
    assert looking.closed
    assert not (memory / "mpich_shm_1").exists()


def test_a_tensor_file_goes_unless_somebody_counts_on_it(memory: Path) -> None:
    before = shared_files_now()
    # killed before it was given a length, killed before it was mapped, sent by name to a process that has not come yet
    never_long, never_written, on_its_way = (memory / f"torch_12_3456_{count}" for count in range(3))
    never_long.touch()
    never_written.write_bytes(bytes(4096))
    on_its_way.write_bytes((1).to_bytes(8, "little") + bytes(4088))
    of_a_user = memory / "torch_12_weights"
    of_a_user.touch()
    remove_leftovers(before)
    assert set(memory.iterdir()) == {on_its_way, of_a_user}


# torch makes a file, maps it and takes its name away: a worker that is killed in between leaves it
KILLED_WORKER = """
import os, signal, sys
open(f"/dev/shm/torch_{os.getpid()}_{sys.argv[1]}_0", "xb").close()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_launcher_of_torch_removes_what_a_killed_rank_has_left(tmp_path: Path) -> None:
    script, number = tmp_path / "killed.py", secrets.randbelow(1 << 32)
    script.write_text(KILLED_WORKER)
    command = [*own_module("paceline.launch.local_ranks"), "2", sys.executable, str(script), str(number)]
    assert subprocess.run(command, timeout=120, check=False).returncode == 137
    assert not list(Path("/dev/shm").glob(f"torch_*_{number}_0"))


def test_segments_that_were_there_before_stay(memory: Path) -> None:
    (memory / "mpich_shm_1").write_bytes(b"")
    remove_leftovers(shared_files_now())
    assert (memory / "mpich_shm_1").exists()


def test_only_folders_of_launchers_that_have_gone_are_removed() -> None:
    temporary = Path(tempfile.gettempdir())
    gone = [subprocess.Popen(["true"]) for _ in range(2)]
    for process in gone:
        process.wait()
    earlier, left, of_another = (temporary / f"ompi.{pid}" for pid in (gone[0].pid, gone[1].pid, os.getpid()))
    earlier.mkdir()
    before = shared_files_now()
    assert before == {earlier}
    for folder in (left / "0" / "1", of_another, temporary / "ompi.txt"):
        folder.mkdir(parents=True)
    (left / "pmix.tool").write_text("")
    remove_leftovers(before)
    assert {path.name for path in temporary.iterdir()} == {earlier.name, of_another.name, "ompi.txt"}


def test_a_folder_that_is_named_by_the_user_serves_other_jobs_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    monkeypatch.setattr(os, "geteuid", lambda: gone.pid)  # a user whose number no process has
    monkeypatch.setattr(leftovers, "_is_mine", lambda path: True)
    folder = Path(tempfile.gettempdir()) / f"ompi.node.{gone.pid}"
    folder.mkdir()
    remove_leftovers(set())
    assert folder.exists()
