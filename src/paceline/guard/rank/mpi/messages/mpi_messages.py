"""Watches the messages of mpi4py that block: sends, receives, probes, exchanges. The others: mpi_posted_messages.py.

What is read of the arguments is in mpi_message_arguments.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.compiled_calls import CompiledCalls
from paceline.guard.rank.mpi.messages.mpi_message_arguments import READERS
from paceline.guard.rank.mpi.messages.mpi_message_methods import MessageKinds, code_of, watched_method, watched_methods
from paceline.guard.rank.mpi.messages.mpi_posted_messages import watched_posted_messages
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, NO_NAMED, make_call, make_message
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.layout import ANY, NOBODY, RECEIVED, SENT

_SENDS = ("Send", "Ssend", "Rsend", "Bsend", "send", "ssend", "bsend")
_RECEIVES = ("Recv", "recv")
_PROBES = ("Probe", "probe")  # they leave the message where it is
_MATCHED_PROBES = ("Mprobe", "mprobe")  # they take the message; it is received later, through what they return
_POLLING_PROBES = ("Improbe", "improbe")  # the same without waiting
_PROBES_OF_MESSAGE = {"Probe": "Mprobe", "probe": "mprobe", "Iprobe": "Improbe", "iprobe": "improbe"}  # of its class
_EXCHANGES = ("Sendrecv", "Sendrecv_replace", "sendrecv")


def watched_messages(base: Any, watch: MpiWatch, compiled: CompiledCalls) -> dict[str, Any]:
    """Return the watched forms of the messages that a class defines."""
    reads = _reads(watch)
    members = watched_methods(base, reads, _KINDS, watch) | watched_posted_messages(base, reads, watch, compiled)
    for name in members.keys() & {*_SENDS, *_RECEIVES}:
        function, sends = own_method(base, name), name in _SENDS
        members[name] = compiled.message(members[name], function, code_of(name), _check_failed_receive, sends=sends)
    return members


def watched_probes_of_message(watch: MpiWatch) -> dict[str, Any]:
    """Return the watched forms of `Message.Probe` and its kin: a communicator's matched probes by another name."""
    read = _reads(watch)["Mprobe"]
    members: dict[str, Any] = {}
    for name, operation in _PROBES_OF_MESSAGE.items():
        kind = _matched_probe if operation in _MATCHED_PROBES else _polling_probe
        function = own_method(watch.mpi.Message, name)
        members[name] = classmethod(_watched_probe_of_message(function, code_of(operation), read, kind, watch))
    return members


def _watched_probe_of_message(function: Any, code: int, read: Any, kind: Any, watch: MpiWatch) -> Any:
    def call(cls: Any, *args: Any, **named: Any) -> Any:
        bound = functools.partial(function, cls)  # the class of what it returns
        return watched_method(bound, read, kind(bound, code, watch), watch)(*args, **named)

    return named_like(call, function)


def _reads(watch: MpiWatch) -> dict[str, Callable[..., Any]]:
    return {name: getattr(watch.message_reader, method.__name__) for name, method in READERS.items()}


def _send(function: Any, code: int, watch: MpiWatch) -> Any:
    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, (dtype, num_bytes, count) = arguments
        # messages to a peer that does not exist are not counted
        nth = recorder.messages.count(comm, SENT, peer, tag) if 0 <= peer < len(comm.ranks) else 0
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            depth=CALLED_BY_HELPER,
        )  # fmt: skip
        if nth:
            recorder.messages.meet(number, comm, SENT, peer, tag, nth, pack_size(dtype, num_bytes))
        return make_message(recorder, number, function, args, named)

    return follow


def _receive(function: Any, code: int, watch: MpiWatch) -> Any:
    status_type = watch.mpi.Status

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, (dtype, num_bytes, count), values, status = arguments
        nth = recorder.messages.next_receive(comm, peer, tag)
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            depth=CALLED_BY_HELPER,
        )  # fmt: skip
        size = pack_size(dtype, num_bytes)
        if nth:
            recorder.messages.meet(number, comm, RECEIVED, peer, tag, nth, size)
        if status is None and (peer == ANY or tag == ANY):
            status = status_type()  # it will say who sent the message
        try:
            value = make_message(recorder, number, function, (*values, status), NO_NAMED)
        except BaseException:
            _check_failed_receive(recorder, comm, number, peer, tag, nth, size, status)
            raise
        if peer != NOBODY:
            if peer == ANY or tag == ANY:
                peer, tag = comm.remote_begin + status.Get_source(), status.Get_tag()
                nth = recorder.messages.next_receive(comm, peer, tag)
            recorder.messages.count(comm, RECEIVED, peer, tag)
            if nth:
                recorder.messages.check(number, comm, peer, tag, nth, size)
        return value

    return follow


def _check_failed_receive(
    recorder: Recorder, comm: Communicator, number: int, peer: int, tag: int, nth: int, size: int, status: Any
) -> None:
    """Compare a receive that raised with what was sent: MPI raises if a message is longer than the buffer."""
    if status is not None and status.Get_source() >= 0 and status.Get_tag() >= 0:
        peer, tag = comm.remote_begin + status.Get_source(), status.Get_tag()
        nth = recorder.messages.next_receive(comm, peer, tag)
    if nth:
        recorder.messages.check(number, comm, peer, tag, nth, size)


def _probe(function: Any, code: int, watch: MpiWatch) -> Any:
    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, *_ = arguments
        number = recorder.begin_message(comm.index, code, peer=peer, tag=tag, depth=CALLED_BY_HELPER)
        return make_call(recorder, number, function, args, named)

    return follow


def _matched_probe(function: Any, code: int, watch: MpiWatch) -> Any:
    status_type = watch.mpi.Status

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, _, values, status = arguments
        number = recorder.begin_message(comm.index, code, peer=peer, tag=tag, depth=CALLED_BY_HELPER)
        if status is None and (peer == ANY or tag == ANY):
            status = status_type()
        message = make_message(recorder, number, function, (*values, status), NO_NAMED)
        if peer != NOBODY:
            if peer == ANY or tag == ANY:
                peer, tag = comm.remote_begin + status.Get_source(), status.Get_tag()
            recorder.messages.count(comm, RECEIVED, peer, tag)
        return message

    return follow


def _polling_probe(function: Any, code: int, watch: MpiWatch) -> Any:
    status_type = watch.mpi.Status

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        _, _, _, values, status = arguments
        status = status_type() if status is None else status
        message = function(*values, status)  # it does not wait, so there is nothing to record
        if message is not None and status.Get_source() >= 0:
            recorder.messages.count(comm, RECEIVED, comm.remote_begin + status.Get_source(), status.Get_tag())
        return message

    return follow


def _exchange(function: Any, code: int, watch: MpiWatch) -> Any:
    status_type = watch.mpi.Status

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        send, receive, values, status = arguments
        messages = recorder.messages
        target, sendtag, (dtype, num_bytes, count) = send
        source, recvtag, (recv_dtype, recv_bytes, _) = receive
        sent = messages.count(comm, SENT, target, sendtag) if 0 <= target < len(comm.ranks) else 0
        expected = messages.next_receive(comm, source, recvtag)
        number = recorder.begin_message(
            comm.index, code, peer=target, tag=sendtag, dtype=dtype, num_bytes=num_bytes, count=count,
            message_number=sent, receives=(source, recvtag, recv_dtype, recv_bytes, expected), depth=CALLED_BY_HELPER,
        )  # fmt: skip
        messages.meet(number, comm, SENT, target, sendtag, sent, pack_size(dtype, num_bytes))
        messages.meet(number, comm, RECEIVED, source, recvtag, expected, pack_size(recv_dtype, recv_bytes))
        status = status_type() if status is None else status
        value = make_message(recorder, number, function, (*values, status), NO_NAMED)
        if source != NOBODY:
            messages.count(comm, RECEIVED, comm.remote_begin + status.Get_source(), status.Get_tag())
        return value

    return follow


_KINDS: MessageKinds = [
    (_SENDS, _send), (_RECEIVES, _receive), (_PROBES, _probe), (_MATCHED_PROBES, _matched_probe),
    (_POLLING_PROBES, _polling_probe), (_EXCHANGES, _exchange),
]  # fmt: skip
