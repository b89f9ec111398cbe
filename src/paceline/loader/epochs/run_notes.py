"""Notes what a loader hands out, step by step, where a watched run keeps its records; nothing where nobody watches.

The folder is named by a variable of the environment, so neither the guard nor a report is needed to load data. A note
is one short line in a file of this rank, written at once: a rank may be killed at any moment.
"""

from __future__ import annotations

import itertools
import json
import os
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.loader.epochs.delivered import DeliveredStep
from paceline.loader.epochs.epoch_summary import EpochSummary
from paceline.loader.row_exchange.balancer import StepStatistics
from paceline.process.private_files import open_private

RUN_FOLDER = "PACELINE_RUN_FOLDER"  # as the guard sets it
_MAX_STEPS = 20_000  # of one rank; later ones are counted in the summary of their epoch only
_NUMBERS = itertools.count()  # tell the loaders of one process apart


class RunNotes:
    """The file of one loader on one rank.

    Args:
        rank: The rank, as the loader knows it.
        world_size: The number of ranks.
    """

    def __init__(self, rank: int, world_size: int) -> None:
        folder = os.environ.get(RUN_FOLDER)
        self._path = None if not folder else Path(folder) / f"work.{os.getpid()}.jsonl"
        self._about = {"rank": rank, "world_size": world_size}
        self._loader = next(_NUMBERS)
        self._num_steps = 0
        self._file: int | None = None  # open during a pass: opening takes longer than a note
        self._close: Callable[[], object] = lambda: None

    def begin(self, epoch: int, num_steps: int, batch_size: int) -> None:
        """Note that a pass begins."""
        self._end_file()  # of a pass that was left; the folder may have gone since
        self._write({"pass": epoch, "num_steps": num_steps, "batch_size": batch_size, **self._about})

    def step(self, step: int, delivered: DeliveredStep) -> None:
        """Note a batch that is handed out."""
        if self._path is None or self._num_steps >= _MAX_STEPS:
            return
        self._num_steps += 1
        batch, balance = delivered.batch, delivered.statistics
        # written out: json takes three times as long for a line that is due in each step
        note = (
            f'"step": {step}, "rows": {batch.batch_size}, "real": {batch.num_real}, '
            f'"waited_us": {delivered.seconds_waited * 1e6:.0f}'
        )
        if balance is not None:
            note += f", {json.dumps(_noted(balance))[1:-1]}"
        self._write_line(note)

    def end(self, summary: EpochSummary) -> None:
        """Note what became of the pass."""
        if self._path is not None:
            self._write({"summary": asdict(summary), "is_cut": self._num_steps >= _MAX_STEPS})
            self._end_file()

    def _end_file(self) -> None:
        self._close()
        self._file, self._close = None, lambda: None

    def _write(self, note: dict[str, Any]) -> None:
        if self._path is not None:
            self._write_line(json.dumps(note)[1:-1])

    def _write_line(self, members: str) -> None:
        """Write a line with these members of a JSON object."""
        if self._path is None:
            return
        line = f'{{"loader": {self._loader}, "at_ns": {time.monotonic_ns()}, {members}}}\n'.encode()
        try:
            if self._file is None:
                self._file = open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                self._close = weakref.finalize(self, os.close, self._file)
            os.write(self._file, line)
        except OSError:  # the run removed its folder, or memory is full: the job matters more than its notes
            self._path = None


def _noted(balance: StepStatistics) -> dict[str, Any]:
    noted: dict[str, Any] = {
        "before": round(balance.imbalance_before, 4),
        "after": round(balance.imbalance_after, 4),
        "moved": balance.num_moved,
        "bytes": balance.bytes_sent,
    }
    return noted | {"did_not_pay": True} if balance.did_not_pay else noted
