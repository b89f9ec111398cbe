"""Processes that generate: each makes a share of the files; they need not talk. The parent shows how far they are."""

from __future__ import annotations

import selectors
import subprocess
import sys
import time
from collections.abc import Sequence

from paceline.bench.data.generate import GenerateError, generate, splits_of
from paceline.bench.data.store import store_of
from paceline.bench.workload.sections import Workload
from paceline.comm.place import find_place
from paceline.errors import InputError
from paceline.loader.epochs.progress_bar import ProgressBar
from paceline.process.exit_codes import shell_code

_FAILED = 1
_TELL_SECONDS = 0.2


def make_share(workload: Workload, share: str | None, *, verify: bool, tell: bool) -> int:
    """Make one share of the files: the one that is named, or that of this rank. Return the exit code."""
    if share is None:
        place = find_place()
        rank, world_size = place.rank, place.world_size
    else:
        rank, world_size = map(int, share.split("/"))
    teller = _Teller() if tell else None
    try:
        generate(
            workload,
            store_of(workload, rank=rank),
            rank=rank,
            world_size=world_size,
            verify=verify,
            on_file=teller.on_file if teller is not None else lambda num_bytes: None,
        )
    except (GenerateError, OSError) as error:
        print(f"paceline bench: rank {rank}: {error}; what is whole stays: generate again to go on", file=sys.stderr)
        return _FAILED
    if teller is not None:
        teller.tell()
    return 0


class _Teller:
    """Tells the parent, a few times a second, how many files are done."""

    def __init__(self) -> None:
        self._count, self._last = 0, 0.0

    def on_file(self, num_bytes: int) -> None:
        self._count += 1
        if time.monotonic() - self._last > _TELL_SECONDS:
            self.tell()

    def tell(self) -> None:
        self._last = time.monotonic()
        print(self._count, flush=True)
        self._count = 0


def run_makers(command: Sequence[str], workload: Workload, world_size: int, *, verify: bool) -> int:
    """Run so many processes of a command until all are done, or one has failed; return the exit code."""
    if workload.dataset.num_files_train < 1:
        raise InputError("there are no files to make")
    total = sum(files.num_files for files in splits_of(workload))
    more = ["--tell", *(["--verify"] if verify else [])]
    makers = [
        subprocess.Popen([*command, "--share", f"{rank}/{world_size}", *more], stdout=subprocess.PIPE, text=True)
        for rank in range(world_size)
    ]
    try:
        with ProgressBar(f"generate {workload.model.name}", total, is_shown=sys.stderr.isatty()) as bar:
            _follow(makers, bar)
        return max((shell_code(maker.wait()) for maker in makers), default=0)
    finally:
        for maker in makers:
            if maker.poll() is None:
                maker.terminate()
            maker.wait()
            if maker.stdout is not None:
                maker.stdout.close()


def _follow(makers: Sequence[subprocess.Popen[str]], bar: ProgressBar) -> None:
    """Show what the makers tell, until all have ended or one has failed."""
    with selectors.DefaultSelector() as selector:
        for maker in makers:
            assert maker.stdout is not None
            selector.register(maker.stdout, selectors.EVENT_READ, maker)
        while selector.get_map():
            for key, _ in selector.select(timeout=1.0):
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    bar.step(int(line))
                    continue
                selector.unregister(key.fileobj)
                if key.data.wait() != 0:
                    return
