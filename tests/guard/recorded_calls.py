"""What tests of records share: codes of two operations, and a look at what a recorder has written."""

from __future__ import annotations

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory.operations import BY_NAME

BARRIER, ALLREDUCE = BY_NAME["Barrier"].code, BY_NAME["Allreduce"].code


def read(recorder: Recorder) -> RingReader:
    reader = RingReader(recorder.folder / f"ring.{recorder.name}")
    assert reader.is_complete
    reader.read_texts()
    return reader
