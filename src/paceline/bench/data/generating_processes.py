"""Processes that generate files: each makes a share of them without talking to the others.

The parent starts them, and shows a bar of the files that they report.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence

from paceline.bench.data.generate import GenerateError, generate
from paceline.bench.data.manifest import splits_of
from paceline.bench.data.store import store_of
from paceline.bench.workload.sections import Workload
from paceline.bench.workload_choice import WorkloadChoice
from paceline.comm.place import find_place
from paceline.errors import InputError
from paceline.loader.epochs.progress_bar import ProgressBar
from paceline.process.exit_codes import shell_code

_FAILED = 1
_REPORT_SECONDS = 0.2


def generate_share(workload: Workload, share: str | None, *, verify: bool, reports: bool) -> int:
    """Generate one share of the files; return the exit code.

    Args:
        workload: The workload.
        share: Which share, as `R/W`; by default that of this rank.
        verify: Whether to read existing files and write damaged ones again.
        reports: Whether to print the number of files that are done, for the parent.
    """
    if share is None:
        place = find_place()
        rank, world_size = place.rank, place.world_size
    else:
        rank, world_size = map(int, share.split("/"))
    reporter = _FileReporter() if reports else None
    try:
        generate(
            workload,
            store_of(workload, rank=rank),
            rank=rank,
            world_size=world_size,
            verify=verify,
            on_file=reporter.on_file if reporter is not None else lambda num_bytes: None,
        )
    except (GenerateError, OSError) as error:
        message = f"{error}; complete files are kept; run generate again to continue"
        print(f"paceline bench: rank {rank}: {message}", file=sys.stderr)
        return _FAILED
    if reporter is not None:
        reporter.report()
    return 0


class _FileReporter:
    """Tells the parent, a few times a second, how many more files are done."""

    def __init__(self) -> None:
        self._count, self._last = 0, 0.0

    def on_file(self, num_bytes: int) -> None:
        self._count += 1
        if time.monotonic() - self._last > _REPORT_SECONDS:
            self.report()

    def report(self) -> None:
        self._last = time.monotonic()
        print(self._count, flush=True)
        self._count = 0


def run_generators(choice: WorkloadChoice, num_processes: int, *, verify: bool) -> int:
    """Generate the files in several processes, until all are done or one has failed; return the exit code.

    Args:
        choice: The workload.
        num_processes: How many processes share the files.
        verify: Whether to read existing files and write damaged ones again.
    """
    workload = choice.workload
    if workload.dataset.num_files_train < 1:
        raise InputError("there are no files to generate")
    total = sum(files.num_files for files in splits_of(workload))
    command = choice.worker_command("--generate", "--report-files", *(["--verify"] if verify else []))
    environment = {**os.environ, **choice.worker_variables()}
    processes = [
        subprocess.Popen(
            [*command, "--share", f"{rank}/{num_processes}"], env=environment, stdout=subprocess.PIPE, text=True
        )
        for rank in range(num_processes)
    ]
    try:
        with ProgressBar(f"generate {workload.model.name}", total, is_shown=sys.stderr.isatty()) as bar:
            _follow(processes, bar)
        return max((shell_code(process.wait()) for process in processes), default=0)
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _follow(processes: Sequence[subprocess.Popen[str]], bar: ProgressBar) -> None:
    """Show what the processes report, until all have exited or one has failed."""
    with selectors.DefaultSelector() as selector:
        for process in processes:
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, process)
        while selector.get_map():
            for key, _ in selector.select(timeout=1.0):
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    bar.step(int(line))
                    continue
                selector.unregister(key.fileobj)
                if key.data.wait() != 0:
                    return
