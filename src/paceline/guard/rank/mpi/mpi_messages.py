"""Watches the messages of mpi4py: sends, receives and probes, at once or started."""

from __future__ import annotations

from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.lookalike import named_like
from paceline.guard.rank.mpi.mpi_buffers import UNKNOWN, Size, whole
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.mpi_requests import Posted
from paceline.guard.rank.watched_process import SESSION, InCall, Posting
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.layout import ANY, NOBODY, RECEIVED, SENT
from paceline.guard.shared_memory.operations import BY_NAME


def watched_messages(base: Any, watch: MpiWatch) -> dict[str, Any]:
    """Return the watched forms of what a class sends and receives with."""
    members = {name: _send(base, name, watch) for name in _SENDS}
    members |= {name: _receive(base, name, watch) for name in ("Recv", "recv", "Probe", "probe", "Mprobe", "mprobe")}
    members |= {name: _posted_send(base, name, watch) for name in _POSTED_SENDS}
    members |= {name: _posted_receive(base, name, watch) for name in ("Irecv", "irecv", "Recv_init")}
    members |= {name: _exchange(base, name, watch) for name in ("Sendrecv", "Sendrecv_replace", "sendrecv")}
    members |= {name: _unseen(base, name) for name in ("Isendrecv", "Isendrecv_replace", "Psend_init", "Precv_init")}
    members |= {name: _polling_probe(base, name, watch) for name in ("Improbe", "improbe")}
    return members


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


def _send(base: type, name: str, watch: MpiWatch) -> Any:
    function, operation = getattr(base, name), BY_NAME[name]
    code, pickled = operation.code, _SENDS[name]
    size_of = watch.buffers.size

    def record(self: Any, buf: Any, dest: int, tag: int) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return function(self, buf, dest, tag)
        dtype, num_bytes, count = UNKNOWN if pickled else size_of(buf)
        number = _begin_send(recorder, comm, code, watch.peer(dest), whole(tag), (dtype, num_bytes, count))
        with InCall(recorder, number):
            return function(self, buf, dest, tag)

    return _as_sender(record, function, pickled=bool(pickled))


def _as_sender(record: Any, function: Any, *, pickled: bool) -> Any:
    """Give a send the arguments that its users know: `obj` for pickled ones, `buf` for others."""

    def send_object(self: Any, obj: Any, dest: int, tag: int = 0) -> Any:
        return record(self, obj, dest, tag)

    def send_buffer(self: Any, buf: Any, dest: int, tag: int = 0) -> Any:
        return record(self, buf, dest, tag)

    return named_like(send_object if pickled else send_buffer, function)


def _begin_send(
    recorder: Recorder, comm: Communicator, code: int, peer: int, tag: int, size: Size, request: int = 0, flags: int = 0
) -> int:
    dtype, num_bytes, count = size
    nth = recorder.messages.count(comm, SENT, peer, tag) if 0 <= peer < len(comm.ranks) else 0
    number = recorder.begin_message(
        comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
        request=request, flags=flags, depth=4,
    )  # fmt: skip
    if nth:
        recorder.messages.meet(number, comm, SENT, peer, tag, nth, pack_size(dtype, num_bytes))
    return number


def _receive(base: type, name: str, watch: MpiWatch) -> Any:
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
        nth = recorder.messages.next_receive(comm, peer, wanted) if takes else 0
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=wanted, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            depth=3,
        )  # fmt: skip
        size = pack_size(dtype, num_bytes)
        if nth:
            recorder.messages.meet(number, comm, RECEIVED, peer, wanted, nth, size)
        if status is None and (peer == ANY or wanted == ANY):
            status = status_type()
        recorder.block(number)
        try:
            value = function(self, *first, source, tag, status)
        except BaseException as error:
            SESSION.note_failure(error, number)
            if takes and status is not None and status.Get_source() >= 0 and status.Get_tag() >= 0:
                peer, wanted = status.Get_source(), status.Get_tag()
                nth = recorder.messages.next_receive(comm, peer, wanted)
            if nth:
                recorder.messages.check(number, comm, peer, wanted, nth, size)
            raise
        finally:
            recorder.unblock(number)
        if peer != NOBODY and counted:
            if peer == ANY or wanted == ANY:
                peer, wanted = status.Get_source(), status.Get_tag()
                nth = recorder.messages.next_receive(comm, peer, wanted) if takes else 0
            recorder.messages.count(comm, RECEIVED, peer, wanted)
            if nth:
                recorder.messages.check(number, comm, peer, wanted, nth, size)
        return value

    any_source, any_tag = watch.mpi.ANY_SOURCE, watch.mpi.ANY_TAG
    if name == "Recv":

        def Recv(self: Any, buf: Any, source: int = any_source, tag: int = any_tag, status: Any = None) -> Any:  # noqa: N802
            return record(self, buf, source, tag, status)

        return named_like(Recv, function)
    if name == "recv":

        def recv(self: Any, buf: Any = None, source: int = any_source, tag: int = any_tag, status: Any = None) -> Any:
            return record(self, buf, source, tag, status)

        return named_like(recv, function)

    def probe(self: Any, source: int = any_source, tag: int = any_tag, status: Any = None) -> Any:
        return record(self, None, source, tag, status)

    return named_like(probe, function)


def _polling_probe(base: type, name: str, watch: MpiWatch) -> Any:
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
            recorder.messages.count(comm, RECEIVED, status.Get_source(), status.Get_tag())
        return found

    return named_like(call, function)


def _posted_send(base: type, name: str, watch: MpiWatch) -> Any:
    function, operation = getattr(base, name), BY_NAME[name]
    pickled, persistent = name[0].islower(), name.endswith("_init")
    size_of = watch.buffers.size
    flags = layout.NONBLOCKING

    def record(self: Any, buf: Any, dest: int, tag: int) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return function(self, buf, dest, tag)
        size = UNKNOWN if pickled else size_of(buf)
        peer, request, tag = watch.peer(dest), recorder.requests.take(), whole(tag)
        if persistent:
            number = recorder.begin_message(
                comm.index, operation.code, peer=peer, tag=tag, dtype=size[0], num_bytes=size[1], count=size[2],
                request=request, flags=flags,
            )  # fmt: skip
        else:
            number = _begin_send(recorder, comm, operation.code, peer, tag, size, request, flags)
        with Posting(recorder, number, request, active=not persistent):
            made = function(self, buf, dest, tag)
        posted = Posted(recorder=recorder, request=request, record=number)
        if persistent:
            posted.on_start = (comm, SENT, peer, tag)
        return watch.requests.wrap(made, posted)

    return _as_sender(record, function, pickled=pickled)


def _posted_receive(base: type, name: str, watch: MpiWatch) -> Any:
    function, code = getattr(base, name), BY_NAME[name].code
    pickled, persistent = name == "irecv", name.endswith("_init")
    size_of = watch.buffers.size
    any_source, any_tag = watch.mpi.ANY_SOURCE, watch.mpi.ANY_TAG
    flags = layout.NONBLOCKING

    def record(self: Any, buf: Any, source: int, tag: int) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return function(self, buf, source, tag)
        dtype, num_bytes, count = UNKNOWN if pickled else size_of(buf)
        peer, wanted = watch.peer(source), watch.tag(tag)
        request = recorder.requests.take()
        nth = 0 if persistent else recorder.messages.next_receive(comm, peer, wanted)
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=wanted, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            request=request, flags=flags, depth=3,
        )  # fmt: skip
        size = pack_size(dtype, num_bytes)
        if nth:
            recorder.messages.meet(number, comm, RECEIVED, peer, wanted, nth, size)
        with Posting(recorder, number, request, active=not persistent):
            made = function(self, buf, source, tag)
        posted = Posted(recorder=recorder, request=request, record=number)
        if peer != NOBODY:
            posted.receives = (comm, peer, wanted, nth, size)
            if persistent:
                posted.on_start = (comm, RECEIVED, peer, wanted)
            else:
                recorder.messages.expect(comm, peer, wanted, 1)
        return watch.requests.wrap(made, posted)

    if pickled:

        def irecv(self: Any, buf: Any = None, source: int = any_source, tag: int = any_tag) -> Any:
            return record(self, buf, source, tag)

        return named_like(irecv, function)

    def call(self: Any, buf: Any, source: int = any_source, tag: int = any_tag) -> Any:
        return record(self, buf, source, tag)

    return named_like(call, function)


def _exchange(base: type, name: str, watch: MpiWatch) -> Any:
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
        target, peer, wanted, sendtag = watch.peer(dest), watch.peer(source), watch.tag(recvtag), whole(sendtag)
        nth = recorder.messages.count(comm, SENT, target, sendtag) if 0 <= target < len(comm.ranks) else 0
        coming = recorder.messages.next_receive(comm, peer, wanted)
        number = recorder.begin_message(
            comm.index, code, peer=target, tag=sendtag, dtype=sent[0], num_bytes=sent[1], count=sent[2],
            message_number=nth, receives=(peer, wanted, taken[0], taken[1], coming), depth=3,
        )  # fmt: skip
        size = pack_size(taken[0], taken[1])
        recorder.messages.meet(number, comm, SENT, target, sendtag, nth, pack_size(sent[0], sent[1]))
        recorder.messages.meet(number, comm, RECEIVED, peer, wanted, coming, size)
        status = status_type() if status is None else status
        with InCall(recorder, number):
            value = function(self, data, dest, sendtag, *into, source, recvtag, status)
        if peer != NOBODY:
            peer, wanted = status.Get_source(), status.Get_tag()
            recorder.messages.count(comm, RECEIVED, peer, wanted)
        return value

    if replaces:

        def replace(
            self: Any, buf: Any, dest: int, sendtag: int = 0, source: int = any_source, recvtag: int = any_tag,
            status: Any = None,
        ) -> Any:  # fmt: skip
            return record(self, buf, dest, sendtag, (), source, recvtag, status)

        return named_like(replace, function)

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

    return named_like(exchange_objects if pickled else exchange, function)


def _unseen(base: type, name: str) -> Any:
    """Messages of a kind that is not followed: nothing is concluded from missing messages any more."""
    function = getattr(base, name)

    def call(self: Any, *args: Any, **named: Any) -> Any:
        if SESSION.recorder is not None:
            SESSION.recorder.ring.lose(layout.LOST_MESSAGES)
        return function(self, *args, **named)

    return named_like(call, function)
