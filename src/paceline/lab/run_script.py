"""Run by every rank of a case: sends what the rank prints to files of its own, and runs the script as it is.

What takes long to start, torch or MPI, is imported first, and the time is noted: what comes after it is the job's own.
When it is asked, the rank writes the stack of its main thread to a file, by which a job that hangs is told from a slow
one.

It is started by its path, not by `-m`, so that a rank imports nothing of the lab, and is a plain script like a user's.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import runpy
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.process.launchers import launched_rank
from paceline.process.stacks import OF_STARTER, StackAnswers
from paceline.process.whole_files import write_whole


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
    answers = StackAnswers((folder / f"{rank}.stack").open("w"), OF_STARTER)
    write_whole(folder / f"{rank}.pid", str(os.getpid()).encode())  # from now on it may be asked
    _limit(json.loads(limits), rank)
    importlib.import_module(module)
    write_whole(folder / f"{rank}.ready", str(time.monotonic()).encode())  # the same clock in all processes
    sys.argv = [script, *arguments[4:]]
    sys.path[0] = os.path.dirname(script)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        answers.stop()
        write_whole(folder / f"{rank}.over", b"")


def _limit(limits: dict[str, Any], rank: int) -> None:
    if rank not in limits["ranks"]:
        return
    for number, name in ((resource.RLIMIT_FSIZE, "file_bytes"), (resource.RLIMIT_AS, "memory_bytes")):
        if limits[name] is not None:
            resource.setrlimit(number, (limits[name], limits[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
