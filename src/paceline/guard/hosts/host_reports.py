"""From the rings of one host to reports: which ranks stand still, move again or have ended, and what has changed."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from paceline.guard.hosts.classes.told_states import LARGE, MOST_FAILED, ToldStates, is_large
from paceline.guard.hosts.host_messages import (
    Answer,
    Ask,
    EndFacts,
    FreshFacts,
    KernelFacts,
    NoteReport,
    Past,
    Recall,
    Report,
    RingReport,
)
from paceline.guard.hosts.ring_image import RingImage
from paceline.guard.hosts.settling import ToldMarks
from paceline.guard.hosts.viewing.glances_told import ToldGlances
from paceline.guard.hosts.viewing.view_messages import GlanceReport, WantGlances
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import HeldRing, LocalRings, rank_of
from paceline.guard.observe.rank_starts import StartedRank
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.shared_memory import layout

_STILL_SECONDS = 0.05  # that a rank must have been inside a call before anybody is told
_MOST_PROBLEMS = 8
_NOTE_SECONDS = 0.2  # between two looks at notes and problems
_FACTS_SECONDS, _YOUNG_SECONDS = 0.15, 3.0  # how often, and for how long, more is told of a rank that stands still
_FEW_CALLS, _LAST_CALLS = 16, 2000  # past calls that go along with a report, and with a rank's last words
_LAST_OF_LARGE = 64  # the latter in a large job

_Mark = tuple[int, ...]


@dataclass(slots=True)
class _Told:
    """What has been told of one process."""

    image: RingImage = field(default_factory=RingImage)
    mark: _Mark = ()
    since: float = 0.0  # when it had this mark for the first time
    names: tuple[str, ...] = ()
    has_ended: bool = False


class HostReports:
    """What one host tells the head.

    Attributes:
        shift_ns: What is added to the times of calls, so that they are of the head's clock.
        end_shift_ns: The same for times at which processes ended, as it is known now: clocks may drift apart.
        shift_error_ns: By how much the first may be wrong.
        end_error_ns: By how much the second may be wrong.
    """

    def __init__(self, rings: LocalRings) -> None:
        self._rings = rings
        self.shift_ns = self.end_shift_ns = self.shift_error_ns = self.end_error_ns = 0
        self.marks = ToldMarks()
        self._told: dict[int, _Told] = {}
        self._notes: dict[int, NoteReport] = {}
        self._problems: list[str] = []
        self._own_problems: set[str] = set()
        self._noted_at = self._facts_at = 0.0
        self._is_whole = True
        self._states = ToldStates()
        self._glances = ToldGlances(rings)
        self._followed: dict[str, set[int]] = {}  # what the head has asked for, by world
        self._recall: Recall | None = None  # past calls that the head wants of ranks that move
        self._recalled = 0  # the last of these requests that was answered

    def note_problem(self, text: str) -> None:
        """Let the head know what this host does not tell, each thing once."""
        if len(self._own_problems) < _MOST_PROBLEMS:
            self._own_problems.add(text)

    def tell_everything(self) -> None:
        """Let the next report hold everything."""
        self._is_whole = True
        self._told.clear()
        self._notes.clear()
        self._problems = []
        self._noted_at = 0.0
        self._states.forget()
        self.marks.forget()
        for world, ranks in self._followed.items():  # the head has asked once, and does not know that we tell it all
            self._states.follow(world, ranks)

    def look(self) -> Report | None:
        """Return a report, if there is something to tell. The rings must have been looked at just before."""
        try:
            self._glances.sample()
        except Exception as error:  # ranks are reported all the same
            self.note_problem(f"what its ranks do is not shown: {type(error).__name__}: {error}")
        rings = [report for held in self._by_end() if (report := self._look_at(held)) is not None]
        notes, problems = self._look_at_notes()
        worlds = self._states.changes()
        recall, self._recall = self._recall, None
        if not rings and not notes and not problems and not worlds and not self._is_whole and recall is None:
            return None
        self._recalled = recall.question if recall is not None else self._recalled
        is_whole, self._is_whole = self._is_whole, False
        number = self.marks.next_number()
        return Report(
            number=number, is_whole=is_whole, rings=rings, notes=notes, problems=problems, worlds=worlds,
            recalled=self._recalled,
        )  # fmt: skip

    def _by_end(self) -> list[HeldRing]:
        """Return the rings, those of ranks that have ended first: of some of these only the first ones are told."""
        rings = self._rings.held_rings()
        has_ended = [rank_of(held).process.has_ended() for held in rings]
        ended = [held for held, is_over in zip(rings, has_ended, strict=True) if is_over]
        living = [held for held, is_over in zip(rings, has_ended, strict=True) if not is_over]
        return sorted(ended, key=lambda held: rank_of(held).process.ended_ns) + living

    def _look_at(self, held: HeldRing) -> RingReport | None:
        rank, now = rank_of(held), time.monotonic()
        pid = rank.process.pid
        told = self._told.setdefault(pid, _Told())
        is_new = not told.names
        names = tuple(f"ring.{world}.{number}" for world, number in held.names.items())
        mark = _mark_of(rank)
        if mark != told.mark:
            told.mark, told.since = mark, now
        has_ended = rank.process.has_ended()
        is_still = has_ended or _is_final(mark) or (_is_inside(mark) and now - told.since >= _STILL_SECONDS)
        if self._states.is_enough(held, mark, self.marks, is_still=is_still):
            return None
        num_recalled = self._num_recalled(held)
        if self.marks.has_told(pid, mark) and names == told.names and not num_recalled:
            return None
        parts = None
        if is_still:
            last = _LAST_CALLS if not is_large(held) else _LAST_OF_LARGE
            num_calls = max(num_recalled, last if has_ended else _FEW_CALLS)
            parts = self._copy_still(rank, told, mark, num_calls=num_calls)
        if parts is None:  # it moves
            is_due = is_new or names != told.names or num_recalled > 0
            if not is_due and not self.marks.is_told_still(pid):
                return None
            self.marks.tell_moves(pid)
            parts = self._copy_moving(rank, told, num_calls=num_recalled) if is_due else told.image.moves()
        told.names = names
        end = self._end_facts(rank.process, rank.kills_before) if has_ended else None
        return RingReport(
            pid=pid, began=rank.reader.word(layout.START_TIME), names=list(names), parts=parts,
            facts=_facts(rank.process), end=end,
        )  # fmt: skip

    def _copy_still(self, rank: WatchedRank, told: _Told, mark: _Mark, *, num_calls: int) -> bytes | None:
        """Return the ring of a rank that stands still; None if it has moved while it was copied."""
        content = rank.reader.content()
        if _mark_of(rank) != mark:
            return None
        self.marks.tell_still(rank.process.pid, mark)
        return told.image.changes(content, shift_ns=self.shift_ns, is_still=True, num_calls=num_calls)

    def _copy_moving(self, rank: WatchedRank, told: _Told, *, num_calls: int) -> bytes:
        """Return the ring of a rank that moves, with past calls that it has not begun to replace meanwhile."""
        begun, content = rank.reader.word(layout.NUM_RECORDS), rank.reader.content()
        num_meanwhile = rank.reader.word(layout.NUM_RECORDS) - begun
        num_calls = max(0, min(num_calls, layout.NUM_SLOTS - layout.MAX_THREADS - num_meanwhile))
        return told.image.changes(content, shift_ns=self.shift_ns, is_still=False, num_calls=num_calls)

    def _num_recalled(self, held: HeldRing) -> int:
        """Return how many past calls of a rank the head wants, whether it moves or not."""
        recall = self._recall
        return recall.num_calls if recall is not None and held.names.get(recall.world) in recall.ranks else 0

    def _end_facts(self, process: ProcessHandle, kills_before: int) -> EndFacts:
        return EndFacts(
            at_ns=max(0, process.ended_ns + self.end_shift_ns),
            alive_ns=max(0, process.alive_ns + self.end_shift_ns) if process.alive_ns else 0,
            status=process.status,
            memory_kills=max(0, process.memory_kills_since(kills_before)),
            error_ns=max(self.shift_error_ns, self.end_error_ns) + abs(self.end_shift_ns - self.shift_ns),
            closed_ns=max(0, process.closed_ns + self.end_shift_ns) if process.closed_ns else 0,
            with_others=process.with_others,
        )

    def _look_at_notes(self) -> tuple[list[NoteReport], list[str]]:
        now = time.monotonic()
        if now - self._noted_at < _NOTE_SECONDS:
            return [], []
        self._noted_at = now
        notes = []
        large = [started for started, has_gone in self._rings.started() if has_gone and started.job.size > LARGE]
        large.sort(key=lambda started: started.process.ended_ns)
        for started, has_gone in self._rings.started():
            if started.job.size > LARGE and started not in large[:MOST_FAILED]:
                continue  # that it will be a rank is told when it is one
            note = self._note_of(started, has_gone)
            if self._notes.get(note.pid) != note:
                self._notes[note.pid] = note
                notes.append(note)
        problems = sorted({*self._rings.problems(), *self._own_problems})
        new, self._problems = [text for text in problems if text not in self._problems], problems
        return notes, [text[:10_000] for text in new]

    def _note_of(self, started: StartedRank, has_gone: bool) -> NoteReport:
        started.reader.read_texts()
        content = "".join(f"{json.dumps(text)}\n" for text in started.reader.texts).encode()
        end = self._end_facts(started.process, started.kills_before) if has_gone else None
        before = self._notes.get(started.process.pid)
        if before is not None and before.end is not None and end is not None:
            end = before.end  # clocks may have drifted meanwhile
        return NoteReport(
            pid=started.process.pid, began=int(started.reader.first["began"]), content=content[: 1 << 20], end=end
        )

    def fresh_facts(self) -> FreshFacts | None:
        """Return what the kernel says of ranks that have not stood still for long; None if there are none."""
        now = time.monotonic()
        if now - self._facts_at < _FACTS_SECONDS:
            return None
        self._facts_at = now
        ranks = [rank_of(held) for held in self._rings.held_rings()]
        young = [
            rank.process for rank in ranks
            if self.marks.is_told_still(rank.process.pid) and not rank.process.ended_ns
            and self._told[rank.process.pid].names and now - self._told[rank.process.pid].since < _YOUNG_SECONDS
        ]  # fmt: skip
        return FreshFacts(facts={process.pid: _facts(process) for process in young}) if young else None

    def glances(self, want: WantGlances) -> GlanceReport | None:
        """Return what ranks do, for somebody who looks; None if there is none to tell of."""
        return self._glances.answer(want, shift_ns=self.end_shift_ns, error_ns=self.end_error_ns)

    def answer(self, ask: Ask) -> list[Past | Answer]:
        """Answer the second question: first the past calls of all ranks, then yes or no."""
        pasts: list[Past | Answer] = []
        for held in self._rings.held_rings():
            rank = rank_of(held)
            told = self._told.get(rank.process.pid)
            if ask.num_calls and told is not None and told.names:
                content = rank.reader.content()
                parts = told.image.past(content, shift_ns=self.shift_ns, num_calls=ask.num_calls)
                pasts.append(Past(question=ask.question, pid=rank.process.pid, parts=parts))
        now = {rank_of(held).process.pid: _mark_of(rank_of(held)) for held in self._rings.held_rings()}
        return [*pasts, Answer(question=ask.question, is_same=self.marks.is_same(ask.number, now))]

    def follow(self, world: str, ranks: Collection[int]) -> None:
        """Tell of these ranks by their rings from now on."""
        self._followed.setdefault(world, set()).update(ranks)
        self._states.follow(world, ranks)

    def recall(self, recall: Recall) -> None:
        """Send past calls of some ranks with the next report."""
        self._recall = recall

    def let_go_on(self, pid: int | None = None) -> None:
        """Let a rank, or all of them, make the call that they stopped before."""
        for held in self._rings.held_rings():
            rank = rank_of(held)
            if pid in (None, rank.process.pid) and rank.reader.word(layout.STOPPED):
                rank.reader.let_go_on()


def _mark_of(rank: WatchedRank) -> _Mark:
    return (*rank.reader.mark(), rank.process.has_ended())


def _is_inside(mark: _Mark) -> bool:
    return any(mark[layout.THREADS_AT : layout.THREADS_AT + layout.MAX_THREADS * layout.THREAD_WORDS : 4])


def _is_final(mark: _Mark) -> bool:
    """Say whether a rank has stopped, or is about to end: that is told at once."""
    return bool(mark[layout.STOPPED] or mark[layout.ENDING] != layout.LIVES)


def _facts(process: ProcessHandle) -> KernelFacts:
    found = process.activity()
    if found is None:
        return KernelFacts()
    return KernelFacts(
        state=found.state, rss_bytes=found.rss_bytes, processor_seconds=process.processor_seconds(),
        starved_seconds=process.starved_seconds(),
    )  # fmt: skip
