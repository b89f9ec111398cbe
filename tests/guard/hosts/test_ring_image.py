"""A ring that travels in parts is the same ring: for the calls that go along, and with times of the other clock."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from paceline.guard.hosts.mirror import RingMirror
from paceline.guard.hosts.remote_process import process_number
from paceline.guard.hosts.ring_image import RingImage, unpack_parts
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME

_ALL_REDUCE = BY_NAME["torch.all_reduce"].code
_SHIFT = 5_000_000_000_000


def _rank(folder: Path) -> tuple[Recorder, Communicator]:
    folder.mkdir()
    recorder = Recorder(folder, "abc.0.0", rank=0, world_size=1)
    world = recorder.communicator("torch-world-1", "WORLD", range(1), 0)
    assert world is not None
    return recorder, world


def _mirrored(folder: Path, parts: list[bytes]) -> RingReader:
    folder.mkdir()
    mirror = RingMirror(folder, process_number(0, 7))
    assert mirror.take_names(["ring.abc.0.0"]) == ""
    for each in parts:
        mirror.take_parts(each)
    reader = RingReader(folder / "ring.abc.0.0")
    reader.read_texts()
    return reader


def test_the_mirror_reads_as_the_ring_does(tmp_path: Path) -> None:
    recorder, world = _rank(tmp_path / "ring")
    real, image, parts = RingReader(tmp_path / "ring" / "ring.abc.0.0"), RingImage(), []
    for _ in range(30):
        recorder.unblock(recorder.begin_collective(world, _ALL_REDUCE, depth=1))
        parts.append(image.changes(real.content(), shift_ns=0, is_still=True, num_calls=4))
    recorder.begin_collective(world, _ALL_REDUCE, depth=1)
    parts.append(image.changes(real.content(), shift_ns=0, is_still=True, num_calls=4))
    real.read_texts()
    copy = _mirrored(tmp_path / "copy", parts)
    assert copy.history(2000) == real.history(2000)
    assert (copy.threads(), copy.positions(), copy.worlds) == (real.threads(), real.positions(), real.worlds)
    assert copy.word(layout.PID) == process_number(0, 7)


def test_calls_that_stay_behind_are_missing_and_nothing_else(tmp_path: Path) -> None:
    recorder, world = _rank(tmp_path / "ring")
    real, image = RingReader(tmp_path / "ring" / "ring.abc.0.0"), RingImage()
    for _ in range(20):
        recorder.unblock(recorder.begin_collective(world, _ALL_REDUCE, depth=1))
    few = image.changes(real.content(), shift_ns=0, is_still=True, num_calls=3)
    real.read_texts()
    copy = _mirrored(tmp_path / "few", [few])
    assert copy.history(2000) == real.history(2000)[-3:]
    all_calls = image.past(real.content(), shift_ns=0, num_calls=2000)
    assert _mirrored(tmp_path / "all", [few, all_calls]).history(2000) == real.history(2000)


def test_times_are_those_of_the_other_clock(tmp_path: Path) -> None:
    recorder, world = _rank(tmp_path / "ring")
    real = RingReader(tmp_path / "ring" / "ring.abc.0.0")
    recorder.unblock(recorder.begin_collective(world, _ALL_REDUCE, depth=1))
    recorder.begin_collective(world, _ALL_REDUCE, depth=1)
    parts = RingImage().changes(real.content(), shift_ns=_SHIFT, is_still=True, num_calls=10)
    real.read_texts()
    copy = _mirrored(tmp_path / "copy", [parts])
    shifts = [(ours.entered_ns - own.entered_ns, ours.left_ns - own.left_ns) for ours, own in zip(
        copy.history(10), real.history(10), strict=True)]  # fmt: skip
    assert shifts == [(_SHIFT, _SHIFT), (_SHIFT, 0)]


def test_a_rank_that_moves_runs(tmp_path: Path) -> None:
    recorder, world = _rank(tmp_path / "ring")
    real, image = RingReader(tmp_path / "ring" / "ring.abc.0.0"), RingImage()
    recorder.begin_collective(world, _ALL_REDUCE, depth=1)
    still = image.changes(real.content(), shift_ns=0, is_still=True, num_calls=10)
    assert _mirrored(tmp_path / "still", [still]).is_inside()
    assert not _mirrored(tmp_path / "moves", [still, image.moves()]).is_inside()


@pytest.mark.parametrize(
    "content",
    [b"\0", b"\0\0\0\0\x08\0\0\0abc", (layout.RING_BYTES - 4).to_bytes(4, "little") + b"\x08\0\0\0" + bytes(8)],
)
def test_parts_that_do_not_fit_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut off|does not fit"):
        list(unpack_parts(zlib.compress(content)))


def test_a_mirror_keeps_its_room_also_when_it_is_cleared(tmp_path: Path) -> None:
    """A write where there is no room would end the head by a signal."""
    mirror = RingMirror(tmp_path, process_number(0, 7))
    assert mirror.take_names(["ring.abc.0.0"]) == ""

    def num_reserved() -> int:
        return (tmp_path / "ring.abc.0.0").stat().st_blocks * 512

    assert num_reserved() >= layout.RING_BYTES
    mirror.clear()
    assert num_reserved() >= layout.RING_BYTES
    mirror.close()
