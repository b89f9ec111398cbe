"""The second question: was there one moment at which everything held that is concluded from? Pure, and without clocks.

A watcher numbers its reports, and remembers the marks of the ranks that it has called still. The head asks each host:
is everything still as in your report n? A watcher says yes only if n is its last report and no mark has changed. Marks
only grow, so an equal mark says that nothing happened in between: each state held from before its report was sent
until its answer was given. If all hosts say yes, all states held together at the moment at which the head asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

_Host = TypeVar("_Host", bound=Hashable)
_Mark = tuple[int, ...]
_Rank = int


class ToldMarks:
    """What a watcher has told: the number of its last report, and the marks of ranks that it called still."""

    def __init__(self) -> None:
        self.number = 0
        self._marks: dict[_Rank, _Mark] = {}

    def has_told(self, rank: _Rank, mark: _Mark) -> bool:
        """Say whether this rank was called still with this mark."""
        return self._marks.get(rank) == mark

    def is_told_still(self, rank: _Rank) -> bool:
        """Say whether this rank was called still."""
        return rank in self._marks

    def tell_still(self, rank: _Rank, mark: _Mark) -> None:
        """The next report calls a rank still, which had this mark before it was copied."""
        self._marks[rank] = mark

    def tell_moves(self, rank: _Rank) -> None:
        """The next report says that a rank moves."""
        self._marks.pop(rank, None)

    def forget(self) -> None:
        """The next report is whole."""
        self._marks.clear()

    def next_number(self) -> int:
        """Number the next report."""
        self.number += 1
        return self.number

    def is_same(self, number: int, marks: Mapping[_Rank, _Mark]) -> bool:
        """Answer the second question, with the marks that ranks have now."""
        return number == self.number and all(marks.get(rank) == mark for rank, mark in self._marks.items())


class TakenReports(Generic[_Host]):
    """What the head has taken in of each host, and the question that it asks."""

    def __init__(self) -> None:
        self.numbers: dict[_Host, int] = {}  # of the last report that was taken in
        self.question = 0
        self._asked: dict[_Host, int] = {}
        self._yes: set[_Host] = set()
        self._no: set[_Host] = set()

    def takes(self, host: _Host, number: int, *, is_whole: bool) -> bool:
        """Say whether a report is to be taken in: it follows the last one, or holds everything."""
        last = self.numbers.get(host, 0)
        if number <= last or (number != last + 1 and not is_whole):
            return False
        self.numbers[host] = number
        return True

    def drop(self, host: _Host) -> None:
        """Nothing of this host is believed any more, until it reports everything."""
        self.numbers.pop(host, None)

    def ask(self, hosts: set[_Host]) -> dict[_Host, int]:
        """Begin a question; return of which report each host is asked."""
        self.question += 1
        self._asked = {host: self.numbers[host] for host in hosts if host in self.numbers}
        self._yes, self._no = set(), set()
        return dict(self._asked)

    def note_answer(self, host: _Host, question: int, *, is_same: bool) -> None:
        """Take an answer in; answers to questions before this one count for nothing."""
        if question == self.question and host in self._asked:
            (self._yes if is_same else self._no).add(host)

    def silent(self) -> set[_Host]:
        """Return the hosts that have not answered."""
        return self._asked.keys() - self._yes - self._no

    def has_no(self) -> bool:
        """Say whether a host has said no."""
        return bool(self._no)

    def is_settled(self) -> bool:
        """Say whether all hosts have said yes, of reports that are still the last ones that were taken in."""
        return (
            not self._no
            and self._yes == self._asked.keys()
            and all(self.numbers.get(host) == number for host, number in self._asked.items())
        )
