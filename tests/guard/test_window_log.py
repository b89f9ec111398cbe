"""What ranks note of their accesses to a window, and what they say when an epoch ends: two ranks in one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.windows_and_files.window_logs import WindowLogs
from paceline.guard.rank.remarks.active_buffers import UsedMemory
from paceline.guard.rank.remarks.window_log import MOST_UNDER_WAY, WindowLog
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.access_board import READS, UPDATES, WRITES, Access, AccessBoard
from paceline.guard.shared_memory.layout import ANY, EXCLUSIVE_LOCK, SHARED_LOCK
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.snapshot import Remark

PUT, GET = BY_NAME["Win.Put"].code, BY_NAME["Win.Get"].code


class Member:
    """One rank of a window of three, which rank 0 opens to the others."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.rank, self.recorder = rank, Recorder(folder, f"world.{rank}", rank=rank, world_size=3)
        self.world = self._communicator("all", "WORLD")
        self.window = self._communicator("window-1", "Win")
        self.log = WindowLog(self.recorder, self.window, self.world, AccessBoard(folder / "accesses", rank, 3))
        self._reader = RingReader(folder / f"ring.world.{rank}")

    def _communicator(self, identity: str, name: str) -> Communicator:
        made = self.recorder.communicator(identity, name, range(3), self.rank)
        assert made is not None
        return made

    def access(self, does: int, *memory: UsedMemory, begin: int = 0, target: int = 0, **more: Any) -> None:
        site = self.recorder.remarks.site_of(sys._getframe())
        access = Access(
            origin=self.rank, target=target, begin=begin, end=begin + 8, does=does, site=site,
            operation=GET if does == READS else PUT, content=self.rank + 1,
        )  # fmt: skip
        self.log.add(access, memory, **more)

    def barrier(self) -> None:
        self.recorder.unblock(self.recorder.begin_collective(self.world, BY_NAME["Barrier"].code))

    def send(self) -> None:
        self.recorder.begin_message(self.world.index, BY_NAME["Send"].code, peer=0, tag=0)

    def said(self) -> list[str]:
        return [remark.how for remark in self.remarks()]

    def remarks(self) -> tuple[Remark, ...]:
        self._reader.read_texts()
        return self._reader.remarks()


@pytest.fixture
def members(tmp_path: Path) -> list[Member]:
    return [Member(tmp_path, rank) for rank in range(3)]


def told(members: list[Member]) -> list[str]:
    return [how for member in members for how in member.said()]


def fence(members: list[Member]) -> None:
    for member in members:
        member.log.fence(opens=True)


def test_accesses_between_the_same_two_fences_conflict(members: list[Member]) -> None:
    fence(members)
    for member in members[1:]:
        member.access(WRITES)
    assert told(members) == []
    fence(members)
    (remark,) = members[2].remarks()  # the later of two sees the earlier
    assert (remark.how, remark.what, remark.facts["target"]) == ("conflict", "Win.Put", 0)
    assert [side[0] for side in remark.facts["pair"]] == [2, 1]


def test_accesses_of_other_epochs_other_places_or_only_reads_do_not(members: list[Member]) -> None:
    fence(members)
    members[1].access(WRITES)
    fence(members)
    members[2].access(WRITES)
    members[1].access(WRITES, begin=8)
    members[1].access(WRITES, target=1)
    fence(members)
    for member in members:
        member.access(READS)
    fence(members)
    assert told(members) == []


def test_one_rank_must_not_reach_twice_for_what_it_writes(members: list[Member]) -> None:
    fence(members)
    members[1].access(WRITES)
    members[1].access(READS)
    fence(members)
    assert [side[0] for side in members[1].remarks()[0].facts["pair"]] == [1, 1]


def test_an_access_outside_of_any_epoch_is_told_at_once(members: list[Member]) -> None:
    members[1].access(WRITES)
    assert members[1].said() == ["outside"]
    members[2].log.fence(opens=False)
    members[2].access(WRITES)
    assert members[2].said() == ["outside"]


def put_under_lock(member: Member, kind: int) -> None:
    member.log.epochs.lock(0, kind, 1)
    member.access(WRITES)
    member.log.complete_locked(0, only_here=False)
    member.log.epochs.unlock(0)


def meet_and_settle(members: list[Member]) -> None:
    for member in members:
        member.barrier()
    for member in members:
        member.log.settle()


def test_shared_locks_between_the_same_two_barriers_order_nothing(members: list[Member]) -> None:
    for member in members[1:]:
        put_under_lock(member, SHARED_LOCK)
    meet_and_settle(members)
    assert told(members) == ["conflict"]


def test_exclusive_locks_barriers_and_messages_do(members: list[Member]) -> None:
    for member in members[1:]:
        put_under_lock(member, EXCLUSIVE_LOCK)
    meet_and_settle(members)
    put_under_lock(members[1], SHARED_LOCK)
    meet_and_settle(members)
    put_under_lock(members[2], SHARED_LOCK)
    meet_and_settle(members)
    put_under_lock(members[1], SHARED_LOCK)
    members[1].send()  # it may tell rank 2 to go on
    put_under_lock(members[2], SHARED_LOCK)
    meet_and_settle(members)
    assert told(members) == []


def test_what_was_not_flushed_is_under_way_beyond_a_barrier(members: list[Member]) -> None:
    members[1].log.epochs.lock(ANY, SHARED_LOCK, 1)
    members[1].access(WRITES)
    meet_and_settle(members)
    put_under_lock(members[2], SHARED_LOCK)
    members[1].log.complete_locked(ANY, only_here=False)
    meet_and_settle(members)
    assert told(members) == ["conflict"]


def test_a_local_flush_completes_what_brings_a_result_and_frees_the_memory_of_the_rest(members: list[Member]) -> None:
    log, sent = members[1].log, UsedMemory(1000, 8, writes=False)
    log.epochs.lock(0, SHARED_LOCK, 1)
    members[1].access(READS, UsedMemory(2000, 8, writes=True), fetches=True)
    members[1].access(UPDATES, sent, begin=8)
    assert len(members[1].recorder.buffers.table) == 2
    log.complete_locked(0, only_here=True)
    assert len(members[1].recorder.buffers.table) == 0
    members[1].access(WRITES)
    log.complete_locked(0, only_here=False)
    assert told(members) == []


def test_a_target_compares_the_origins_of_its_epoch(members: list[Member]) -> None:
    target, *origins = members
    for number in range(2):
        for posted in ((1,), (2,)) if number == 0 else ((1, 2),):
            target.log.epochs.post(posted)
            for origin in posted:
                origins[origin - 1].log.epochs.start((0,))
                origins[origin - 1].access(WRITES)
                origins[origin - 1].log.complete_started()
            target.barrier()
            target.log.compare_origins()
            assert (target.said() == ["conflict"]) == (number == 1)


def test_accesses_that_nothing_completed_and_locks_are_left_at_the_end(members: list[Member]) -> None:
    fence(members)
    members[1].access(WRITES)
    assert [dropped.how for dropped in members[1].log.left()] == ["uncompleted"]
    assert members[1].log.left() == []
    members[1].access(WRITES)
    fence(members)
    assert members[1].log.left() == []
    members[2].log.epochs.lock(0, SHARED_LOCK, 1)
    assert [dropped.how for dropped in members[2].log.left()] == ["held"]


def test_more_accesses_than_are_followed_take_no_more_memory(members: list[Member]) -> None:
    fence(members)
    for number in range(2 * MOST_UNDER_WAY):
        members[1].access(WRITES, UsedMemory(8 * number, 8, writes=False), begin=8 * number)
    assert len(members[1].recorder.buffers.table) == MOST_UNDER_WAY
    fence(members)
    assert len(members[1].recorder.buffers.table) == 0


def test_a_message_without_a_record_may_order_what_is_done_under_locks(members: list[Member]) -> None:
    put_under_lock(members[1], SHARED_LOCK)
    members[1].log.settle(speaks=True)  # a persistent request is started
    put_under_lock(members[2], SHARED_LOCK)
    meet_and_settle(members)
    assert told(members) == []


def test_a_rank_that_looks_at_its_memory_anew_may_have_seen_when_to_go_on(members: list[Member]) -> None:
    put_under_lock(members[1], SHARED_LOCK)
    members[2].log.synchronise()
    put_under_lock(members[2], SHARED_LOCK)
    meet_and_settle(members)
    assert told(members) == []
    for member in members[1:]:  # after the next meeting of all it counts no more
        put_under_lock(member, SHARED_LOCK)
    meet_and_settle(members)
    assert told(members) == ["conflict"]


def test_what_cannot_be_noted_is_no_longer_compared_and_does_not_raise(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    problems: list[str] = []
    monkeypatch.setattr(SESSION, "note_problem", problems.append)

    def fail() -> None:
        raise MemoryError("no room for it")

    logs: Any = WindowLogs(None)  # type: ignore[arg-type]
    assert logs.unless_it_fails(members[0].log, fail) is None
    assert members[0].log.board is None
    assert problems == ["accesses to a window are not compared any more: MemoryError: no room for it"]


def test_a_message_that_starts_is_told_to_those_who_ask(members: list[Member]) -> None:
    heard: list[str] = []
    members[0].recorder.remarks.on_start.append(lambda: heard.append("started"))
    members[0].recorder.remarks.speak()
    assert heard == ["started"]
