"""Calls of several hosts that differ and let everybody go on are found by their sums; what fits is never named."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from tests.guard.hosts.linked_job import ALL_REDUCE, BARRIER, LinkedJob, LinkedRank
from tests.guard.hosts.stretches.passed_findings import PassedFindings

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.classes.told_states import LARGE
from paceline.guard.hosts.link import WatcherLink
from paceline.guard.hosts.stretches import passed_calls, told_stretches
from paceline.guard.hosts.stretches.compared_stretches import Suspicion
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, DTYPE_CODES, REDUCTION_CODES

_SUM, _MAX = REDUCTION_CODES["SUM"], REDUCTION_CODES["MAX"]
_GATHERV, _BROADCAST = BY_NAME["Gatherv"].code, BY_NAME["torch.broadcast"].code


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_stretches, "TELL_SECONDS", 0.02)


def _ranks(job: LinkedJob) -> list[LinkedRank]:
    ranks = [job.rank(number) for number in range(3)]
    job.until(lambda: job.num_seen() == 3)
    return ranks


def _make(rank: LinkedRank, operation: int, **arguments: int) -> None:
    """Make a call that is over."""
    rank.recorder.unblock(rank.recorder.begin_collective(rank.world, operation, depth=1, **arguments))


def test_another_reduction_on_one_host_is_found_although_everybody_goes_on(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)

    def goes_on() -> bool:
        for number, rank in enumerate(ranks):
            _make(rank, BARRIER)
            _make(rank, ALL_REDUCE, reduction=_MAX if number == 2 else _SUM, dtype=DTYPE_CODES["f4"], num_bytes=4)
        return found.look()

    job.until(goes_on)
    (finding,) = found.findings
    assert (finding.kind.value, finding.ranks, str(finding.field)) == ("mismatch", (2,), "reduction")
    assert "MAX on rank 2" in finding.summary
    assert "SUM on ranks 0-1" in finding.summary
    assert all(group.hosts for group in finding.groups)
    assert finding.latency_ms < 60_000


def test_a_single_call_that_differs_is_found_among_others(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    for count in range(300):
        for number, rank in enumerate(ranks):
            _make(rank, ALL_REDUCE, reduction=_SUM, num_bytes=8 if (number, count) == (1, 77) else 4)
    job.until(found.look)
    (finding,) = found.findings
    assert finding.ranks == (1,)
    assert "call 78 on WORLD" in finding.summary


def test_first_one_rank_for_each_sum_is_asked_and_then_the_others(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    for number, rank in enumerate(ranks):
        _make(rank, ALL_REDUCE, reduction=_MAX if number == 0 else _SUM)
    job.until(found.look)
    first, *others = found.recalls  # of rank 0 the head has the ring itself
    assert [recall.question for recall in others] == [first.question + 1] * 2
    assert sorted(rank for recall in others for rank in recall.ranks) == [1, 2]


def test_what_only_some_know_is_looked_at_now_and_then_and_never_named(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root of a Gatherv does not know the element type."""
    monkeypatch.setattr(passed_calls, "_PAUSE_SECONDS", 1000.0)
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    told: list[object] = []
    real = passed_calls.PassedCalls._suspect

    def suspect(self: passed_calls.PassedCalls, suspicion: Suspicion[int]) -> None:
        told.append(suspicion)
        assert suspicion.is_by_unknown
        real(self, suspicion)

    monkeypatch.setattr(passed_calls.PassedCalls, "_suspect", suspect)

    def goes_on() -> bool:
        for number, rank in enumerate(ranks):
            _make(rank, _GATHERV, root=0, dtype=0 if number == 0 else DTYPE_CODES["f8"])
        assert not found.look()
        return len(told) > 5

    job.until(goes_on)
    assert len({recall.question for recall in found.recalls}) == 1


def test_a_correct_job_is_asked_for_nothing(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although lines, times and the messages between the calls of ranks differ."""
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    compared: list[object] = []
    real = passed_calls.PassedCalls.take

    def take(self: passed_calls.PassedCalls, host: int, told: host_messages.Stretches) -> None:
        compared.extend(told.stretches)
        real(self, host, told)

    monkeypatch.setattr(passed_calls.PassedCalls, "take", take)

    def goes_on() -> bool:
        for number, rank in enumerate(ranks):
            _make(rank, _BROADCAST, root=1, dtype=DTYPE_CODES["f4"], num_bytes=64)
            for _ in range(number):
                rank.recorder.unblock(
                    rank.recorder.begin_message(rank.world.index, BY_NAME["Send"].code, peer=0, depth=1)
                )
            _make(rank, ALL_REDUCE, reduction=_SUM, num_bytes=4)
        assert not found.look()
        return len(compared) > 60

    job.until(goes_on)
    assert not found.recalls


def test_calls_that_are_out_of_the_ring_are_not_compared(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    for number, rank in enumerate(ranks):
        _make(rank, ALL_REDUCE, reduction=_MAX if number == 2 else _SUM)
    has_asked = False

    def goes_on() -> bool:
        nonlocal has_asked
        if found.recalls and not has_asked:  # before their host answers
            has_asked = True
            for _ in range(layout.NUM_SLOTS):
                for rank in ranks:
                    _make(rank, BARRIER)
        assert not found.look()
        return has_asked and job.head._passed._question is None

    job.until(goes_on)


def test_a_host_that_does_not_send_its_calls_is_not_waited_for(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_calls, "_RECALL_SECONDS", 0.05)
    monkeypatch.setattr(passed_calls, "_PAUSE_SECONDS", 0.0)
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    real = WatcherLink.send

    def send(self: WatcherLink, content: bytes) -> bool:
        message = host_messages.decode_upward(content)
        return True if isinstance(message, host_messages.Report) and message.recalled else real(self, content)

    monkeypatch.setattr(WatcherLink, "send", send)

    def goes_on() -> bool:
        for number, rank in enumerate(ranks):
            _make(rank, ALL_REDUCE, reduction=_MAX if number == 2 else _SUM)
        assert not found.look()
        return len(found.recalls) >= 3

    job.until(goes_on)


def _exchange(ranks: list[LinkedRank], nth: int) -> None:
    """Let each rank send to the next one, of another size each time."""
    for number, rank in enumerate(ranks):
        for name, peer in (("Send", (number + 1) % 3), ("Recv", (number - 1) % 3)):
            begun = rank.recorder.begin_message(
                rank.world.index, BY_NAME[name].code, peer=peer, tag=3, message_number=nth, dtype=DTYPE_CODES["f4"],
                num_bytes=4 * nth, depth=1,
            )  # fmt: skip
            rank.recorder.unblock(begun)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_found_in_a_correct_job_whatever_becomes_of_messages(
    seed: int, job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are asked for again and again, since the root of a Gatherv knows less than the others."""
    monkeypatch.setattr(passed_calls, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(passed_calls, "_RECALL_SECONDS", 0.03)
    ranks, found, chance = _ranks(job), PassedFindings(job, monkeypatch), random.Random(seed)
    real, under_way = WatcherLink.send, defaultdict[int, list[bytes]](list)

    def send(self: WatcherLink, content: bytes) -> bool:
        if isinstance(host_messages.decode_upward(content), host_messages.Beat | host_messages.Hello):
            return real(self, content)
        held = under_way[id(self)]
        held.append(content)
        for _ in range(chance.choice([0, 1, 1, 2, 3])):  # lost, late, and out of their order; some come twice
            content = chance.choice(held)
            real(self, content)
            if chance.random() < 0.7:
                held.remove(content)
            if not held:
                break
        return True

    monkeypatch.setattr(WatcherLink, "send", send)

    num_sent = 0

    def goes_on() -> bool:
        nonlocal num_sent
        for _ in range(chance.choice([0, 1, 5])):
            for number, rank in enumerate(ranks):
                _make(rank, _GATHERV, root=0, dtype=0 if number == 0 else DTYPE_CODES["f8"])
                _make(rank, ALL_REDUCE, reduction=_SUM, num_bytes=4)
            num_sent += 1
            _exchange(ranks, num_sent)
        if chance.random() < 0.02:
            job.watchers[chance.randrange(2)]._reports.tell_everything()
        assert not found.look()
        return len(found.recalls) > 20

    job.until(goes_on)
    assert job.head.problems() == []


@pytest.mark.parametrize(
    ("identity", "ranks"),
    [
        ("torch-own-1", [1]),
        (f"{layout.INTER_PREFIX}1-77ab", [1, 2]),
        (f"{layout.BRIDGE_PREFIX}77ab", [1, 2, layout.OF_OTHER_JOB]),
    ],
    ids=["of one host", "with two sides", "of two jobs"],
)
def test_some_communicators_are_not_told_of(
    identity: str, ranks: list[int], job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = job.rank(1)
    left_out = rank.recorder.communicator(identity, "LEFT OUT", ranks, 0)
    assert left_out is not None
    sent = _communicators_told(monkeypatch)
    for _ in range(5):
        rank.recorder.unblock(rank.recorder.begin_collective(left_out, BARRIER, depth=1))
        rank.recorder.unblock(
            rank.recorder.begin_message(
                left_out.index, BY_NAME["Send"].code, peer=1, message_number=1, num_bytes=4, depth=1
            )
        )
        _make(rank, BARRIER)
    job.until(lambda: len(sent) > 1)
    assert set(sent) == {rank.world.identity}


@pytest.mark.parametrize(("size", "is_told"), [(LARGE, True), (LARGE + 1, False)])
def test_calls_of_a_large_job_are_not_told_of(size: int, is_told: bool, job: LinkedJob) -> None:
    _make(job.rank(1, size=size), BARRIER)
    rings = job.rings[0]
    rings.jobs()
    assert len(rings.held_rings()) == 1
    assert (told_stretches.ToldStretches().look(rings.held_rings()) is not None) is is_told


def _communicators_told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the communicators are added that watchers tell of."""
    sent: list[str] = []
    real = WatcherLink.send

    def send(self: WatcherLink, content: bytes) -> bool:
        message = host_messages.decode_upward(content)
        if isinstance(message, host_messages.Stretches):
            sent.extend(each.communicator for each in message.stretches)
            sent.extend(each.communicator for each in message.messages)
        return real(self, content)

    monkeypatch.setattr(WatcherLink, "send", send)
    return sent
