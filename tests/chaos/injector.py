"""The part of a fault that happens inside a rank: jobs say where they are, and in one of them it is done here.

What comes from outside (signals) is done by the one who runs the job: the rank says that it is there, and waits.
"""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path

_WAIT_SECONDS = 600.0


class ChaosError(Exception):
    """The exception that is raised on purpose."""


_bad_samples: set[int] = set()  # they cannot be loaded the next time either


def reach(place: str, step: int = 0, *, sample: int | None = None) -> None:
    """Say that this rank is at a place of the job; what is to happen there happens."""
    setting = os.environ.get("PACELINE_CHAOS")
    if setting is None:
        return
    fault = json.loads(setting)
    if sample in _bad_samples:
        _act(fault["fault"], Path(fault["folder"]), place)
    if fault["place"] != place or step != fault["step"] * (place not in ("import", "init", "in finalize")):
        return
    if own_rank() != fault["victim"]:
        if place == "inside a collective":
            time.sleep(1.0)  # so that the rank in question is inside alone
        return
    here = Path(fault["folder"]) / "here"
    try:
        descriptor = os.open(here.with_suffix(".new"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return  # another process of this rank was there first
    os.write(descriptor, str(os.getpid()).encode())
    os.close(descriptor)
    os.replace(here.with_suffix(".new"), here)
    here.with_suffix(".new").touch()
    if sample is not None:
        _bad_samples.add(sample)
    _act(fault["fault"], Path(fault["folder"]), place)


def own_rank() -> int:
    """Return the rank of this process by its launcher."""
    for name in ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    raise ChaosError("no launcher has given this process a rank")


def _act(fault: str, folder: Path, place: str) -> None:
    if fault == "exception":
        raise ChaosError("on purpose")
    if fault == "EIO on a sample":
        raise OSError(5, "Input/output error", "sample")
    if fault == "ENOMEM":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), before[1]))
        try:
            bytearray(1 << 30)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)  # there is room for less
    if fault == "ENOSPC":
        (folder / "full").touch()
        return
    if fault == "full /dev/shm":
        _fill(Path("/dev/shm/filled"))
        return
    if fault == "truncated file":
        return  # it was cut before the job began: whoever reads it finds out
    if place != "inside a collective":
        deadline = time.monotonic() + _WAIT_SECONDS
        while not (folder / "done").exists() and time.monotonic() < deadline:
            time.sleep(0.01)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        block = b"\1" * (1 << 20)
        while block:
            try:
                file.write(block)
            except OSError:
                block = block[: len(block) // 2]
