"""How a rank ended is seen from outside as it was, whatever hooks the script has; and it ends as it would alone."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.rank_ends import rank_end
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.snapshot import End, EndKind

_DEADLINE = 60.0
_WATCHED = """
    import os, sys
    from pathlib import Path
    from paceline.guard.rank.process_end import watch_process
    from paceline.guard.rank.watched_process import SESSION
    watch_process()
    SESSION.open(Path(sys.argv[1]))
    assert SESSION.join("torch", rank=0, world_size=2, job="one") is not None
    """


def _end_of(body: str, folder: Path) -> tuple[End, int]:
    """Run a rank; return its end as the judge sees it, and its exit code."""
    program = textwrap.dedent(_WATCHED) + textwrap.dedent(body)
    process = subprocess.Popen([sys.executable, "-c", program, str(folder)], stderr=subprocess.DEVNULL)
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its exit code stays there for the judge
        (path,) = folder.glob("ring.*")
        reader = RingReader(path)
        reader.read_texts()
        held = ProcessHandle(reader.word(layout.PID), reader.word(layout.START_TIME))
        assert held.has_ended()
        end = rank_end(WatchedRank(reader, held, kills_before=0))
        held.close()
        reader.close()
        assert end is not None
        return end, process.wait(_DEADLINE)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("body", "kind", "detail", "exit_code"),
    [
        ("pass", EndKind.EXITED, "came to the end of the script", 0),
        ("sys.exit(3)", EndKind.EXITED, "sys.exit(3)", 3),
        ("exit(3)", EndKind.EXITED, "exit(3)", 3),
        ("quit()", EndKind.EXITED, "quit(0)", 0),
        ("raise SystemExit(3)", EndKind.EXITED, "exit code 3", 3),
        ("raise SystemExit('no data')", EndKind.EXITED, "exit code 1", 1),
        ("try: sys.exit(3)\nexcept SystemExit: pass", EndKind.EXITED, "came to the end of the script", 0),
        ("import numpy; os._exit(numpy.int64(3))", EndKind.EXITED, "os._exit(3)", 3),
        ("import numpy; sys.exit(numpy.int64(3))", EndKind.EXITED, "sys.exit(1)", 1),  # not a number to Python
        ("raise ValueError('bad batch')", EndKind.RAISED, "ValueError: bad batch", 1),
        (
            "import traceback; sys.excepthook = lambda *error: traceback.print_exception(*error)\n"
            "raise ValueError('bad batch')",
            EndKind.RAISED,
            "ValueError: bad batch",
            1,
        ),
        (
            "before = sys.excepthook; sys.excepthook = lambda *error: before(*error)\nraise ValueError('bad batch')",
            EndKind.RAISED,
            "ValueError: bad batch",
            1,
        ),
        (
            "sys.excepthook = lambda *error: os._exit(4)\nraise ValueError('bad batch')",
            EndKind.RAISED,
            "ValueError: bad batch",
            4,
        ),
        (
            "class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd",
            EndKind.RAISED,
            "Odd: <RuntimeError in its __str__>",
            1,
        ),
    ],
)
def test_an_end_is_told_as_it_was(body: str, kind: EndKind, detail: str, exit_code: int, tmp_path: Path) -> None:
    end, code = _end_of(body, tmp_path)
    assert (end.kind, end.detail, code) == (kind, detail, exit_code)
    if kind is EndKind.EXITED:
        assert end.exit_code == exit_code


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("pass", "came to the end of the script"),
        ("try: sys.exit(3)\nexcept SystemExit: pass", "came to the end of the script"),
        ("sys.exit(3)", "sys.exit(3)"),
        ("raise SystemExit(3)", "SystemExit, with a code that is not known"),
        ("raise SystemExit", "SystemExit, with a code that is not known"),
    ],
)
@pytest.mark.parametrize("how", ["file", "folder", "module"])
def test_an_end_is_told_while_the_process_is_still_there_and_has_no_exit_code(
    body: str, detail: str, how: str, tmp_path: Path
) -> None:
    name = "__main__" if how == "folder" else "script"
    waits = "import atexit; atexit.register(lambda: (print('ready', flush=True), sys.stdin.read()))"
    # registered before the hooks, and so run after them: as MPI_Finalize, which waits for other ranks
    program = f"import sys\n{waits}\n{textwrap.dedent(_WATCHED)}{body}\n"
    (tmp_path / f"{name}.py").write_text(program)
    script = {"file": ["script.py"], "folder": ["."], "module": ["-m", "script"]}[how]
    process = subprocess.Popen(
        [sys.executable, *script, str(tmp_path)], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (path,) = tmp_path.glob("ring.*")
        reader = RingReader(path)
        reader.read_texts()
        held = ProcessHandle(reader.word(layout.PID), reader.word(layout.START_TIME))
        end = rank_end(WatchedRank(reader, held, kills_before=0))
        held.close()
        reader.close()
    finally:
        process.kill()
        process.communicate()
    assert end is not None
    is_shown = how == "file" and sys.version_info < (3, 14)  # whether Python shows that a script has come to its end
    if not is_shown and "sys.exit" not in body:
        detail = "came to the end of the script, or to SystemExit"
    if not is_shown and "except" in body:
        detail = "sys.exit(3)"
    assert end.detail == detail


def test_an_exception_is_told_before_python_waits_for_threads(tmp_path: Path) -> None:
    body = """
        import threading
        from paceline.guard.shared_memory import layout
        sys.excepthook = lambda *error: None
        words = SESSION.recorder.ring.words
        def wait():
            while not words[layout.MAIN_ENDED]:
                pass
            os._exit(5)
        threading.Thread(target=wait).start()
        raise ValueError("bad batch")
        """
    end, code = _end_of(body, tmp_path)
    assert (end.kind, end.detail, code) == (EndKind.RAISED, "ValueError: bad batch", 5)


def test_no_note_about_an_end_keeps_a_rank_from_ending(tmp_path: Path) -> None:
    body = """
        from paceline.guard.shared_memory.ring import Ring
        def refuse(*args, **named): raise OSError
        Ring.write_text = refuse
        os._exit(6)
        """
    end, code = _end_of(body, tmp_path)
    assert (end.kind, end.detail, code) == (EndKind.EXITED, "exit code 6", 6)
