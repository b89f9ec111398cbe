"""Processes are known by what the kernel tells of them, whatever they are called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.guard.observe.kernel_view import ProcessHandle, activity, children_of, end_all
from paceline.guard.shared_memory.ring import start_time
from paceline.launch.job_folder import is_alive

# the kernel keeps 15 bytes of a name: here the last is the first half of a character
_NAMED = """
import time
from paceline.guard.rank.watched_process import launcher_name
with open("/proc/self/comm", "wb") as file:
    file.write("aaaaaaaaaaaaaa\\u00e4".encode())
print(launcher_name({}), flush=True)
time.sleep(600)
"""


def test_a_name_that_is_cut_in_a_character() -> None:
    with subprocess.Popen([sys.executable, "-c", _NAMED], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"alone {process.pid}\n"
            with pytest.raises(UnicodeDecodeError):
                Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
            found = activity(process.pid)
            assert found is not None
            assert found.state in "RS"
            assert is_alive(process.pid)
            assert process.pid in children_of([os.getpid()])
            watched = ProcessHandle(process.pid, start_time(process.pid))
            assert not watched.has_ended()
            end_all([], also=[watched])
            assert process.wait(60) == -9
            assert watched.has_ended()
            watched.close()
        finally:
            process.kill()
