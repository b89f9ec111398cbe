"""Messages between hosts that do not fit are found although both sides go on; those that fit are never named."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guard.hosts.linked_job import LinkedJob, LinkedRank
from tests.guard.hosts.stretches.passed_findings import PassedFindings

from paceline.guard.hosts.host_messages import Stretches, decode_upward
from paceline.guard.hosts.link import WatcherLink
from paceline.guard.hosts.stretches import told_stretches
from paceline.guard.hosts.stretches.call_sums import RECORD
from paceline.guard.hosts.stretches.message_sides import MOST_TOLD, sides_told
from paceline.guard.hosts.stretches.met_messages import MOST_SIDES, MetMessages
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import message_fits, pack_size
from paceline.guard.shared_memory.operations import BY_NAME, DTYPE_CODES

_F4, _F8 = DTYPE_CODES["f4"], DTYPE_CODES["f8"]
_COMMUNICATOR = "abc.0.mpi-world"
_Size = tuple[int, int]  # element type and bytes
_Records = numpy.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_stretches, "TELL_SECONDS", 0.02)


def _send(ranks: list[LinkedRank], source: int, target: int, nth: int, sent: _Size, received: _Size) -> list[int]:
    """Let a message pass; return the records of both sides."""
    numbers = []
    for rank, name, peer, (dtype, num_bytes) in (
        (ranks[source], "Send", target, sent),
        (ranks[target], "Recv", source, received),
    ):
        number = rank.recorder.begin_message(
            rank.world.index, BY_NAME[name].code, peer=peer, tag=5, message_number=nth, dtype=dtype,
            num_bytes=num_bytes, depth=1,
        )  # fmt: skip
        rank.recorder.unblock(number)
        numbers.append(number)
    return numbers


def _ranks(job: LinkedJob) -> list[LinkedRank]:
    ranks = [job.rank(number) for number in range(3)]
    job.until(lambda: job.num_seen() == 3)
    return ranks


@pytest.mark.parametrize(("source", "target"), [(1, 2), (0, 2), (2, 0)])
def test_another_element_type_is_found_although_both_go_on(
    source: int, target: int, job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, found, numbers = _ranks(job), PassedFindings(job, monkeypatch), itertools.count(1)

    def goes_on() -> bool:
        for _ in range(50):
            _send(ranks, source, target, next(numbers), (_F4, 32), (_F8, 32))
        return found.look()

    job.until(goes_on)
    (finding,) = found.findings
    assert (finding.kind.value, finding.ranks, str(finding.field)) == (
        "message",
        tuple(sorted((source, target))),
        "dtype",
    )
    assert f"rank {source} sends" in finding.summary
    assert f"rank {target} receives" in finding.summary


def test_a_message_that_differs_once_is_found_among_few(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    for nth in range(1, 20):
        _send(ranks, 1, 2, nth, (_F4, 32), (_F8 if nth == 7 else _F4, 32))
    job.until(found.look)
    assert found.findings[0].ranks == (1, 2)


@pytest.mark.parametrize("doubt", ["failed", "uncertain", "lost"])
def test_messages_whose_numbers_are_not_certain_are_not_compared(
    doubt: str, job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are looked at, because a host may not know that when it tells of them."""
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    for nth in range(1, 5):
        _, received = _send(ranks, 1, 2, nth, (_F4, 32), (_F8, 32))

    def has_been_asked() -> bool:
        assert not found.look()
        return bool(found.recalls)

    job.until(has_been_asked)
    if doubt == "failed":
        for number in range(received + 1):
            ranks[2].recorder.fail(number)
    elif doubt == "uncertain":
        ranks[2].recorder.remarks.doubt_message()
    else:
        ranks[1].recorder.ring.lose(layout.LOST_MESSAGES)

    def is_over() -> bool:
        assert not found.look()
        return job.head._passed._question is None

    job.until(is_over)


def test_messages_that_fit_are_not_asked_for_and_those_of_one_host_not_told(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, found, told = _ranks(job), PassedFindings(job, monkeypatch), list[Stretches]()
    real = WatcherLink.send

    def send(self: WatcherLink, content: bytes) -> bool:
        message = decode_upward(content)
        told.extend([message] if isinstance(message, Stretches) else [])
        return real(self, content)

    monkeypatch.setattr(WatcherLink, "send", send)
    pairs = [((_F4, 32), (_F4, 64)), ((0, 8), (_F8, 8)), ((_F4, -1), (_F4, 4)), ((_F4, 0), (_F8, 8))]
    numbers = itertools.count(1)

    def goes_on() -> bool:
        nth = next(numbers)
        _send(ranks, 1, 2, nth, *pairs[nth % len(pairs)])
        _send(ranks, 1, 1, nth, (_F4, 4), (_F8, 8))
        _send(ranks, 2, 0, nth, (0, -1), (0, -1))  # objects
        assert not found.look()
        return len(told) > 30

    job.until(goes_on)
    assert not found.recalls
    messages = [message for each in told for message in each.messages]
    assert {message.rank for message in messages} == {1, 2}
    assert not any(message.received for message in messages if message.rank == 1)
    assert not any(message.sent for message in messages if message.rank == 2)


# values


def _record(name: str, **fields: int) -> numpy.ndarray:
    record = numpy.zeros(1, dtype=RECORD)
    record["operation"] = BY_NAME[name].code
    for field, value in fields.items():
        record[field] = value
    return record


_MESSAGES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([_F4, _F8]), st.integers(0, 9)), max_size=200)


@given(_MESSAGES, st.booleans())
def test_both_sides_compute_the_same_keys_and_choose_the_same_messages(
    messages: list[tuple[int, int, int]], is_exchanged: bool
) -> None:
    """Member 0 sends to member 1; the other half of an exchange goes elsewhere."""
    sent, received = [], []
    for number, (tag, dtype, num_bytes) in enumerate(messages, start=1):
        size = {"dtype": dtype, "num_bytes": num_bytes}
        if is_exchanged:
            sent.append(_record("Sendrecv", peer=1, tag=tag, message_number=number, source=-1, **size))
            incoming = {"source": 0, "source_tag": tag, "source_number": number}
            incoming |= {"source_dtype": dtype, "source_bytes": num_bytes}
            received.append(_record("Sendrecv", peer=-1, **incoming))
        else:
            sent.append(_record("Isend", peer=1, tag=tag, message_number=number, **size))
            received.append(_record("Irecv", peer=0, tag=tag, message_number=number, **size))
    empty = numpy.zeros(0, dtype=RECORD)
    by_sender, nothing = sides_told(numpy.concatenate([empty, *sent]), 0, numpy.array([False, True]))
    also_nothing, by_receiver = sides_told(numpy.concatenate([empty, *received]), 1, numpy.array([True, False]))
    assert (len(nothing), len(also_nothing)) == (0, 0)
    assert by_sender.tolist() == by_receiver.tolist()
    assert len(by_sender) <= MOST_TOLD
    if len(messages) <= MOST_TOLD:
        assert [size for _, size in by_sender.tolist()] == [pack_size(dtype, size) for _, dtype, size in messages]
    fewer, _ = sides_told(numpy.concatenate([empty, *sent[: len(sent) // 2]]), 0, numpy.array([False, True]))
    first_half = set(sides_told(numpy.concatenate([empty, *sent]), 0, numpy.array([False, True]))[0][:, 0].tolist())
    assert len(messages) <= MOST_TOLD or first_half & _keys(sent[: len(sent) // 2]) <= set(fewer[:, 0].tolist())


def _keys(records: list[numpy.ndarray]) -> set[int]:
    """Return the keys of all messages, one by one."""
    elsewhere = numpy.array([False, True])
    return {int(sides_told(record, 0, elsewhere)[0][0, 0]) for record in records}


_SIDES = st.lists(
    st.tuples(st.integers(0, 3), st.booleans(), st.sampled_from([(_F4, 4), (_F8, 8), (_F4, 8), (0, -1)])), max_size=30
)


@given(_SIDES)
def test_only_two_sides_of_one_message_that_do_not_fit_are_suspected(sides: list[tuple[int, bool, _Size]]) -> None:
    met: MetMessages[int] = MetMessages()
    last: dict[tuple[int, bool], int] = {}
    for key, sends, size in sides:
        packed = pack_size(*size)
        found = met.take(int(sends), _COMMUNICATOR, 10 if sends else 20, key, packed, sends=sends)
        other = last.pop((key, not sends), None)
        if other is None:
            last[key, sends] = packed
            assert found is None
        else:
            fits = message_fits(packed, other) if sends else message_fits(other, packed)
            assert (found is None) == fits
            if found is not None:
                assert (found.sender, found.receiver, dict(found.hosts)) == (10, 20, {10: 1, 20: 0})


def test_sides_that_wait_for_others_have_a_limit() -> None:
    met: MetMessages[int] = MetMessages()
    for key in range(MOST_SIDES + 100):
        met.take(0, _COMMUNICATOR, 1, key, 4, sends=True)
    assert len(met._sides) == MOST_SIDES
