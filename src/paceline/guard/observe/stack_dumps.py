"""Takes native stacks of several processes: py-spy runs beside us, and nobody waits for it.

py-spy stops a process to attach to it. If it is killed at that very moment the process may stay stopped. So it is left
to end by itself even if its answer is not wanted any more, and only one that takes far too long is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress

from paceline.process.native_stacks import SpyError, Thread, dump_command, read_answer
from paceline.process.procfs import read_stat, user_of

_AT_A_TIME = 4  # py-spy holds a process still while it reads, and takes a processor
_SECONDS = 20.0  # for one process; the symbols of a large library take a second

Stacks = tuple[Thread, ...]


class StackDump:
    """One process's stacks, on their way."""

    def __init__(self, program: str, pid: int) -> None:
        self._pid, self._until = pid, time.monotonic() + _SECONDS
        self._was_stopped = _is_stopped(pid)
        # files, not pipes: py-spy never waits for us to read
        self._output, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            dump_command(program, pid, variables=False),
            stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._errors,
            start_new_session=True,  # Ctrl-C must not kill it while it attaches
        )  # fmt: skip

    def answer(self) -> Stacks | SpyError | None:
        """Return the stacks, or why there are none; None while py-spy is at work."""
        code = self._process.poll()
        if code is None:
            if time.monotonic() < self._until:
                return None
            self._kill()
            return SpyError(f"py-spy had no answer in {_SECONDS:.0f} s")
        self._output.seek(0)
        self._errors.seek(0)
        output, errors = self._output.read(), self._errors.read()
        self._close()
        try:
            uid = user_of(self._pid)
            return read_answer(
                code, output.decode(errors="replace"), errors.decode(errors="replace"), pid=self._pid, uid=uid
            )
        except SpyError as error:
            return error
        except OSError:
            return SpyError("it has ended in the meantime")

    def _kill(self) -> None:
        """End py-spy, and let the process go on that it may have stopped."""
        self._process.kill()
        self._process.wait()
        self._close()
        if not self._was_stopped and _is_stopped(self._pid):
            with suppress(OSError):
                os.kill(self._pid, signal.SIGCONT)

    def _close(self) -> None:
        self._output.close()
        self._errors.close()


def _is_stopped(pid: int) -> bool:
    with suppress(OSError):
        return read_stat(pid).state == "T"
    return False


class StackDumps:
    """The stacks of some processes, a few at a time."""

    def __init__(self, program: str, pids: Iterable[int]) -> None:
        self._program, self._left = program, list(pids)
        self._running: dict[int, StackDump] = {}
        self.answers: dict[int, Stacks | SpyError] = {}

    def poll(self) -> bool:
        """Go on without waiting; say whether all have answered."""
        for pid, dump in list(self._running.items()):
            answer = dump.answer()
            if answer is not None:
                self.answers[pid] = answer
                del self._running[pid]
        while self._left and len(self._running) < _AT_A_TIME:
            pid = self._left.pop(0)
            try:
                self._running[pid] = StackDump(self._program, pid)
            except OSError as error:
                self.answers[pid] = SpyError(f"py-spy cannot be started: {error}")
        return not self._running

    def abandon(self) -> None:
        """Begin nothing more. What is under way ends by itself, and is still to be polled."""
        self._left.clear()
