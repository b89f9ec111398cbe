"""Watches the collectives of torch.distributed.

What is read of the arguments is in torch_collective_arguments.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.buffer_size import Size
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.count_tables import TableRead, meet_pairs
from paceline.guard.rank.remarks.active_buffers import UsedMemory
from paceline.guard.rank.torch.reading_calls import reading_call
from paceline.guard.rank.torch.torch_collective_arguments import TorchCollectiveArguments
from paceline.guard.rank.torch.torch_module import TorchWatch
from paceline.guard.rank.torch.torch_works import follow_work
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, post_request
from paceline.guard.shared_memory import layout


def watched_collective(
    watch: TorchWatch, function: Any, code: int, read: Callable[..., TorchCollectiveArguments],
    make_blocked_call: Callable[..., Any], read_table: TableRead | None = None,
    read_memory: Callable[..., tuple[UsedMemory | None, ...]] | None = None,
) -> Any:  # fmt: skip
    """Return a function that records a collective and then makes it; what it exchanges by pairs is compared too."""
    unwatched = watch.unwatched(function)

    def follow(
        recorder: Recorder, communicator: Communicator, arguments: TorchCollectiveArguments, args: Any, named: Any
    ) -> Any:
        _, root, reduction, size, returns_work, flags = arguments
        if communicator.call_flags:
            flags |= watch.flags_of(communicator)
        table = read_table(communicator, *args, **named) if read_table is not None else None
        if returns_work:
            request = recorder.requests.take()
            number = _record_posting(recorder, communicator, code, root, reduction, size, request)
            meet_pairs(recorder, number, communicator, table, waits=False)
            work = post_request(recorder, number, request, unwatched, args, named, active=True)
            posted = follow_work(watch, work, recorder, request, number)
            # a backend that enqueues orders calls in its streams: whoever uses a tensor need not wait for the work
            if posted is not None and read_memory is not None and not communicator.call_flags:
                posted.use(*read_memory(*args, **named))
            return work
        dtype, num_bytes, count = size
        number = recorder.begin_collective(
            communicator, code, root, reduction, dtype, num_bytes, count, flags, depth=CALLED_BY_HELPER
        )
        if table is not None:
            meet_pairs(recorder, number, communicator, table, waits=True)
        return make_blocked_call(recorder, number, function, args, named)

    # results are compared in Python
    is_plain = read_table is None and make_blocked_call == watch.make_blocked_call
    return reading_call(watch, function, code, read, follow, is_plain=is_plain)


def _record_posting(
    recorder: Recorder, communicator: Communicator, code: int, root: int, reduction: int, size: Size, request: int
) -> int:
    dtype, num_bytes, count = size
    return recorder.begin_collective(
        communicator, code, root, reduction, dtype, num_bytes, count, layout.NONBLOCKING | communicator.call_flags,
        request, depth=CALLED_BY_HELPER + 1,
    )  # fmt: skip
