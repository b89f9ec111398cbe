"""The rank's own record: what it calls, where it waits, what it has sent and received, in shared memory.

Writing is lock-free and takes about a microsecond. Nothing here imports torch or mpi4py, and nothing here decides
who is wrong: a rank that sees a call that does not fit stops before it and waits for the judge's word.
"""

from __future__ import annotations

import functools
import itertools
import json
import mmap
import os
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paceline.guard import layout
from paceline.guard.board import (
    NO_SIZE,
    Board,
    MessageBoard,
    message_fits,
    message_key,
    pack_size,
)
from paceline.guard.layout import ANY, NOTHING, RECEIVED, SENT
from paceline.guard.sites import Sites

_pack_record = layout.RECORD.pack_into
_now = time.monotonic_ns
_thread_id = threading.get_ident
_get_frame = sys._getframe
_SLOT_MASK = layout.NUM_SLOTS - 1
_RECORDS_AT, _RECORD_BYTES, _NUM_RECORDS = layout.RECORDS_AT, layout.RECORD_BYTES, layout.NUM_RECORDS
_RECORD_WORDS = layout.RECORD_BYTES // layout.WORD
_RECORDS_WORD = layout.RECORDS_AT // layout.WORD
_LEFT_WORD = layout.LEFT_OFFSET // layout.WORD
_CHANNEL_WORDS = layout.CHANNEL_BYTES // layout.WORD
_GO_ON_SECONDS = 0.002
_NO_REQUEST = 0
_TEXT_RESERVE = 16_384  # bytes that are kept for communicators, and then for how the rank ends


class Communicator:
    """What a rank keeps of one communicator."""

    __slots__ = (
        "board",
        "expected",
        "identity",
        "index",
        "member",
        "messages",
        "name",
        "numbers",
        "position_word",
        "ranks",
    )

    def __init__(self, *, index: int, identity: str, name: str, member: int, ranks: tuple[int, ...]) -> None:
        self.index, self.identity, self.name, self.member, self.ranks = index, identity, name, member, ranks
        self.expected: dict[tuple[int, int], int] = {}  # (peer, tag) -> receives posted and not complete
        self.numbers = itertools.count(1)
        self.position_word = layout.COMMS_AT + index
        self.board: Board | None = None
        self.messages: MessageBoard | None = None


class _ThreadEnd:
    """Frees the slot of a thread when the thread's own variables go."""

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = free

    def __del__(self) -> None:
        self._free()


class Recorder:
    """The shared memory of this rank, and everything that writes to it."""

    def __init__(self, folder: Path, name: str, *, rank: int, world_size: int) -> None:
        self.folder, self.name, self.rank, self.world_size = folder, name, rank, world_size
        descriptor = os.open(folder / f"ring.{name}", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, layout.RING_BYTES)
            self._bytes = mmap.mmap(descriptor, layout.RING_BYTES)
        finally:
            os.close(descriptor)
        self._words = memoryview(self._bytes).cast("Q")
        self._numbers = itertools.count()
        self._threads: dict[int, int] = {}  # thread -> its word in the header
        self._thread_local = threading.local()
        self._free_requests = list(range(layout.MAX_REQUESTS - 1, 0, -1))
        self._channels: dict[tuple[int, int, int, int], int] = {}  # -> word of the count
        self._text_lock = threading.Lock()
        self._text_end = 0
        self._site_counts = [0]  # by number of the site
        self._num_communicators = 0
        self._given_up: list[int] = []
        self._names: dict[str, int] = {}
        self.communicators: dict[str, Communicator] = {}
        self.pid = os.getpid()
        words = self._words
        words[layout.PID], words[layout.START_TIME] = self.pid, start_time(self.pid)
        words[layout.WORLD_SIZE], words[layout.RANK] = world_size, rank
        words[layout.JOINED] = _now()
        sites = Sites(self._describe_site)
        self._site_of, self._known_sites = sites.number, sites.known
        self.write_text({"cwd": os.getcwd(), "argv": sys.argv[:20], "executable": sys.executable})
        words[0] = layout.MAGIC

    # what is said once

    def write_text(self, value: dict[str, Any], *, reserve: int = 0) -> bool:
        """Append one line of JSON; say whether it did fit, with so many bytes left for what matters more."""
        line = json.dumps(value).encode() + b"\n"
        with self._text_lock:
            begin = layout.TEXT_AT + self._text_end
            if self._text_end + len(line) > layout.TEXT_BYTES_MAX - reserve:
                return False
            self._bytes[begin : begin + len(line)] = line
            self._text_end += len(line)
            self._words[layout.TEXT_BYTES] = self._text_end
            return True

    def _describe_site(self, number: int, frames: list[tuple[str, int, str]]) -> None:
        self._site_counts.append(0)
        self.write_text({"site": number, "frames": frames}, reserve=2 * _TEXT_RESERVE)

    def set_word(self, word: int, value: int) -> None:
        """Set a word of the header."""
        self._words[word] = value

    def lose(self, bit: int) -> None:
        """Note that something did not fit, so that nobody concludes from its absence."""
        self._words[layout.LOST] |= bit

    def communicator(self, identity: str, name: str, ranks: Sequence[int], member: int) -> Communicator | None:
        """Return the communicator of this identity, known from now on; None if there is no room for more."""
        known = self.communicators.get(identity)
        if known is not None:
            return known
        index = self._free_index()
        times = self._names[name] = self._names.get(name, 0) + 1
        name = name if times == 1 else f"{name} {times}"
        told: dict[str, Any] = {"comm": index, "id": identity, "name": name, "size": len(ranks)}
        if len(ranks) < self.world_size:
            told["ranks"] = list(ranks)
        # records before this one may be of another communicator that had the number
        told["first"] = self._words[layout.NUM_RECORDS]
        if index is None or not self.write_text(told, reserve=_TEXT_RESERVE):
            self.lose(layout.LOST_COMMUNICATORS)
            return None
        made = Communicator(index=index, identity=identity, name=name, member=member, ranks=tuple(ranks))
        if len(made.ranks) > 1:
            try:
                made.board = Board(self._board_path("board", identity), member, len(made.ranks))
            except OSError:  # no space: calls are still recorded, and compared by the judge
                self.lose(layout.LOST_BOARDS)
        self.communicators[identity] = made
        return made

    def _free_index(self) -> int | None:
        """Return a number for a communicator: one that was never used, or that of one that was given up."""
        if self._num_communicators < layout.MAX_COMMS:
            self._num_communicators += 1
            return self._num_communicators - 1
        if not self._given_up:
            return None
        index = self._given_up.pop(0)
        self._words[layout.COMMS_AT + index] = self._words[layout.FREED_AT + index] = 0
        for key, word in self._channels.items():
            if key[0] == index:
                self._words[word] = 0
        return index

    def _board_path(self, kind: str, identity: str) -> Path:
        return self.folder / f"{kind}.{self._world_name}.{identity}"

    @property
    def _world_name(self) -> str:
        return self.name.rpartition(".")[0]

    def give_up(self, communicator: Communicator) -> None:
        """Note that this rank will not use the communicator again."""
        self._words[layout.FREED_AT + communicator.index] = 1
        if self.communicators.pop(communicator.identity, None) is not None:
            self._given_up.append(communicator.index)
            for kind in ("board", "messages"):  # others have it open as long as they need it
                self._board_path(kind, communicator.identity).unlink(missing_ok=True)

    # calls

    def _thread(self) -> int:
        word = self._threads.get(_thread_id())
        return self._add_thread() if word is None else word

    def _free_slot(self) -> int | None:
        for slot in range(layout.MAX_THREADS):
            word = layout.THREADS_AT + slot * layout.THREAD_WORDS
            if not self._words[word + 1]:
                return word
        self.lose(layout.LOST_THREADS)
        return None

    def _add_thread(self) -> int:
        word = self._free_slot()
        if word is None:
            return layout.THREADS_AT + (layout.MAX_THREADS - 1) * layout.THREAD_WORDS
        return self.take_thread(word)

    def take_thread(self, word: int | None) -> int:
        """Take a slot for this thread, until it ends."""
        if word is None:
            return self._add_thread()
        identifier = _thread_id()
        self._threads[identifier] = word
        self._words[word + 1] = threading.get_native_id()
        if threading.current_thread() is not threading.main_thread():
            self._thread_local.end = _ThreadEnd(functools.partial(self._free_thread, word, identifier))
        return word

    def _free_thread(self, word: int, identifier: int) -> None:
        self._words[word] = self._words[word + 1] = 0
        self._threads.pop(identifier, None)

    def reserve_thread(self, thread: threading.Thread | None) -> int | None:
        """Count a thread that is about to begin as one that may communicate."""
        word = self._free_slot()
        if word is not None:
            self._words[word + 1] = 1
            if (
                thread is not None and thread.ident is not None
            ):  # it runs already, and nothing will tell us when it ends
                weakref.finalize(thread, self._free_thread, word, thread.ident)
                self._threads[thread.ident] = word
        return word

    @contextmanager
    def running_thread(self) -> Iterator[None]:
        """Count this thread as one that may communicate while it does something for the user."""
        known = _thread_id() in self._threads
        word = self._thread()
        try:
            yield
        finally:
            if not known:
                self._thread_local.end = None
                self._free_thread(word, _thread_id())

    def begin(
        self,
        communicator: int,
        operation: int,
        *,
        sequence: int = 0,
        root: int = NOTHING,
        tag: int = NOTHING,
        reduction: int = 0,
        dtype: int = 0,
        num_bytes: int = -1,
        count: int = -1,
        flags: int = 0,
        request: int = _NO_REQUEST,
        second: tuple[int, int, int, int, int] = (NOTHING, NOTHING, 0, -1, 0),  # peer, tag, dtype, bytes, sequence
        depth: int = 2,
    ) -> int:
        """Write one record; return its number."""
        site = self._site_of(_get_frame(depth))
        at_site = self._site_counts[site] = self._site_counts[site] + 1
        number = next(self._numbers)
        begin = _RECORDS_AT + (number & _SLOT_MASK) * _RECORD_BYTES
        _pack_record(
            self._bytes, begin, number + 1, _now(), 0, sequence, num_bytes, count, at_site, root, tag, site,
            communicator, operation, dtype, reduction, flags, request,
        )  # fmt: skip
        layout.SECOND.pack_into(self._bytes, begin + layout.SECOND_OFFSET, NOTHING, NOTHING, *second)
        self._words[layout.NUM_RECORDS] = number + 1
        return number

    def block(self, number: int) -> int:
        """Say that this thread waits in the call of this record; return what `unblock` wants."""
        word = self._threads.get(_thread_id())
        if word is None:
            word = self._add_thread()
        self._words[word] = number + 1
        return word

    def unblock(self, word: int, number: int) -> None:
        """Say that the call has returned."""
        words = self._words
        words[_RECORDS_WORD + (number & _SLOT_MASK) * _RECORD_WORDS + _LEFT_WORD] = _now()
        words[word] = 0

    def leave(self, number: int) -> None:
        """Say that a call that does not block has returned."""
        self._words[_RECORDS_WORD + (number & _SLOT_MASK) * _RECORD_WORDS + _LEFT_WORD] = _now()

    def fail(self, number: int) -> None:
        """Say that the call has raised."""
        begin = layout.RECORDS_AT + (number & _SLOT_MASK) * layout.RECORD_BYTES
        if struct.unpack_from("<Q", self._bytes, begin)[0] != number + 1:
            return  # a later record has taken its place
        (flags,) = struct.unpack_from("<H", self._bytes, begin + layout.FLAGS_OFFSET)
        struct.pack_into("<H", self._bytes, begin + layout.FLAGS_OFFSET, flags | layout.FAILED)

    def collective(
        self,
        communicator: Communicator,
        operation: int,
        root: int = NOTHING,
        reduction: int = 0,
        dtype: int = 0,
        num_bytes: int = -1,
        count: int = -1,
        flags: int = 0,
        request: int = _NO_REQUEST,
        depth: int = 2,
    ) -> int:
        """Record a collective and meet the others at its position; return the record's number.

        Does not return while another member is there with a call that does not fit. This is the one place where
        every microsecond is paid by every call, so what `begin` does is written out here.
        """
        sequence = next(communicator.numbers)
        frame = _get_frame(depth)
        caller = frame.f_back
        site = self._known_sites.get(
            (id(frame.f_code), frame.f_lasti, id(caller.f_code), caller.f_lasti) if caller else 0
        )
        if site is None:
            site = self._site_of(frame)
        at_site = self._site_counts[site] = self._site_counts[site] + 1
        number = next(self._numbers)
        _pack_record(
            self._bytes, _RECORDS_AT + (number & _SLOT_MASK) * _RECORD_BYTES, number + 1, _now(), 0, sequence,
            num_bytes, count, at_site, root, NOTHING, site, communicator.index, operation, dtype, reduction, flags,
            request,
        )  # fmt: skip
        words = self._words
        words[_NUM_RECORDS] = number + 1
        words[communicator.position_word] = sequence
        board = communicator.board
        if board is not None:
            call = (sequence & 0xFFFFFFFF) << 32 | operation << 23 | (root + 1 & 0x7FFF) << 8 | reduction  # pack_call
            other = board.meet(sequence, call, NO_SIZE if num_bytes < 0 and not dtype else pack_size(dtype, num_bytes))
            if other >= 0:
                self.stop(number, layout.STOP_COLLECTIVE, communicator.ranks[other])
        return number

    def position(self, communicator: Communicator) -> int:
        """Return how many collectives this rank has begun on the communicator."""
        return self._words[layout.COMMS_AT + communicator.index]

    def stop(self, number: int, reason: int, peer: int) -> None:
        """Wait before a call that does not fit, until the judge says go on. Usually it ends the job instead."""
        words = self._words
        words[layout.STOP_REASON], words[layout.STOP_PEER] = reason, peer & 0xFFFFFFFF
        words[layout.STOPPED] = number + 1
        word = self.block(number)
        while words[layout.GO_ON] != number + 1 and judge_lives(self.folder):
            time.sleep(_GO_ON_SECONDS)
        words[layout.STOPPED] = 0
        words[word] = 0

    # messages

    def _channel(self, communicator: int, direction: int, peer: int, tag: int) -> int:
        """Return the word that counts messages of this kind, or 0 if there is no room for it."""
        key = (communicator, direction, peer, tag)
        word = self._channels.get(key)
        if word is not None:
            return word
        index = len(self._channels)
        if index == layout.MAX_CHANNELS:
            self.lose(layout.LOST_CHANNELS)
            return 0
        begin = layout.CHANNELS_AT + index * layout.CHANNEL_BYTES
        layout.CHANNEL.pack_into(self._bytes, begin, communicator, direction, peer, tag, 0, 0, 0)
        word = (begin + layout.CHANNEL_COUNT_OFFSET) // layout.WORD
        self._channels[key] = word
        self._words[layout.NUM_CHANNELS] = index + 1
        return word

    def count_message(self, communicator: Communicator, direction: int, peer: int, tag: int) -> int:
        """Count a message sent to or received from a peer; return how many there are now, or 0 if not known."""
        word = self._channel(communicator.index, direction, peer, tag)
        if not word:
            return 0
        self._words[word] += 1
        return self._words[word]

    def num_messages(self, communicator: Communicator, direction: int, peer: int, tag: int) -> int:
        """Return how many messages of this kind were counted."""
        word = self._channels.get((communicator.index, direction, peer, tag))
        return 0 if word is None else self._words[word]

    def expect(self, communicator: Communicator, peer: int, tag: int, change: int) -> None:
        """Count a receive that was posted, or one that has completed."""
        key = (ANY, ANY) if ANY in (peer, tag) else (peer, tag)
        communicator.expected[key] = communicator.expected.get(key, 0) + change

    def next_receive(self, communicator: Communicator, peer: int, tag: int) -> int:
        """Return which message from the peer the next receive takes; 0 if that is not certain."""
        expected = communicator.expected
        if peer < 0 or tag < 0 or (expected and expected.get((ANY, ANY))):
            return 0
        waiting = expected.get((peer, tag), 0) if expected else 0
        return self.num_messages(communicator, RECEIVED, peer, tag) + waiting + 1

    def _messages(self, communicator: Communicator) -> MessageBoard | None:
        if communicator.messages is None and not self._words[layout.LOST] & layout.LOST_BOARDS:
            try:
                communicator.messages = MessageBoard(self._board_path("messages", communicator.identity))
            except OSError:
                self.lose(layout.LOST_BOARDS)
        return communicator.messages

    def _key(self, communicator: Communicator, direction: int, peer: int, tag: int, number: int) -> int:
        source, destination = (communicator.member, peer) if direction == SENT else (peer, communicator.member)
        return message_key(source, destination, tag, number, 0)

    def meet_message(
        self, record: int, communicator: Communicator, direction: int, peer: int, tag: int, number: int, size: int
    ) -> None:
        """Show one side of the n-th message; stop if the other side is there and does not fit."""
        if number and peer >= 0 and tag >= 0:
            key = self._key(communicator, direction, peer, tag, number)
            board = self._messages(communicator)
            if board is not None and board.meet(key, size, sends=direction == SENT) >= 0:
                self.stop(record, layout.STOP_MESSAGE, communicator.ranks[peer])

    def withdraw_receive(self, communicator: Communicator, peer: int, tag: int, number: int) -> None:
        """Take back what a receive that is given up has shown."""
        board = self._messages(communicator)
        if number and board is not None:
            board.withdraw(self._key(communicator, RECEIVED, peer, tag, number))

    def check_received(
        self, record: int, communicator: Communicator, peer: int, tag: int, number: int, size: int
    ) -> None:
        """Compare a finished receive with what was sent; stop if it did not fit."""
        if number and 0 <= peer < len(communicator.ranks):
            board = self._messages(communicator)
            sent = board.sent(self._key(communicator, RECEIVED, peer, tag, number)) if board is not None else -1
            if sent >= 0 and not message_fits(sent, size):
                begin = layout.RECORDS_AT + (record & _SLOT_MASK) * layout.RECORD_BYTES
                if struct.unpack_from("<Q", self._bytes, begin)[0] == record + 1:
                    struct.pack_into("<ii", self._bytes, begin + layout.SECOND_OFFSET, peer, tag)
                    self.stop(record, layout.STOP_MESSAGE, communicator.ranks[peer])

    # requests

    def new_request(self) -> int:
        """Return the number of a request that is about to be posted; 0 if there is no room."""
        try:
            return self._free_requests.pop()
        except IndexError:
            self.lose(layout.LOST_REQUESTS)
            return _NO_REQUEST

    def keep_request(self, request: int, record: int) -> None:
        """Keep the record of a posted request where later records cannot push it out."""
        if request:
            begin = layout.RECORDS_AT + (record & _SLOT_MASK) * layout.RECORD_BYTES
            kept = layout.REQUESTS_AT + request * layout.RECORD_BYTES
            self._bytes[kept : kept + layout.RECORD_BYTES] = self._bytes[begin : begin + layout.RECORD_BYTES]

    def activate_request(self, request: int, *, posted: bool) -> None:
        """Say whether a kept request is under way: a persistent one is not before it is started."""
        if request:
            kept = layout.REQUESTS_AT + request * layout.RECORD_BYTES
            self._words[(kept + layout.LEFT_OFFSET) // layout.WORD] = 0 if posted else _now()

    def free_request(self, request: int) -> None:
        """Say that a request is complete or gone."""
        if request:
            self._words[(layout.REQUESTS_AT + request * layout.RECORD_BYTES) // layout.WORD] = 0
            self._free_requests.append(request)

    def wait(self, operation: int, requests: Sequence[int], *, any_of: bool, depth: int = 3, flags: int = 0) -> int:
        """Record that this thread waits for requests; return the record's number, to be unblocked."""
        word = self._thread()
        slot = (word - layout.THREADS_AT) // layout.THREAD_WORDS
        listed = requests[: layout.MAX_WAITED]
        begin = layout.WAITED_AT + slot * layout.MAX_WAITED * 2
        struct.pack_into(f"<{len(listed)}H", self._bytes, begin, *listed)
        self._words[word + 2] = len(listed)
        complete = len(listed) == len(requests)
        first = listed[0] if listed else 0
        return self.begin(
            layout.MAX_COMMS, operation, count=len(requests) if complete else -1, root=int(any_of), flags=flags,
            request=first, depth=depth,
        )  # fmt: skip

    # the end

    def end(self, how: int, code: int | None = None) -> None:
        """Say that this process is about to end."""
        words = self._words
        if words[layout.ENDING] == layout.LIVES or how == layout.EXITS_AT_ONCE:
            if code is not None:
                words[layout.EXIT_CODE] = (code & 0xFF) + 1
            words[layout.ENDED_AT] = _now()
            words[layout.ENDING] = how


def start_time(pid: int) -> int:
    """Return when a process began, in clock ticks since the machine did; with the pid it names the process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def judge_lives(folder: Path) -> bool:
    """Say whether the judge of this run is still there to be waited for."""
    try:
        pid, began = map(int, (folder / "judge").read_text().split())
        return start_time(pid) == began
    except (OSError, ValueError):
        return False


__all__ = ["ANY", "Communicator", "Recorder", "judge_lives", "start_time"]
