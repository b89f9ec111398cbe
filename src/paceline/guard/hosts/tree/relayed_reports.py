"""What a relay makes of the reports of its watchers: one numbered report, and one answer to the second question.

States of ranks are put together, since those of most ranks are equal. Whatever else a watcher reports is passed on as
it is. A relay says yes to the second question only if all its watchers do, of reports that its last one was made of.
Pure: messages in, messages out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.guard.hosts.host_messages import (
    MOST_RINGS,
    AlikeRanks,
    Answer,
    Ask,
    Bye,
    Passed,
    Report,
    WorldReport,
    encode,
)
from paceline.guard.hosts.settling import TakenReports

_MOST_BYTES = 1 << 20  # of what is passed on in one report
_Range = tuple[int, int, int]


@dataclass(slots=True)
class _Collected:
    """What has not been told to the head yet."""

    passed: list[Passed] = field(default_factory=list)
    lost: list[bytes] = field(default_factory=list)
    states: dict[tuple[str, int], dict[int, list[_Range]]] = field(default_factory=dict)  # world and size -> state
    tellers: set[bytes] = field(default_factory=set)  # whose states these are
    num_ranges: int = 0  # of ranks, in all states
    num_bytes: int = 0  # of what is passed on

    def __bool__(self) -> bool:
        return bool(self.passed or self.lost or self.states)

    def as_report(self, number: int, *, is_whole: bool) -> Report:
        worlds = [
            WorldReport(world, size, [AlikeRanks(state, joined(ranges)) for state, ranges in states.items()])
            for (world, size), states in self.states.items()
        ]
        return Report(number, is_whole, [], [], [], worlds, self.passed, self.lost)


class RelayedReports:
    """The watchers of one relay.

    Attributes:
        number: Of the last report to the head.
        taken: What was taken in of each watcher.
    """

    def __init__(self) -> None:
        self.number = 0
        self.taken: TakenReports[bytes] = TakenReports()
        self._watchers: set[bytes] = set()  # that have not left
        self._told: set[bytes] = set()  # of which something was told since the last report of everything
        self._recalled: dict[bytes, int] = {}  # the last request for calls that each has answered
        self._collected = _Collected()
        self._ready: list[Report] = []  # reports that are numbered, in their order
        self._is_whole = True
        self._asked: Ask | None = None  # by the head, and not answered yet

    def forget(self) -> None:
        """Begin again, because the head has missed something: watchers are asked to tell everything."""
        self.taken.numbers.clear()
        self._told.clear()
        self._collected, self._ready = _Collected(), []
        self._is_whole = True

    def add(self, watcher: bytes) -> None:
        """A watcher begins: nothing of it is believed until it has told everything."""
        self._watchers.add(watcher)
        self.taken.drop(watcher)

    def lose(self, watcher: bytes) -> None:
        """A watcher is not heard of."""
        self.taken.drop(watcher)
        if watcher in self._told:
            self._told.discard(watcher)
            self._flush_if(bool(self._collected.passed or self._collected.states))  # those are older
            self._collected.lost.append(watcher)

    def take(self, watcher: bytes, report: Report) -> None:
        """Take in a report of a watcher."""
        if not self.taken.takes(watcher, report.number, is_whole=report.is_whole):
            return
        self._told.add(watcher)
        is_answer = report.recalled != self._recalled.get(watcher, 0)
        self._recalled[watcher] = report.recalled
        if report.is_whole or report.rings or report.notes or report.problems or is_answer:
            self._pass_on(watcher, report)
            return
        num_ranges = sum(len(alike.ranks) for world in report.worlds for alike in world.alike)
        self._flush_if(watcher in self._collected.tellers or self._collected.num_ranges + num_ranges > MOST_RINGS)
        self._collected.tellers.add(watcher)
        self._collected.num_ranges += num_ranges
        for world in report.worlds:
            states = self._collected.states.setdefault((world.world, world.size), {})
            for alike in world.alike:
                states.setdefault(alike.digest, []).extend(alike.ranks)

    def leave(self, watcher: bytes, bye: Bye) -> None:
        """A watcher leaves; if not everything that it told has come, it is one that is not heard of."""
        if bye.number != self.taken.numbers.get(watcher):
            self.lose(watcher)
            return
        self._watchers.discard(watcher)
        self.taken.drop(watcher)
        self._recalled.pop(watcher, None)
        self._pass_on(watcher, bye)

    def _pass_on(self, watcher: bytes, message: Report | Bye) -> None:
        """Collect what a watcher has said; what is passed on counts as older than states."""
        content, held = encode(message), self._collected
        is_full = len(held.passed) >= MOST_RINGS or held.num_bytes + len(content) > _MOST_BYTES
        self._flush_if(bool(held.states or (held.passed and is_full)))
        self._collected.passed.append(Passed(watcher, content))
        self._collected.num_bytes += len(content)

    def reports(self) -> list[Report]:
        """Return what is to be told to the head now, and take it to have been told."""
        self._flush_if(bool(self._collected) or self._is_whole)
        ready, self._ready = self._ready, []
        return ready

    def _flush_if(self, is_so: bool) -> None:
        if is_so:
            self.number += 1
            self._ready.append(self._collected.as_report(self.number, is_whole=self._is_whole))
            self._collected, self._is_whole = _Collected(), False

    # the second question

    def ask(self, ask: Ask) -> dict[bytes, Ask]:
        """The head asks; return what each watcher is asked. There may be nobody to ask: then `answer` knows already."""
        self._asked = ask
        asked = self.taken.ask(set(self._watchers))
        question = self.taken.question
        return {watcher: Ask(question, number, ask.num_calls) for watcher, number in asked.items()}

    def note_answer(self, watcher: bytes, answer: Answer) -> None:
        """Take in what a watcher answers."""
        self.taken.note_answer(watcher, answer.question, is_same=answer.is_same)

    def answer(self) -> Answer | None:
        """Return the answer to the head, once it is certain."""
        if self._asked is None:
            return None
        is_current = (
            self._asked.number == self.number
            and not self._is_whole
            and not self._collected
            and not self._ready
            and self._told <= self.taken.numbers.keys() | self._gone()
        )
        if is_current and self.taken.silent() and not self.taken.has_no():
            return None
        answer = Answer(self._asked.question, is_current and self.taken.is_settled())
        self._asked = None
        return answer

    def _gone(self) -> set[bytes]:
        return self._told - self._watchers


def joined(ranges: list[_Range]) -> list[_Range]:
    """Return ranges of ranks with those joined that follow each other.

    >>> joined([(8, 16, 1), (0, 8, 1), (20, 30, 2)])
    [(0, 16, 1), (20, 30, 2)]
    """
    found: list[_Range] = []
    for begin, end, step in sorted(ranges):
        if found and step == found[-1][2] == 1 and begin == found[-1][1]:
            found[-1] = found[-1][0], end, 1
        else:
            found.append((begin, end, step))
    return found
