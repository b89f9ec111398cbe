"""Starts the ranks of a torch case: `python ranks.py NUM_RANKS FOLDER LIMITS MODULE SCRIPT [ARGUMENTS...]`.

Importing torch takes longer than most cases do, so it is done once, and the process splits into the ranks; so is what
DistributedDataParallel and optimizers import when the first one is made, if the script has any. Each rank finds in its
environment what torchrun would give it. When a rank fails the others have some seconds to say so.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.lab.run_script import main as run_rank
from paceline.launch.ports import free_port
from paceline.process.exit_codes import shell_code
from paceline.process.launchers import torchrun_environment

_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.02


def main(arguments: Sequence[str]) -> int:
    """Split into ranks, wait for them, and return the code of the first that failed."""
    num_ranks, rest = int(arguments[0]), arguments[1:]
    importlib.import_module(rest[2])
    if any(name in Path(rest[3]).read_text() for name in ("DistributedDataParallel", "torch.optim", "fully_shard")):
        importlib.import_module("torch._dynamo")
    gc.freeze()
    port = free_port()
    ranks: list[int] = []
    for rank in range(num_ranks):
        pid = os.fork()
        if pid == 0:
            os.environ |= torchrun_environment(rank, num_ranks, port=port)
            run_rank(rest)
            return 0
        ranks.append(pid)
    return _wait(set(ranks))


def _wait(living: set[int]) -> int:
    code, end = 0, float("inf")
    while living and time.monotonic() < end:
        for pid in sorted(living):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == 0:
                continue
            living.remove(pid)
            failed = os.waitstatus_to_exitcode(status)
            if failed and not code:
                code, end = failed, time.monotonic() + _GRACE_SECONDS
        time.sleep(_POLL_SECONDS)
    for pid in living:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return shell_code(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
