"""Starts the ranks of a torch case: `python fork_ranks.py NUM_RANKS FOLDER LIMITS MODULE SCRIPT [ARGUMENTS...]`.

Importing torch takes longer than most cases do, so it is done once, and the process splits into the ranks; so is what
DistributedDataParallel and optimizers import when the first one is made, if the script has any. Each rank finds in its
environment what torchrun would give it. When a rank fails the others have some seconds to say so.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.lab.run_script import main as run_rank
from paceline.launch.ports import free_port
from paceline.launch.wait_for_ranks import ForkedRank, end_ranks, wait_for_ranks
from paceline.process.exit_codes import shell_code
from paceline.process.launchers import torchrun_environment


def main(arguments: Sequence[str]) -> int:
    """Split into ranks, wait for them, and return the code of the first that failed."""
    num_ranks, rest = int(arguments[0]), arguments[1:]
    importlib.import_module(rest[2])
    if any(name in Path(rest[3]).read_text() for name in ("DistributedDataParallel", "torch.optim", "fully_shard")):
        importlib.import_module("torch._dynamo")
    gc.freeze()
    port = free_port()
    ranks: list[ForkedRank] = []
    for rank in range(num_ranks):
        pid = os.fork()
        if pid == 0:
            os.environ |= torchrun_environment(rank, num_ranks, port=port)
            run_rank(rest)
            return 0
        ranks.append(ForkedRank(pid))
    try:
        return shell_code(wait_for_ranks(ranks))
    finally:
        end_ranks(ranks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
