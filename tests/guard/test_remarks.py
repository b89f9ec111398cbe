"""What a rank remarks about its own requests and handles: bounded, counted by line, and taken back if it is not so."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.remarks.live_handles import LIMITS, LiveHandles
from paceline.guard.rank.remarks.rank_remarks import HANDLE_LEAK, UNFREED, DroppedRequest
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.snapshot import Remark

ISEND = BY_NAME["Isend"].code


class Thing:
    """Stands for an object of mpi4py."""


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path, "world.0", rank=0, world_size=1)


def told(recorder: Recorder) -> tuple[Remark, ...]:
    reader = RingReader(recorder.folder / "ring.world.0")
    reader.read_texts()
    found = reader.remarks()
    reader.close()
    return found


def here(recorder: Recorder) -> int:
    return recorder.remarks.site_of(sys._getframe(1))


def test_a_remark_is_written_again_only_when_its_count_has_doubled(recorder: Recorder) -> None:
    site = here(recorder)
    before = recorder.ring.words[6]
    for _ in range(1000):
        recorder.remarks.note("handle-leak", site, "group")
    assert told(recorder)[0].count == 512
    assert recorder.ring.words[6] - before < 10 * 200


def test_remarks_leave_room_for_what_matters_more(recorder: Recorder) -> None:
    for number in range(5000):
        recorder.remarks.note("handle-leak", here(recorder), f"kind {number}")
    assert len(told(recorder)) == 300


def test_the_last_numbers_are_those_at_the_end(recorder: Recorder) -> None:
    site = here(recorder)
    for _ in range(5):
        recorder.remarks.dropped.append(DroppedRequest(site=site, operation=ISEND))
    recorder.remarks.finish()
    (remark,) = told(recorder)
    assert (remark.what, remark.how, remark.count) == ("Isend", "dropped", 5)
    assert remark.site.endswith(f"test_remarks.py:{sys._getframe().f_lineno - 6}")


def test_a_request_that_a_copy_completes_is_taken_back(recorder: Recorder) -> None:
    for handle in (7, 8):
        recorder.remarks.dropped.append(DroppedRequest(site=here(recorder), operation=ISEND, handle=handle))
    recorder.remarks.find_again(7)
    recorder.remarks.finish()
    assert [remark.count for remark in told(recorder)] == [1]


def test_many_dropped_requests_are_told_before_the_end(recorder: Recorder) -> None:
    site = here(recorder)
    for handle in range(1, 200):
        recorder.remarks.dropped.append(DroppedRequest(site=site, operation=ISEND, handle=handle))
    recorder.remarks.say_dropped()
    assert told(recorder)[0].count >= 64


def test_a_request_that_a_library_made_is_not_told_unless_it_was_handed_over(recorder: Recorder) -> None:
    for is_users in (False, True):
        recorder.remarks.dropped.append(DroppedRequest(site=12345, operation=ISEND, is_users=is_users))
    recorder.remarks.finish()
    assert [remark.count for remark in told(recorder)] == [1]


def test_persistent_requests_that_are_not_freed_are_a_leak_when_they_are_many(recorder: Recorder) -> None:
    site = here(recorder)
    for _ in range(999):
        recorder.remarks.dropped.append(DroppedRequest(site=site, operation=ISEND, how=UNFREED))
    recorder.remarks.say_dropped()
    assert not told(recorder)
    recorder.remarks.dropped.append(DroppedRequest(site=site, operation=ISEND, how=UNFREED))
    recorder.remarks.say_dropped()
    assert [(remark.about, remark.what) for remark in told(recorder)] == [(HANDLE_LEAK, "request")]


@pytest.fixture
def handles(recorder: Recorder) -> LiveHandles:
    return LiveHandles(recorder.remarks, "MPICH", {"communicator": 2048})


def test_handles_that_nothing_refers_to_are_a_leak_and_held_ones_are_not(
    recorder: Recorder, handles: LiveHandles
) -> None:
    site = here(recorder)
    held = []
    for handle in range(200):
        held.append(Thing())
        handles.add("communicator", handle, held[-1], site)
    assert not told(recorder)
    for handle in range(LIMITS["communicator"].dropped):
        handles.add("communicator", 1000 + handle, Thing(), site)
    handles.add("communicator", 5000, held[0], site)
    (remark,) = told(recorder)
    assert dict(remark.facts) == {"dropped": 64, "limit": 2048, "library": "MPICH"}


def test_a_list_that_grows_and_grows_is_a_leak(recorder: Recorder, handles: LiveHandles) -> None:
    site, held = here(recorder), [Thing() for _ in range(LIMITS["communicator"].held)]
    for handle, thing in enumerate(held[:-1]):
        handles.add("communicator", handle, thing, site)
    assert not told(recorder)
    handles.add("communicator", -1, held[-1], site)
    assert told(recorder)[0].count == len(held)


def test_handles_that_are_freed_are_no_leak_whatever_object_frees_them(
    recorder: Recorder, handles: LiveHandles
) -> None:
    site = here(recorder)
    for handle in range(3000):
        thing: Any = Thing()
        handles.add("communicator", handle % 3, thing, site)
        if handle % 2:
            del thing  # a copy of it frees the handle
        handles.remove("communicator", handle % 3)
    assert not told(recorder)


def test_one_handle_that_is_given_several_times_counts_as_often(recorder: Recorder, handles: LiveHandles) -> None:
    site = here(recorder)
    for _ in range(LIMITS["group"].dropped + 1):
        handles.add("group", 7, Thing(), site)
    assert told(recorder)[0].count == LIMITS["group"].dropped + 1


def test_only_handles_that_are_alike_count_together(recorder: Recorder, handles: LiveHandles) -> None:
    held = [Thing() for _ in range(200)]
    for number, thing in enumerate(held):
        handles.add("process group", number, thing, here(recorder), alike=number)
    assert not told(recorder)
