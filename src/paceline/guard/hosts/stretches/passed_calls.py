"""Calls of several hosts that differ although nobody waits: from a difference of sums to the calls themselves.

Where sums differ, the head first has the calls of one rank for each sum sent, and compares them as those of one machine
are. Only if they differ are the calls of all members sent, so that the finding can name them. Calls that are not in a
ring any more are not compared. If the calls fit after all, the communicator is left alone for a while.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from paceline.guard.hosts.host_messages import MOST_RINGS, MessageReport, Recall, Stretches, StretchReport
from paceline.guard.hosts.stretches.compared_stretches import MOST_COMMUNICATORS, ComparedStretches, Suspicion
from paceline.guard.hosts.stretches.met_messages import MessageSuspicion, MetMessages
from paceline.guard.hosts.stretches.stretch import Stretch, Sums, unpack_sums
from paceline.guard.hosts.stretches.told_stretches import ToldStretches
from paceline.guard.observe.local_rings import HeldRing
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.number_ranges import from_ranges
from paceline.guard.verdict.rules.mismatch import compare
from paceline.guard.verdict.rules.passed import MessagePair, Passed
from paceline.guard.verdict.snapshot import Call, Position

_RECALL_SECONDS = 2.0  # for hosts to send calls
_MOST_CALLS, _MOST_OF_HOST = layout.NUM_SLOTS - 96, 65_536  # that are asked for: of one rank, and of one host
_PAUSE_SECONDS, _LONGEST_PAUSE = 1.0, 64.0  # before calls of a communicator are asked for again
_MOST_SUSPICIONS = 16
HERE = -1  # the number of the head's own host
_HostNumber = int
_Suspicion = Suspicion[_HostNumber] | MessageSuspicion[_HostNumber]
_SIDE = struct.Struct("<QQ")  # key and size of a message


@dataclass(slots=True)
class _Question:
    """Calls that were asked for."""

    number: int
    suspicion: _Suspicion
    ranks: frozenset[int]
    silent: set[_HostNumber]  # hosts that have not answered
    until: float


@dataclass(slots=True)
class _Pause:
    """For how long a communicator is left alone."""

    seconds: float
    until: float = 0.0


class PassedCalls:
    """What the head makes of the stretches of all hosts.

    Args:
        send: Sends a request for calls to a host.
    """

    def __init__(self, send: Callable[[_HostNumber, Recall], None]) -> None:
        self._send = send
        self._compared: ComparedStretches[_HostNumber] = ComparedStretches()
        self._met: MetMessages[_HostNumber] = MetMessages()
        self._own = ToldStretches()
        self._question: _Question | None = None
        self._suspicions: deque[_Suspicion] = deque(maxlen=_MOST_SUSPICIONS)  # that were not asked about
        self._num_questions = time.monotonic_ns()  # above those of a head before us, which hosts may still answer
        self._pauses: dict[tuple[str, str], _Pause] = {}

    # what comes in

    def take(self, host: _HostNumber, told: Stretches) -> None:
        """Take in what a host tells.

        Raises:
            ValueError: It is not what a host could tell.
        """
        for report in told.stretches:
            stretch, sums = Stretch(report.level, report.number), list(_told_sums(report))
            for suspicion in self._compared.take(host, report.communicator, report.num_members, stretch, sums):
                self._suspect(suspicion)
        for message in told.messages:
            for key, size, sends in _told_sides(message):
                misfit = self._met.take(host, message.communicator, message.rank, key, size, sends=sends)
                if misfit is not None:
                    self._suspect(misfit)

    def note_recalled(self, host: _HostNumber, number: int) -> None:
        """A host has sent the calls that it was asked for."""
        if self._question is not None and number == self._question.number:
            self._question.silent.discard(host)

    def forget(self, host: _HostNumber) -> None:
        """Nothing of a host is believed any more."""
        self._compared.forget(host)

    # questions

    def _suspect(self, suspicion: _Suspicion) -> None:
        """Note a suspicion, unless the same was looked at a while ago, or others are looked at that are worth more."""
        pause = self._pauses.get((suspicion.communicator, suspicion.kind))
        is_free = self._question is None and not self._suspicions
        if (pause is None or time.monotonic() >= pause.until) and (is_free or suspicion.may_wait):
            self._suspicions.append(suspicion)

    def _ask_next(self) -> None:
        if self._question is None and self._suspicions:
            suspicion = self._suspicions.popleft()
            self._ask(suspicion, suspicion.first_ranks)

    def _ask(self, suspicion: _Suspicion, ranks: frozenset[int]) -> None:
        by_host: dict[_HostNumber, list[int]] = {}
        for rank in sorted(ranks):
            by_host.setdefault(suspicion.hosts[rank], []).append(rank)
        by_host.pop(HERE, None)
        self._num_questions += 1
        until = time.monotonic() + _RECALL_SECONDS
        self._question = _Question(self._num_questions, suspicion, ranks, set(by_host), until)
        world = suspicion.communicator.rpartition(".")[0]
        for host, wanted in by_host.items():
            num_calls = min(_MOST_CALLS, _MOST_OF_HOST // len(wanted))
            self._send(host, Recall(self._num_questions, world, wanted, num_calls))

    def _set_aside(self, suspicion: _Suspicion) -> None:
        """Leave a communicator alone, the longer the more often nothing was found."""
        key = suspicion.communicator, suspicion.kind
        pause = self._pauses.pop(key, None) or _Pause(_PAUSE_SECONDS)
        pause.until = time.monotonic() + pause.seconds
        pause.seconds = min(2 * pause.seconds, _LONGEST_PAUSE)
        self._pauses[key] = pause
        if len(self._pauses) > MOST_COMMUNICATORS:
            del self._pauses[next(iter(self._pauses))]

    def look(self, rings: Sequence[HeldRing], jobs: Sequence[WatchedJob]) -> list[tuple[WatchedJob, Passed]]:
        """Go on with what is compared; return what differs in a job, once all calls are here.

        Args:
            rings: Those of the head's own host.
            jobs: The jobs as they are known now.
        """
        own = self._own.look(rings)
        if own is not None:
            self.take(HERE, own)
        self._ask_next()
        question = self._question
        if question is None or (question.silent and time.monotonic() < question.until):
            return []
        self._question = None
        if isinstance(question.suspicion, MessageSuspicion):
            self._set_aside(question.suspicion)
            return _messages_between(jobs, question.suspicion)
        return self._compare(jobs, question.suspicion, question.ranks)

    def _compare(
        self, jobs: Sequence[WatchedJob], suspicion: Suspicion[_HostNumber], ranks: frozenset[int]
    ) -> list[tuple[WatchedJob, Passed]]:
        """Compare the calls of some members; if they differ, have those of all sent, and return where that is."""
        members = frozenset(suspicion.hosts)
        job, sequence = _find_difference(jobs, suspicion.communicator, ranks, suspicion.stretch.begin)
        if job is not None and ranks != members:
            self._ask(suspicion, members)
            return []
        self._set_aside(suspicion)
        return [(job, Position(suspicion.communicator, sequence))] if job is not None else []


def _told_sums(report: StretchReport) -> Iterator[tuple[int, Sums]]:
    for alike in report.alike:
        sums = unpack_sums(alike.sums)
        for rank in from_ranges(alike.ranks, most=min(report.num_members, MOST_RINGS)):
            yield rank, sums


def _told_sides(report: MessageReport) -> Iterator[tuple[int, int, bool]]:
    for content, sends in ((report.sent, True), (report.received, False)):
        if len(content) % _SIDE.size:
            raise ValueError("sides of messages are cut off")
        for key, size in _SIDE.iter_unpack(content):
            yield key, size, sends


def _messages_between(
    jobs: Sequence[WatchedJob], suspicion: MessageSuspicion[_HostNumber]
) -> list[tuple[WatchedJob, Passed]]:
    """Return the two ranks as their job numbers them."""
    world = suspicion.communicator.rpartition(".")[0]
    for job in jobs:
        numbers = job.worlds.get(world, {})
        if suspicion.first_ranks <= numbers.keys():
            sender, receiver = numbers[suspicion.sender], numbers[suspicion.receiver]
            return [(job, MessagePair(suspicion.communicator, sender, receiver))]
    return []


def _find_difference(
    jobs: Sequence[WatchedJob], communicator: str, ranks: Collection[int], begin: int
) -> tuple[WatchedJob | None, int]:
    """Return where calls of some ranks differ that are over: where the most are known, and of these the first."""
    world = communicator.rpartition(".")[0]
    job = next((job for job in jobs if world in job.worlds), None)
    if job is None:
        return None, 0
    calls: dict[int, dict[int, Call]] = {}  # sequence -> rank -> call
    for rank in ranks:
        for call in _past_calls(job, job.worlds[world].get(rank, -1), communicator):
            if call.sequence > begin:
                calls.setdefault(call.sequence, {})[rank] = call
    differing = [sequence for sequence, made in calls.items() if compare(made) is not None]
    best = min(differing, key=lambda sequence: (-len(calls[sequence]), sequence), default=0)
    return (job, best) if best else (None, 0)


def _past_calls(job: WatchedJob, number: int, communicator: str) -> list[Call]:
    """Return the calls of a rank on a communicator that are over, and that no later ones have begun to replace."""
    if number not in job.ranks:
        return []
    reader = job.ranks[number].reader
    reader.read_texts()
    past = reader.history(layout.NUM_SLOTS)
    oldest = job.oldest_call(number)
    return [
        call for call in past
        if call.number >= oldest and call.left_ns and call.communicator == communicator and call.is_collective
    ]  # fmt: skip
