"""Watches the messages of mpi4py that return a request: posted at once, or prepared for many starts (persistent).

A posted message is counted when it is posted, or expected from then on. A persistent one is so at each start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.compiled_calls import CompiledCalls
from paceline.guard.rank.mpi.messages.mpi_message_methods import MessageKinds, code_of, watched_methods
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import own_method
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, post_request
from paceline.guard.rank.watched_process import identity_of
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.layout import ANY, LOST_MESSAGES, NOBODY, NONBLOCKING, RECEIVED, SENT

_POSTED_SENDS = ("Isend", "Issend", "Irsend", "Ibsend", "isend", "issend", "ibsend")
_PERSISTENT_SENDS = ("Send_init", "Ssend_init", "Rsend_init", "Bsend_init")
_COPYING_SEND = "Ibsend"  # it copies what it sends at once
_POSTED_RECEIVES = ("Irecv", "irecv")
_PERSISTENT_RECEIVES = ("Recv_init",)
_POSTED_EXCHANGES = ("Isendrecv", "Isendrecv_replace")
_SENDS_IN_PARTS, _RECEIVES_IN_PARTS = ("Psend_init",), ("Precv_init",)


def watched_posted_messages(
    base: Any, reads: Mapping[str, Callable[..., Any]], watch: MpiWatch, compiled: CompiledCalls
) -> dict[str, Any]:
    """Return the watched forms of the messages of a class that return a request."""
    kinds: MessageKinds = [
        (_POSTED_SENDS, _posted_send), (_PERSISTENT_SENDS, _persistent_send), (_POSTED_RECEIVES, _posted_receive),
        (_PERSISTENT_RECEIVES, _persistent_receive), (_POSTED_EXCHANGES, _posted_exchange),
        ((*_SENDS_IN_PARTS, *_RECEIVES_IN_PARTS), _message_in_parts),
    ]  # fmt: skip
    members = watched_methods(base, reads, kinds, watch)
    for name in members.keys() & {*_POSTED_SENDS, *_POSTED_RECEIVES}:
        members[name] = compiled.posting(
            members[name], own_method(base, name), code_of(name), sends=name in _POSTED_SENDS,
            uses_memory=name != _COPYING_SEND,
        )  # fmt: skip
    return members


def _posted_send(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request, memory_of = watch.requests.follow, watch.memory.of
    reads_later = function.__name__ != _COPYING_SEND

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, (dtype, num_bytes, count) = arguments
        request = recorder.requests.take()
        nth = recorder.messages.count(comm, SENT, peer, tag) if 0 <= peer < len(comm.ranks) else 0
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            request=request, flags=NONBLOCKING, depth=CALLED_BY_HELPER,
        )  # fmt: skip
        if nth:
            recorder.messages.meet(number, comm, SENT, peer, tag, nth, pack_size(dtype, num_bytes))
        request_made = post_request(recorder, number, request, function, args, named, active=True)
        posted = PostedRequest(recorder, request, number)
        if num_bytes > 0 and reads_later and peer != NOBODY:
            posted.use(memory_of(_buffer(args, named), arguments[2], writes=False))
        return follow_request(request_made, posted)

    return follow


def _persistent_send(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request, memory_of = watch.requests.follow, watch.memory.of
    # Bsend copies what it sends; of a message in parts, the program fills one part after the other
    reads_later = function.__name__ not in ("Bsend_init", *_SENDS_IN_PARTS)

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, (dtype, num_bytes, count) = arguments
        request = recorder.requests.take()
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, request=request,
            flags=NONBLOCKING, depth=CALLED_BY_HELPER,
        )  # fmt: skip
        request_made = post_request(recorder, number, request, function, args, named, active=False)
        posted = PostedRequest(recorder, request, number, is_active=False)
        posted.on_start = (comm, SENT, peer, tag)
        if num_bytes > 0 and reads_later and peer != NOBODY:
            posted.use(memory_of(_buffer(args, named), arguments[2], writes=False))
        return follow_request(request_made, posted)

    return follow


def _posted_receive(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request, memory_of = watch.requests.follow, watch.memory.of

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, (dtype, num_bytes, count), *_ = arguments
        request = recorder.requests.take()
        nth = recorder.messages.next_receive(comm, peer, tag)
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            request=request, flags=NONBLOCKING, depth=CALLED_BY_HELPER,
        )  # fmt: skip
        size = pack_size(dtype, num_bytes)
        if nth:
            recorder.messages.meet(number, comm, RECEIVED, peer, tag, nth, size)
        request_made = post_request(recorder, number, request, function, args, named, active=True)
        posted = PostedRequest(recorder, request, number)
        if peer != NOBODY:
            posted.receives = (comm, peer, tag, nth, size)
            recorder.messages.expect(comm, peer, tag, 1)
            if num_bytes > 0:
                posted.use(memory_of(_buffer(args, named), arguments[2], writes=True))
        return follow_request(request_made, posted)

    return follow


def _persistent_receive(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request, memory_of = watch.requests.follow, watch.memory.of
    is_whole = function.__name__ not in _RECEIVES_IN_PARTS  # parts that have come may be used before the others

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, (dtype, num_bytes, count), *_ = arguments
        request = recorder.requests.take()
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, request=request,
            flags=NONBLOCKING, depth=CALLED_BY_HELPER,
        )  # fmt: skip
        request_made = post_request(recorder, number, request, function, args, named, active=False)
        posted = PostedRequest(recorder, request, number, is_active=False)
        if peer != NOBODY:
            posted.receives = (comm, peer, tag, 0, pack_size(dtype, num_bytes))
            posted.on_start = (comm, RECEIVED, peer, tag)
            if num_bytes > 0 and is_whole:
                posted.use(memory_of(_buffer(args, named), arguments[2], writes=True))
        return follow_request(request_made, posted)

    return follow


def _posted_exchange(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request, memory_of = watch.requests.follow, watch.memory.of
    is_in_place = function.__name__ == "Isendrecv_replace"

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        (target, sendtag, sent), (source, recvtag, received), values, _ = arguments
        if ANY in (source, recvtag):  # MPICH's status does not say whose message it took
            recorder.ring.lose(LOST_MESSAGES)
            return function(*args, **named)
        messages, request = recorder.messages, recorder.requests.take()
        nth = messages.count(comm, SENT, target, sendtag) if 0 <= target < len(comm.ranks) else 0
        expected = messages.next_receive(comm, source, recvtag)
        dtype, num_bytes, count = sent
        number = recorder.begin_message(
            comm.index, code, peer=target, tag=sendtag, dtype=dtype, num_bytes=num_bytes, count=count,
            message_number=nth, receives=(source, recvtag, received[0], received[1], expected), request=request,
            flags=NONBLOCKING, depth=CALLED_BY_HELPER,
        )  # fmt: skip
        messages.meet(number, comm, SENT, target, sendtag, nth, pack_size(*sent[:2]))
        messages.meet(number, comm, RECEIVED, source, recvtag, expected, pack_size(*received[:2]))
        request_made = post_request(recorder, number, request, function, args, named, active=True)
        posted = PostedRequest(recorder, request, number)
        if source != NOBODY:
            posted.receives = (comm, source, recvtag, expected, pack_size(*received[:2]))
            messages.expect(comm, source, recvtag, 1)
        if NOBODY not in (source, target) and num_bytes > 0 and received[1] > 0:
            taken = memory_of(values[1] if is_in_place else values[4], received, writes=True)
            given = () if is_in_place else (memory_of(values[1], sent, writes=False),)
            posted.use(*given, taken)
        return follow_request(request_made, posted)

    return follow


def _in_parts(recorder: Recorder, comm: Communicator) -> Communicator | None:
    """Return what messages in parts are counted on: they meet their like alone, whatever else has the same tag.

    It is None between two sides, and where a job shares the communicator with another.
    """
    if comm.num_remote or comm.half is not None:
        return None
    identity = identity_of("parts", comm.identity)
    return recorder.communicator(identity, f"{comm.name} (parts)", comm.ranks, comm.member)


def _message_in_parts(function: Any, code: int, watch: MpiWatch) -> Any:
    whole = _persistent_send if function.__name__ in _SENDS_IN_PARTS else _persistent_receive
    follow_whole = whole(function, code, watch)

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        parts = _in_parts(recorder, comm)
        if parts is None:
            return function(*args, **named)
        return follow_whole(recorder, parts, arguments, args, named)

    return follow


def _buffer(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the buffer of a message as the user gave it."""
    return args[1] if len(args) > 1 else named["buf"]
