"""The rank's own record: what it calls, where it waits, what it has sent and received, in shared memory.

Writing is lock-free and takes about a microsecond. Nothing here imports torch or mpi4py, and nothing here decides
who is wrong: a rank that sees a call that does not fit stops before it and waits for the judge's word.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from paceline.guard.rank.call_sites import Frame, Sites, places
from paceline.guard.rank.channels import MessageCounts
from paceline.guard.rank.communicator import Communicator, CommunicatorSlots
from paceline.guard.rank.remarks.active_buffers import ActiveBuffers
from paceline.guard.rank.remarks.memory_table import MemoryTable
from paceline.guard.rank.remarks.rank_remarks import RankRemarks
from paceline.guard.rank.request_slots import NO_REQUEST, RequestSlots
from paceline.guard.rank.thread_slots import ThreadSlots
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import Board, pack_call, pack_size
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.number_ranges import to_ranges
from paceline.guard.shared_memory.record_fields import (
    COMMON,
    COMMON_WITH_SITE_PART,
    MESSAGE,
    MESSAGE_OFFSET,
    OFFSETS,
    RECORD_BYTES,
    SITE_PART,
    WORD,
)
from paceline.guard.shared_memory.ring import Ring, judge_lives
from paceline.process.procfs import start_time

_KnownCall = tuple[int, bytes, int, int]  # site, the unchanging part of its record, call and size on the board
_CallKey = tuple[tuple[int, ...], tuple[int, ...]]  # of the site, and of the arguments
Receives = tuple[int, int, int, int, int]  # what an exchange receives: source, tag, element type, bytes, number
NOTHING_RECEIVED: Receives = (NOTHING, NOTHING, 0, -1, 0)

_pack_record = COMMON.pack_into
_pack_known_record = COMMON_WITH_SITE_PART.pack_into
_pack_message = MESSAGE.pack_into
_pack_request = struct.Struct("<H").pack_into
_now = time.monotonic_ns
_thread_id = threading.get_ident
_get_frame = sys._getframe
_SLOT_MASK = layout.NUM_SLOTS - 1
_RECORDS_AT, _RECORD_BYTES, _NUM_RECORDS = layout.RECORDS_AT, RECORD_BYTES, layout.NUM_RECORDS
_RECORD_WORDS, _RECORDS_WORD = RECORD_BYTES // WORD, layout.RECORDS_AT // WORD
_LEFT_WORD = OFFSETS["left_ns"] // WORD
_REQUEST_OFFSET, _FLAGS_OFFSET = OFFSETS["request"], OFFSETS["flags"]
_NONBLOCKING = layout.NONBLOCKING
_GO_ON_SECONDS = 0.002
_MAX_KNOWN_CALLS = 4096
TEXT_RESERVE = 16_384  # bytes that are kept for communicators, and then for how the rank ends


class Recorder:
    """The shared memory of this rank, and everything that writes to it."""

    memory_table: type[MemoryTable] = MemoryTable

    def __init__(self, folder: Path, name: str, *, rank: int, world_size: int, carrier: str = "mpi") -> None:
        """Make the ring of a process that joins its first world; `name` is WORLD.RANK, `carrier` mpi or torch."""
        self.folder, self.name = folder, name
        self._worlds: dict[str, str] = {}  # carrier -> name of the world that was joined last
        self.ring = Ring(folder / f"ring.{name}")
        self._bytes, self._words = self.ring.bytes, self.ring.words
        self.threads, self.requests = ThreadSlots(self.ring), RequestSlots(self.ring)
        self.messages = MessageCounts(self.ring, self._board_path, self.stop)
        self._thread_words = self.threads.slots
        self._numbers = itertools.count()
        self._site_counts = [0]  # by number of the site
        self._calls: dict[_CallKey, _KnownCall] = {}  # by site and arguments
        self._communicator_slots = CommunicatorSlots(self.ring, self.messages.forget)
        self._groups_told: set[int] = set()
        self._names: dict[str, int] = {}
        self.communicators: dict[str, Communicator] = {}
        self.pid = os.getpid()
        words = self._words
        words[layout.PID], words[layout.START_TIME] = self.pid, start_time(self.pid)
        words[layout.WORLD_SIZE], words[layout.RANK] = world_size, rank
        words[layout.JOINED] = _now()
        self.sites = Sites(self._describe_site)
        self._site_of, self._known_sites = self.sites.number, self.sites.known
        self.remarks = RankRemarks(self.ring, self.sites)
        self.buffers = ActiveBuffers(self.ring, self.requests, self.remarks, self.memory_table())
        self.ring.write_text({"cwd": os.getcwd()})  # not the arguments: they may hold secrets
        self._tell_world(carrier, name, rank, world_size)
        words[0] = layout.MAGIC

    def join_world(self, name: str, *, rank: int, world_size: int, carrier: str) -> None:
        """Become a rank of one more world: its ring gets one more name there, WORLD.RANK.

        Raises:
            FileExistsError: Another process has this name.
        """
        os.link(self.folder / f"ring.{self.name}", self.folder / f"ring.{name}")
        self._tell_world(carrier, name, rank, world_size)

    def _tell_world(self, carrier: str, name: str, rank: int, world_size: int) -> None:
        world = name.rpartition(".")[0]
        self._worlds[carrier] = world
        self.ring.write_text({"world": world, "rank": rank, "size": world_size})

    def world_of(self, carrier: str) -> str | None:
        """Return the name of the carrier's world that this process has joined last."""
        return self._worlds.get(carrier)

    def communicators_of(self, carrier: str) -> list[Communicator]:
        """Return the communicators of the carrier's world that are in use."""
        world = self._worlds.get(carrier)
        return [known for known in self.communicators.values() if known.identity.rpartition(".")[0] == world]

    def _describe_site(self, number: int, frames: list[Frame], library: list[Frame]) -> None:
        self._site_counts.append(0)
        text: dict[str, Any] = {"site": number, "frames": frames}
        if library:
            text["library"] = library
        self.ring.write_text(text, reserve=2 * TEXT_RESERVE)

    def communicator(
        self, identity: str, name: str, ranks: Sequence[int], member: int, *, reserve: int = TEXT_RESERVE
    ) -> Communicator | None:
        """Return a communicator, known from now on; None if there is no room for more.

        Args:
            identity: The same on all members, and begins with "torch" or "rpc" if these carry it. The world's name is
                added.
            name: As people know it.
            ranks: The members as ranks of their world.
            member: The number of this process among them.
            reserve: Bytes that must be left for texts that matter more.
        """
        carrier = next((known for known in ("torch", "rpc") if identity.startswith(known)), "mpi")
        world = self._worlds.get(carrier) or self.name.rpartition(".")[0]
        identity = f"{world}.{identity}"
        known = self.communicators.get(identity)
        if known is not None:
            return known
        index = self._communicator_slots.take()
        times = self._names[name] = self._names.get(name, 0) + 1
        name = name if times == 1 else f"{name} {times}"
        text: dict[str, Any] = {"comm": index, "id": identity, "world": world, "name": name, "size": len(ranks)}
        if tuple(ranks) != tuple(range(len(ranks))):
            text["ranges"] = to_ranges(ranks)
        # records before this one may be of another communicator that had the number
        text["first"] = self._words[layout.NUM_RECORDS]
        if index is None or not self.ring.write_text(text, reserve=reserve):
            self.ring.lose(layout.LOST_COMMUNICATORS if reserve == TEXT_RESERVE else layout.LOST_WINDOWS)
            return None
        made = Communicator(index=index, identity=identity, name=name, member=member, ranks=tuple(ranks))
        if len(made.ranks) > 1:
            try:
                made.board = Board(self._board_path("board", identity), member, len(made.ranks))
            except OSError:  # no space: calls are still recorded, and compared by the judge
                self.ring.lose(layout.LOST_BOARDS)
        self.communicators[identity] = made
        return made

    def tell_group(self, members_hash: int, ranks: Sequence[int]) -> None:
        """Say which ranks the number in a record stands for, once; not where room is kept for what matters more."""
        if members_hash not in self._groups_told:
            self._groups_told.add(members_hash)
            self.ring.write_text({"group": members_hash, "ranges": to_ranges(ranks)}, reserve=2 * TEXT_RESERVE)

    def _board_path(self, kind: str, identity: str) -> Path:
        return self.folder / f"{kind}.{identity}"

    def give_up(self, communicator: Communicator) -> None:
        """Note that this rank will not use the communicator again."""
        self._words[layout.FREED_AT + communicator.index] = 1
        if self.communicators.pop(communicator.identity, None) is not None:
            self._communicator_slots.give_up(communicator.index)
            for kind in ("accesses", "board", "messages", "pairs", "results"):  # who has it open keeps it
                self._board_path(kind, communicator.identity).unlink(missing_ok=True)

    # calls

    def begin_message(
        self,
        communicator: int,
        operation: int,
        *,
        peer: int = NOTHING,
        tag: int = NOTHING,
        message_number: int = 0,
        dtype: int = 0,
        num_bytes: int = -1,
        count: int = -1,
        flags: int = 0,
        request: int = NO_REQUEST,
        receives: Receives = NOTHING_RECEIVED,
        num_requests: int = -1,
        members_hash: int = 0,
        depth: int = 2,
    ) -> int:
        """Write the record of a message or a wait; return its number. It does not say yet that this thread waits."""
        site = self._site_of(_get_frame(depth))
        at_site = self._site_counts[site] = self._site_counts[site] + 1
        number = next(self._numbers)
        begin = _RECORDS_AT + (number & _SLOT_MASK) * _RECORD_BYTES
        _pack_record(
            self._bytes, begin, number + 1, _now(), 0, 0, at_site, num_bytes, count, members_hash, NOTHING, site,
            communicator, operation, dtype, 0, flags, request,
        )  # fmt: skip
        source, source_tag, source_dtype, source_bytes, source_number = receives
        _pack_message(
            self._bytes, begin + MESSAGE_OFFSET, peer, tag, source, source_tag, num_requests, source_dtype,
            message_number, source_number, source_bytes,
        )  # fmt: skip
        self._words[_NUM_RECORDS] = number + 1
        return number

    def block(self, number: int) -> None:
        """Say that this thread waits in the call of this record."""
        self._words[self._thread_words.get(_thread_id()) or self.threads.take_free_slot()] = number + 1

    def unblock(self, number: int) -> None:
        """Say that the call has returned."""
        words = self._words
        words[_RECORDS_WORD + (number & _SLOT_MASK) * _RECORD_WORDS + _LEFT_WORD] = _now()
        words[self._thread_words.get(_thread_id()) or self.threads.take_free_slot()] = 0

    def leave(self, number: int) -> None:
        """Say that a call that does not block has returned."""
        self._words[_RECORDS_WORD + (number & _SLOT_MASK) * _RECORD_WORDS + _LEFT_WORD] = _now()

    def fail(self, number: int) -> None:
        """Say that the call has raised."""
        begin = _RECORDS_AT + (number & _SLOT_MASK) * _RECORD_BYTES
        if struct.unpack_from("<Q", self._bytes, begin)[0] != number + 1:
            return  # a later record has taken its place
        (flags,) = struct.unpack_from("<H", self._bytes, begin + _FLAGS_OFFSET)
        struct.pack_into("<H", self._bytes, begin + _FLAGS_OFFSET, flags | layout.FAILED)

    def begin_collective(
        self,
        communicator: Communicator,
        operation: int,
        root: int = NOTHING,
        reduction: int = 0,
        dtype: int = 0,
        num_bytes: int = -1,
        count: int = -1,
        flags: int = 0,
        request: int = NO_REQUEST,
        depth: int = 2,
        members_hash: int = 0,
    ) -> int:
        """Record a collective, meet the others at its position, and say that this thread waits in it.

        Returns the record's number; one that is only started (NONBLOCKING) is not waited in. Does not return while
        another member is there with a call that does not fit. This is the one place where every microsecond is paid
        by every call: what is the same each time is packed once and kept.
        """
        frame = _get_frame(depth)
        call_key = (
            communicator.index, operation, root, reduction, dtype, num_bytes, count, flags, members_hash,
        )  # fmt: skip
        key = (places(frame), call_key)
        known = self._calls.get(key)
        if known is None:
            known = self._learn_call(frame, key)
        site, part, call, size = known
        sequence, number = next(communicator.numbers), next(self._numbers)
        at_site = self._site_counts[site] = self._site_counts[site] + 1
        begin = _RECORDS_AT + (number & _SLOT_MASK) * _RECORD_BYTES
        _pack_known_record(self._bytes, begin, number + 1, _now(), 0, sequence, at_site, part)
        if request:
            _pack_request(self._bytes, begin + _REQUEST_OFFSET, request)
        words = self._words
        words[_NUM_RECORDS] = number + 1
        words[communicator.position_word] = sequence
        board = communicator.board
        if board is not None:
            other = board.meet(sequence, call, size)
            if other >= 0:
                self.stop(number, layout.STOP_COLLECTIVE, communicator.ranks[other])
        if not flags & _NONBLOCKING:
            words[self._thread_words.get(_thread_id()) or self.threads.take_free_slot()] = number + 1
        return number

    def _learn_call(self, frame: FrameType, key: _CallKey) -> _KnownCall:
        """Return the site, the record's unchanging part and what the board shows; keep them if the site is known."""
        communicator, operation, root, reduction, dtype, num_bytes, count, flags, members_hash = key[1]
        site = self._site_of(frame)
        part = SITE_PART.pack(
            num_bytes, count, members_hash, root, site, communicator, operation, dtype, reduction, flags, NO_REQUEST
        )
        # a call that makes a communicator moves no data: the board compares its members where others have a size
        size = pack_size(dtype, members_hash or num_bytes)
        known = (site, part, pack_call(operation, root, reduction), size)
        if key[0] in self._known_sites:  # so its code objects are kept alive, and their ids are their own
            if len(self._calls) >= _MAX_KNOWN_CALLS:  # sizes that change with every step would fill the memory
                self._calls.clear()
            self._calls[key] = known
        return known

    def position(self, communicator: Communicator) -> int:
        """Return how many collectives this rank has begun on the communicator."""
        return self._words[layout.COMMS_AT + communicator.index]

    def stop(self, number: int, reason: int, peer: int) -> None:
        """Wait before a call that does not fit, until the judge says go on. Usually it ends the job instead."""
        words = self._words
        words[layout.STOP_REASON], words[layout.STOP_PEER] = reason, peer & 0xFFFFFFFF
        words[layout.STOPPED] = number + 1
        self.block(number)
        while words[layout.GO_ON] != number + 1 and judge_lives(self.folder):
            time.sleep(_GO_ON_SECONDS)
        words[layout.STOPPED] = words[self.threads.find_slot()] = 0

    def begin_wait(
        self, operation: int, requests: Sequence[int], *, any_of: bool, depth: int = 3, flags: int = 0
    ) -> int:
        """Write the record of a wait for requests; return its number. It does not say yet that this thread waits."""
        word = self.threads.find_slot()
        slot = (word - layout.THREADS_AT) // layout.THREAD_WORDS
        listed = requests[: layout.MAX_WAITED]
        begin = layout.WAITED_AT + slot * layout.MAX_WAITED * 2
        struct.pack_into(f"<{len(listed)}H", self._bytes, begin, *listed)
        self._words[word + 2] = len(listed)
        return self.begin_message(
            layout.MAX_COMMS, operation, num_requests=len(requests) if len(listed) == len(requests) else -1,
            flags=flags | (layout.ANY_OF if any_of else 0), request=listed[0] if listed else NO_REQUEST, depth=depth,
        )  # fmt: skip

    # the end

    def end(self, how: int, code: int | None = None) -> None:
        """Say that this process is about to end."""
        words = self._words
        if words[layout.ENDING] == layout.LIVES or how == layout.EXITS_AT_ONCE:
            with contextlib.suppress(TypeError):  # the script gave something that is not a number: the call will say so
                words[layout.EXIT_CODE] = 0 if code is None else (operator.index(code) & 0xFF) + 1
            words[layout.ENDED_AT] = _now()
            words[layout.ENDING] = how
