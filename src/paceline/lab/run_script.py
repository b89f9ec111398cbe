"""Run by every rank of a case: sends what the rank prints to files of its own, and runs the script as it is.

What takes long to start, torch or MPI, is imported first, and the time is noted: what comes after it is the job's own.
On a signal the stack of the main thread goes to a file, by which a job that hangs is told from one that is slow. The
first signal is answered between two instructions of Python; the second anywhere, and is for a thread in compiled code:
frames that are looked at while Python makes them may crash the process.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import runpy
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.process.launchers import launched_rank
from paceline.process.whole_files import write_whole

STACK_SIGNAL, STACK_IN_C_SIGNAL = signal.SIGRTMIN + 7, signal.SIGRTMIN + 8


def main(arguments: Sequence[str]) -> None:
    """Run a script as one rank: FOLDER LIMITS MODULE SCRIPT [ARGUMENTS...]."""
    folder, (limits, module, script) = Path(arguments[0]), arguments[1:4]
    launched = launched_rank(os.environ)
    assert launched is not None  # run_case starts us by a launcher
    rank = launched.rank
    for number, ending in ((1, "out"), (2, "err")):
        file = os.open(f"{folder}/{rank}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    stack = (folder / f"{rank}.stack").open("w")  # faulthandler writes to it until the end
    signal.signal(STACK_IN_C_SIGNAL, signal.SIG_IGN)  # what is left when Python has ended
    faulthandler.register(STACK_IN_C_SIGNAL, file=stack, all_threads=False)
    signal.signal(STACK_SIGNAL, lambda *_: faulthandler.dump_traceback(stack, all_threads=False))
    signal.siginterrupt(STACK_SIGNAL, False)
    write_whole(folder / f"{rank}.pid", str(os.getpid()).encode())  # from now on the signal may come
    _limit(json.loads(limits), rank)
    importlib.import_module(module)
    write_whole(folder / f"{rank}.ready", str(time.monotonic()).encode())  # the same clock in all processes
    sys.argv = [script, *arguments[4:]]
    sys.path[0] = os.path.dirname(script)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # a question that comes when Python ends would kill the rank
        write_whole(folder / f"{rank}.over", b"")


def _limit(limits: dict[str, Any], rank: int) -> None:
    if rank not in limits["ranks"]:
        return
    for number, name in ((resource.RLIMIT_FSIZE, "file_bytes"), (resource.RLIMIT_AS, "memory_bytes")):
        if limits[name] is not None:
            resource.setrlimit(number, (limits[name], limits[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
