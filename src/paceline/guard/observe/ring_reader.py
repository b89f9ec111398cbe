"""Reads the record of one rank from shared memory while the rank writes it, or after it has gone."""

from __future__ import annotations

import json
import mmap
import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.operations import BY_CODE, DTYPES, REDUCTIONS, Family
from paceline.guard.verdict.snapshot import Call, Stop, Waiting

_HEAD = struct.Struct(f"<{layout.COMMS_AT}Q")
_UNKNOWN_SITE = "?:0"
_BRIEF = struct.Struct("<QQQqQ24xIHH")  # of a record, what a live view needs


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


class RingReader:
    """The record of one rank."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), layout.RING_BYTES, access=mmap.ACCESS_READ)
        self._words = memoryview(self._bytes).cast("Q")
        self._text_read = 0
        self._sites: dict[int, tuple[str, tuple[str, ...]]] = {}
        self.texts: list[dict[str, Any]] = []
        self.communicators: dict[int, dict[str, Any]] = {}
        self.folder = ""

    @property
    def is_complete(self) -> bool:
        """Whether the rank has finished setting it up."""
        return self._words[0] == layout.MAGIC

    def word(self, word: int) -> int:
        """Return a word of the header."""
        return self._words[word]

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
            value = json.loads(line)
            if "site" in value:
                self._sites[value["site"]] = self._site_of(value["frames"])
            elif "comm" in value:
                self.communicators[value["comm"]] = value
            elif "cwd" in value:
                self.folder = value["cwd"]
            else:
                self.texts.append(value)

    def shown_path(self, path: str) -> str:
        """Return a path as short as it can be without being cut: from the rank's folder, if it is below that."""
        if self.folder and path.startswith(f"{self.folder}{os.sep}"):
            return path[len(self.folder) + 1 :]
        return path

    def frames_text(self, frames: list[list[Any]]) -> list[str]:
        """Return frames as file:line."""
        return [f"{self.shown_path(frame[0])}:{frame[1]}" for frame in frames]

    def _site_of(self, frames: list[list[Any]]) -> tuple[str, tuple[str, ...]]:
        texts = self.frames_text(frames)
        return (texts[0], tuple(texts[1:])) if texts else (_UNKNOWN_SITE, ())

    def sites(self) -> list[str]:
        """Return the places that the rank has called from, as file:line."""
        return [place for place, _ in self._sites.values()]

    def identity(self, index: int) -> str:
        """Return the identity of a communicator by its number in this rank."""
        known = self.communicators.get(index)
        return str(known["id"]) if known is not None else ""

    # calls

    def _call(self, begin: int) -> Call | None:
        (number, entered, left, sequence, at_site, num_bytes, count, root, tag, site, comm, operation, dtype, reduction,
         flags, request) = layout.RECORD.unpack_from(self._bytes, begin)  # fmt: skip
        if number == 0 or operation not in BY_CODE:
            return None
        known = self.communicators.get(comm)
        identity = str(known["id"]) if known is not None and number > known["first"] else ""
        place, callers = self._sites.get(site, (_UNKNOWN_SITE, ()))
        source, source_tag, source_dtype, source_bytes, source_sequence = NOTHING, NOTHING, 0, -1, 0
        if BY_CODE[operation].family is not Family.COLLECTIVE:  # collectives leave the second half as it was
            _, _, source, source_tag, source_dtype, source_bytes, source_sequence = layout.SECOND.unpack_from(
                self._bytes, begin + layout.SECOND_OFFSET
            )
        return Call(
            operation=BY_CODE[operation].name, communicator=identity, sequence=sequence, number=number - 1,
            site=place, callers=callers, at_site=at_site, root=root, tag=tag, reduction=REDUCTIONS[reduction],
            dtype=DTYPES[dtype], num_bytes=num_bytes, count=count, flags=flags, request=request,
            entered_ns=entered, left_ns=left, source=source, source_tag=source_tag, source_dtype=DTYPES[source_dtype],
            source_bytes=source_bytes, source_sequence=source_sequence,
        )  # fmt: skip

    def call(self, number: int) -> Call | None:
        """Return a call by its number, unless a later one has taken its place."""
        begin = layout.RECORDS_AT + (number % layout.NUM_SLOTS) * layout.RECORD_BYTES
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
            begin = layout.RECORDS_AT + (number % layout.NUM_SLOTS) * layout.RECORD_BYTES
            call = Brief._make(_BRIEF.unpack_from(self._bytes, begin))
            if call.number == number + 1:
                found.append(call)
        return found

    def is_inside(self) -> bool:
        """Say whether some thread is inside a call."""
        end = layout.THREADS_AT + layout.MAX_THREADS * layout.THREAD_WORDS
        return any(self._words[layout.THREADS_AT : end : layout.THREAD_WORDS])

    def place(self, site: int) -> str:
        """Return file and line of a site."""
        return self._sites.get(site, (_UNKNOWN_SITE, ()))[0]

    def threads(self) -> tuple[Waiting | None, ...]:
        """Return each thread that communicates: the call it waits in, or None if it runs."""
        found: list[Waiting | None] = []
        for slot in range(layout.MAX_THREADS):
            word = layout.THREADS_AT + slot * layout.THREAD_WORDS
            if self._words[word + 1] == 0:
                continue
            number = self._words[word]
            call = self.call(number - 1) if number else None
            found.append(self._waiting(slot, call) if call is not None else None)
        return tuple(found)

    def _waiting(self, slot: int, call: Call) -> Waiting:
        if call.facts.family is not Family.WAIT:
            return Waiting(call=call)
        word = layout.THREADS_AT + slot * layout.THREAD_WORDS
        num = min(self._words[word + 2], layout.MAX_WAITED)
        begin = layout.WAITED_AT + slot * layout.MAX_WAITED * 2
        numbers = struct.unpack_from(f"<{num}H", self._bytes, begin)
        requests = [self.request(number) for number in numbers]
        known = [request for request in requests if request is not None and request.left_ns == 0]
        complete = call.count >= 0 and None not in requests  # an inactive persistent request is not waited for
        return Waiting(call=call, requests=tuple(known), any_of=call.root == 1, is_complete=complete)

    def request(self, number: int) -> Call | None:
        """Return a request that is under way."""
        if number == 0:
            return None
        return self._call(layout.REQUESTS_AT + number * layout.RECORD_BYTES)

    def posted(self) -> tuple[Call, ...]:
        """Return all requests under way."""
        begin, step = layout.REQUESTS_AT // layout.WORD, layout.RECORD_BYTES // layout.WORD
        used = self._words[begin : begin + layout.MAX_REQUESTS * step : step].tolist()
        found = (self.request(number) for number, record in enumerate(used) if record)
        return tuple(call for call in found if call is not None and call.left_ns == 0)

    def stop(self, rank_of_peer: int | None = None) -> Stop | None:
        """Return the call that the rank refuses to make."""
        number = self._words[layout.STOPPED]
        call = self.call(number - 1) if number else None
        if call is None:
            return None
        return Stop(call=call, reason=self._words[layout.STOP_REASON], peer=self._words[layout.STOP_PEER])

    def let_go_on(self) -> None:
        """Tell the rank to make the call that it stopped before."""
        stopped = self._words[layout.STOPPED]
        with self.path.open("r+b") as file:
            file.seek(layout.GO_ON * layout.WORD)
            file.write(struct.pack("<Q", stopped))

    # counts

    def positions(self) -> dict[str, int]:
        """Return the number of collectives begun on each communicator."""
        return {str(known["id"]): self._words[layout.COMMS_AT + index] for index, known in self.communicators.items()}

    def freed(self) -> frozenset[str]:
        """Return the communicators that were given up."""
        return frozenset(
            str(known["id"]) for index, known in self.communicators.items() if self._words[layout.FREED_AT + index]
        )

    def channels(self) -> tuple[dict[tuple[str, int, int], int], dict[tuple[str, int, int], int]]:
        """Return the messages sent and received, by communicator, peer and tag."""
        sent: dict[tuple[str, int, int], int] = {}
        received: dict[tuple[str, int, int], int] = {}
        for index in range(self._words[layout.NUM_CHANNELS]):
            begin = layout.CHANNELS_AT + index * layout.CHANNEL_BYTES
            comm, direction, peer, tag, _, count, _ = layout.CHANNEL.unpack_from(self._bytes, begin)
            counts = sent if direction == layout.SENT else received
            counts[self.identity(comm), peer, tag] = count
        return sent, received

    def close(self) -> None:
        """Let go of the memory."""
        self._words.release()
        self._bytes.close()
