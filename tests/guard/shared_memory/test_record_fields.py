"""One table of fields gives every form of a record; what a rank writes is what each reader reads."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, DTYPE_CODES, REDUCTION_CODES
from paceline.guard.shared_memory.record_fields import (
    COMMON,
    FIELDS,
    MESSAGE,
    MESSAGE_OFFSET,
    OFFSETS,
    RECORD_BYTES,
    array_fields,
    brief,
)
from paceline.guard.shared_memory.ring_texts import RingTexts, WorldText
from paceline.report.evidence.ring_file import read_ring


def filled() -> bytearray:
    """Return a record in which every field has a value of its own."""
    record = bytearray(RECORD_BYTES)
    for value, (name, code) in enumerate(FIELDS, start=1):
        struct.pack_into(f"<{code}", record, OFFSETS[name], value)
    return record


def test_structs_and_the_array_type_read_the_same_values() -> None:
    record, names = filled(), [name for name, _ in FIELDS]
    both = (*COMMON.unpack_from(record), *MESSAGE.unpack_from(record, MESSAGE_OFFSET))
    assert both == tuple(range(1, len(FIELDS) + 1))
    (row,) = np.frombuffer(bytes(record), np.dtype(array_fields()))  # type: ignore[call-overload]
    assert [int(row[name]) for name in names] == list(both)


@pytest.mark.parametrize("names", [["number"], ["left_ns", "site", "operation"], ["sequence", "peer", "source_bytes"]])
def test_a_brief_form_reads_the_named_fields_alone(names: list[str]) -> None:
    numbers = {name: value for value, (name, _) in enumerate(FIELDS, start=1)}
    assert brief(names).unpack_from(filled()) == tuple(sorted(numbers[name] for name in names))


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KeyError, match="comm"):
        brief(["number", "comm"])


def test_the_judge_and_a_report_read_what_the_rank_wrote(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "world.0.0", rank=0, world_size=4)
    world = recorder.communicator("mpi-world", "WORLD", range(4), 0)
    assert world is not None
    receives = (3, 9, DTYPE_CODES["f4"], 16, 5)
    exchange = recorder.begin_message(
        world.index, BY_NAME["Sendrecv"].code, peer=2, tag=7, message_number=4, dtype=DTYPE_CODES["f8"], num_bytes=64,
        count=8, receives=receives, depth=1,
    )  # fmt: skip
    reduction = recorder.begin_collective(
        world, BY_NAME["Reduce"].code, 1, REDUCTION_CODES["MAX"], DTYPE_CODES["i8"], 24, 3, depth=1
    )
    wait = recorder.begin_wait(BY_NAME["Waitany"].code, [1, 2], any_of=True, depth=1)
    reader = RingReader(tmp_path / "ring.world.0.0")
    reader.read_texts()
    message, collective, waiting = (reader.call(number) for number in (exchange, reduction, wait))
    reader.close()
    assert message is not None
    assert collective is not None
    assert waiting is not None
    assert (message.peer, message.tag, message.message_number, message.sequence) == (2, 7, 4, 0)
    assert tuple(message.incoming) == (3, 9, "f4", 16, 5)
    assert (collective.root, collective.reduction, collective.count, collective.sequence) == (1, "MAX", 3, 1)
    assert (collective.peer, collective.tag) == (layout.NOTHING, layout.NOTHING)
    assert (waiting.num_requests, bool(waiting.flags & layout.ANY_OF), waiting.count) == (2, True, -1)

    record = read_ring(tmp_path / "ring.world.0.0", 0)
    assert not isinstance(record, str)
    for row, call in zip(record.calls, (message, collective, waiting), strict=True):
        for name in ("sequence", "root", "peer", "tag", "count", "num_bytes", "message_number", "num_requests"):
            assert int(row[name]) == getattr(call, name), name


def test_a_collective_in_the_slot_of_an_earlier_message_has_no_peer(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "world.0.0", rank=0, world_size=2)
    world = recorder.communicator("mpi-world", "WORLD", range(2), 0)
    assert world is not None
    recorder.begin_message(world.index, BY_NAME["Send"].code, peer=1, tag=3, depth=1)
    for _ in range(layout.NUM_SLOTS):
        recorder.begin_collective(world, BY_NAME["Barrier"].code, depth=1)
    record = read_ring(tmp_path / "ring.world.0.0", 0)
    assert not isinstance(record, str)
    assert set(record.calls["peer"].tolist()) == {layout.NOTHING}


def test_texts_are_read_line_by_line_and_a_broken_line_is_refused() -> None:
    texts = RingTexts()
    assert texts.read_line(b'{"cwd": "/job"}')
    assert texts.read_line(b'{"site": 1, "frames": [["/job/train.py", 4, "f"], ["/lib/x.py", 9, "g"]]}')
    assert texts.read_line(
        b'{"comm": 0, "id": "w.0.torch-a", "world": "w.0", "name": "A", "size": 2, "ranks": [3, 1], "first": 7}'
    )
    assert texts.read_line(b'{"world": "w.0", "rank": 2, "size": 4}')
    assert texts.read_line(b'{"raised": {"type": "ValueError"}}')
    for broken in (b'{"site": 1', b'{"site": 1}', b'{"comm": 0, "id": "x"}', b"[1]", b"7"):
        assert not texts.read_line(broken)
    assert (texts.site(1).site, texts.site(1).callers, texts.site(8).site) == ("train.py:4", ("/lib/x.py:9",), "?:0")
    assert texts.communicators[0].members({"w.0": {3: 0, 1: 5}, "v.0": {3: 1}}) == (0, 5)
    assert texts.worlds == {"w.0": WorldText(rank=2, size=4)}
    assert texts.others == [{"raised": {"type": "ValueError"}}]
