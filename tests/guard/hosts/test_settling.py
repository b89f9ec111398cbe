"""The second question: whatever is lost, repeated or late, it is never answered by yes if a rank has moved."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.guard.hosts.settling import TakenReports, ToldMarks

_HOSTS, _RANKS = range(2), range(2)


@dataclass
class _Message:
    host: int
    kind: str
    number: int = 0
    is_whole: bool = False
    still: dict[int, int] = field(default_factory=dict)
    moves: tuple[int, ...] = ()
    question: int = 0
    is_same: bool = False


@dataclass
class _Host:
    """A watcher and its ranks: a mark says how often a rank has moved."""

    marks: dict[int, int] = field(default_factory=lambda: dict.fromkeys(_RANKS, 0))
    told: ToldMarks = field(default_factory=ToldMarks)
    is_whole: bool = True

    def now(self) -> dict[int, tuple[int, ...]]:
        return {rank: (mark,) for rank, mark in self.marks.items()}


class _Job:
    """All hosts, a head, and a network that loses, repeats and mixes up what it carries."""

    def __init__(self) -> None:
        self.hosts = {host: _Host() for host in _HOSTS}
        self.taken: TakenReports[int] = TakenReports()
        self.believed: dict[int, dict[int, int]] = {host: {} for host in _HOSTS}  # ranks that are still, by their mark
        self.up: deque[_Message] = deque()
        self.down: deque[_Message] = deque()
        self.asked_when: dict[int, dict[int, int]] | None = None  # the true marks when the head asked
        self.asked_of: dict[int, dict[int, int]] = {}

    def move(self, host: int, rank: int) -> None:
        self.hosts[host].marks[rank] += 1

    def report(self, host: int, still: tuple[int, ...]) -> None:
        watcher = self.hosts[host]
        message = _Message(host, "report", is_whole=watcher.is_whole)
        if watcher.is_whole:
            watcher.told.forget()
        moved = []
        for rank, mark in watcher.now().items():
            if rank in still:
                watcher.told.tell_still(rank, mark)
                message.still[rank] = mark[0]
            elif watcher.told.is_told_still(rank) and not watcher.told.has_told(rank, mark):
                watcher.told.tell_moves(rank)
                moved.append(rank)
        message.moves, message.number = tuple(moved), watcher.told.next_number()
        watcher.is_whole = False
        self.up.append(message)

    def tell_everything(self, host: int) -> None:
        self.hosts[host].is_whole = True

    def ask(self) -> None:
        self.asked_when = {host: dict(watcher.marks) for host, watcher in self.hosts.items()}
        self.asked_of = {host: dict(ranks) for host, ranks in self.believed.items()}
        for host, number in self.taken.ask(set(_HOSTS)).items():
            self.down.append(_Message(host, "ask", number=number, question=self.taken.question))

    def deliver_up(self, at: int, *, is_kept: bool) -> None:
        message = self._pick(self.up, at, is_kept=is_kept)
        if message is None:
            return
        if message.kind == "answer":
            self.taken.note_answer(message.host, message.question, is_same=message.is_same)
        elif self.taken.takes(message.host, message.number, is_whole=message.is_whole):
            known = {} if message.is_whole else self.believed[message.host]
            self.believed[message.host] = {
                rank: mark for rank, mark in (known | message.still).items() if rank not in message.moves
            }

    def deliver_down(self, at: int, *, is_kept: bool) -> None:
        message = self._pick(self.down, at, is_kept=is_kept)
        if message is not None:
            watcher = self.hosts[message.host]
            same = watcher.told.is_same(message.number, watcher.now())
            self.up.append(_Message(message.host, "answer", question=message.question, is_same=same))

    def lose(self, at: int) -> None:
        self._pick(self.up, at, is_kept=False)

    @staticmethod
    def _pick(queue: deque[_Message], at: int, *, is_kept: bool) -> _Message | None:
        if not queue:
            return None
        queue.rotate(-(at % len(queue)))
        message = queue[0]
        if not is_kept:
            queue.popleft()
        return message

    def check(self) -> None:
        """If all have said yes: what the head believed when it asked was true of all hosts at that moment."""
        if self.asked_when is None or not self.taken.is_settled():
            return
        for host, ranks in self.asked_of.items():
            for rank, mark in ranks.items():
                if host in self.taken.numbers:
                    assert self.asked_when[host][rank] == mark


_ACTIONS = st.one_of(
    st.tuples(st.just("move"), st.sampled_from(_HOSTS), st.sampled_from(_RANKS)),
    st.tuples(st.just("report"), st.sampled_from(_HOSTS), st.sets(st.sampled_from(_RANKS)).map(tuple)),
    st.tuples(st.just("tell_everything"), st.sampled_from(_HOSTS)),
    st.tuples(st.just("ask")),
    st.tuples(st.just("deliver_up"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("deliver_down"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("lose"), st.integers(0, 5)),
)


@given(st.lists(_ACTIONS, max_size=60))
@settings(max_examples=400, deadline=None)
def test_it_is_never_settled_if_a_rank_has_moved(actions: list[tuple[object, ...]]) -> None:
    job = _Job()
    for name, *arguments in actions:
        if name in ("deliver_up", "deliver_down"):
            getattr(job, str(name))(arguments[0], is_kept=arguments[1])
        else:
            getattr(job, str(name))(*arguments)
        job.check()


def test_a_job_that_stands_still_is_settled() -> None:
    """The property above would hold of a question that is always answered by no."""
    job = _Job()
    for host in _HOSTS:
        job.report(host, tuple(_RANKS))
        job.deliver_up(0, is_kept=False)
    job.ask()
    for _ in _HOSTS:
        job.deliver_down(0, is_kept=False)
        job.deliver_up(0, is_kept=False)
    assert job.taken.is_settled()


def test_a_gap_is_filled_by_a_report_of_everything() -> None:
    job = _Job()
    job.report(0, ())
    job.lose(0)
    job.report(0, (0,))
    job.deliver_up(0, is_kept=False)
    assert job.taken.numbers == {}
    job.tell_everything(0)
    job.report(0, (0, 1))
    job.deliver_up(0, is_kept=False)
    assert job.taken.numbers == {0: 3}
    assert job.believed[0] == {0: 0, 1: 0}


def test_a_rank_that_moved_before_the_answer_makes_it_no() -> None:
    job = _Job()
    job.report(0, (0,))
    job.deliver_up(0, is_kept=False)
    job.ask()
    job.move(0, 0)
    job.deliver_down(0, is_kept=False)
    job.deliver_up(0, is_kept=False)
    assert not job.taken.is_settled()
