"""Which rank failed first, and which ranks ended because of it.

Ends are ordered by time. The first that ended badly by itself is the cause; what launchers and libraries end afterwards
are victims. Ends that were noticed in the same moment are told apart by how they came about: nobody else makes a rank
raise, or crash in its own code, but a launcher kills with SIGTERM and SIGKILL. A launcher also kills for a rank that
has just exited, be it with code 0: then that one is the cause, if others were in a call that needed it. Ranks that
raise at the line where the first one raised, outside of a call that needs others, found the same mistake, however much
later they came to it. A launcher kills all that are left by one signal: a rank that another signal killed in the same
moment is the cause. Else, of ranks that were killed as launchers kill, the first is. A launcher kills only after it has
seen that one has closed its connection, so the order in which files were closed counts; if it is not known, the kernel
lists ends in about their order.

Somebody may also have ended the whole job: a launcher whose time limit has run out, a cluster's, a person. Then one
signal kills the ranks, and each closes its files when it gets a processor. If all other ranks go on when the files of
the first are seen to be closed, that one ended alone, unless the launcher says that it was told to end. If others are
being ended by then, the launcher may have been quick, or the judge slow, or it is the whole job: nobody is named,
unless the launcher says by its exit code that a rank was killed.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState
from paceline.guard.verdict.waits.waited_for import needed_by_any

STOP_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)  # by which whole jobs are ended first
_BY_LAUNCHER = (*STOP_SIGNALS, signal.SIGKILL)
_SAME_MOMENT_NS = 50_000_000  # a busy judge may notice ends this much later than they came
_NOTICED_TOGETHER_NS = 3_000_000  # ends that one look has found, one after the other

_OWN_CAUSES = (Cause.OUT_OF_MEMORY, Cause.DISK_FULL, Cause.HANDLE_LEAK)  # nobody else brings these about
_MUCH_MORE = 2  # times the memory of another rank: ranks of one job hold about the same

_Time = Literal["at_ns", "closed_ns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFailure:
    """The ranks that failed first.

    Attributes:
        ranks: They.
        at_ns: When.
        is_certain: Whether no other may have been before them.
        may_be_stop: Whether somebody may have ended the whole job.
        was_alone: Whether all others went on when it had gone.
    """

    ranks: tuple[int, ...]
    at_ns: int
    is_certain: bool = True
    may_be_stop: bool = False
    was_alone: bool = False


def first_failure(inspection: Inspection) -> FirstFailure | None:
    """Return who failed first; None if no rank has failed by itself."""
    ends = {state.rank: state.end for state in inspection.states() if state.end is not None and is_failure(state)}
    own = {rank: end for rank, end in ends.items() if not end.by_peer}
    if not own:
        return None
    first = min(end.at_ns for end in own.values())
    in_moment = {rank: end for rank, end in own.items() if end.at_ns <= first + _SAME_MOMENT_NS}
    lost = _crashed_for_lost_peers(inspection, own)
    by_itself = tuple(
        sorted(rank for rank, end in in_moment.items() if not may_be_ended_by_launcher(end) and rank not in lost)
    )
    if by_itself:
        return FirstFailure(ranks=tuple(sorted({*by_itself, *_raised_alike(own, by_itself)})), at_ns=first)
    deserters = _exited_before(inspection, first + _SAME_MOMENT_NS)
    if deserters:
        return FirstFailure(ranks=tuple(sorted(deserters)), at_ns=min(deserters.values()))
    odd = _killed_by_another_signal(in_moment)
    if odd is not None:
        return FirstFailure(ranks=(odd,), at_ns=first)
    together = tuple(sorted(_noticed_together(own, "at_ns") & _noticed_together(own, "closed_ns")))
    largest = _killed_for_memory({rank: own[rank] for rank in together})
    if largest is not None:
        together = (largest,)
    elif may_be_stop(own):
        together = _first_by(own, "closed_ns")
        was_alone = not any(own[rank].with_others for rank in together)
        return FirstFailure(ranks=together, at_ns=first, is_certain=False, may_be_stop=True, was_alone=was_alone)
    elif _are_closings_known(own):
        together = _first_by(own, "closed_ns")
    elif len(together) < len(inspection.snapshot.ranks):
        together = _first_by(in_moment, "at_ns")
    return FirstFailure(ranks=together, at_ns=first, is_certain=len(together) == 1)


def may_be_stop(ends: Mapping[int, End]) -> bool:
    """Say whether somebody may have ended the whole job.

    Then one signal has killed two ranks or more, and others were being ended when the first of them had gone; a signal
    by which jobs are stopped may also have been sent to one rank after the other. A rank may have handled the signal,
    or have failed in a call because its peers were gone.
    """
    killed = {rank: end for rank, end in ends.items() if may_be_ended_by_launcher(end)}
    if len(killed) < 2 or not _are_closings_known(killed):
        return False
    first = min(killed.values(), key=lambda end: end.closed_ns)
    alike = [end for end in killed.values() if end.signal in (first.signal, None) or first.signal is None]
    return (first.with_others or first.signal in STOP_SIGNALS) and len(alike) > 1


def _crashed_for_lost_peers(inspection: Inspection, ends: Mapping[int, End]) -> set[int]:
    """Return the ranks that crashed inside a call when another had closed its files: libraries may not survive that."""
    if not _are_closings_known(ends):
        return set()
    first = min(end.closed_ns for end in ends.values())
    return {
        state.rank
        for state in inspection.states()
        if state.rank in ends and ends[state.rank].kind is EndKind.KILLED
        and ends[state.rank].closed_ns > first and open_call(state) is not None
    }  # fmt: skip


def _are_closings_known(ends: Mapping[int, End]) -> bool:
    return all(end.closed_ns for end in ends.values())


def _noticed_together(ends: dict[int, End], what: _Time) -> set[int]:
    """Return the ranks that were noticed together with the first; all of them if that is not known."""
    times = {rank: int(getattr(end, what)) for rank, end in ends.items()}
    return {
        rank
        for rank, at in times.items()
        if not all(times.values()) or at <= min(times.values()) + _NOTICED_TOGETHER_NS
    }


def _first_by(ends: dict[int, End], what: _Time) -> tuple[int, ...]:
    """Return who ended first, of ranks that were killed as launchers kill; several if they cannot be told apart."""
    times = {rank: int(getattr(end, what)) for rank, end in ends.items()}
    return tuple(sorted(rank for rank, at in times.items() if at == min(times.values())))


def _killed_by_another_signal(ends: dict[int, End]) -> int | None:
    """Return the one rank that was killed by another signal than two or more others, if there is one.

    A launcher sees a rank's connections close before the kernel lists its end, so others that it kills may be listed
    before that one. But its files were closed before theirs; otherwise it was killed after the others.
    """
    signals = Counter(end.signal for end in ends.values() if end.signal is not None)
    if len(signals) != 2:
        return None
    (_, count), (other, once) = signals.most_common()
    if count < 2 or once != 1:
        return None
    odd = next(rank for rank, end in ends.items() if end.signal == other)
    return odd if not _are_closings_known(ends) or _first_by(ends, "closed_ns") == (odd,) else None


def _raised_alike(ends: dict[int, End], first: tuple[int, ...]) -> set[int]:
    """Return the ranks that raised by themselves where one of the first ranks did: a missing module, a bad setting."""
    raised = {rank: end for rank, end in ends.items() if _has_raised_by_itself(end)}
    lines = {raised[rank].site for rank in first if rank in raised}
    return {rank for rank, end in raised.items() if end.site in lines}


def _has_raised_by_itself(end: End) -> bool:
    return end.kind is EndKind.RAISED and bool(end.site) and not is_raised_by_others(end)


def _killed_for_memory(ends: dict[int, End]) -> int | None:
    """Return the rank that the kernel has killed, where the launcher killed the others at once; None if it is not that.

    The kernel takes the one that holds most. But a rank may fill its memory between two looks at it, or in a control
    group of its own: if none is seen to hold much more than the others, the first that ended is the one. The kernel may
    also have killed something else on this machine, and somebody the whole job.
    """
    if len(ends) < 2 or any(end.cause is not Cause.OUT_OF_MEMORY for end in ends.values()):
        return None
    by_memory = sorted(ends, key=lambda rank: ends[rank].memory_bytes)
    if ends[by_memory[-1]].memory_bytes >= _MUCH_MORE * ends[by_memory[-2]].memory_bytes:
        return by_memory[-1]
    return min(ends, key=lambda rank: ends[rank].at_ns) if not may_be_stop(ends) else None


def _exited_before(inspection: Inspection, at_ns: int) -> dict[int, int]:
    """Return the ranks that had exited by then without a call that others were in, and when they did."""
    exits = {
        state.rank: state.end.at_ns
        for state in inspection.states()
        if state.end is not None and state.end.kind is EndKind.EXITED and state.end.at_ns <= at_ns
    }
    calls = ((state, open_call(state)) for state in inspection.states() if exits and state.rank not in exits)
    needed = needed_by_any(inspection, ((state, call) for state, call in calls if call is not None))
    return {rank: exited for rank, exited in exits.items() if rank in needed}


def is_failure(state: RankState) -> bool:
    """Say whether a rank ended badly."""
    return state.end is not None and state.end.is_failure


def may_be_ended_by_launcher(end: End) -> bool:
    """Say whether a rank was killed as launchers kill."""
    return end.kind is EndKind.KILLED and (end.signal is None or end.signal in _BY_LAUNCHER)


def is_victim(state: RankState, first: FirstFailure | None) -> bool:
    """Say whether a rank ended because another had failed before."""
    end = state.end
    if end is None or first is None:
        return False
    is_ended = end.by_peer or may_be_ended_by_launcher(end)
    if not is_ended:  # a library that lost its peer inside a call often aborts the process
        is_ended = end.kind is EndKind.KILLED and open_call(state) is not None
    return is_ended and end.at_ns >= first.at_ns and state.rank not in first.ranks


def may_end_because_of_unseen(inspection: Inspection) -> bool:
    """Say whether the job may be ending because of a rank that is out of sight: then waiting is not its own fault."""
    return bool(inspection.out_of_sight()) and any(map(may_be_because_of_others, inspection.states()))


def may_be_because_of_others(state: RankState) -> bool:
    """Say whether another rank may be why this one ended, as launchers and libraries end those that are left.

    Where ranks are out of sight, nobody knows whether one of them was first.
    """
    end = state.end
    if end is None or end.cause in _OWN_CAUSES:
        return False
    if is_raised_by_others(end) or may_be_ended_by_launcher(end):
        return True
    if end.kind is EndKind.KILLED:
        return open_call(state) is not None
    return end.kind is EndKind.EXITED and bool(end.exit_code) and not end.site


def is_raised_by_others(end: End) -> bool:
    """Say whether the exception that ended a rank came out of a call that needs others, or speaks of them."""
    return end.cause not in _OWN_CAUSES and (end.by_peer or end.timed_out or end.failed_call is not None)


def open_call(state: RankState) -> Call | None:
    """Return the call that a rank is inside, or was when it ended."""
    waiting = next(state.waiting, None)
    return waiting.call if waiting is not None else None
