"""Whose folders are used, found and removed: those of this user's own runs, by the lock of a judge that lives."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.guard.run import meeting_place, run_folder, run_registry
from paceline.guard.run.meeting_place import NoJudgeError, find_judged_folder, leave_meeting_place
from paceline.guard.run.run_folder import become_judge, remove_stale_folders, stop_judging
from paceline.guard.run.run_registry import announce_run, find_runs
from paceline.guard.shared_memory.ring import judge_lives

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")


class Judges:
    """Judges that this process starts: it holds their locks."""

    def __init__(self) -> None:
        self.locks: dict[Path, int] = {}
        self.notes: dict[Path, Path] = {}

    def start(self, folder: Path, note: Path) -> None:
        self.locks[folder], self.notes[folder] = become_judge(folder), note

    def kill(self, folder: Path) -> None:
        os.close(self.locks.pop(folder))


@pytest.fixture
def judges() -> Iterator[Judges]:
    judges = Judges()
    yield judges
    for folder in list(judges.locks):
        judges.kill(folder)


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    memory, temporary = tmp_path / "memory", tmp_path / "temporary"
    memory.mkdir()
    temporary.mkdir()
    for module in (meeting_place, run_folder, run_registry):
        monkeypatch.setattr(module, "MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return memory


def place(memory: Path) -> Path:
    return memory / f"paceline-user-{os.geteuid()}"


def test_ranks_of_one_job_find_one_folder_and_other_jobs_others(judges: Judges) -> None:
    first = find_judged_folder("job", judges.start)
    assert find_judged_folder("job", judges.start) == first
    assert find_judged_folder("other", judges.start) != first
    assert len(judges.locks) == 2


def test_ranks_that_come_at_the_same_time_start_one_judge(judges: Judges) -> None:
    found: list[Path] = []

    def start_slowly(folder: Path, note: Path) -> None:
        time.sleep(0.1)
        judges.start(folder, note)

    threads = [threading.Thread(target=lambda: found.append(find_judged_folder("job", start_slowly))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert len(set(found)) == len(judges.locks) == 1


def test_what_a_killed_judge_left_neither_delays_nor_silences_the_next_job(judges: Judges) -> None:
    first = find_judged_folder("job", judges.start)
    judges.kill(first)
    began = time.monotonic()
    second = find_judged_folder("job", judges.start)
    assert second != first
    assert judge_lives(second)
    assert time.monotonic() - began < 5


def test_the_last_job_removes_the_place(judges: Judges, memory: Path) -> None:
    folders = [find_judged_folder(job, judges.start) for job in ("a", "b")]
    leave_meeting_place(judges.notes[folders[0]], folders[0])
    assert place(memory).exists()
    leave_meeting_place(judges.notes[folders[1]], folders[1])
    assert not place(memory).exists()


@as_root
def test_a_place_of_another_user_is_not_used(judges: Judges, memory: Path) -> None:
    place(memory).mkdir(mode=0o777)
    (place(memory) / "job").write_text("/")
    os.chown(place(memory), 65534, 65534)
    folder = find_judged_folder("job", judges.start)
    assert [path.name for path in place(memory).iterdir()] == ["job"]
    assert judges.notes[folder].parent.parent == Path(tempfile.gettempdir())


def test_without_a_place_of_its_own_a_job_is_told_that_nobody_judges(judges: Judges, memory: Path) -> None:
    for parent in (memory, Path(tempfile.gettempdir())):
        (parent / place(memory).name).symlink_to("/")
    with pytest.raises(NoJudgeError, match="no folder is this user's alone"):
        find_judged_folder("job", judges.start)


@pytest.mark.parametrize("target", ["folder", "link", "open"])
def test_a_word_that_leads_elsewhere_is_not_followed(judges: Judges, memory: Path, target: str) -> None:
    place(memory).mkdir(mode=0o700)
    elsewhere = memory / "elsewhere"
    elsewhere.mkdir(mode=0o755 if target == "open" else 0o700)
    lock = become_judge(elsewhere) if target == "open" else None
    path = elsewhere
    if target == "link":
        path = memory / "link"
        path.symlink_to("elsewhere")
    (place(memory) / "job").write_text(str(path))
    assert find_judged_folder("job", judges.start).parent == memory
    assert elsewhere.exists()
    if lock is not None:
        os.close(lock)


def test_a_judge_that_does_not_begin_leaves_nothing(memory: Path) -> None:
    def fail(folder: Path, note: Path) -> None:
        raise NoJudgeError("its judge ended with code 1 before it began")

    with pytest.raises(NoJudgeError, match="code 1"):
        find_judged_folder("job", fail)
    assert list(memory.glob("paceline-run-*")) == []


def age(folder: Path) -> None:
    os.utime(folder, (0, 0))


def test_only_folders_without_a_living_judge_are_removed(memory: Path) -> None:
    # a lock counts, not a number: the judge may live in another container
    temporary = Path(tempfile.gettempdir())
    folders = {name: memory / f"paceline-run-{name}" for name in ("live", "left", "young", "open")}
    folders["elsewhere"] = temporary / "paceline-run-elsewhere"
    for folder in folders.values():
        folder.mkdir(mode=0o700)
        (folder / "judge").write_text("1 1")
    folders["open"].chmod(0o755)  # not one of ours
    lock = become_judge(folders["live"])
    for name in ("live", "left", "open", "elsewhere"):
        age(folders[name])
    remove_stale_folders()
    os.close(lock)
    assert {name for name, folder in folders.items() if folder.exists()} == {"live", "young", "open"}


@as_root
def test_a_folder_of_another_user_is_neither_found_nor_removed(memory: Path) -> None:
    folder = memory / "paceline-run-theirs"
    folder.mkdir(mode=0o700)
    lock = become_judge(folder)
    announce_run(folder, ["train"], None)
    assert [run.folder for run in find_runs()] == [folder]
    os.chown(folder, 65534, 65534)
    assert find_runs() == []
    os.close(lock)
    age(folder)
    remove_stale_folders()
    assert folder.exists()


@pytest.mark.timeout(10)
@pytest.mark.parametrize("what", ["pipe", "link", "large", "list", "deep", "types", "bytes"])
def test_what_a_run_says_of_itself_is_not_believed(memory: Path, what: str) -> None:
    folder = memory / "paceline-run-x"
    folder.mkdir(mode=0o700)
    lock = become_judge(folder)
    about = folder / "about.json"
    good = {"version": 1, "pid": 1, "command": ["a"], "cwd": "/", "out": None, "began": 1.0}
    if what == "pipe":
        os.mkfifo(about)
    elif what == "link":
        (memory / "target").write_text(json.dumps(good))
        about.symlink_to(memory / "target")
    elif what == "large":
        about.write_text(json.dumps(good) + " " * (17 << 20))
    else:
        spoiled = {"list": b"[1]", "deep": b"[" * 100_000, "bytes": b"\xff\xfe"}
        about.write_bytes(spoiled.get(what, json.dumps({**good, "command": 3, "cwd": [], "pid": "x"}).encode()))
    assert find_runs() == []
    os.close(lock)


def test_a_judge_that_stops_judging_lets_ranks_go_on(memory: Path) -> None:
    folder = memory / "paceline-run-x"
    folder.mkdir(mode=0o700)
    lock = become_judge(folder)
    assert judge_lives(folder)
    stop_judging(folder)
    assert not judge_lives(folder)
    os.close(lock)
