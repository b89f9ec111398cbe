"""Counts threads of torch that run functions for other ranks among those of this rank that may do anything."""

from __future__ import annotations

import functools
from typing import Any

from paceline.guard.rank.torch.rpc.rpc_workers import RpcWatch
from paceline.guard.rank.watched_process import SESSION


def watch_served_functions(watch: RpcWatch) -> None:
    """See functions begin and end that other ranks call on this one. Torch looks this one up when it starts."""
    internal: Any = watch.package.internal
    run = internal._run_function

    @functools.wraps(run)
    def run_function(python_udf: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None or watch.workers is None:
            return run(python_udf)
        with recorder.threads.running():
            return run(python_udf)

    internal._run_function = run_function
