"""Watches Create_intercomm, which makes a communicator of two groups of one job, and the ends of communicators.

Two jobs that meet (parents and the ranks that they spawn, or a server and its clients) are in mpi_meetings.py.
"""

from __future__ import annotations

from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like
from paceline.guard.rank.mpi.sides.mpi_intercommunicators import member_on_other_side
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, NO_NAMED, make_blocked_call, make_call
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, CREATE_INTERCOMM_OF_LEADER, CREATE_INTERCOMM_OF_LEADERS

_CODE = BY_NAME["Create_intercomm"].code
_CODE_OF_LEADERS = BY_NAME[CREATE_INTERCOMM_OF_LEADERS].code
_CODE_OF_LEADER = BY_NAME[CREATE_INTERCOMM_OF_LEADER].code

_DEPTH = CALLED_BY_HELPER + 1  # what counts handles (mpi_handles.py) stands between Create_intercomm and the user

_Awaited = tuple[Communicator, int]  # and the code of the operation that meets its members


def watched_create_intercomm(function: Any, watch: MpiWatch) -> Any:
    """Return the watched form of Create_intercomm."""
    meetings: dict[tuple[Any, ...], int] = {}  # (communicator, leaders, tag) -> how often these leaders met
    made: dict[tuple[Any, ...], int] = {}  # sides -> how many communicators they have made together

    def call(self: Any, local_leader: Any, peer_comm: Any, remote_leader: Any, tag: Any = 0) -> Any:
        recorder = SESSION.recorder
        values = (self, local_leader, peer_comm, remote_leader, tag)
        if recorder is None:
            return function(*values)
        # one that is not followed may be COMM_SELF, which has nobody to wait for
        own_side = watch.communicators.get(watch.handle_of(self))
        leaders = None
        if local_leader == watch.mpi.Comm.Get_rank(self):
            leaders = _meeting_of_leaders(watch, recorder, peer_comm, remote_leader, tag, meetings)
        awaited = [(own_side, _CODE)] if own_side is not None else []
        awaited += [(leaders, _CODE_OF_LEADERS)] if leaders is not None else []
        try:
            new = _make_together(recorder, awaited, function, values)
        finally:
            if leaders is not None:
                recorder.give_up(leaders)
        sides = tuple(sorted(watch.sides(new)))
        made[sides] = made.get(sides, 0) + 1
        watch.adopt_sides(new, ("Create_intercomm", made[sides]), "Create_intercomm")
        return new

    return named_like(call, function)


def _meeting_of_leaders(
    watch: MpiWatch, recorder: Recorder, peer_comm: Any, remote_leader: Any, tag: Any, meetings: dict[Any, int]
) -> Communicator | None:
    """Return a communicator of the two leaders, which exists for this call alone; None if they are not known."""
    known = watch.find(peer_comm) if isinstance(peer_comm, watch.mpi.Comm) else None
    if known is None or known.half is not None or not isinstance(remote_leader, int):
        return None
    other = member_on_other_side(known, remote_leader) if known.num_remote else remote_leader
    if not 0 <= other < len(known.ranks) or other == known.member:
        return None  # mpi4py says better what is wrong
    leaders = sorted((known.member, other))
    key = (known.identity, *leaders, tag)
    meetings[key] = meetings.get(key, 0) + 1
    ranks = [known.ranks[member] for member in leaders]
    identity = identity_of("Create_intercomm", key, meetings[key])
    return recorder.communicator(identity, "the leaders", ranks, leaders.index(known.member))


def _make_together(recorder: Recorder, awaited: list[_Awaited], function: Any, values: tuple[Any, ...]) -> Any:
    """Make the call that waits for the members of one communicator, of two at once, or of none that is known."""
    if not awaited:
        return function(*values)
    if len(awaited) == 1:
        number = recorder.begin_collective(*awaited[0], depth=_DEPTH)
        return make_blocked_call(recorder, number, function, values, NO_NAMED)
    requests = []
    for known, code in awaited:
        request = recorder.requests.take()
        number = recorder.begin_collective(known, code, flags=layout.NONBLOCKING, request=request, depth=_DEPTH)
        recorder.leave(number)
        recorder.requests.keep(request, number)
        recorder.requests.activate(request, posted=True)
        requests.append(request)
    number = recorder.begin_wait(_CODE_OF_LEADER, requests, any_of=False, depth=_DEPTH + 1)
    try:
        return make_call(recorder, number, function, values, NO_NAMED)
    finally:
        for request in requests:
            recorder.requests.free(request)


def watched_end(function: Any, watch: MpiWatch) -> Any:
    """Return the watched form of Free, or of Disconnect, which may wait for the other members."""
    handle_of = watch.handle_of
    code = BY_NAME["Disconnect"].code if function.__name__ == "Disconnect" else 0

    def call(self: Any) -> Any:
        handle, recorder = handle_of(self), SESSION.recorder
        followed = watch.communicators if handle in watch.communicators else watch.intercommunicators
        # before the call: after it another thread may make a communicator that gets this handle
        communicator = followed.pop(handle, None)
        if communicator is None:
            return function(self)
        try:
            if not code or recorder is None:
                return function(self)
            number = recorder.begin_collective(communicator, code, depth=CALLED_BY_HELPER)
            return make_blocked_call(recorder, number, function, (self,), NO_NAMED)
        finally:
            if handle_of(self) == handle:  # nothing was freed: MPI refused to, or it is there for ever
                followed[handle] = communicator
            elif recorder is not None:
                recorder.give_up(communicator)

    return named_like(call, function)
