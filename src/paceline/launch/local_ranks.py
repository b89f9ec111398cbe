"""Ranks of a script on this machine: `python -m paceline.launch.local_ranks N PROGRAM...` for torch, mpiexec for MPI.

Ranks keep our standard input and output. It runs programs that know nothing of us; `run_function` runs a function.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from paceline.errors import InputError
from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.launch.mpiexec import find_mpiexec
from paceline.launch.ports import free_port
from paceline.launch.terminal import is_foreground
from paceline.launch.wait_for_ranks import end_ranks, wait_for_ranks
from paceline.process.exit_codes import shell_code, signal_code
from paceline.process.launchers import torchrun_environment, without_job
from paceline.process.own_programs import own_module

SAVE_SECONDS = 30.0  # for ranks that were told to end, as torchrun gives


def local_command(world_size: int, carrier: str | None, command: Sequence[str]) -> list[str]:
    """Return the command that starts a number of ranks of a script or program on this machine."""
    program = _program(command)
    if (carrier or carrier_of_script(Path(command[0]))) == "mpi":
        return [*find_mpiexec().command(world_size, clean_up=True), *program]
    return [*own_module("paceline.launch.local_ranks"), str(world_size), *program]


def _program(command: Sequence[str]) -> list[str]:
    script = Path(command[0])
    if script.is_dir():
        raise InputError(f"{command[0]!r} is a folder, not a script")
    if script.suffix == ".py" or (script.is_file() and not os.access(script, os.X_OK)):
        if not script.is_file():
            raise InputError(f"there is no script {command[0]!r}")
        return [sys.executable, *command]
    return list(command)


def carrier_of_script(script: Path) -> str:
    """See from a script what it uses: mpi4py, if it names it, otherwise torch.

    A script that imports mpi4py may still leave the ranks to torch: it initialises torch and names no communicator.
    """
    text = script.read_text(errors="replace") if script.suffix == ".py" else ""
    only_torch = "init_process_group" in text and "COMM_" not in text
    return "mpi" if "mpi4py" in text and not only_torch else "torch"


def main(arguments: Sequence[str]) -> int:
    """Start the ranks, wait for them, and return the code of the first that failed."""
    world_size, program = int(arguments[0]), list(arguments[1:])
    port, shared_files = free_port(), shared_files_now()
    ranks: list[subprocess.Popen[bytes]] = []
    ending = _SignalToEnd(ranks)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, ending.begin)
    try:
        for rank in range(world_size):
            own = torchrun_environment(rank, world_size, port=port)
            ranks.append(subprocess.Popen(program, env={**without_job(os.environ), **own}))
        code = wait_for_ranks(ranks, save_until=lambda: ending.save_until)
        return shell_code(code) if ending.number is None else signal_code(ending.number)
    finally:
        end_ranks(ranks)
        remove_leftovers(shared_files)


class _SignalToEnd:
    """What ranks are given when we are told to end: the same signal, and time to save what they have."""

    def __init__(self, ranks: Sequence[subprocess.Popen[bytes]]) -> None:
        self._ranks = ranks
        self.number: int | None = None
        self.save_until = math.inf

    def begin(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on; the second one leaves no more time."""
        if self.number is not None:
            self.save_until = 0.0
            return
        self.number, self.save_until = number, time.monotonic() + SAVE_SECONDS
        if number != signal.SIGINT or not is_foreground():
            for process in self._ranks:
                process.send_signal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
