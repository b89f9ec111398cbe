"""A job that was started is not ended because its hosts cannot be heard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_RUN = """
import sys
from pathlib import Path
from paceline.guard.run import watched_run as runs
from paceline.guard.run.held_output import HeldOutput
from paceline.guard.run.several_hosts.host_role import HostRole
from paceline.guard.run.watch_options import WatchOptions

{patch}
result = runs.watched_run([sys.executable, "-c", "print('the job ran')"], WatchOptions(on_unseen=print, {options}))
print("code", result.exit_code)
"""
_ROLE = """
class Role(HostRole):
    def {name}(self, *args):
        raise OSError("no room")

runs.host_role = lambda command, options: Role(command=command)
"""
_SHOWN = """
HeldOutput.show_all = lambda self: print("shown", self._folder.exists())

def fail(rings):
    raise RuntimeError("escaped")
"""


def _run(folder: Path, patch: str, options: str = "") -> subprocess.CompletedProcess[str]:
    script = _RUN.format(patch=patch, options=options)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, timeout=300, check=False
    )


def test_a_head_that_cannot_hear_watches_its_host_alone(tmp_path: Path) -> None:
    ended = _run(tmp_path, _ROLE.format(name="rings"))
    assert ended.returncode == 0, ended.stderr
    assert "other hosts cannot be watched, and each is watched alone: no room" in ended.stdout
    assert "the job ran" in ended.stdout
    assert "code 0" in ended.stdout


def test_a_node_that_cannot_speak_to_its_head_is_watched_alone(tmp_path: Path) -> None:
    ended = _run(tmp_path, _ROLE.format(name="judged"))
    assert ended.returncode == 0, ended.stderr
    assert "the head cannot be told of this host, which is watched alone: no room" in ended.stdout
    assert "code 0" in ended.stdout


def test_a_command_has_what_was_opened_for_it(tmp_path: Path) -> None:
    """A rank that srun or mpiexec has started speaks to it through a descriptor, whose number is in PMI_FD."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", f"import os; os.write({writing}, b'through')"]
    with open(reading, "rb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "paceline", "run", "--", *command], pass_fds=[writing], cwd=tmp_path, timeout=300,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        os.close(writing)
        assert (done.returncode, pipe.read()) == (0, b"through"), done.stderr


def test_output_that_is_held_is_shown_whatever_goes_wrong(tmp_path: Path) -> None:
    ended = _run(tmp_path, _SHOWN, "on_look=fail")
    assert "RuntimeError: escaped" in ended.stderr
    assert "shown True" in ended.stdout
