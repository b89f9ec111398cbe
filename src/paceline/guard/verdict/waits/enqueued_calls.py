"""Where the ranks of a job are whose backend only enqueues: not where their programs are, but their streams.

A program goes on once a call is enqueued. The device carries calls out one after the other, and stays in the first that
cannot complete: behind it is everything that the program enqueues afterwards. This replays what the ranks have
enqueued, and returns a snapshot in which a rank waits where its stream does, and has not yet done what is behind that.
The rules for ranks that can never move then hold for it as for any other.

It is right for programs that use one stream. Messages are taken to match by their order alone, since NCCL ignores tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from paceline.guard.shared_memory.layout import ENQUEUED, NONBLOCKING
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.snapshot import Call, Channel, RankState, Snapshot, Waiting

_Pair = tuple[str, int]  # communicator, number of the other side there


class _Stream:
    """What a rank has enqueued, and how far its stream has come."""

    def __init__(self, state: RankState) -> None:
        self.state = state
        self.receive_numbers = _receive_numbers(state)
        self._stops = list(_stops(state))  # the calls and waits that the stream can stand in, in order
        self._num_done = 0
        # what is behind the stop, the next one last
        self._behind = [call for call in reversed(state.history) if _is_enqueued(call)]
        self._collectives = Counter(call.communicator for call in self._behind if call.is_collective)
        sends = [call for call in self._behind if call.family is Family.SEND]
        self._sends = Counter((call.communicator, call.peer) for call in sends)
        self._come_to_stop()

    @property
    def stop(self) -> Waiting | None:
        """Where the stream is; None if it has carried out everything."""
        return self._stops[self._num_done] if self._num_done < len(self._stops) else None

    def go_on(self) -> None:
        """Carry out the call that the stream is in, and come to the next."""
        self._num_done += 1
        self._come_to_stop()

    def _come_to_stop(self) -> None:
        stop = self.stop
        while self._behind and (stop is None or self._behind[-1].number <= stop.call.number):
            call = self._behind.pop()
            if call.is_collective:
                self._collectives[call.communicator] -= 1
            elif call.family is Family.SEND:
                self._sends[call.communicator, call.peer] -= 1

    def has_begun(self, call: Call) -> bool:
        """Say whether the stream has come to a collective, or may have."""
        begun = self.state.begun(call.communicator)
        return begun is None or begun - self._collectives[call.communicator] >= call.sequence

    def num_sent(self, pair: _Pair) -> int:
        """Return how many messages the stream has sent to a peer, of all tags."""
        sent = sum(count for (name, peer, _), count in self.state.sent.items() if (name, peer) == pair)
        return sent - self._sends[pair]

    def as_rank(self) -> RankState:
        """Return the rank where its stream is."""
        state, stop = self.state, self.stop
        if stop is None:
            return state
        sent, received = Counter(state.sent), Counter(state.received)
        sent.subtract(_channel(call) for call in self._behind if call.family is Family.SEND)
        for waiting in self._stops[self._num_done :]:
            if waiting.call.left_ns:  # the program took for received what it waited for
                received.subtract(_channel(call) for call in waiting.awaited if call.family is Family.RECEIVE)
        behind = {call.number for call in self._behind}
        return replace(
            state,
            threads=(stop,),
            positions={name: count - self._collectives[name] for name, count in state.positions.items()},
            sent=sent,
            received=received,
            posted=(),
            history=tuple(call for call in state.history if call.number not in behind),
        )


def stream_snapshot(snapshot: Snapshot) -> Snapshot | None:
    """Return the job as its streams are; None if no stream waits. The snapshot must have the past."""
    streams = {state.rank: _Stream(state) for state in snapshot.ranks if state is not None}
    moved = True
    while moved:
        moved = False
        for stream in streams.values():
            while stream.stop is not None and _can_leave(snapshot, streams, stream, stream.stop):
                stream.go_on()
                moved = True
    if all(stream.stop is None for stream in streams.values()):
        return None
    ranks = [None if state is None else streams[state.rank].as_rank() for state in snapshot.ranks]
    return replace(snapshot, ranks=ranks)


def _is_enqueued(call: Call) -> bool:
    return bool(call.flags & ENQUEUED) and not call.failed


def _channel(call: Call) -> Channel:
    return call.communicator, call.peer, call.tag


def _stops(state: RankState) -> Iterator[Waiting]:
    """Return the calls and waits of a rank that its stream can stand in."""
    requests: dict[int, Call] = {}
    for call in state.history:
        if call.family is Family.WAIT:
            started = requests.pop(call.request, None)
            if started is not None:
                yield Waiting(call=call, requests=(started,))
        elif _is_enqueued(call) and call.flags & NONBLOCKING:
            requests[call.request] = call
        elif _is_enqueued(call) and call.family is not Family.SEND:  # what is sent may be buffered
            yield Waiting(call=call)


def _receive_numbers(state: RankState) -> dict[int, int]:
    """Return which receive from its sender each one is, of all tags, from 1; by the number of the call."""
    receives = [call for call in state.history if call.family is Family.RECEIVE and _is_enqueued(call)]
    counts = dict(state.received)
    for call in reversed(receives):  # as many as there were before the first that is remembered
        counts[_channel(call)] = call.message_number - 1
    numbers = {}
    for call in receives:
        counts[_channel(call)] = call.message_number
        pair = (call.communicator, call.peer)
        numbers[call.number] = sum(count for (name, peer, _), count in counts.items() if (name, peer) == pair)
    return numbers


def _can_leave(snapshot: Snapshot, streams: dict[int, _Stream], stream: _Stream, stop: Waiting) -> bool:
    return all(_can_complete(snapshot, streams, stream, call) for call in stop.awaited)


def _can_complete(snapshot: Snapshot, streams: dict[int, _Stream], stream: _Stream, call: Call) -> bool:
    """Say whether what a call needs is there, or cannot be told."""
    known = snapshot.communicators.get(call.communicator)
    if known is None or call.family is Family.SEND:
        return True
    if call.is_collective:
        return all(rank in streams and streams[rank].has_begun(call) for rank in known.ranks)
    sender = known.rank_of(call.peer)
    if sender is None or sender not in streams or not call.message_number:
        return True
    sending = streams[sender]
    if not (sending.state.messages_known and stream.state.messages_known):
        return True
    me = known.member(stream.state.rank)
    return sending.num_sent((call.communicator, me)) >= stream.receive_numbers[call.number]
