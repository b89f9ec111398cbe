"""What ranks print once nobody has caught their exception: what is shown, what is folded, and what is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from paceline.guard.run.run_folder import run_folder
from paceline.guard.shared_memory.last_output import LAST_OUTPUT, allow_putting_aside, put_output_aside

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
