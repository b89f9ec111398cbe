"""Watches the messages of torch.distributed."""

from __future__ import annotations

import functools
from typing import Any

from paceline.guard.rank.torch.tensor_memory import TensorMemoryReader
from paceline.guard.rank.torch.torch_module import TorchWatch, member_number
from paceline.guard.rank.torch.torch_works import follow_work
from paceline.guard.rank.watched_calls import CALLED_BY_WRAPPER, post_request
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.layout import ANY, RECEIVED, SENT
from paceline.guard.shared_memory.nobody import encode_outsider


def watched_send(watch: TorchWatch, function: Any, code: int, memory: TensorMemoryReader) -> Any:
    """Return a send, or isend, that shows its message before it goes."""
    posts = function.__name__ == "isend"
    flags = layout.NONBLOCKING if posts else 0
    nesting, unwatched = watch.inside, watch.unwatched(function)

    @functools.wraps(function)
    def call(tensor: Any, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None, **named: Any) -> Any:
        recorder, comm = SESSION.recorder, watch.communicator(group)
        args = (tensor, dst, group, tag, group_dst)
        if recorder is None or comm is None or nesting.depth or not watch.has_data(tensor):
            return function(*args, **named)
        peer, tag = member_number(comm, dst, group_dst), _read_tag(tag)
        dtype, num_bytes, count = watch.size(tensor)
        exists = 0 <= peer < len(comm.ranks)
        nth = recorder.messages.count(comm, SENT, peer, tag) if exists else 0
        request = recorder.requests.take() if posts else 0
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            request=request, flags=flags | watch.flags_of(comm), depth=CALLED_BY_WRAPPER,
        )  # fmt: skip
        if not exists:
            recorder.stop(number, layout.STOP_ARGUMENT, 0)
        recorder.messages.meet(number, comm, SENT, peer, tag, nth, pack_size(dtype, num_bytes))
        if not posts:
            return watch.make_message(recorder, number, function, args, named)
        work = post_request(recorder, number, request, unwatched, args, named, active=True)
        posted = follow_work(watch, work, recorder, request, number)
        if posted is not None and not comm.call_flags:
            posted.use(memory.of(tensor, writes=False))
        return work

    return call


def watched_receive(watch: TorchWatch, function: Any, code: int) -> Any:
    """Return a recv that shows what it has room for."""
    nesting = watch.inside

    @functools.wraps(function)
    def call(tensor: Any, src: Any = None, group: Any = None, tag: int = 0, group_src: Any = None, **named: Any) -> Any:
        recorder, comm = SESSION.recorder, watch.communicator(group)
        args = (tensor, src, group, tag, group_src)
        if recorder is None or comm is None or nesting.depth or not watch.has_data(tensor):
            return function(*args, **named)
        tag = _read_tag(tag)
        peer = ANY if src is None and group_src is None else member_number(comm, src, group_src)
        dtype, num_bytes, count = watch.size(tensor)
        size = pack_size(dtype, num_bytes)
        nth = recorder.messages.next_receive(comm, peer, tag)
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            flags=watch.flags_of(comm), depth=CALLED_BY_WRAPPER,
        )  # fmt: skip
        if peer != ANY and not 0 <= peer < len(comm.ranks):
            recorder.stop(number, layout.STOP_ARGUMENT, 0)
        recorder.messages.meet(number, comm, RECEIVED, peer, tag, nth, size)
        source = watch.make_message(recorder, number, function, args, named)
        if peer == ANY:
            peer = member_number(comm, source, None)
            nth = recorder.messages.next_receive(comm, peer, tag)
        recorder.messages.count(comm, RECEIVED, peer, tag)
        recorder.messages.check(number, comm, peer, tag, nth, size)
        return source

    return call


def watched_posted_receive(watch: TorchWatch, function: Any, code: int, memory: TensorMemoryReader) -> Any:
    """Return an irecv that shows what it has room for; the message counts as received when its work completes."""
    nesting, unwatched = watch.inside, watch.unwatched(function)

    @functools.wraps(function)
    def call(tensor: Any, src: Any = None, group: Any = None, tag: int = 0, group_src: Any = None, **named: Any) -> Any:
        recorder, comm = SESSION.recorder, watch.communicator(group)
        args = (tensor, src, group, tag, group_src)
        if recorder is None or comm is None or nesting.depth or not watch.has_data(tensor):
            return function(*args, **named)
        tag = _read_tag(tag)
        peer = ANY if src is None and group_src is None else member_number(comm, src, group_src)
        dtype, num_bytes, count = watch.size(tensor)
        size = pack_size(dtype, num_bytes)
        nth = recorder.messages.next_receive(comm, peer, tag)
        request = recorder.requests.take()
        number = recorder.begin_message(
            comm.index, code, peer=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, message_number=nth,
            request=request, flags=layout.NONBLOCKING | watch.flags_of(comm), depth=CALLED_BY_WRAPPER,
        )  # fmt: skip
        if peer != ANY and not 0 <= peer < len(comm.ranks):
            recorder.stop(number, layout.STOP_ARGUMENT, 0)
        recorder.messages.meet(number, comm, RECEIVED, peer, tag, nth, size)
        recorder.messages.expect(comm, peer, tag, 1)
        work = post_request(recorder, number, request, unwatched, args, named, active=True)
        posted = follow_work(watch, work, recorder, request, number)
        if posted is not None:
            posted.receives = (comm, peer, tag, nth, size)
            if not comm.call_flags:
                posted.use(memory.of(tensor, writes=True))
        return work

    return call


def _read_tag(tag: Any) -> int:
    """Return a tag as records have it: their negative numbers mean something else."""
    number = int(tag)
    return number if number >= 0 else encode_outsider(number)
