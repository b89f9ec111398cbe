"""Watches mpi4py: communicators that record each call before it runs and are otherwise what they were.

mpi4py's classes cannot be changed but can be derived from, so the module's communicators are replaced by watched ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from paceline.guard import layout
from paceline.guard.board import pack_size
from paceline.guard.layout import ANY, NOBODY, NOTHING, RECEIVED, SENT
from paceline.guard.mpi_buffers import UNKNOWN, Buffers, Size
from paceline.guard.mpi_requests import Posted, watch_requests
from paceline.guard.operations import BY_NAME, REDUCTION_CODES
from paceline.guard.recorder import Communicator, Recorder
from paceline.guard.session import SESSION, identity_of, launcher_name

_Facts = Callable[..., tuple[int, int, Size]]  # (communicator, *args) -> root, reduction, size
_CREATES = [
    "Dup",
    "Dup_with_info",
    "Clone",
    "Split",
    "Split_type",
    "Create",
    "Create_cart",
    "Create_graph",
    "Create_dist_graph",
    "Create_dist_graph_adjacent",
]


def watch_mpi(mpi: Any) -> None:
    """Replace the communicators and requests of mpi4py's module by watched ones."""
    _Watch(mpi).install()


class _Watch:
    """All that is derived from one mpi4py module."""

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.buffers = Buffers(mpi)
        self.requests = watch_requests(mpi, self)
        names = REDUCTION_CODES.keys() - {"none", "AVG", "PREMUL_SUM", "custom", "unknown"}
        self._reductions = [(getattr(mpi, name), REDUCTION_CODES[name]) for name in names]
        self._sum = mpi.SUM
        self._classes: dict[type, type] = {}

    def install(self) -> None:
        mpi = self.mpi
        for name in ("Intracomm", "Cartcomm", "Graphcomm", "Distgraphcomm"):
            base = getattr(mpi, name)
            self._classes[base] = _derive(base, self)
            setattr(mpi, name, self._classes[base])
        world = mpi.COMM_WORLD
        mpi.COMM_WORLD = self._classes[type(world)](world)
        for name in ("Init", "Init_thread"):
            setattr(mpi, name, self._then_join(getattr(mpi, name)))
        if mpi.Is_initialized() and not mpi.Is_finalized():
            self.join()

    def _then_join(self, function: Any) -> Any:
        def init(*args: Any, **named: Any) -> Any:
            value = function(*args, **named)
            self.join()
            return value

        return init

    def join(self) -> None:
        """Become a rank of this MPI job."""
        mpi = self.mpi
        world: Any = mpi.COMM_WORLD
        rank, size = world.Get_rank(), world.Get_size()
        if mpi.Comm.Get_parent() != mpi.COMM_NULL:
            return  # spawned by another job: it has a world of its own, and we cannot see the other one
        if SESSION.join("mpi", rank=rank, world_size=size, job=launcher_name(os.environ)) is not None:
            world._paceline = SESSION.world("mpi", rank, size)

    def reduction(self, operation: Any) -> int:
        """Return the number of a reduction."""
        if operation is self._sum:
            return REDUCTION_CODES["SUM"]
        for known, code in self._reductions:
            if isinstance(operation, self.mpi.Op) and operation == known:
                return code
        return REDUCTION_CODES["custom"]

    def peer(self, rank: int) -> int:
        """Return a peer as records have it."""
        if rank >= 0:
            return rank
        if rank == self.mpi.ANY_SOURCE:
            return ANY
        return NOBODY if rank == self.mpi.PROC_NULL else rank - 1000  # no rank at all; the call will say so

    def tag(self, tag: int) -> int:
        """Return a tag as records have it."""
        return ANY if tag == self.mpi.ANY_TAG else tag

    def adopt(self, made: Any, parent: Communicator, sequence: object, label: str) -> Any:
        """Return a communicator that was just made as a watched one."""
        mpi = self.mpi
        recorder = SESSION.recorder
        if recorder is None or made is None or made == mpi.COMM_NULL or made.Is_inter():
            return made
        kind = self._classes.get(type(made), type(made))
        watched: Any = made if type(made) is kind else kind(made)
        group, world_group = made.Get_group(), mpi.COMM_WORLD.Get_group()
        ranks = mpi.Group.Translate_ranks(group, range(group.Get_size()), world_group)
        group.Free()
        world_group.Free()
        if any(rank < 0 for rank in ranks):
            return watched
        identity = identity_of(parent.identity, sequence, tuple(ranks))
        watched._paceline = recorder.communicator(identity, label, ranks, made.Get_rank())
        return watched


def _derive(base: type, watch: _Watch) -> type:
    members: dict[str, Any] = {"_paceline": None, "__reduce__": lambda self: base(self).__reduce__()}
    for name, facts in _collectives(watch).items():
        members[name] = _collective(getattr(base, name), BY_NAME[name].code, facts)
        later = f"I{name.lower()}"
        if name[0].isupper() and hasattr(base, later):
            members[later] = _posted_collective(getattr(base, later), BY_NAME[later].code, facts, watch)
        if name[0].isupper() and hasattr(base, f"{name}_init"):
            code = BY_NAME[f"{name}_init"].code
            members[f"{name}_init"] = _posted_collective(getattr(base, f"{name}_init"), code, facts, watch)
    for name in _CREATES:
        if hasattr(base, name):
            members[name] = _creation(getattr(base, name), name, watch)
    members |= {name: _send(base, name, watch) for name in _SENDS}
    members |= {name: _receive(base, name, watch) for name in ("Recv", "recv", "Probe", "probe", "Mprobe", "mprobe")}
    members |= {name: _posted_send(base, name, watch) for name in _POSTED_SENDS}
    members |= {name: _posted_receive(base, name, watch) for name in ("Irecv", "irecv", "Recv_init")}
    members |= {name: _exchange(base, name, watch) for name in ("Sendrecv", "Sendrecv_replace", "sendrecv")}
    members |= {name: _unseen(base, name) for name in ("Isendrecv", "Isendrecv_replace", "Psend_init", "Precv_init")}
    members |= {name: _polling_probe(base, name, watch) for name in ("Improbe", "improbe")}
    members |= {name: _giving_up(getattr(base, name)) for name in ("Free", "Disconnect")}
    members["Abort"] = _abort(base.Abort)  # type: ignore[attr-defined]
    members["Create_group"] = _create_group(base.Create_group, watch)  # type: ignore[attr-defined]
    return type(base.__name__, (base,), members)


# collectives: what must be equal on all members


def _collectives(watch: _Watch) -> dict[str, _Facts]:
    size, dtype_only, reduction = watch.buffers.size, watch.buffers.dtype_only, watch.reduction
    in_place, plus = watch.mpi.IN_PLACE, watch.mpi.SUM

    def nothing(comm: Communicator, *args: Any, **named: Any) -> tuple[int, int, Size]:
        return NOTHING, 0, UNKNOWN

    def reduced(comm: Communicator, sendbuf: Any, recvbuf: Any, op: Any = plus, **_: Any) -> tuple[int, int, Size]:
        return NOTHING, reduction(op), size(recvbuf if sendbuf is in_place else sendbuf)

    def reduced_to(
        comm: Communicator, sendbuf: Any, recvbuf: Any, op: Any = plus, root: int = 0, **_: Any
    ) -> tuple[int, int, Size]:
        return root, reduction(op), size(recvbuf if sendbuf is in_place else sendbuf)

    def from_root(comm: Communicator, buf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        return root, 0, size(buf)

    def gathered(comm: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        return root, 0, _share(size(recvbuf), comm) if sendbuf is in_place else size(sendbuf)

    def all_gathered(comm: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> tuple[int, int, Size]:
        return NOTHING, 0, _share(size(recvbuf), comm) if sendbuf is in_place else size(sendbuf)

    def scattered(comm: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        at_root = comm.member == root
        return root, 0, _share(size(sendbuf), comm) if at_root else size(recvbuf)

    def exchanged(comm: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> tuple[int, int, Size]:
        return NOTHING, 0, size(recvbuf if sendbuf is in_place else sendbuf)

    def shared_out(comm: Communicator, sendbuf: Any, recvbuf: Any, op: Any = plus, **_: Any) -> tuple[int, int, Size]:
        return NOTHING, reduction(op), size(recvbuf) if sendbuf is not in_place else UNKNOWN

    def uneven_to(comm: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        if comm.member == root:
            return root, 0, UNKNOWN
        return root, 0, dtype_only(sendbuf)

    def uneven_from(comm: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        return root, 0, dtype_only(sendbuf) if comm.member == root else dtype_only(recvbuf)

    def uneven(comm: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> tuple[int, int, Size]:
        return NOTHING, 0, dtype_only(recvbuf if sendbuf is in_place else sendbuf)

    def uneven_reduced(
        comm: Communicator, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Any = plus, **_: Any
    ) -> tuple[int, int, Size]:
        return NOTHING, reduction(op), size(sendbuf) if sendbuf is not in_place else UNKNOWN

    def object_to(comm: Communicator, sendobj: Any, root: int = 0) -> tuple[int, int, Size]:
        return root, 0, UNKNOWN

    def object_reduced(comm: Communicator, sendobj: Any, op: Any = plus) -> tuple[int, int, Size]:
        return NOTHING, reduction(op), UNKNOWN

    def object_reduced_to(comm: Communicator, sendobj: Any, op: Any = plus, root: int = 0) -> tuple[int, int, Size]:
        return root, reduction(op), UNKNOWN

    def object_from(comm: Communicator, obj: Any = None, root: int = 0, **named: Any) -> tuple[int, int, Size]:
        return root, 0, UNKNOWN

    return {
        "Barrier": nothing, "barrier": nothing, "Allreduce": reduced, "Scan": reduced, "Exscan": reduced,
        "Reduce": reduced_to, "Bcast": from_root, "Gather": gathered, "Allgather": all_gathered,
        "Scatter": scattered, "Alltoall": exchanged, "Reduce_scatter_block": shared_out, "Gatherv": uneven_to,
        "Scatterv": uneven_from, "Allgatherv": uneven, "Alltoallv": uneven, "Alltoallw": nothing,
        "Reduce_scatter": uneven_reduced, "bcast": object_from, "gather": object_to, "scatter": object_to,
        "allgather": nothing, "alltoall": nothing, "reduce": object_reduced_to, "allreduce": object_reduced,
        "scan": object_reduced, "exscan": object_reduced,
    }  # fmt: skip


def _share(size: Size, comm: Communicator) -> Size:
    dtype, num_bytes, count = size
    num = len(comm.ranks)
    return dtype, num_bytes // num if num_bytes >= 0 else -1, count // num if count >= 0 else -1


def _collective(base: Any, code: int, facts: _Facts) -> Any:
    def call(self: Any, *args: Any, **named: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return base(self, *args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = facts(comm, *args, **named)
        except TypeError:  # wrong arguments: mpi4py says so better
            return base(self, *args, **named)
        number = recorder.collective(comm, code, root, reduction, dtype, num_bytes, count)
        word = recorder.block(number)
        try:
            return base(self, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(word, number)

    return _named(call, base)


def _posted_collective(base: Any, code: int, facts: _Facts, watch: _Watch) -> Any:
    persistent = base.__name__.endswith("_init")
    flags = layout.NONBLOCKING | (layout.PERSISTENT if persistent else 0)

    def call(self: Any, *args: Any, **named: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return base(self, *args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = facts(comm, *args, **named)
        except TypeError:
            return base(self, *args, **named)
        request = recorder.new_request()
        number = recorder.collective(
            comm, code, root=root, reduction=reduction, dtype=dtype, num_bytes=num_bytes, count=count, flags=flags,
            request=request,
        )  # fmt: skip
        try:
            made = base(self, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            recorder.free_request(request)
            raise
        recorder.leave(number)
        recorder.keep_request(request, number)
        recorder.activate_request(request, posted=not persistent)
        return watch.requests.wrap(made, Posted(recorder=recorder, request=request, record=number))

    return _named(call, base)


def _creation(base: Any, name: str, watch: _Watch) -> Any:
    code = BY_NAME[name].code

    def call(self: Any, *args: Any, **named: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return base(self, *args, **named)
        number = recorder.collective(comm, code)
        sequence = recorder.position(comm)
        word = recorder.block(number)
        try:
            made = base(self, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(word, number)
        return watch.adopt(made, comm, sequence, f"{comm.name}.{name}" if comm.name != "WORLD" else name)

    return _named(call, base)


def _create_group(base: Any, watch: _Watch) -> Any:
    code = BY_NAME["Create_group"].code
    counts: dict[tuple[Any, ...], int] = {}

    def call(self: Any, group: Any, tag: int = 0) -> Any:
        """Only the members of the group take part: they meet on a communicator that exists for this call."""
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None or group.Get_rank() < 0:
            return base(self, group, tag)
        mpi = watch.mpi
        world_group = mpi.COMM_WORLD.Get_group()
        ranks = tuple(mpi.Group.Translate_ranks(group, range(group.Get_size()), world_group))
        world_group.Free()
        key = (comm.identity, ranks, tag)
        counts[key] = counts.get(key, 0) + 1
        identity = identity_of("Create_group", key, counts[key])
        meeting = recorder.communicator(identity, "Create_group", ranks, group.Get_rank())
        if meeting is None:
            return base(self, group, tag)
        number = recorder.collective(meeting, code)
        word = recorder.block(number)
        try:
            made = base(self, group, tag)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(word, number)
        return watch.adopt(made, meeting, 1, "Create_group")

    return _named(call, base)


def _giving_up(base: Any) -> Any:
    def call(self: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        value = base(self)
        if comm is not None and recorder is not None:
            recorder.give_up(comm)
            self._paceline = None
        return value

    return _named(call, base)


def _abort(base: Any) -> Any:
    def call(self: Any, errorcode: int = 0) -> Any:
        if SESSION.recorder is not None:
            from paceline.guard.sites import current_frames

            SESSION.tell({"abort": errorcode, "frames": current_frames()})
            SESSION.recorder.end(layout.ABORTS, errorcode)
        return base(self, errorcode)

    return _named(call, base)


# messages

_SENDS = {"Send": 0, "Ssend": 0, "Rsend": 0, "Bsend": 0, "send": 1, "ssend": 1, "bsend": 1}  # 1: pickled
_POSTED_SENDS = [
    "Isend",
    "Issend",
    "Irsend",
    "Ibsend",
    "isend",
    "issend",
    "ibsend",
    "Send_init",
    "Ssend_init",
    "Rsend_init",
    "Bsend_init",
]


def _send(base: type, name: str, watch: _Watch) -> Any:
    function, operation = getattr(base, name), BY_NAME[name]
    code, pickled = operation.code, _SENDS[name]
    size_of = watch.buffers.size

    def call(self: Any, buf: Any, dest: int, tag: int = 0) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return function(self, buf, dest, tag)
        dtype, num_bytes, count = UNKNOWN if pickled else size_of(buf)
        number = _begin_send(recorder, comm, code, watch.peer(dest), tag, (dtype, num_bytes, count))
        word = recorder.block(number)
        try:
            return function(self, buf, dest, tag)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(word, number)

    return _named(call, function)


def _begin_send(
    recorder: Recorder, comm: Communicator, code: int, peer: int, tag: int, size: Size, request: int = 0, flags: int = 0
) -> int:
    dtype, num_bytes, count = size
    nth = recorder.count_message(comm, SENT, peer, tag) if 0 <= peer < len(comm.ranks) else 0
    number = recorder.begin(
        comm.index, code, root=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, sequence=nth,
        request=request, flags=flags, depth=3,
    )  # fmt: skip
    if nth:
        recorder.meet_message(number, comm, SENT, peer, tag, nth, pack_size(dtype, num_bytes))
    return number


def _receive(base: type, name: str, watch: _Watch) -> Any:
    function, code = getattr(base, name), BY_NAME[name].code
    takes, pickled = "probe" not in name.lower(), name in ("recv", "probe", "mprobe")
    counted = name not in ("Probe", "probe")
    size_of, status_type = watch.buffers.size, watch.mpi.Status

    def record(self: Any, buf: Any, source: int, tag: int, status: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        first = (buf,) if takes else ()
        if comm is None or recorder is None:
            return function(self, *first, source, tag, status)
        dtype, num_bytes, count = UNKNOWN if pickled or not takes else size_of(buf)
        peer, wanted = watch.peer(source), watch.tag(tag)
        nth = recorder.next_receive(comm, peer, wanted) if takes else 0
        number = recorder.begin(
            comm.index, code, root=peer, tag=wanted, dtype=dtype, num_bytes=num_bytes, count=count, sequence=nth,
            depth=3,
        )  # fmt: skip
        size = pack_size(dtype, num_bytes)
        if nth:
            recorder.meet_message(number, comm, RECEIVED, peer, wanted, nth, size)
        if status is None and (peer == ANY or wanted == ANY):
            status = status_type()
        word = recorder.block(number)
        try:
            value = function(self, *first, source, tag, status)
        except BaseException as error:
            SESSION.note_failure(error, number)
            if takes and status is not None and status.Get_source() >= 0 and status.Get_tag() >= 0:
                peer, wanted = status.Get_source(), status.Get_tag()
                nth = recorder.next_receive(comm, peer, wanted)
            if nth:
                recorder.check_received(number, comm, peer, wanted, nth, size)
            raise
        finally:
            recorder.unblock(word, number)
        if peer != NOBODY and counted:
            if peer == ANY or wanted == ANY:
                peer, wanted = status.Get_source(), status.Get_tag()
                nth = recorder.next_receive(comm, peer, wanted) if takes else 0
            recorder.count_message(comm, RECEIVED, peer, wanted)
            if nth:
                recorder.check_received(number, comm, peer, wanted, nth, size)
        return value

    any_source, any_tag = watch.mpi.ANY_SOURCE, watch.mpi.ANY_TAG
    if name == "Recv":

        def Recv(self: Any, buf: Any, source: int = any_source, tag: int = any_tag, status: Any = None) -> Any:  # noqa: N802
            return record(self, buf, source, tag, status)

        return _named(Recv, function)
    if name == "recv":

        def recv(self: Any, buf: Any = None, source: int = any_source, tag: int = any_tag, status: Any = None) -> Any:
            return record(self, buf, source, tag, status)

        return _named(recv, function)

    def probe(self: Any, source: int = any_source, tag: int = any_tag, status: Any = None) -> Any:
        return record(self, None, source, tag, status)

    return _named(probe, function)


def _polling_probe(base: type, name: str, watch: _Watch) -> Any:
    """A matched probe that finds a message takes it off the channel; asking does not wait."""
    function, status_type = getattr(base, name), watch.mpi.Status
    any_source, any_tag = watch.mpi.ANY_SOURCE, watch.mpi.ANY_TAG

    def call(self: Any, source: int = any_source, tag: int = any_tag, status: Any = None) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return function(self, source, tag, status)
        status = status_type() if status is None else status
        found = function(self, source, tag, status)
        if found is not None and status.Get_source() >= 0:
            recorder.count_message(comm, RECEIVED, status.Get_source(), status.Get_tag())
        return found

    return _named(call, function)


def _posted_send(base: type, name: str, watch: _Watch) -> Any:
    function, operation = getattr(base, name), BY_NAME[name]
    pickled, persistent = name[0].islower(), name.endswith("_init")
    size_of = watch.buffers.size
    flags = layout.NONBLOCKING | (layout.PERSISTENT if persistent else 0)

    def call(self: Any, buf: Any, dest: int, tag: int = 0) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return function(self, buf, dest, tag)
        size = UNKNOWN if pickled else size_of(buf)
        peer, request = watch.peer(dest), recorder.new_request()
        if persistent:
            number = recorder.begin(
                comm.index, operation.code, root=peer, tag=tag, dtype=size[0], num_bytes=size[1], count=size[2],
                request=request, flags=flags,
            )  # fmt: skip
        else:
            number = _begin_send(recorder, comm, operation.code, peer, tag, size, request, flags)
        try:
            made = function(self, buf, dest, tag)
        except BaseException as error:
            SESSION.note_failure(error, number)
            recorder.free_request(request)
            raise
        recorder.leave(number)
        recorder.keep_request(request, number)
        recorder.activate_request(request, posted=not persistent)
        posted = Posted(recorder=recorder, request=request, record=number)
        if persistent:
            posted.on_start = (comm, SENT, peer, tag)
        return watch.requests.wrap(made, posted)

    return _named(call, function)


def _posted_receive(base: type, name: str, watch: _Watch) -> Any:
    function, code = getattr(base, name), BY_NAME[name].code
    pickled, persistent = name == "irecv", name.endswith("_init")
    size_of = watch.buffers.size
    any_source, any_tag = watch.mpi.ANY_SOURCE, watch.mpi.ANY_TAG
    flags = layout.NONBLOCKING | (layout.PERSISTENT if persistent else 0)

    def record(self: Any, buf: Any, source: int, tag: int) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return function(self, buf, source, tag)
        dtype, num_bytes, count = UNKNOWN if pickled else size_of(buf)
        peer, wanted = watch.peer(source), watch.tag(tag)
        request = recorder.new_request()
        nth = 0 if persistent else recorder.next_receive(comm, peer, wanted)
        number = recorder.begin(
            comm.index, code, root=peer, tag=wanted, dtype=dtype, num_bytes=num_bytes, count=count, sequence=nth,
            request=request, flags=flags, depth=3,
        )  # fmt: skip
        size = pack_size(dtype, num_bytes)
        if nth:
            recorder.meet_message(number, comm, RECEIVED, peer, wanted, nth, size)
        try:
            made = function(self, buf, source, tag)
        except BaseException as error:
            SESSION.note_failure(error, number)
            recorder.free_request(request)
            raise
        recorder.leave(number)
        recorder.keep_request(request, number)
        recorder.activate_request(request, posted=not persistent)
        posted = Posted(recorder=recorder, request=request, record=number)
        if peer != NOBODY:
            posted.receives = (comm, peer, wanted, nth, size)
            if persistent:
                posted.on_start = (comm, RECEIVED, peer, wanted)
            else:
                recorder.expect(comm, peer, wanted, 1)
        return watch.requests.wrap(made, posted)

    if pickled:

        def irecv(self: Any, buf: Any = None, source: int = any_source, tag: int = any_tag) -> Any:
            return record(self, buf, source, tag)

        return _named(irecv, function)

    def call(self: Any, buf: Any, source: int = any_source, tag: int = any_tag) -> Any:
        return record(self, buf, source, tag)

    return _named(call, function)


def _exchange(base: type, name: str, watch: _Watch) -> Any:
    function, code = getattr(base, name), BY_NAME[name].code
    pickled, replaces = name == "sendrecv", name == "Sendrecv_replace"
    size_of, status_type = watch.buffers.size, watch.mpi.Status
    any_source, any_tag = watch.mpi.ANY_SOURCE, watch.mpi.ANY_TAG

    def record(
        self: Any, data: Any, dest: int, sendtag: int, into: tuple[Any, ...], source: int, recvtag: int, status: Any
    ) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return function(self, data, dest, sendtag, *into, source, recvtag, status)
        sent = UNKNOWN if pickled else size_of(data)
        taken = sent if replaces else UNKNOWN if pickled else size_of(into[0])
        target, peer, wanted = watch.peer(dest), watch.peer(source), watch.tag(recvtag)
        nth = recorder.count_message(comm, SENT, target, sendtag) if 0 <= target < len(comm.ranks) else 0
        coming = recorder.next_receive(comm, peer, wanted)
        number = recorder.begin(
            comm.index, code, root=target, tag=sendtag, dtype=sent[0], num_bytes=sent[1], count=sent[2],
            sequence=nth, second=(peer, wanted, taken[0], taken[1], coming), depth=3,
        )  # fmt: skip
        size = pack_size(taken[0], taken[1])
        recorder.meet_message(number, comm, SENT, target, sendtag, nth, pack_size(sent[0], sent[1]))
        recorder.meet_message(number, comm, RECEIVED, peer, wanted, coming, size)
        status = status_type() if status is None else status
        word = recorder.block(number)
        try:
            value = function(self, data, dest, sendtag, *into, source, recvtag, status)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(word, number)
        if peer != NOBODY:
            peer, wanted = status.Get_source(), status.Get_tag()
            recorder.count_message(comm, RECEIVED, peer, wanted)
        return value

    if replaces:

        def replace(
            self: Any, buf: Any, dest: int, sendtag: int = 0, source: int = any_source, recvtag: int = any_tag,
            status: Any = None,
        ) -> Any:  # fmt: skip
            return record(self, buf, dest, sendtag, (), source, recvtag, status)

        return _named(replace, function)

    def exchange(
        self: Any, sendbuf: Any, dest: int, sendtag: int = 0, recvbuf: Any = None, source: int = any_source,
        recvtag: int = any_tag, status: Any = None,
    ) -> Any:  # fmt: skip
        return record(self, sendbuf, dest, sendtag, (recvbuf,), source, recvtag, status)

    def exchange_objects(
        self: Any, sendobj: Any, dest: int, sendtag: int = 0, recvbuf: Any = None, source: int = any_source,
        recvtag: int = any_tag, status: Any = None,
    ) -> Any:  # fmt: skip
        return record(self, sendobj, dest, sendtag, (recvbuf,), source, recvtag, status)

    return _named(exchange_objects if pickled else exchange, function)


def _unseen(base: type, name: str) -> Any:
    """Messages of a kind that is not followed: nothing is concluded from missing messages any more."""
    function = getattr(base, name)

    def call(self: Any, *args: Any, **named: Any) -> Any:
        if SESSION.recorder is not None:
            SESSION.recorder.lose(layout.LOST_MESSAGES)
        return function(self, *args, **named)

    return _named(call, function)


def _named(function: Any, like: Any) -> Any:
    function.__name__ = like.__name__
    function.__qualname__ = f"Intracomm.{like.__name__}"
    function.__doc__ = like.__doc__
    return function
