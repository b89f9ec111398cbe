"""What a rank writes is what the judge reads: calls, requests, messages, threads, boards."""

from __future__ import annotations

import fcntl
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.guard.observe.board_reader import differing_positions
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.compiled_recorder import RecorderInUse
from paceline.guard.rank.mpi.mpi_buffers import dtype_code
from paceline.guard.run.kept_records import write_used
from paceline.guard.run.kept_source import keep_lines
from paceline.guard.run.run_registry import (
    OngoingRun,
    RunOutcome,
    announce_run,
    open_outcome,
    read_outcome,
    write_outcome,
)
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import (
    MOST_COLUMNS,
    PLACE_SHIFT,
    Board,
    MessageBoard,
    calls_differ,
    message_key,
    pack_call,
    pack_size,
    place_of,
    sequence_at,
    sizes_differ,
)
from paceline.guard.shared_memory.layout import ANY, RECEIVED, SENT
from paceline.guard.shared_memory.operations import BY_NAME, DTYPE_CODES, OPERATIONS, REDUCTION_CODES, UNKNOWN_REDUCTION
from paceline.guard.verdict.finding import (
    Cause,
    Finding,
    FindingField,
    FindingKind,
    FirstDifference,
    GroupState,
    RankGroup,
)

BARRIER, ALLREDUCE = BY_NAME["Barrier"].code, BY_NAME["Allreduce"].code


@pytest.fixture(params=[Recorder, RecorderInUse], ids=["python", "compiled"])
def recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Recorder:
    made = request.param(tmp_path, "world.0.0", rank=0, world_size=3)
    assert isinstance(made, Recorder)
    return made


@pytest.fixture
def world(recorder: Recorder) -> Communicator:
    made = recorder.communicator("mpi-world", "WORLD", range(3), 0)
    assert made is not None
    return made


def read(recorder: Recorder) -> RingReader:
    reader = RingReader(recorder.folder / f"ring.{recorder.name}")
    assert reader.is_complete
    reader.read_texts()
    return reader


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


def test_threads_have_a_place_each_until_they_end(recorder: Recorder, world: Communicator) -> None:
    recorder.begin_collective(world, BARRIER, depth=1)
    inside, leave = threading.Event(), threading.Event()

    def communicate() -> None:
        recorder.block(0)
        recorder.unblock(0)
        inside.set()
        leave.wait(30)

    thread = threading.Thread(target=communicate)
    thread.start()
    assert inside.wait(30)
    threads = read(recorder).threads()
    leave.set()
    thread.join()
    assert sorted(waiting is None for waiting in threads) == [False, True]
    assert len(read(recorder).threads()) == 1


class _Helper(threading.Thread):
    """A thread that is inside a call until it may leave."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder, self.inside, self.leave = recorder, threading.Event(), threading.Event()

    def run(self) -> None:
        self._recorder.block(0)
        self.inside.set()
        self.leave.wait(30)
        self._recorder.unblock(0)


@pytest.fixture
def inside_a_call(recorder: Recorder, world: Communicator) -> Iterator[_Helper]:
    """A thread inside a call, of a rank whose main thread has made one too and runs."""
    recorder.begin_collective(world, BARRIER, depth=1)
    recorder.unblock(0)
    thread = _Helper(recorder)
    thread.start()
    assert thread.inside.wait(30)
    yield thread
    thread.leave.set()
    thread.join()


@pytest.fixture
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process without handlers for signals: the one that limits the time of this test does not count."""
    monkeypatch.setattr("paceline.guard.rank.thread_slots.may_be_woken", lambda: False)


@pytest.mark.usefixtures("no_handlers")
def test_a_thread_that_joins_another_does_not_run(recorder: Recorder, inside_a_call: _Helper) -> None:
    reader = read(recorder)
    assert sorted(waiting is None for waiting in reader.threads()) == [False, True]
    with recorder.threads.joining(inside_a_call):
        (waiting,) = reader.threads()
        assert waiting is not None
        assert reader.joining_ids() == {threading.get_native_id()}
    assert sorted(waiting is None for waiting in reader.threads()) == [False, True]


@pytest.mark.usefixtures("no_handlers")
def test_a_thread_whose_joined_one_has_ended_runs(recorder: Recorder, inside_a_call: _Helper) -> None:
    reader = read(recorder)
    with recorder.threads.joining(inside_a_call):
        inside_a_call.leave.set()
        inside_a_call.join()
        assert reader.threads() == (None,)


def test_a_main_thread_that_a_handler_may_wake_runs(recorder: Recorder, inside_a_call: _Helper) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        with recorder.threads.joining(inside_a_call):
            assert None in read(recorder).threads()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("no_handlers")
def test_at_the_end_of_a_script_the_main_thread_joins_all_but_daemons(
    recorder: Recorder, inside_a_call: _Helper
) -> None:
    second = _Helper(recorder)
    second.start()
    assert second.inside.wait(30)
    recorder.threads.join_last()
    reader = read(recorder)
    assert [waiting is None for waiting in reader.threads()] == [False, False]
    second.leave.set()
    second.join()
    assert [waiting is None for waiting in reader.threads()] == [False]
    inside_a_call.leave.set()
    inside_a_call.join()
    assert reader.threads() == (None,)


def test_a_reserved_thread_counts_before_it_has_begun(recorder: Recorder) -> None:
    recorder.threads.reserve_slot(threading.Thread(target=print))
    assert read(recorder).threads() == (None,)


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


def boards(folder: Path, num_members: int) -> list[Board]:
    return [Board(folder / "board.w.0.c", member, num_members) for member in range(num_members)]


@pytest.mark.parametrize("num_members", [2, 3, 7])
def test_the_later_of_two_sees_the_earlier(tmp_path: Path, num_members: int) -> None:
    members = boards(tmp_path, num_members)
    same = (1, pack_call(BARRIER, -1, 0), pack_size(0, -1))
    assert [board.meet(*same) for board in members[:-1]] == [-1] * (num_members - 1)
    other = pack_call(ALLREDUCE, -1, 1)
    assert members[-1].meet(1, other, pack_size(13, 8)) == 0
    assert differing_positions(tmp_path, ["w.0"]) == [("w.0.c", 1)]


@pytest.mark.parametrize("num_members", [2, 3])
@pytest.mark.parametrize("swapped", [False, True])
def test_sizes_are_compared_where_one_reduction_is_not_known(tmp_path: Path, num_members: int, swapped: bool) -> None:
    """The dispatcher of torch does not tell which reduction DDP asks for."""
    members = boards(tmp_path, num_members)
    calls = [pack_call(ALLREDUCE, -1, 1), pack_call(ALLREDUCE, -1, UNKNOWN_REDUCTION)]
    one, other = reversed(calls) if swapped else calls
    assert members[0].meet(1, one, pack_size(13, 8)) == -1
    assert members[1].meet(1, other, pack_size(13, 8)) == -1
    assert members[0].meet(2, one, pack_size(13, 8)) == -1
    assert members[1].meet(2, other, pack_size(13, 196)) == 0


def test_a_board_that_is_removed_while_boards_are_read_is_left_out(tmp_path: Path) -> None:
    members = boards(tmp_path, 2)
    members[0].meet(1, pack_call(BARRIER, -1, 0), pack_size(0, -1))
    members[1].meet(1, pack_call(ALLREDUCE, -1, 1), pack_size(13, 8))
    (tmp_path / "board.w.0.freed").symlink_to(tmp_path / "gone")  # listed, and then not there
    assert differing_positions(tmp_path, ["w.0"]) == [("w.0.c", 1)]


@pytest.mark.parametrize("num_members", [2, 5])
def test_members_at_other_positions_are_not_compared(tmp_path: Path, num_members: int) -> None:
    members = boards(tmp_path, num_members)
    for sequence in range(1, 200):
        for board in members:
            assert board.meet(sequence, pack_call(BARRIER, -1, 0), pack_size(0, -1)) == -1
    ahead = 199 + layout.BOARD_ROWS  # the same row as 199
    assert members[0].meet(ahead, pack_call(ALLREDUCE, -1, 1), pack_size(13, 8)) == -1
    assert differing_positions(tmp_path, ["w.0"]) == []


@pytest.mark.parametrize(
    ("mine", "theirs", "differ"),
    [
        ((BARRIER, -1, 0), (BARRIER, -1, 0), False),
        ((BARRIER, -1, 0), (ALLREDUCE, -1, 0), True),
        ((BY_NAME["Bcast"].code, 0, 0), (BY_NAME["Bcast"].code, 1, 0), True),
        ((ALLREDUCE, -1, 1), (ALLREDUCE, -1, 2), True),
        ((ALLREDUCE, -1, 1), (ALLREDUCE, -1, UNKNOWN_REDUCTION), False),
        ((ALLREDUCE, 0, 1), (ALLREDUCE, 1, UNKNOWN_REDUCTION), True),
    ],
)
def test_what_must_be_equal_is_compared(mine: tuple[int, int, int], theirs: tuple[int, int, int], differ: bool) -> None:
    places = [place << PLACE_SHIFT for place in (3, 4)]
    assert calls_differ(places[0] | pack_call(*mine), places[0] | pack_call(*theirs)) is differ
    assert not calls_differ(places[0] | pack_call(*mine), places[1] | pack_call(*theirs))


@pytest.mark.parametrize(
    ("mine", "theirs", "differ"),
    [
        ((12, 32), (13, 32), True),
        ((12, 32), (12, 64), True),
        ((0, 32), (12, 32), False),
        ((12, -1), (12, 64), False),
        ((12, 0), (13, 0), False),  # no elements have no type
        ((12, 0), (13, 32), True),
    ],
)
def test_types_and_sizes_differ_only_where_both_are_known(
    tmp_path: Path, mine: tuple[int, int], theirs: tuple[int, int], differ: bool
) -> None:
    assert sizes_differ(pack_size(*mine), pack_size(*theirs)) is differ
    for board, size in zip(boards(tmp_path, 2), (mine, theirs), strict=True):
        board.meet(64, pack_call(ALLREDUCE, -1, 1), pack_size(*size))
    assert differing_positions(tmp_path, ["w.0"]) == ([("w.0.c", 64)] if differ else [])


HUGE = 100_000  # members, of which some are on this machine


def test_only_members_of_this_machine_have_a_place_on_the_board(tmp_path: Path) -> None:
    path = tmp_path / "board.w.0.c"
    here = [Board(path, member, HUGE) for member in (99_992, 70_000, 5)]
    assert path.stat().st_size < 2 << 20
    same = pack_call(BARRIER, -1, 0)
    assert [board.meet(9, same, 0) for board in here[:2]] == [-1, -1]
    assert here[2].meet(9, pack_call(ALLREDUCE, -1, 1), 0) == 99_992
    assert differing_positions(tmp_path, ["w.0"]) == [("w.0.c", 9)]
    late = Board(path, 99_999, HUGE)  # who comes late sees what was written before
    assert late.meet(9, same, 0) == 5
    again = Board(path, 70_000, HUGE)
    assert (again.column, late.column) == (here[1].column, 3)


def test_a_board_without_a_column_left_is_an_error_and_the_rank_goes_on(tmp_path: Path) -> None:
    for member in range(MOST_COLUMNS):
        Board(tmp_path / "board.w.0.c", member, HUGE)
    with pytest.raises(OSError, match="no column left"):
        Board(tmp_path / "board.w.0.c", MOST_COLUMNS, HUGE)
    assert Board(tmp_path / "board.w.0.c", 7, HUGE).column == 7


def test_a_board_is_lost_if_somebody_holds_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.guard.shared_memory.board._LOCK_TRIES", 2)
    Board(tmp_path / "board", 0, 2)
    with (tmp_path / "board").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="lock"):
            Board(tmp_path / "board", 1, 2)
    assert Board(tmp_path / "board", 1, 2).column == 1


def test_processes_that_open_a_board_together_get_columns_of_their_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        columns = pool.map(partial(column_of, tmp_path / "board"), range(40), chunksize=1)
    assert sorted(columns) == list(range(40))


def column_of(path: Path, member: int) -> int:
    return Board(path, member, HUGE).column


ROOTS = st.integers(0, 8_000_000)


@given(ROOTS, ROOTS)
@example(40_000, 40_000 - (1 << 15))
def test_two_roots_never_look_alike(one: int, other: int) -> None:
    broadcast = BY_NAME["Bcast"].code
    assert calls_differ(pack_call(broadcast, one, 0), pack_call(broadcast, other, 0)) is (one != other)


@given(st.integers(1, 1 << 28))
def test_a_place_and_its_row_are_the_sequence_number(sequence: int) -> None:
    assert sequence_at(sequence % layout.BOARD_ROWS, place_of(sequence)) == sequence


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 20))
def test_a_member_that_is_some_rounds_behind_is_not_compared(sequence: int, rounds: int) -> None:
    assert place_of(sequence) != 0
    assert place_of(sequence) != place_of(sequence + rounds * layout.BOARD_ROWS)


def test_a_message_meets_its_receive_whoever_comes_first(tmp_path: Path) -> None:
    board = MessageBoard(tmp_path / "messages")
    small, large = pack_size(13, 32), pack_size(13, 64)
    key = message_key(0, 1, 5, 1, 0)
    assert board.meet(key, small, sends=False) == -1
    assert board.meet(key, large, sends=True) == small  # more than there is room for
    key = message_key(0, 1, 5, 2, 0)
    assert board.meet(key, small, sends=True) == -1
    assert board.meet(key, large, sends=False) == -1  # a shorter message fits
    key = message_key(0, 1, 5, 3, 0)
    assert board.meet(key, pack_size(12, 32), sends=True) == -1
    assert board.meet(key, small, sends=False) == pack_size(12, 32)  # another element type
    key = message_key(0, 1, 5, 4, 0)
    assert board.meet(key, pack_size(12, 0), sends=True) == -1
    assert board.meet(key, small, sends=False) == -1  # no elements have no type


def test_types_that_may_carry_anything_are_not_told_apart() -> None:
    assert dtype_code("S1") == dtype_code("V16") == 0
    assert dtype_code("f8") == DTYPE_CODES["f8"] != 0


def test_the_hooks_of_a_rank_import_nothing_beyond_the_standard_library() -> None:
    import subprocess

    program = (
        "import sys; before = set(sys.modules); import paceline.guard.rank.hooks; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} & {'numpy', 'torch', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_kept_record_is_the_same_and_takes_only_the_space_that_was_used(
    recorder: Recorder, world: Communicator, tmp_path: Path
) -> None:
    recorder.begin_collective(world, BARRIER, depth=1)
    source, kept = recorder.folder / f"ring.{recorder.name}", tmp_path / "kept"
    num_bytes = write_used(source.read_bytes(), kept)
    assert kept.read_bytes() == source.read_bytes()
    assert num_bytes < layout.RING_BYTES // 16


def test_an_outcome_is_read_as_it_was_written(tmp_path: Path) -> None:
    blocked = RankGroup(
        ranks=(0, 2), state=GroupState.BLOCKED, call="Barrier", communicator="WORLD", sequence=4, site="a.py:3"
    )
    returned = RankGroup(
        ranks=(1,), state=GroupState.RUNNING, call="Bcast", site="a.py:9", detail="root 0", has_returned=True
    )
    finding = Finding(
        kind=FindingKind.MISMATCH, field=FindingField.OPERATION, ranks=(1,), summary="rank 1 calls Bcast",
        cause=Cause.CALL_ORDER, advice="call alike", groups=(blocked, returned), latency_ms=1.5,
        first_difference=FirstDifference(
            sequence=3, communicator="WORLD",
            groups=tuple(
                RankGroup(ranks=(rank,), state=GroupState.BLOCKED, call="Bcast", site=f"a.py:{rank}")
                for rank in range(2)
            ),
        ),
    )  # fmt: skip
    announce_run(tmp_path, ["mpiexec", "train"], None)
    ongoing = OngoingRun(folder=tmp_path, pid=1, command=(), cwd=tmp_path, out=None, began=0.0)
    with open_outcome(ongoing) as file:
        assert read_outcome(file) is None  # it has not ended
        for outcome in (
            RunOutcome(exit_code=None, finding=None, records=None),
            RunOutcome(exit_code=90, finding=finding, records=tmp_path / "kept"),
        ):
            write_outcome(tmp_path, outcome)
            assert read_outcome(file) == outcome
        (tmp_path / "outcome.json").write_text('{"version": 1, "outc')  # killed while it wrote
        assert read_outcome(file) is None


def test_lines_around_sites_are_kept_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("\n".join(f"line {number}" for number in range(1, 21)) + "\n")
    sites = [(str(tmp_path), "train.py:10"), (str(tmp_path), "gone.py:3"), (str(tmp_path), "<stdin>:1"), ("", "?:0")]
    kept = keep_lines([*sites, (str(tmp_path), "train.py:19")])
    assert list(kept) == ["train.py"]
    assert list(kept["train.py"]) == [str(number) for number in range(5, 21)]
    assert kept["train.py"]["10"] == "line 10"
