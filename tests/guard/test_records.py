"""What a rank writes of its calls, requests and messages is what the judge reads."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.guard.recorded_calls import ALLREDUCE, BARRIER, read

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import ANY, RECEIVED, SENT
from paceline.guard.shared_memory.operations import BY_NAME, DTYPE_CODES, OPERATIONS, REDUCTION_CODES


def test_operations_have_a_code_each_that_fits_the_board() -> None:
    assert len({operation.code for operation in OPERATIONS}) == len(OPERATIONS) == len(BY_NAME)
    assert max(operation.code for operation in OPERATIONS) < 1 << 9
    assert len(REDUCTION_CODES) < 1 << 8
    assert len(DTYPE_CODES) < 1 << 8


def test_a_record_is_at_most_a_mebibyte(recorder: Recorder) -> None:
    assert (recorder.folder / "ring.world.0.0").stat().st_size == layout.RING_BYTES == 1 << 20


def test_a_call_is_read_as_it_was_written(recorder: Recorder, world: Communicator) -> None:
    number = recorder.begin_collective(world, ALLREDUCE, -1, REDUCTION_CODES["SUM"], DTYPE_CODES["f4"], 32, 8, depth=1)
    reader = read(recorder)
    (call,) = reader.history(10)
    assert (call.operation, call.communicator, call.sequence) == ("Allreduce", "world.0.mpi-world", 1)
    assert (call.reduction, call.dtype, call.num_bytes, call.count) == ("SUM", "f4", 32, 8)
    file, _, line = call.site.rpartition(":")
    assert (Path.cwd() / file) == Path(__file__)  # from the folder the rank runs in
    assert "recorder.begin_collective(world, ALLREDUCE" in Path(__file__).read_text().splitlines()[int(line) - 1]
    assert call.left_ns == 0
    (waiting,) = reader.threads()
    assert waiting is not None
    assert waiting.call == call
    recorder.unblock(number)
    assert reader.threads() == (None,)
    assert reader.history(10)[0].left_ns >= call.entered_ns
    assert reader.positions() == {"world.0.mpi-world": 1}


def test_a_helper_has_as_many_sites_as_it_has_callers(recorder: Recorder, world: Communicator) -> None:
    def helper() -> None:
        recorder.begin_collective(world, BARRIER, depth=1)

    helper()
    helper()
    for _ in range(2):
        helper()
    calls = read(recorder).history(10)
    assert len({call.site for call in calls}) == 1
    assert len({call.callers[0] for call in calls}) == 3
    assert [call.at_site for call in calls] == [1, 1, 1, 2]


def test_old_records_make_place_for_new_ones(recorder: Recorder, world: Communicator) -> None:
    for _ in range(layout.NUM_SLOTS + 100):
        recorder.begin_collective(world, BARRIER, depth=1)
    reader = read(recorder)
    assert reader.call(0) is None
    history = reader.history(10_000)
    assert history[-1].sequence == layout.NUM_SLOTS + 100
    numbers = [call.number for call in history]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_requests_outlive_the_records_of_their_posting(recorder: Recorder, world: Communicator) -> None:
    request = recorder.requests.take()
    number = recorder.begin_message(world.index, BY_NAME["Irecv"].code, peer=2, tag=7, request=request, depth=1)
    recorder.requests.keep(request, number)
    for _ in range(layout.NUM_SLOTS + 1):
        recorder.begin_collective(world, BARRIER, depth=1)
    wait = recorder.begin_wait(BY_NAME["Waitall"].code, [request], any_of=False, depth=1)
    recorder.block(wait)
    reader = read(recorder)
    (waiting,) = reader.threads()
    assert waiting is not None
    assert waiting.is_complete
    assert [(call.operation, call.peer, call.tag) for call in waiting.requests] == [("Irecv", 2, 7)]
    recorder.requests.free(request)
    assert reader.posted() == ()


def test_more_requests_than_there_is_room_for_are_said_to_be_lost(recorder: Recorder) -> None:
    numbers = [recorder.requests.take() for _ in range(layout.MAX_REQUESTS + 5)]
    assert numbers[-1] == 0
    assert read(recorder).word(layout.LOST) & layout.LOST_REQUESTS


def test_messages_are_counted_by_peer_and_tag(recorder: Recorder, world: Communicator) -> None:
    for tag in (1, 1, 2):
        recorder.messages.count(world, SENT, 2, tag)
    recorder.messages.count(world, RECEIVED, 1, 9)
    counts = read(recorder).channels()
    assert counts[SENT] == {("world.0.mpi-world", 2, 1): 2, ("world.0.mpi-world", 2, 2): 1}
    assert counts[RECEIVED] == {("world.0.mpi-world", 1, 9): 1}


def test_more_tags_than_there_is_room_for_are_said_to_be_lost(recorder: Recorder, world: Communicator) -> None:
    for tag in range(layout.MAX_CHANNELS + 1):
        recorder.messages.count(world, SENT, 1, tag)
    assert read(recorder).word(layout.LOST) & layout.LOST_CHANNELS


def test_tokens_and_locks_leave_room_for_messages(recorder: Recorder, world: Communicator) -> None:
    for member in range(layout.MAX_CHANNELS // 2 + 1):
        recorder.messages.change(world, layout.GIVEN, member, layout.POST_TOKEN, 1)
    assert read(recorder).word(layout.LOST) == layout.LOST_WINDOWS
    recorder.messages.count(world, SENT, 1, 7)
    assert read(recorder).channels()[SENT] == {("world.0.mpi-world", 1, 7): 1}


def test_a_lock_that_is_not_held_cannot_be_given_back(recorder: Recorder, world: Communicator) -> None:
    for by, held in ((1, 1), (-1, 0), (-1, 0), (1, 1)):
        recorder.messages.change(world, layout.HELD, 2, layout.EXCLUSIVE_LOCK, by)
        assert read(recorder).channels()[layout.HELD] == {("world.0.mpi-world", 2, layout.EXCLUSIVE_LOCK): held}


def test_a_window_that_there_is_no_room_for_does_not_hide_communicators(recorder: Recorder) -> None:
    assert recorder.communicator("window-1", "Win", range(3), 0, reserve=layout.TEXT_BYTES_MAX) is None
    assert read(recorder).word(layout.LOST) == layout.LOST_WINDOWS
    assert recorder.communicator("mpi-part", "Split", range(3), 0) is not None


def test_which_message_a_receive_takes_is_known_only_if_it_is_certain(recorder: Recorder, world: Communicator) -> None:
    assert recorder.messages.next_receive(world, 1, 5) == 1
    recorder.messages.expect(world, 1, 5, 1)
    assert recorder.messages.next_receive(world, 1, 5) == 2  # after the one that is posted
    recorder.messages.expect(world, ANY, 5, 1)
    assert recorder.messages.next_receive(world, 1, 5) == 0  # one from anywhere may take it


def test_code_that_is_equal_and_lies_in_other_files_has_a_site_each(recorder: Recorder, world: Communicator) -> None:
    for number in range(50):  # each code object takes the place of one that would be gone, if it were not kept
        code = compile("begin(world, operation, depth=1)", f"/job/part{number}.py", "exec")
        exec(code, {"begin": recorder.begin_collective, "world": world, "operation": BARRIER})
        del code
    assert [call.site for call in read(recorder).history(100)] == [f"/job/part{number}.py:1" for number in range(50)]


def test_texts_that_do_not_fit_are_left_out(recorder: Recorder) -> None:
    for _ in range(3000):
        recorder.ring.write_text({"raised": {"message": "x" * 200}})
    reader = read(recorder)
    assert 0 < len(reader.texts) < 3000


def test_the_hooks_of_a_rank_import_nothing_beyond_the_standard_library() -> None:
    import subprocess

    program = (
        "import sys; before = set(sys.modules); import paceline.guard.rank.hooks; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} & {'numpy', 'torch', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
