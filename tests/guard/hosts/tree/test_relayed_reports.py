"""The second question through a relay: whatever is lost, repeated or late, it is never yes if a rank has moved."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.guard.hosts.host_messages import (
    MOST_BYTES,
    MOST_RINGS,
    AlikeRanks,
    Answer,
    Ask,
    Bye,
    KernelFacts,
    Passed,
    Report,
    RingReport,
    WorldReport,
    decode_upward,
    encode,
)
from paceline.guard.hosts.settling import TakenReports, ToldMarks
from paceline.guard.hosts.tree.relayed_reports import RelayedReports

_WATCHERS = (b"a", b"b")  # each with one rank, whose state is a number that grows when it moves
_RANKS = {b"a": 0, b"b": 1}
_HEAD = "relay"
_Item = TypeVar("_Item")


class _Job:
    """Watchers, a relay, a head, and networks between them that lose, repeat and mix up what they carry."""

    def __init__(self) -> None:
        self.states = dict.fromkeys(_WATCHERS, 1)
        self.told = {watcher: ToldMarks() for watcher in _WATCHERS}
        self.is_whole = dict.fromkeys(_WATCHERS, True)
        self.relay = RelayedReports()
        self.head: TakenReports[str] = TakenReports()
        self.believed: dict[int, int] = {}  # rank -> state, as the head has it
        self.asked_when: dict[int, int] = {}  # the true states when the head asked
        self.asked_of: dict[int, int] = {}  # and what it believed
        self.to_relay: deque[tuple[bytes, Report | Answer]] = deque()
        self.to_head: deque[Report | Answer] = deque()
        self.to_watcher: deque[tuple[bytes, Ask]] = deque()
        self.to_relay_down: deque[Ask] = deque()

    def hello(self, watcher: bytes) -> None:
        self.relay.add(watcher)
        self.is_whole[watcher] = True

    def lose(self, watcher: bytes) -> None:
        self.relay.lose(watcher)

    def forget(self) -> None:
        self.relay.forget()

    def move(self, watcher: bytes) -> None:
        self.states[watcher] += 1

    def report(self, watcher: bytes) -> None:
        told, state = self.told[watcher], self.states[watcher]
        if self.is_whole[watcher]:
            told.forget()
        told.tell_still(_RANKS[watcher], (state,))
        rank = _RANKS[watcher]
        worlds = [WorldReport("w", 2, [AlikeRanks(state, [(rank, rank + 1, 1)])])]
        self.to_relay.append((watcher, Report(told.next_number(), self.is_whole[watcher], [], [], [], worlds)))
        self.is_whole[watcher] = False

    def tell(self) -> None:
        self.to_head.extend(self.relay.reports())
        answer = self.relay.answer()
        if answer is not None:
            self.to_head.append(answer)

    def ask(self) -> None:
        self.asked_when = {_RANKS[watcher]: state for watcher, state in self.states.items()}
        self.asked_of = dict(self.believed)
        for number in self.head.ask({_HEAD}).values():
            self.to_relay_down.append(Ask(self.head.question, number, 0))

    def carry_to_relay(self, at: int, *, is_kept: bool) -> None:
        found = _pick(self.to_relay, at, is_kept=is_kept)
        if found is not None and isinstance(found[1], Report):
            self.relay.take(found[0], found[1])
        elif found is not None and isinstance(found[1], Answer):
            self.relay.note_answer(found[0], found[1])

    def carry_to_head(self, at: int, *, is_kept: bool) -> None:
        found = _pick(self.to_head, at, is_kept=is_kept)
        if isinstance(found, Answer):
            self.head.note_answer(_HEAD, found.question, is_same=found.is_same)
        elif found is not None and self.head.takes(_HEAD, found.number, is_whole=found.is_whole):
            if found.is_whole:
                self.believed.clear()
            for watcher in found.lost:
                self.believed.pop(_RANKS[watcher], None)
            for passed in found.passed:
                report = decode_upward(passed.content)
                assert isinstance(report, Report)
                self._believe(report)
            self._believe(found)

    def _believe(self, report: Report) -> None:
        for world in report.worlds:
            for alike in world.alike:
                self.believed |= {rank: alike.digest for run in alike.ranks for rank in range(*run)}

    def carry_down(self, at: int, *, is_kept: bool) -> None:
        ask = _pick(self.to_relay_down, at, is_kept=is_kept)
        if ask is not None:
            self.to_watcher.extend(self.relay.ask(ask).items())

    def carry_to_watcher(self, at: int, *, is_kept: bool) -> None:
        found = _pick(self.to_watcher, at, is_kept=is_kept)
        if found is not None:
            watcher, ask = found
            same = self.told[watcher].is_same(ask.number, {_RANKS[watcher]: (self.states[watcher],)})
            self.to_relay.append((watcher, Answer(ask.question, same)))

    def check(self) -> None:
        """If the relay has said yes: what the head believed when it asked was true at that moment."""
        if self.head.question and self.head.is_settled() and _HEAD in self.head.numbers:
            assert self.asked_of == {rank: self.asked_when[rank] for rank in self.asked_of}


def _pick(queue: deque[_Item], at: int, *, is_kept: bool) -> _Item | None:
    if not queue:
        return None
    queue.rotate(-(at % len(queue)))
    return queue[0] if is_kept else queue.popleft()


_WATCHER = st.sampled_from(_WATCHERS)
_CARRIED = st.sampled_from(["carry_to_relay", "carry_to_head", "carry_down", "carry_to_watcher"])
_ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["move", "report", "report", "report"]), _WATCHER),
    st.tuples(_CARRIED, st.just(0) | st.integers(0, 3), st.sampled_from([False, False, False, True])),
    st.tuples(_CARRIED, st.just(0), st.just(False)),
    st.tuples(st.sampled_from(["tell", "ask"])),
    st.tuples(st.sampled_from(["hello", "lose"]), _WATCHER),
    st.tuples(st.just("forget")),
)


def _run(job: _Job, actions: list[tuple[object, ...]]) -> None:
    for name, *arguments in actions:
        if str(name).startswith("carry"):
            getattr(job, str(name))(arguments[0], is_kept=arguments[1])
        else:
            getattr(job, str(name))(*arguments)
        job.check()


_BEGIN: list[tuple[object, ...]] = [
    ("hello", b"a"), ("hello", b"b"), ("report", b"a"), ("report", b"b"), ("carry_to_relay", 0, False),
    ("carry_to_relay", 0, False), ("tell",), ("carry_to_head", 0, False),
]  # fmt: skip
_QUESTION: list[tuple[object, ...]] = [
    ("ask",), ("carry_down", 0, False), ("carry_to_watcher", 0, False), ("carry_to_watcher", 0, False),
    ("carry_to_relay", 0, False), ("carry_to_relay", 0, False), ("tell",), ("carry_to_head", 0, False),
]  # fmt: skip


@given(st.booleans(), st.lists(_ACTIONS, max_size=40), st.booleans())
@settings(max_examples=400, deadline=None)
def test_a_relay_never_says_yes_if_a_rank_has_moved(
    begins: bool, actions: list[tuple[object, ...]], asks: bool
) -> None:
    _run(_Job(), [*(_BEGIN if begins else []), *actions, *(_QUESTION if asks else [])])


def test_a_relay_says_yes_if_all_stand_still() -> None:
    """The property above would hold of a relay that always says no."""
    job = _Job()
    _run(job, [*_BEGIN, *_QUESTION])
    assert job.head.is_settled()
    assert job.believed == {0: 1, 1: 1}


def test_a_relay_says_no_after_a_move_and_until_a_watcher_has_told_everything() -> None:
    for odd in (("move", b"a"), ("hello", b"b"), ("lose", b"a"), ("forget",)):
        job = _Job()
        _run(job, [*_BEGIN, odd, *_QUESTION])
        assert not job.head.is_settled(), odd


def test_equal_states_are_told_once() -> None:
    job = _Job()
    _run(job, [*_BEGIN, ("report", b"b"), ("report", b"a"), *[("carry_to_relay", 0, False)] * 2])
    (report,) = job.relay.reports()
    assert report.worlds == [WorldReport("w", 2, [AlikeRanks(1, [(0, 2, 1)])])]
    assert not report.passed


def test_a_watcher_that_leaves_before_all_has_come_that_it_told_is_not_waited_for() -> None:
    job = _Job()
    _run(job, [*_BEGIN])
    job.relay.leave(b"a", Bye(number=9))
    (report,) = job.relay.reports()
    assert report.lost == [b"a"]
    assert list(job.relay.ask(Ask(1, report.number, 0))) == [b"b"]


def test_a_report_that_only_answers_a_request_for_calls_is_passed_on_once() -> None:
    """The head waits for that answer, also if there are no such calls any more. States after it are put together."""
    job = _Job()
    _run(job, _BEGIN)
    number = job.told[b"a"].next_number()
    job.relay.take(b"a", Report(number, False, [], [], [], recalled=7))
    (report,) = job.relay.reports()
    (passed,) = report.passed
    answer = decode_upward(passed.content)
    assert isinstance(answer, Report)
    assert (passed.link, answer.recalled) == (b"a", 7)
    states = [WorldReport("w", 2, [AlikeRanks(3, [(0, 1, 1)])])]
    job.relay.take(b"a", Report(number + 1, False, [], [], [], states, recalled=7))
    (report,) = job.relay.reports()
    assert (report.worlds, report.passed) == (states, [])


def _with_ring(number: int, num_bytes: int) -> Report:
    ring = RingReport(1, 1, [], bytes(num_bytes), KernelFacts())
    return Report(number, number == 1, [ring], [], [])


def test_no_report_is_longer_than_a_message_may_be() -> None:
    """The connection would be closed, and everything told again, over and over."""
    relay = RelayedReports()
    relay.take(b"a", _with_ring(1, 1_000_000))
    relay.take(b"b", _with_ring(1, MOST_BYTES - 1000))
    reports = relay.reports()
    assert [[passed.link for passed in report.passed] for report in reports] == [[b"a"], [b"b"]]
    assert all(len(encode(report)) <= MOST_BYTES for report in reports)


def test_many_reports_are_told_in_several() -> None:
    relay = RelayedReports()
    for number in range(1, MOST_RINGS + 2):
        relay.take(b"a", _with_ring(number, 1))
    found: list[Passed] = []
    for report in relay.reports():
        decoded = decode_upward(encode(report))
        assert isinstance(decoded, Report)
        found += decoded.passed
    assert len(found) == MOST_RINGS + 1
