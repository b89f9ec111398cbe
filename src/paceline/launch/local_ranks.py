"""Ranks of a script on this machine: `python -m paceline.launch.local_ranks N PROGRAM...` for torch, mpiexec for MPI.

Ranks keep our standard input and output. When one fails the others have a moment to say so and are then ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from paceline.errors import InputError
from paceline.launch.mpiexec import find_mpiexec
from paceline.launch.ports import free_port
from paceline.launch.terminal import is_foreground
from paceline.process.exit_codes import shell_code, signal_code
from paceline.process.launchers import torchrun_environment, without_job

_POLL_SECONDS = 0.02
_GRACE_SECONDS = 3.0
SAVE_SECONDS = 30.0  # for ranks that were told to end, as torchrun gives


def local_command(world_size: int, carrier: str | None, command: Sequence[str]) -> list[str]:
    """Return the command that starts so many ranks of a script or program on this machine."""
    program = _program(command)
    if (carrier or _carrier_of(command)) == "mpi":
        return [*find_mpiexec().command(world_size, clean_up=True), *program]
    return [sys.executable, "-m", "paceline.launch.local_ranks", str(world_size), *program]


def _program(command: Sequence[str]) -> list[str]:
    script = Path(command[0])
    if script.is_dir():
        raise InputError(f"{command[0]!r} is a folder, not a script")
    if script.suffix == ".py" or (script.is_file() and not os.access(script, os.X_OK)):
        if not script.is_file():
            raise InputError(f"there is no script {command[0]!r}")
        return [sys.executable, *command]
    return list(command)


def _carrier_of(command: Sequence[str]) -> str:
    """See from a script what it uses: mpi4py, if it names it, otherwise torch."""
    script = Path(command[0])
    if script.suffix == ".py" and "mpi4py" in script.read_text(errors="replace"):
        return "mpi"
    return "torch"


def main(arguments: Sequence[str]) -> int:
    """Start the ranks, wait for them, and return the code of the first that failed."""
    world_size, program = int(arguments[0]), list(arguments[1:])
    port = free_port()
    ranks: list[subprocess.Popen[bytes]] = []
    ending = _Ending(ranks)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, ending.begin)
    try:
        for rank in range(world_size):
            own = torchrun_environment(rank, world_size, port=port)
            ranks.append(subprocess.Popen(program, env={**without_job(os.environ), **own}))
        return _wait(ranks, ending)
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
        for process in ranks:
            process.wait()


class _Ending:
    """What ranks are given when we are told to end: the same signal, and time to save what they have."""

    def __init__(self, ranks: Sequence[subprocess.Popen[bytes]]) -> None:
        self._ranks = ranks
        self.number: int | None = None
        self.deadline = float("inf")

    def begin(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on; the second one leaves no more time."""
        if self.number is not None:
            self.deadline = 0.0
            return
        self.number, self.deadline = number, time.monotonic() + SAVE_SECONDS
        if number != signal.SIGINT or not is_foreground():
            for process in self._ranks:
                process.send_signal(number)


def _wait(ranks: Sequence[subprocess.Popen[bytes]], ending: _Ending) -> int:
    failed_at, code = None, 0
    while any(process.poll() is None for process in ranks):
        failed = next((process.returncode for process in ranks if process.returncode), 0)
        if failed and failed_at is None and ending.number is None:
            failed_at, code = time.monotonic(), failed
        if failed_at is not None and time.monotonic() > failed_at + _GRACE_SECONDS:
            break
        if time.monotonic() > ending.deadline:
            break
        time.sleep(_POLL_SECONDS)
    if ending.number is not None:
        return signal_code(ending.number)
    code = code or next((process.returncode for process in ranks if process.returncode), 0)
    return shell_code(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
