"""Processes are known by what the kernel tells of them, whatever they are called."""

from __future__ import annotations

from tests.helpers.cut_name import process_with_cut_name

from paceline.guard.observe.kernel_view import ProcessHandle, activity, end_all
from paceline.process.procfs import start_time

_NAME_ITSELF = """
import os
from paceline.guard.rank.watched_process import launcher_name
assert launcher_name({}) == f"alone {os.getpid()}"
"""


def test_a_name_that_is_cut_in_a_character() -> None:
    with process_with_cut_name(more=_NAME_ITSELF) as process:
        found = activity(process.pid)
        assert found is not None
        assert found.state in "RS"
        watched = ProcessHandle(process.pid, start_time(process.pid))
        assert not watched.has_ended()
        end_all([], also=[watched])
        assert process.wait(60) == -9
        assert watched.has_ended()
        watched.close()
