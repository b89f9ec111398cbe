"""Watches the messages of mpi4py that return a request: posted at once, or prepared for many starts (persistent).

A posted message is counted when it is posted, or expected from then on. A persistent one is so at each start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_module import MessageKinds, MpiWatch, watched_methods
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, post_request
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.layout import NOBODY, NONBLOCKING, RECEIVED, SENT

_POSTED_SENDS = ("Isend", "Issend", "Irsend", "Ibsend", "isend", "issend", "ibsend")
_PERSISTENT_SENDS = ("Send_init", "Ssend_init", "Rsend_init", "Bsend_init")
_POSTED_RECEIVES = ("Irecv", "irecv")
_PERSISTENT_RECEIVES = ("Recv_init",)


def watched_posted_messages(base: Any, reads: Mapping[str, Callable[..., Any]], watch: MpiWatch) -> dict[str, Any]:
    """Return the watched forms of the messages of a class that return a request."""
    kinds: MessageKinds = [
        (_POSTED_SENDS, _posted_send), (_PERSISTENT_SENDS, _persistent_send), (_POSTED_RECEIVES, _posted_receive),
        (_PERSISTENT_RECEIVES, _persistent_receive),
    ]  # fmt: skip
    return watched_methods(base, reads, kinds, watch)


def _posted_send(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request = watch.requests.follow

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
        return follow_request(request_made, PostedRequest(recorder, request, number))

    return follow


def _persistent_send(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request = watch.requests.follow

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, (dtype, num_bytes, count) = arguments
        request = recorder.requests.take()
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, request=request,
            flags=NONBLOCKING, depth=CALLED_BY_HELPER,
        )  # fmt: skip
        request_made = post_request(recorder, number, request, function, args, named, active=False)
        posted = PostedRequest(recorder, request, number)
        posted.on_start = (comm, SENT, peer, tag)
        return follow_request(request_made, posted)

    return follow


def _posted_receive(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request = watch.requests.follow

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
        return follow_request(request_made, posted)

    return follow


def _persistent_receive(function: Any, code: int, watch: MpiWatch) -> Any:
    follow_request = watch.requests.follow

    def follow(recorder: Recorder, comm: Communicator, arguments: Any, args: Any, named: Any) -> Any:
        peer, tag, (dtype, num_bytes, count), *_ = arguments
        request = recorder.requests.take()
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, request=request,
            flags=NONBLOCKING, depth=CALLED_BY_HELPER,
        )  # fmt: skip
        request_made = post_request(recorder, number, request, function, args, named, active=False)
        posted = PostedRequest(recorder, request, number)
        if peer != NOBODY:
            posted.receives = (comm, peer, tag, 0, pack_size(dtype, num_bytes))
            posted.on_start = (comm, RECEIVED, peer, tag)
        return follow_request(request_made, posted)

    return follow
