"""What one rank does with one window: its open epochs, and what it has reached for in them.

An access is under way until the call that completes it: a fence, a Complete, an Unlock or a flush. Then it is shown to
the other members (shared_memory/access_board.py) and compared with what they have shown: the later of two sees the
earlier. In an epoch between groups the target compares, since it alone knows which origins are in the epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.remarks.active_buffers import BUFFER_IN_USE, UsedMemory, unposted
from paceline.guard.rank.remarks.rank_remarks import DroppedRequest
from paceline.guard.rank.remarks.window_conflicts import Conflict, find_conflicts, find_conflicts_among
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.access_board import (
    BY_FENCE,
    BY_GROUP,
    BY_LOCK,
    NUM_ACCESSES,
    WRITES,
    Access,
    AccessBoard,
)
from paceline.guard.shared_memory.layout import ANY, EXCLUSIVE_LOCK
from paceline.guard.shared_memory.operations import BY_CODE, BY_NAME, Family, Needs
from paceline.guard.shared_memory.record_fields import RECORD_BYTES, brief

CONFLICT, OUTSIDE = "conflict", "outside"  # how memory of a window is in use
UNCOMPLETED, HELD_AT_END = "uncompleted", "held"  # what became of an access, or of a lock
MOST_UNDER_WAY = 256  # accesses of one window that are followed at one time
_NEXT_CALL = brief(("number", "sequence", "communicator", "operation", "flags"))
_SITE = brief(("site",))
_FREE = BY_NAME["Win.Free"].code


@dataclass(slots=True)
class OpenEpochs:
    """The epochs of one window that this rank has open."""

    targets: tuple[int, ...] = ()  # of its Start
    origins: tuple[int, ...] = ()  # of its Post
    locks: dict[int, int] = field(default_factory=dict)  # member that is locked, or ANY for all -> kind of lock
    lock_sites: dict[int, int] = field(default_factory=dict)
    is_fenced: bool = False  # whether a fence has begun an epoch that may still be open
    num_fences: int = 0
    num_started: dict[int, int] = field(default_factory=dict)  # member -> epochs begun with it by Start
    num_posted: dict[int, int] = field(default_factory=dict)  # and by Post

    def start(self, targets: tuple[int, ...]) -> None:
        """Note that this rank has begun an epoch as an origin."""
        self.targets = targets
        for target in targets:
            self.num_started[target] = self.num_started.get(target, 0) + 1

    def post(self, origins: tuple[int, ...]) -> None:
        """Note that this rank has begun an epoch as a target."""
        self.origins = origins
        for origin in origins:
            self.num_posted[origin] = self.num_posted.get(origin, 0) + 1

    def lock(self, target: int, kind: int, site: int) -> None:
        """Note that this rank holds the lock of a member, or of ANY of them."""
        self.locks[target], self.lock_sites[target] = kind, site

    def unlock(self, target: int) -> None:
        """Note that this rank holds that lock no more."""
        self.locks.pop(target, None)

    def lock_of(self, target: int) -> int | None:
        """Return the kind of lock that this rank holds at a member; None if it holds none."""
        return self.locks.get(target, self.locks.get(ANY))

    def order_of(self, target: int) -> int:
        """Return what orders an access to a member; 0 if it is not in an epoch at all."""
        if self.lock_of(target) is not None:
            return BY_LOCK
        if target in self.targets:
            return BY_GROUP
        return BY_FENCE if self.is_fenced else 0


@dataclass(slots=True)
class _OpenAccess:
    """An access that is not complete."""

    access: Access
    memory: tuple[UsedMemory, ...]  # of this rank, that it reads or writes
    fetches: bool  # once its result is here, it has been carried out
    is_alone: bool  # it is made under a lock that keeps others out


class WindowLog:
    """What one rank does with one window."""

    def __init__(
        self, recorder: Recorder, window: Communicator, parent: Communicator, board: AccessBoard | None = None
    ) -> None:
        """Follow a window.

        Args:
            recorder: Of this rank.
            window: The window.
            parent: The communicator that it was made from, whose collectives order what is done under locks.
            board: Where members show what they do; None if that is not compared.
        """
        self._recorder, self._window, self._parent, self.board = recorder, window, parent, board
        self.epochs = OpenEpochs()
        self._under_way: list[_OpenAccess] = []
        self._completed: list[tuple[Access, int]] = []  # under locks, with the number of the next record by then
        self._synchronised_at = -1  # position on the parent at which what others did may have been seen in memory
        self._others: deque[Access] = deque(maxlen=NUM_ACCESSES * max(1, len(window.ranks)))

    @property
    def identity(self) -> str:
        """The identity of the window."""
        return self._window.identity

    @property
    def member(self) -> int:
        """The number of this rank in the window."""
        return self._window.member

    @property
    def index(self) -> int:
        """The number of the window in the ring."""
        return self._window.index

    @property
    def num_members(self) -> int:
        """The number of ranks of the window."""
        return len(self._window.ranks)

    def add(
        self, access: Access, memory: tuple[UsedMemory, ...] = (), *, fetches: bool = False, has_request: bool = False
    ) -> None:
        """Note an access that was just made. A library that makes it for the user may know better what it does."""
        epochs, target = self.epochs, access.target
        if not self._recorder.remarks.is_direct(access.site):
            return
        order = epochs.order_of(target)
        if not order:
            self._say_outside(access)
        elif order == BY_LOCK and self._synchronised_at == self._recorder.position(self._parent):
            return  # memory itself may have told this rank when to do it
        elif len(self._under_way) < MOST_UNDER_WAY:
            first = self._recorder.position(self._parent) if order == BY_LOCK else epochs.num_fences
            if order == BY_GROUP:
                first = epochs.num_started.get(target, 0)
            access = access._replace(order=order, first=first, last=first)
            is_alone = epochs.lock_of(target) == EXCLUSIVE_LOCK
            if has_request:  # waiting for it gives the memory of this rank back
                for one in memory:
                    one.mark()
            elif memory:
                self._recorder.buffers.begin(unposted(access.site, access.operation), memory)
            if access.does == WRITES and memory:
                access = access._replace(content=memory[0].content())
            self._under_way.append(_OpenAccess(access, () if has_request else memory, fetches, is_alone))

    # calls that complete accesses

    def fence(self, *, opens: bool) -> None:
        """Note that this rank is about to meet the others at a fence, which opens the next epoch or not."""
        done = self._take(lambda one: one.access.order == BY_FENCE)
        self._say_among(done)
        self._show([one.access for one in done])
        self.epochs.num_fences += 1
        self.epochs.is_fenced = opens

    def complete_started(self) -> None:
        """Note that this rank is about to end its epoch as an origin."""
        done = self._take(lambda one: one.access.order == BY_GROUP)
        self._say_among(done)
        if self.board is not None:
            for one in done:
                self.board.show(one.access)

    def compare_origins(self) -> None:
        """Note that all origins have ended the epoch in which this rank was a target, and compare what they did."""
        epochs, me = self.epochs, self._window.member
        self._read_others()
        met = [
            other._replace(first=0, last=0) for other in self._others
            if other.order == BY_GROUP and other.target == me and other.origin in epochs.origins
            and other.first == epochs.num_posted.get(other.origin)
        ]  # fmt: skip
        site = self._site_of_last_call()
        for pair in find_conflicts_among(met):
            if pair[0].origin != pair[1].origin:  # otherwise the origin says so
                self._say_conflict(pair, site)

    def complete_locked(self, target: int, *, only_here: bool) -> None:
        """Note that accesses to a locked member, or to ANY of them, are complete, or only their part on this rank."""
        now = self._recorder.position(self._parent)
        if only_here:
            self._let_go(target)

        def is_done(one: _OpenAccess) -> bool:
            is_there = one.access.order == BY_LOCK and target in (ANY, one.access.target)
            return is_there and (not only_here or one.fetches)

        done = self._take(is_done)
        self._say_among(done)
        number = self._recorder.ring.words[layout.NUM_RECORDS]
        self._completed += [(one.access._replace(last=now), number) for one in done if not one.is_alone]

    def settle(self, *, speaks: bool = False) -> None:
        """Show what was completed under locks, with what this rank has done since: asked before it does more.

        It may be about to tell others something in a way of which there is no record (`speaks`).
        """
        if self._completed:
            done, self._completed = self._completed, []
            self._show(
                [
                    access._replace(is_last_word=not speaks and self._meets_all(number, access.last))
                    for access, number in done
                ]
            )

    def synchronise(self) -> None:
        """Note that this rank looks at its part anew: it may see by that what others have done, and go by it."""
        self.settle(speaks=True)
        self._synchronised_at = self._recorder.position(self._parent)

    def left(self) -> list[DroppedRequest]:
        """Return what is open at the end, once: accesses that nothing has completed, or else locks."""
        self.settle()
        found = {(one.access.site, one.access.operation): UNCOMPLETED for one in self._under_way}
        if not found:
            for target in self.epochs.locks:
                name = "Win.Lock_all" if target == ANY else "Win.Lock"
                found[self.epochs.lock_sites[target], BY_NAME[name].code] = HELD_AT_END
        self._under_way = []
        self.epochs.locks.clear()
        return [DroppedRequest(site=site, operation=operation, how=how) for (site, operation), how in found.items()]

    # what they share

    def _take(self, is_done: Callable[[_OpenAccess], bool]) -> list[_OpenAccess]:
        """Take out the accesses that are complete."""
        done = [one for one in self._under_way if is_done(one)]
        if done:
            self._under_way = [one for one in self._under_way if not is_done(one)]
            for one in done:
                self._recorder.buffers.end(one.memory)
        return done

    def _let_go(self, target: int) -> None:
        """Note that the memory of this rank is free again."""
        for one in self._under_way:
            if target in (ANY, one.access.target):
                self._recorder.buffers.end(one.memory)
                one.memory = ()

    def _show(self, accesses: list[Access]) -> None:
        """Show accesses to the other members, and compare them with what those have shown."""
        if self.board is None or not accesses:
            return
        for access in accesses[-NUM_ACCESSES:]:
            self.board.show(access)
        self._read_others()
        for pair in find_conflicts(accesses, self._others):
            self._say_conflict(pair, pair[0].site)

    def _read_others(self) -> None:
        if self.board is not None:
            self._others.extend(self.board.news())

    def _say_among(self, done: Iterable[_OpenAccess]) -> None:
        for pair in find_conflicts_among([one.access for one in done]):
            self._say_conflict(pair, pair[1].site)

    def _say_conflict(self, pair: Conflict, site: int) -> None:
        sides = [(one.origin, one.site, BY_CODE[one.operation].name) for one in pair]
        self._recorder.remarks.note(
            BUFFER_IN_USE, site, sides[0][2], CONFLICT, on=self.identity, target=pair[0].target, pair=sides
        )

    def _say_outside(self, access: Access) -> None:
        self._recorder.remarks.note(BUFFER_IN_USE, access.site, BY_CODE[access.operation].name, OUTSIDE)

    def _meets_all(self, number: int, position: int) -> bool:
        """Say whether the record of this number is the next collective of the communicator, for which all wait."""
        found = self._record(number)
        if found is None:
            return False
        sequence, communicator, operation, flags = found
        if communicator == self._window.index and operation == _FREE:
            return True
        known = BY_CODE.get(operation)
        return (
            communicator == self._parent.index and sequence == position + 1 and known is not None
            and known.family is Family.COLLECTIVE and known.needs is Needs.ALL and not flags & layout.NONBLOCKING
        )  # fmt: skip

    def _record(self, number: int) -> tuple[int, int, int, int] | None:
        begin = layout.RECORDS_AT + (number & (layout.NUM_SLOTS - 1)) * RECORD_BYTES
        found, sequence, communicator, operation, flags = _NEXT_CALL.unpack_from(self._recorder.ring.bytes, begin)
        return (sequence, communicator, operation, flags) if found == number + 1 else None

    def _site_of_last_call(self) -> int:
        number = self._recorder.ring.words[layout.NUM_RECORDS] - 1
        begin = layout.RECORDS_AT + (number & (layout.NUM_SLOTS - 1)) * RECORD_BYTES
        return int(_SITE.unpack_from(self._recorder.ring.bytes, begin)[0])
