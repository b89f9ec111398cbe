"""The launcher of a run: how it is started, how it ended, and how everything that it has started is ended.

It is ended when the process that has started it is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from paceline.errors import InputError
from paceline.guard.observe.kernel_view import ProcessHandle, end_all
from paceline.launch.launcher_command.batch_clients import batch_clients
from paceline.process.procfs import start_time

_PR_SET_CHILD_SUBREAPER, _PR_SET_PDEATHSIG = 36, 1


class StartedLauncher:
    """A launcher that this process has started, and holds.

    Attributes:
        handle: Its process, as others see it.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.handle = ProcessHandle(process.pid, start_time(process.pid))

    @property
    def returncode(self) -> int | None:
        """How it ended, as far as that was asked for: its code, or the signal as a negative number."""
        return self._process.returncode

    def poll(self) -> int | None:
        """Ask how it ended; None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Wait until it has ended, and return how."""
        return self._process.wait()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._process.send_signal(number)

    def clients(self) -> list[int]:
        """Return the clients of a batch system in it."""
        return batch_clients(os.getpid())

    def end_all(self, also: Iterable[ProcessHandle]) -> None:
        """Kill it and everything that it has started, and other processes."""
        end_all([os.getpid()], also=also)

    def close(self) -> None:
        """Let go of its process."""
        self.handle.close()


def start_launcher(command: Sequence[str], environment: Mapping[str, str]) -> StartedLauncher:
    """Start a launcher. What it starts and leaves behind becomes ours.

    Raises:
        InputError: If there is no such program, or it cannot be started.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever ignores it is not told how children end
    try:
        # No thread of ours runs yet, so it is safe to run Python between fork and exec. What was opened for us stays
        # open: a rank talks to its launcher through it (PMI_FD). What we have opened ourselves is closed by exec.
        process = subprocess.Popen(list(command), env=environment, close_fds=False, preexec_fn=_die_with_parent)  # noqa: PLW1509
    except FileNotFoundError:
        raise InputError(_not_found(command[0])) from None
    except OSError as error:
        raise InputError(f"{command[0]!r} cannot be started: {error.strerror}") from None
    return StartedLauncher(process)


def _not_found(name: str) -> str:
    if Path(name).is_file():
        return (
            f"{name!r} is not an executable: run it with -n (paceline run -n 4 {name}), or give the launcher's command"
        )
    return f"there is no program {name!r} here or on the PATH; is its environment active?"


def _prctl(option: int, value: int = 1) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
