"""Rings of many ranks without the ranks: one is written as a rank writes it, and copied for all others."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.shared_memory.record_fields import RECORD_BYTES
from paceline.process.procfs import start_time

BARRIER = BY_NAME["Barrier"].code
_USED = layout.RECORDS_AT + 64 * RECORD_BYTES  # of the records


def write_rings(folder: Path, world_size: int, *, calls: int, late: int, inside: bool) -> None:
    """Write the rings of ranks that make the same calls; one comes 5 ms after the others, and to the last not."""
    recorder = Recorder(folder, "world.0.form", rank=0, world_size=world_size)
    world = recorder.communicator("mpi-world", "WORLD", range(world_size), 0)
    assert world is not None
    for _ in range(calls):
        number = recorder.begin_collective(world, BARRIER, depth=1)
        recorder.unblock(number)
    recorder.begin_collective(world, BARRIER, depth=1)
    form = bytearray((folder / "ring.world.0.form").read_bytes())
    (folder / "ring.world.0.form").unlink()
    for rank in range(world_size):
        _write_ring(folder / f"ring.world.0.{rank}", form, rank, is_late=rank == late, calls=calls, inside=inside)


def _write_ring(path: Path, form: bytearray, rank: int, *, is_late: bool, calls: int, inside: bool) -> None:
    data = bytearray(form)
    words = memoryview(data).cast("Q")
    words[layout.RANK] = rank
    words[layout.PID], words[layout.START_TIME] = os.getpid(), start_time(os.getpid())
    for number in range(calls + 1):
        begin = layout.RECORDS_AT + number * RECORD_BYTES + 8
        (entered,) = struct.unpack_from("<Q", data, begin)
        struct.pack_into("<Q", data, begin, entered + rank + (5_000_000 if is_late else 0))
    if is_late or not inside:  # it has not entered the last call
        words[layout.NUM_RECORDS] -= 1
        words[layout.COMMS_AT] -= 1
        words[layout.THREADS_AT] = 0
    words.release()
    with path.open("wb") as file:  # with holes, or a thousand of them fill the disk
        file.truncate(layout.RING_BYTES)
        file.write(data[:_USED])
        file.seek(layout.TEXT_AT)
        file.write(data[layout.TEXT_AT : layout.TEXT_AT + 4096])
