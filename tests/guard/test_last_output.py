"""What ranks print once nobody has caught their exception: what is shown, what is folded, and what is left alone."""

from __future__ import annotations

import mmap
import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from paceline.guard.run import held_output
from paceline.guard.run.held_output import HeldOutput
from paceline.guard.run.kept_records import _kept_output
from paceline.guard.run.run_folder import run_folder
from paceline.guard.shared_memory.last_output import (
    KEPT_OUTPUT_BYTES,
    LAST_OUTPUT,
    allow_putting_aside,
    put_output_aside,
)
from paceline.guard.verdict.snapshot import End, EndKind
from paceline.process.private_files import write_private

_DEADLINE = 300.0  # torch takes long to import where others compute

# rank 1 fails by itself; the others fail because of it, and would print their tracebacks around that of rank 1
ONE_FAILS_FIRST = """
    import os, sys, time
    import torch.distributed as dist
    dist.init_process_group("gloo")
    mark = sys.argv[1]
    if dist.get_rank() == 1:
        open(mark, "w").close()
        raise ValueError("a bad sample")
    while not os.path.exists(mark):
        time.sleep(0.001)
    raise RuntimeError("Connection closed by peer")
    """


def run_failing(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "job.py").write_text(textwrap.dedent(ONE_FAILS_FIRST))
    (folder / "mark").unlink(missing_ok=True)
    command = [sys.executable, "-m", "paceline", "run", *options, "-n", "3", "job.py", "mark"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_DEADLINE, check=False)


def test_tracebacks_of_ranks_that_ended_because_of_others_are_folded_below_the_finding(tmp_path: Path) -> None:
    done = run_failing(tmp_path)
    assert done.returncode == 90, done.stderr
    before, _, verdict = done.stderr.partition("paceline: rank 1 raised")
    assert before.count("Traceback") == 1
    assert "ValueError: a bad sample" in before
    assert "Traceback" not in verdict
    *_, folded, records = verdict.strip().splitlines()
    assert folded == (
        "  ended afterwards: ranks 0, 2 (RuntimeError: Connection closed by peer); their output is in the records"
    )
    kept = tmp_path / records.split()[1]
    outputs = sorted(path.read_text() for path in kept.glob(f"{LAST_OUTPUT}*"))
    assert [text.count("Traceback") for text in outputs] == [1, 1, 1]
    assert sum("Connection closed by peer" in text for text in outputs) == 2


def test_raw_shows_every_traceback(tmp_path: Path) -> None:
    done = run_failing(tmp_path, "--raw")
    assert done.returncode == 90, done.stderr
    assert done.stderr.count("Traceback") == 3
    assert "ended afterwards:" not in done.stderr


def rank_like(folder: Path, stderr: int) -> str:
    """Run a process that puts its output aside as a rank does; return what it printed by itself."""
    code = """
        import os, sys
        from pathlib import Path
        from paceline.guard.shared_memory.last_output import put_output_aside
        print("before", file=sys.stderr)
        print(put_output_aside(Path(sys.argv[1])))
        print("after", file=sys.stderr)
        os.write(2, b"below Python\\n")
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder)], stdout=subprocess.PIPE, stderr=stderr, text=True,
        timeout=_DEADLINE, check=True,
    ).stdout  # fmt: skip


def test_output_is_put_aside_only_where_the_rank_prints_to_the_standard_error_of_the_run(tmp_path: Path) -> None:
    own, other = (tmp_path / name for name in ("own", "other"))
    with run_folder() as folder, own.open("w") as own_file, other.open("w") as other_file:
        assert rank_like(folder, own_file.fileno()) == "False\n"  # the run does not ask for it
        saved = os.dup(2)
        os.dup2(own_file.fileno(), 2)
        try:
            allow_putting_aside(folder)
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        assert rank_like(folder, other_file.fileno()) == "False\n"
        assert rank_like(folder, own_file.fileno()) == "True\n"
        [aside] = folder.glob(f"{LAST_OUTPUT}*")
        assert aside.read_text() == "after\nbelow Python\n"
    assert own.read_text() == "before\nafter\nbelow Python\nbefore\n"
    assert other.read_text() == "before\nafter\nbelow Python\n"


def test_nothing_is_put_aside_once_the_run_has_gone(tmp_path: Path) -> None:
    with run_folder() as folder:
        allow_putting_aside(folder)
    assert not put_output_aside(folder)


def coloured_traceback(folder: Path, **environment: str) -> str:
    """Let a process raise on a terminal after it has put its output aside; return what it printed."""
    code = """
        import sys
        from pathlib import Path
        from paceline.guard.shared_memory.last_output import put_output_aside
        assert put_output_aside(Path(sys.argv[1]))
        raise ValueError("a bad sample")
    """
    terminal, end = pty.openpty()
    saved = os.dup(2)
    os.dup2(end, 2)
    try:
        allow_putting_aside(folder)
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(folder)], stdout=subprocess.DEVNULL, check=False,
            timeout=_DEADLINE, env={**os.environ, "TERM": "xterm", **environment},
        )  # fmt: skip
    finally:
        os.dup2(saved, 2)
        for descriptor in (saved, terminal, end):
            os.close(descriptor)
    [aside] = folder.glob(f"{LAST_OUTPUT}*")
    return aside.read_text()


def test_a_traceback_keeps_the_colours_that_python_gives_it_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTHON_COLORS"):
        monkeypatch.delenv(name, raising=False)
    with run_folder() as folder:
        printed = coloured_traceback(folder)
    assert ("\x1b[" in printed) == (sys.version_info >= (3, 13))
    assert "a bad sample" in printed
    for setting in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"PYTHON_COLORS": "0"}):
        with run_folder() as folder:
            assert "\x1b[" not in coloured_traceback(folder, **setting)


def memory_of(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_what_was_shown_takes_no_memory_but_for_the_start_that_records_keep() -> None:
    shown: list[bytes] = []
    with run_folder() as folder:
        held = HeldOutput(folder, shown.append)
        path = folder / f"{LAST_OUTPUT}{os.getpid()}"
        for number in range(12):
            write_private(path, bytes([65 + number]) * (1 << 20), append=True)
            held.show_all()
            assert memory_of(path) <= KEPT_OUTPUT_BYTES + mmap.ALLOCATIONGRANULARITY
        assert b"".join(shown) == b"".join(bytes([65 + number]) * (1 << 20) for number in range(12))
        kept = _kept_output(path)
    assert kept == b"A" * KEPT_OUTPUT_BYTES + f"\npaceline: {11 << 20} more bytes are not kept\n".encode()


def test_what_a_rank_prints_faster_than_it_can_be_shown_is_left_out_with_a_word() -> None:
    shown: list[bytes] = []
    with run_folder() as folder:
        path = folder / f"{LAST_OUTPUT}{os.getpid()}"
        write_private(path, b"begin")
        os.truncate(path, 100 << 20)  # of zeros, which take no memory
        write_private(path, b"end", append=True)
        HeldOutput(folder, shown.append).show_all()
    assert shown[0] == b"\npaceline: 96 MiB that a rank printed on its way out are left out\n"
    assert b"".join(shown).endswith(b"end")
    assert len(b"".join(shown[1:])) == 4 << 20


def test_output_that_a_child_of_the_rank_cut_off_harms_nobody() -> None:
    shown: list[bytes] = []
    with run_folder() as folder:
        held, path = HeldOutput(folder, shown.append), folder / f"{LAST_OUTPUT}{os.getpid()}"
        write_private(path, b"a" * (1 << 20))
        held.show_all()
        os.truncate(path, 3)
        assert held_output._free(path, 1 << 20, 2 << 20) == 2 << 20
        held.show_all()
    assert b"".join(shown) == b"a" * (1 << 20)


def test_more_than_is_worth_holding_is_shown_while_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    because_of_others = End(kind=EndKind.RAISED, by_peer=True)
    monkeypatch.setattr(held_output, "_raised_ends", lambda _: {os.getpid(): (0, because_of_others)})
    monkeypatch.setattr(held_output, "_LOOK_SECONDS", 0.0)
    shown: list[bytes] = []
    with run_folder() as folder:
        held, path = HeldOutput(folder, shown.append), folder / f"{LAST_OUTPUT}{os.getpid()}"
        write_private(path, b"x" * (4 << 20))
        held.look([])
        assert shown == []
        write_private(path, b"y", append=True)
        held.look([])
    assert b"".join(shown) == b"x" * (4 << 20) + b"y"
