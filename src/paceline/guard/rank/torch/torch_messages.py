"""Watches the messages of torch.distributed."""

from __future__ import annotations

import functools
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.torch.torch_module import TorchWatch, keep_work
from paceline.guard.rank.watched_process import SESSION, Posting
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.layout import ANY, RECEIVED, SENT


def watched_send(watch: TorchWatch, function: Any, code: int) -> Any:
    """Return a send, or isend, that shows its message before it goes."""
    posts = function.__name__ == "isend"
    local = watch.inside

    @functools.wraps(function)
    def call(tensor: Any, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None, **named: Any) -> Any:
        recorder, comm = SESSION.recorder, watch.communicator(group)
        if recorder is None or comm is None or local.depth:
            return function(tensor, dst, group, tag, group_dst, **named)
        peer, tag = _member(comm, dst, group_dst), int(tag)
        dtype, num_bytes, count = watch.size(tensor)
        exists = 0 <= peer < len(comm.ranks)
        nth = recorder.messages.count(comm, SENT, peer, tag) if exists else 0
        request = recorder.requests.take() if posts else 0
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            request=request, flags=layout.NONBLOCKING if posts else 0,
        )  # fmt: skip
        if not exists:
            recorder.stop(number, layout.STOP_ARGUMENT, 0)
        recorder.messages.meet(number, comm, SENT, peer, tag, nth, pack_size(dtype, num_bytes))
        arguments = (tensor, dst, group, tag, group_dst)
        if posts:
            return _posted_message(watch, recorder, function, arguments, named, number, request, None)
        return _in_call(watch, recorder, function, arguments, named, number)

    return call


def watched_receive(watch: TorchWatch, function: Any, code: int) -> Any:
    """Return a recv, or irecv, that shows what it has room for."""
    posts = function.__name__ == "irecv"
    local = watch.inside

    @functools.wraps(function)
    def call(tensor: Any, src: Any = None, group: Any = None, tag: int = 0, group_src: Any = None, **named: Any) -> Any:
        recorder, comm = SESSION.recorder, watch.communicator(group)
        if recorder is None or comm is None or local.depth:
            return function(tensor, src, group, tag, group_src, **named)
        tag = int(tag)
        peer = ANY if src is None and group_src is None else _member(comm, src, group_src)
        dtype, num_bytes, count = watch.size(tensor)
        size = pack_size(dtype, num_bytes)
        nth = recorder.messages.next_receive(comm, peer, tag)
        request = recorder.requests.take() if posts else 0
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            request=request, flags=layout.NONBLOCKING if posts else 0,
        )  # fmt: skip
        if peer != ANY and not 0 <= peer < len(comm.ranks):
            recorder.stop(number, layout.STOP_ARGUMENT, 0)
        recorder.messages.meet(number, comm, RECEIVED, peer, tag, nth, size)
        arguments = (tensor, src, group, tag, group_src)
        if posts:
            taken = (comm, peer, tag, nth, size)
            recorder.messages.expect(comm, peer, tag, 1)
            return _posted_message(watch, recorder, function, arguments, named, number, request, taken)
        source = _in_call(watch, recorder, function, arguments, named, number)
        if peer == ANY:
            peer = _member(comm, source, None)
            nth = recorder.messages.next_receive(comm, peer, tag)
        recorder.messages.count(comm, RECEIVED, peer, tag)
        recorder.messages.check(number, comm, peer, tag, nth, size)
        return source

    return call


def _member(comm: Communicator, rank: Any, within: Any) -> int:
    """Return the number of a peer in its group; one that cannot be for a peer that is not in it."""
    if within is not None:
        return int(within)
    if rank is None:
        return 0
    rank = int(rank)
    return comm.ranks.index(rank) if rank in comm.ranks else int(rank) if rank >= len(comm.ranks) else -2000


def _in_call(
    watch: TorchWatch, recorder: Recorder, function: Any, args: tuple[Any, ...], named: dict[str, Any], number: int
) -> Any:
    recorder.block(number)
    watch.inside.depth = 1
    try:
        return function(*args, **named)
    except BaseException as error:
        SESSION.note_failure(error, number)
        raise
    finally:
        watch.inside.depth = 0
        recorder.unblock(number)


def _posted_message(
    watch: TorchWatch, recorder: Recorder, function: Any, args: tuple[Any, ...], named: dict[str, Any], number: int,
    request: int, receives: tuple[Communicator, int, int, int, int] | None,
) -> Any:  # fmt: skip
    watch.inside.depth = 1
    try:
        with Posting(recorder, number, request, active=True):
            work = function(*args, **named)
    finally:
        watch.inside.depth = 0
    posted = keep_work(watch, recorder, work, request, number)
    if posted is not None:
        posted.receives = receives
    return work
