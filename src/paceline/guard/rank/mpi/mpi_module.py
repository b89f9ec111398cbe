"""What is shared by all that watches mpi4py: its readers, and which communicators and requests are followed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paceline.guard.rank.buffer_size import Size
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.messages.mpi_message_arguments import MessageReader
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.mpi_collective_arguments import CollectiveReader
from paceline.guard.rank.mpi.mpi_constants import MpiConstants
from paceline.guard.rank.mpi.mpi_handles import MpiHandles, handle_reader
from paceline.guard.rank.mpi.mpi_memory import MemoryReader
from paceline.guard.rank.mpi.mpi_requests import FollowedRequests
from paceline.guard.rank.mpi.mpi_results import MpiResults
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.remarks.rank_remarks import DroppedRequest
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, make_blocked_call
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME

_MOST_NEIGHBOURS = 1000  # that a rank tells of
_MOST_HANDLES = 64  # windows, or files, that are followed at one time: communicators need room too
_HANDLE_RESERVE = 98_304  # bytes of texts that windows, files and neighbours leave for everything else


class MpiWatch:
    """What is known of one mpi4py module."""

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.buffers = Buffers(mpi)
        self.constants = MpiConstants(mpi)
        self.memory = MemoryReader(mpi, self.buffers, compares=SESSION.compares_buffers())
        # one of each, whose way to read sizes is exchanged when this process has joined a job
        self.collective_reader = CollectiveReader(mpi, self.buffers, self.constants)
        self.message_reader = MessageReader(mpi, self.buffers, self.constants)
        self.handles: MpiHandles | None = None
        # as mpi4py has them: groups of our own are not counted
        self._get_group, self._free_group = own_method(mpi.Comm, "Get_group"), own_method(mpi.Group, "Free")
        self._get_remote_group = own_method(mpi.Intercomm, "Get_remote_group")
        self.world_group: Any = None  # of a program without COMM_WORLD, which has only a session
        self.requests = FollowedRequests(handle_reader(mpi, mpi.Request))
        self.left: Callable[[], Iterable[DroppedRequest]] = self.requests.left  # what nobody has completed, at the end
        # Those that are followed, by MPI's handle: one that is reached by several objects is one. No object of mpi4py
        # is kept. A handle that is freed is taken out, since MPI gives it to another communicator afterwards.
        self.communicators: dict[int, Communicator] = {}
        self.intercommunicators: dict[int, Communicator] = {}  # the same for those with two sides
        self.handle_of = handle_reader(mpi, mpi.Comm)
        # None: they are not compared, and calls are made as if there were nothing to compare
        self.results = MpiResults(self.buffers, self.find) if SESSION.compares_results() else None
        self.windows = FollowedHandles(handle_reader(mpi, mpi.Win), layout.WINDOW_PREFIX)
        self.files = FollowedHandles(handle_reader(mpi, mpi.File), layout.FILE_PREFIX)

    def look_at_uses(self, recorder: Recorder) -> None:
        """Compare calls that block with the memory that requests write to, while there are such requests."""
        plain, note_use, active = self.buffers.size, self.memory.note_use, recorder.buffers
        table = active.table

        def size(spec: Any) -> Size:
            found = plain(spec)
            if table.num_writing:
                note_use(active, spec, found)
            return found

        self.message_reader.read_sizes_by(size)
        self.collective_reader.read_sizes_by(size)

    def job_ranks(self, group: Any) -> tuple[int, ...]:
        """Return the ranks of a group in the world; a negative number for a process that is not in it.

        After Finalize a program may still use sessions. There is no world then, so nobody has a rank in it.
        """
        if self.world_group is not None:
            return self.numbers_in(self.world_group, group)
        if self.mpi.Is_finalized():
            return (-1,) * int(group.Get_size())
        with self.group_of(self.mpi.COMM_WORLD) as world_group:
            return self.numbers_in(world_group, group)

    def numbers_in(self, group: Any, members: Any) -> tuple[int, ...]:
        """Return the numbers that members of another group have in a group; a negative one if they are not in it."""
        return tuple(self.mpi.Group.Translate_ranks(members, range(members.Get_size()), group))

    @contextlib.contextmanager
    def group_of(self, communicator: Any, *, remote: bool = False) -> Iterator[Any]:
        """Return the group of a communicator, or of its other side, for a while."""
        group = self._get_remote_group(communicator) if remote else self._get_group(communicator)
        try:
            yield group
        finally:
            self._free_group(group)

    def forget_world_group(self) -> None:
        """Let go of the group of all processes that a session gave: it ends, or there is a COMM_WORLD now."""
        if self.world_group is not None:
            self._free_group(self.world_group)
            self.world_group = None

    def adopt(self, new: Any, parent: Communicator, sequence: object, label: str) -> None:
        """Follow a communicator that was just made.

        Its identity must be the same on all members: so it is made from the call that made it and from its ranks.
        """
        recorder, kind = SESSION.recorder, self.mpi.Comm
        if recorder is None or not new:
            return
        if kind.Is_inter(new):
            self.adopt_sides(new, (parent.identity, sequence), label)
            return
        with self.group_of(new) as group:
            ranks = self.job_ranks(group)
        if any(rank < 0 for rank in ranks):
            return  # it has members of another job, which we cannot see
        identity = identity_of(parent.identity, sequence, ranks)
        communicator = recorder.communicator(identity, label, ranks, kind.Get_rank(new))
        if communicator is not None:
            self.communicators[self.handle_of(new)] = communicator
            if isinstance(new, self.mpi.Topocomm):
                self._tell_neighbours(new, communicator)

    def adopt_sides(self, new: Any, origin: tuple[object, ...], label: str) -> None:
        """Follow an intercommunicator that was just made; `origin` is the same on both sides."""
        recorder = SESSION.recorder
        sides = self.sides(new)
        if recorder is None or any(rank < 0 for side in sides for rank in side):
            return  # the other side is another job, which we cannot see
        own, others = sides
        first, second = sorted(sides)
        identity = f"{layout.INTER_PREFIX}{len(first)}-{identity_of(*origin, first, second)}"
        begin, remote_begin = (0, len(first)) if own == first else (len(first), 0)
        member = begin + self.mpi.Comm.Get_rank(new)
        communicator = recorder.communicator(identity, label, (*first, *second), member)
        if communicator is not None:
            communicator.remote_begin, communicator.num_remote = remote_begin, len(others)
            self.intercommunicators[self.handle_of(new)] = communicator

    def sides(self, communicator: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ranks of both sides of an intercommunicator, the own side first."""
        with self.group_of(communicator) as own, self.group_of(communicator, remote=True) as others:
            return self.job_ranks(own), self.job_ranks(others)

    def find(self, communicator: Any) -> Communicator | None:
        """Return what is known of a communicator, with one side or two; None if it is not followed."""
        handle = self.handle_of(communicator)
        return self.communicators.get(handle) or self.intercommunicators.get(handle)

    def _tell_neighbours(self, new: Any, communicator: Communicator) -> None:
        """Say whom this rank meets in a neighbourhood collective: members it receives from or sends to."""
        sources, destinations = vars(self.mpi.Topocomm)["inoutedges"].__get__(new)
        members = sorted({member for member in (*sources, *destinations) if member >= 0})  # others are PROC_NULL
        if SESSION.recorder is not None and len(members) <= _MOST_NEIGHBOURS:
            text: dict[str, object] = {"neighbours": members, "of": communicator.identity}
            for name, edges in (("sources", sources), ("destinations", destinations)):
                if (ends := sorted({member for member in edges if member >= 0})) != members:
                    text[name] = ends
            SESSION.recorder.ring.write_text(text, reserve=_HANDLE_RESERVE)


class FollowedHandles:
    """The windows or the files of one mpi4py that are followed, by MPI's handle: each like a communicator of its own.

    So their collectives have positions, on which members meet and are compared.
    """

    def __init__(self, handle_of: Callable[[Any], int], prefix: str) -> None:
        self._prefix, self.handle_of = prefix, handle_of
        self._by_handle: dict[int, Communicator] = {}

    def find(self, made: Any) -> Communicator | None:
        """Return what a window or a file is followed as; None if it is not."""
        return self._by_handle.get(self.handle_of(made))

    def follow(self, made: Any, parent: Communicator, sequence: int, label: str) -> None:
        """Follow a window or a file that the call at this position of a communicator has made."""
        recorder = SESSION.recorder
        if recorder is None or not made or recorder.ring.words[layout.LOST] & layout.LOST_WINDOWS:
            return
        if parent.half is not None:
            return  # the other job has another name for it
        if len(self._by_handle) == _MOST_HANDLES:
            recorder.ring.lose(layout.LOST_WINDOWS)
            return
        identity = self._prefix + identity_of(parent.identity, sequence)
        known = recorder.communicator(identity, label, parent.ranks, parent.member, reserve=_HANDLE_RESERVE)
        if known is not None:
            self._by_handle[self.handle_of(made)] = known

    def watched_end(self, function: Any, operation: str, forget: Callable[[str], object] = str) -> Any:
        """Return the watched form of the collective that frees a window or closes a file.

        Afterwards it calls `forget` with the identity of what is gone.
        """
        code, handle_of, followed = BY_NAME[operation].code, self.handle_of, self._by_handle

        def call(self: Any) -> Any:
            handle, recorder = handle_of(self), SESSION.recorder
            # before the call: after it another thread may make one that gets this handle
            known = followed.pop(handle, None)
            if known is None or recorder is None:
                return function(self)
            number = recorder.begin_collective(known, code, depth=CALLED_BY_HELPER)
            try:
                return make_blocked_call(recorder, number, function, (self,), {})
            finally:
                if handle_of(self) == handle:  # MPI refused to
                    followed[handle] = known
                else:
                    recorder.give_up(known)
                    forget(known.identity)

        return named_like(call, function)


WATCHES: list[MpiWatch] = []  # one, once mpi4py is imported: for modules that build on it
