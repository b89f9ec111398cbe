"""Whether a rank stays inside a call because it waits there, and not because it has no processor to go on with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from paceline.guard.judge.patience import LEAVE_SECONDS
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.snapshot import Call, Snapshot

STAY_SECONDS = 0.35  # how long a call that a library may complete must stay inside before it counts as waiting
# Open MPI may complete a small send to a rank that finalises only after this long
_FINALIZE_SECONDS = 5.0
_SMALL_BYTES = 4096


def stay_seconds(snapshot: Snapshot, staying: Iterable[int]) -> float:
    """Return how long ranks must stay inside their calls before they count as waiting there."""
    sends = (call for rank in staying for call in _awaited(snapshot, rank) if _is_small_send(call))
    return _FINALIZE_SECONDS if any(_receiver_has_left(snapshot, call) for call in sends) else STAY_SECONDS


def _receiver_has_left(snapshot: Snapshot, call: Call) -> bool:
    """Say whether the rank that a message goes to has ended or finalised; True also if that rank is not known."""
    known = snapshot.communicators.get(call.communicator)
    rank = None if known is None else known.rank_of(call.peer)
    state = None if rank is None else snapshot.state(rank)
    return state is None or state.end is not None or bool(state.finalized_at)


def _is_small_send(call: Call) -> bool:
    is_mpi = not call.operation.startswith("torch.")
    return is_mpi and call.family is Family.SEND and call.traits.may_buffer and call.num_bytes <= _SMALL_BYTES


def _awaited(snapshot: Snapshot, rank: int) -> Iterable[Call]:
    state = snapshot.ranks[rank]
    waits = (waiting for waiting in state.threads if waiting is not None) if state is not None else ()
    return (call for waiting in waits for call in waiting.awaited)


def processor_seconds(job: WatchedJob, rank: int) -> float:
    """Return for how long a rank has had a processor, in all."""
    return job.ranks[rank].process.processor_seconds()


def had_processor(job: WatchedJob, then: Mapping[int, float]) -> bool:
    """Say whether every rank that stays has run since `then`, or sleeps because there is nothing to do."""
    for rank, seconds in then.items():
        found = job.ranks[rank].process.activity()
        if found is None:
            continue
        worked = processor_seconds(job, rank) - seconds >= LEAVE_SECONDS
        if found.state != "S" and not (worked and found.state == "R"):
            return False
    return True
