"""Reads the ring of one rank from shared memory, while the rank writes it or after it has ended."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE, DTYPES, REDUCTIONS, Family
from paceline.guard.shared_memory.record_fields import COMMON, MESSAGE, MESSAGE_OFFSET, RECORD_BYTES, WORD, brief
from paceline.guard.shared_memory.ring_texts import CommunicatorText, RingTexts, WorldText, shown_path
from paceline.guard.verdict.snapshot import Call, Remark, Stop, Waiting

_REMARK_KEYS = ("remark", "at", "what", "how", "count")
_HEAD = struct.Struct(f"<{layout.COMMS_AT}Q")


class Brief(NamedTuple):
    """The little of a call that a live view needs, read a thousand times a second."""

    number: int
    entered_ns: int
    left_ns: int
    sequence: int
    at_site: int
    site: int
    communicator: int
    operation: int


_BRIEF = brief(Brief._fields)


class RingReader:
    """The ring of one rank."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), layout.RING_BYTES, access=mmap.ACCESS_READ)
        self._words = memoryview(self._bytes).cast("Q")
        self._text_read = 0
        self._texts = RingTexts()

    @property
    def is_complete(self) -> bool:
        """Whether the rank has finished setting it up."""
        return self._words[0] == layout.MAGIC

    def word(self, word: int) -> int:
        """Return a word of the header."""
        return self._words[word]

    def content(self) -> bytes:
        """Return all that the ring holds, even if its file has been removed."""
        return self._bytes[:]

    def records(self, begin: int, end: int) -> bytes:
        """Return the records of calls with these numbers, as they are in the ring."""
        parts = []
        while begin < end:
            slot = begin % layout.NUM_SLOTS
            num = min(end - begin, layout.NUM_SLOTS - slot)
            place = layout.RECORDS_AT + slot * RECORD_BYTES
            parts.append(self._bytes[place : place + num * RECORD_BYTES])
            begin += num
        return b"".join(parts)

    def mark(self) -> tuple[int, ...]:
        """Return what changes whenever the rank does anything: equal marks, equal states."""
        return _HEAD.unpack_from(self._bytes)

    def read_texts(self) -> None:
        """Take in what the rank has said since the last time."""
        end = self._words[layout.TEXT_BYTES]
        if end == self._text_read:
            return
        raw = self._bytes[layout.TEXT_AT + self._text_read : layout.TEXT_AT + end]
        self._text_read = end
        for line in raw.splitlines():
            if not self._texts.read_line(line):
                raise ValueError(f"{self.path.name}: a line of what the rank says of itself cannot be read")

    @property
    def folder(self) -> str:
        """The folder that the rank was started in."""
        return self._texts.folder

    @property
    def texts(self) -> list[dict[str, Any]]:
        """What the rank has said that is not about sites and communicators: how it ended, above all."""
        return self._texts.others

    @property
    def groups(self) -> dict[int, tuple[int, ...]]:
        """The ranks that a members_hash stands for."""
        return self._texts.groups

    @property
    def worlds(self) -> dict[str, WorldText]:
        """The worlds that the process has joined, by name, in that order."""
        return self._texts.worlds

    @property
    def communicators(self) -> dict[int, CommunicatorText]:
        """The communicators by their number in this rank."""
        return self._texts.communicators

    def rename_communicators(self, rename: Callable[[str], str]) -> None:
        """Give communicators that two jobs share the identity that is used for both."""
        self._texts.rename_communicators(rename)

    def remarks(self) -> tuple[Remark, ...]:
        """Return what the rank has remarked about its own calls, the last word about each."""
        last: dict[tuple[object, ...], Remark] = {}
        for text in self.texts:
            if "remark" in text:
                facts = {key: value for key, value in text.items() if key not in _REMARK_KEYS}
                if "other_at" in facts:
                    facts["other_at"] = self.site(int(facts["other_at"]))
                remark = Remark(
                    about=str(text["remark"]), site=self.site(int(text["at"])), what=str(text["what"]),
                    how=str(text["how"]), count=int(text["count"]), facts=facts,
                )  # fmt: skip
                last[remark.about, text["at"], remark.what, remark.how] = remark
        return tuple(last.values())

    def shown_path(self, path: str) -> str:
        """Return a path as seen from the rank's folder, if it is below that."""
        return shown_path(path, self.folder)

    def frames_text(self, frames: list[list[Any]]) -> list[str]:
        """Return frames as file:line."""
        return self._texts.frames_text(frames)

    def sites(self) -> list[str]:
        """Return the sites that the rank has called from, as file:line."""
        return [text.site for text in self._texts.sites.values()]

    def site(self, number: int) -> str:
        """Return file and line of a site."""
        return self._texts.site(number).site

    def identity(self, index: int) -> str:
        """Return the identity of a communicator by its number in this rank."""
        known = self.communicators.get(index)
        return known.identity if known is not None else ""

    def made_by(self) -> dict[str, int]:
        """Return the last call that this rank had begun before it knew a communicator: what made it, mostly."""
        return {known.identity: known.first - 1 for known in self.communicators.values() if known.first}

    # calls

    def _call(self, begin: int) -> Call | None:
        (number, entered_ns, left_ns, sequence, at_site, num_bytes, count, members_hash, root, site, comm, code, dtype,
         reduction, flags, request) = COMMON.unpack_from(self._bytes, begin)  # fmt: skip
        operation = BY_CODE.get(code)
        if number == 0 or operation is None:
            return None
        known = self.communicators.get(comm)
        text = self._texts.site(site)
        message: dict[str, Any] = {}
        if operation.family is not Family.COLLECTIVE:  # collectives leave the second part as it was
            peer, tag, source, source_tag, num_requests, source_dtype, message_number, source_number, source_bytes = (
                MESSAGE.unpack_from(self._bytes, begin + MESSAGE_OFFSET)
            )
            message = {
                "peer": peer, "tag": tag, "source": source, "source_tag": source_tag, "num_requests": num_requests,
                "source_dtype": DTYPES[source_dtype], "message_number": message_number,
                "source_number": source_number, "source_bytes": source_bytes,
            }  # fmt: skip
        return Call(
            operation=operation.name, communicator=known.identity if known is not None and number > known.first else "",
            sequence=sequence, number=number - 1, site=text.site, callers=text.callers, library=text.library,
            at_site=at_site, root=root,
            reduction=REDUCTIONS[reduction], dtype=DTYPES[dtype], num_bytes=num_bytes, count=count,
            members_hash=members_hash, flags=flags, request=request, entered_ns=entered_ns, left_ns=left_ns, **message,
        )  # fmt: skip

    def call(self, number: int) -> Call | None:
        """Return a call by its number, unless a later one has taken its place."""
        begin = layout.RECORDS_AT + (number % layout.NUM_SLOTS) * RECORD_BYTES
        found = self._call(begin)
        return found if found is not None and found.number == number else None

    def history(self, limit: int) -> tuple[Call, ...]:
        """Return the last calls, oldest first."""
        end = self._words[layout.NUM_RECORDS]
        begin = max(0, end - min(limit, layout.NUM_SLOTS - 8))
        calls = (self.call(number) for number in range(begin, end))
        return tuple(call for call in calls if call is not None)

    def recent(self, limit: int) -> list[Brief]:
        """Return the last calls in brief, oldest first."""
        end = self._words[layout.NUM_RECORDS]
        found = []
        for number in range(max(0, end - limit), end):
            begin = layout.RECORDS_AT + (number % layout.NUM_SLOTS) * RECORD_BYTES
            call = Brief._make(_BRIEF.unpack_from(self._bytes, begin))
            if call.number == number + 1:
                found.append(call)
        return found

    def is_inside(self) -> bool:
        """Say whether some thread is inside a call."""
        return any(self._thread_words(0))

    def thread_ids(self) -> tuple[int, ...]:
        """Return the numbers of the threads that communicate, or may; 1 stands for one that has not begun."""
        return tuple(number for number in self._thread_words(layout.THREAD_NUMBER) if number)

    def joining_ids(self) -> frozenset[int]:
        """Return the numbers of the threads that do nothing until another of those that communicate has ended."""
        inside, numbers = self._thread_words(0), self._thread_words(layout.THREAD_NUMBER)
        joined = self._thread_words(layout.THREAD_JOINS)
        return frozenset(
            number
            for waits, number, other in zip(inside, numbers, joined, strict=True)
            if number and not waits and other and other in numbers
        )

    def recorded_ids(self) -> frozenset[int]:
        """Return the numbers of the threads that are inside a call of which there is a record."""
        pairs = zip(self._thread_words(0), self._thread_words(layout.THREAD_NUMBER), strict=True)
        return frozenset(number for waits, number in pairs if waits)

    def _thread_words(self, word: int) -> list[int]:
        """Return one of the words of each thread."""
        end = layout.THREADS_AT + layout.MAX_THREADS * layout.THREAD_WORDS
        return self._words[layout.THREADS_AT + word : end : layout.THREAD_WORDS].tolist()

    def threads(self) -> tuple[Waiting | None, ...]:
        """Return each thread that communicates: the call it waits in, or None if it runs.

        One that joins another is left out: what it can do depends on that one alone.
        """
        found: list[Waiting | None] = []
        joining = self.joining_ids()
        for slot in range(layout.MAX_THREADS):
            word = layout.THREADS_AT + slot * layout.THREAD_WORDS
            thread = self._words[word + layout.THREAD_NUMBER]
            if thread == 0 or thread in joining:
                continue
            number = self._words[word]
            call = self.call(number - 1) if number else None
            found.append(self._waiting(slot, call) if call is not None else None)
        return tuple(found)

    def _waiting(self, slot: int, call: Call) -> Waiting:
        if call.family is not Family.WAIT:
            return Waiting(call=call)
        word = layout.THREADS_AT + slot * layout.THREAD_WORDS
        num = min(self._words[word + 2], layout.MAX_WAITED)
        begin = layout.WAITED_AT + slot * layout.MAX_WAITED * 2
        numbers = struct.unpack_from(f"<{num}H", self._bytes, begin)
        requests = [self.request(number) for number in numbers]
        known = [request for request in requests if request is not None and request.left_ns == 0]
        complete = call.num_requests >= 0 and None not in requests  # an inactive persistent request is not waited for
        return Waiting(call=call, requests=tuple(known), any_of=bool(call.flags & layout.ANY_OF), is_complete=complete)

    def request(self, number: int) -> Call | None:
        """Return a request that is under way."""
        if number == 0:
            return None
        return self._call(layout.REQUESTS_AT + number * RECORD_BYTES)

    def posted(self) -> tuple[Call, ...]:
        """Return all requests under way."""
        begin, step = layout.REQUESTS_AT // WORD, RECORD_BYTES // WORD
        used = self._words[begin : begin + layout.MAX_REQUESTS * step : step].tolist()
        found = (self.request(number) for number, record in enumerate(used) if record)
        return tuple(call for call in found if call is not None and call.left_ns == 0)

    def stop(self) -> Stop | None:
        """Return the call that the rank refuses to make."""
        number = self._words[layout.STOPPED]
        call = self.call(number - 1) if number else None
        if call is None:
            return None
        return Stop(call=call, reason=self._words[layout.STOP_REASON], peer=self._words[layout.STOP_PEER])

    def let_go_on(self) -> None:
        """Tell the rank to make the call that it stopped before."""
        stopped = self._words[layout.STOPPED]
        with suppress(FileNotFoundError), self.path.open("r+b") as file:  # without a folder no rank waits for us
            file.seek(layout.GO_ON * WORD)
            file.write(struct.pack("<Q", stopped))

    # counts

    def positions(self) -> dict[str, int]:
        """Return the number of collectives begun on each communicator."""
        return {known.identity: self._words[layout.COMMS_AT + index] for index, known in self.communicators.items()}

    def forgotten(self) -> frozenset[str]:
        """Return the communicators that the rank has had, and whose positions have made room for others."""
        return frozenset(self._texts.forgotten)

    def freed(self) -> frozenset[str]:
        """Return the communicators that were freed."""
        return frozenset(
            known.identity for index, known in self.communicators.items() if self._words[layout.FREED_AT + index]
        )

    def num_freed(self) -> int:
        """Return how many communicators are freed and not forgotten."""
        return sum(self._words[layout.FREED_AT : layout.FREED_AT + layout.MAX_COMMS])

    def channels(self) -> dict[int, dict[tuple[str, int, int], int]]:
        """Return what was counted in each direction, by communicator, peer and tag: messages, tokens and locks."""
        counts: dict[int, dict[tuple[str, int, int], int]] = {
            direction: {} for direction in (layout.SENT, layout.RECEIVED, layout.GIVEN, layout.TAKEN, layout.HELD)
        }
        for index in range(self._words[layout.NUM_CHANNELS]):
            begin = layout.CHANNELS_AT + index * layout.CHANNEL_BYTES
            comm, direction, peer, tag, _, count, _ = layout.CHANNEL.unpack_from(self._bytes, begin)
            counts[direction][self.identity(comm), peer, tag] = count
        return counts

    def close(self) -> None:
        """Let go of the memory."""
        self._words.release()
        self._bytes.close()
