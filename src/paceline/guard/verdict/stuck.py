"""Why ranks can never move, in words: what each of them waits for, and of whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes import Explanation, Sources, explain_uneven, find_uneven
from paceline.guard.verdict.first_difference import Parting
from paceline.guard.verdict.match import minority
from paceline.guard.verdict.progress import first_unmet
from paceline.guard.verdict.snapshot import Call, Snapshot
from paceline.guard.verdict.wording import call_detail, call_name, name_ranks, verb

_MAX_SAID = 4  # groups of ranks that a sentence names


def explain_stuck(snapshot: Snapshot, stuck: frozenset[int], parting: Parting | None, sources: Sources) -> Explanation:
    """Explain ranks that wait for each other."""
    calls: dict[int, Call] = {}
    for rank in sorted(stuck):
        state = snapshot.state(rank)
        assert state is not None
        waiting = next(waiting for waiting in state.threads if waiting is not None)
        calls[rank] = first_unmet(snapshot, state, waiting)
    families = {call.facts.family for call in calls.values()}
    if families == {Family.COLLECTIVE}:
        return _of_collectives(snapshot, calls, parting, sources)
    if Family.COLLECTIVE not in families:
        return _of_messages(snapshot, calls)
    return _unreceived(snapshot, calls) or _unsent(snapshot, calls)


def _of_collectives(
    snapshot: Snapshot, calls: Mapping[int, Call], parting: Parting | None, sources: Sources
) -> Explanation:
    communicators = {call.communicator for call in calls.values()}
    uneven = find_uneven(snapshot, parting, sources) if len(communicators) == 1 else None
    if uneven is not None:
        return explain_uneven(uneven)
    return Explanation(
        ranks=_odd_ones(calls),
        summary=f"{name_ranks(calls)} wait for each other on different communicators: {_text(snapshot, calls)}",
        cause="call-order",
        advice="use communicators in the same order on every rank",
        field="communicator",
    )


def _of_messages(snapshot: Snapshot, calls: Mapping[int, Call]) -> Explanation:
    families = {call.facts.family for call in calls.values()}
    sends = families <= {Family.SEND}
    return Explanation(
        ranks=tuple(sorted(calls)),
        summary=f"{name_ranks(calls)} {verb(calls, 'waits', 'wait')} for "
        f"{'itself' if len(calls) == 1 else 'each other'}: {_text(snapshot, calls)}",
        cause="send-send" if sends else "receive-receive" if families <= {Family.RECEIVE} else "message-order",
        advice="let one side receive first, or use Sendrecv, or post the receives (Irecv) before the sends"
        if sends
        else "let one side send first, or use Sendrecv, or post receives (Irecv) and wait for them together",
    )


def _unreceived(snapshot: Snapshot, calls: Mapping[int, Call]) -> Explanation | None:
    """Explain messages to ranks that have gone on to a collective and receive no more."""
    receivers = {rank: _receiver(snapshot, call) for rank, call in calls.items() if call.facts.family is Family.SEND}
    senders = {
        rank: receiver
        for rank, receiver in receivers.items()
        if receiver in calls and calls[receiver].facts.family is Family.COLLECTIVE
    }
    if not senders:
        return None
    odd, gone_on = _odd_ones(calls), sorted(set(senders.values()))
    if set(odd) != senders.keys():  # unless they alone are out of line, it is the fewer of the two sides
        odd = minority([list(senders), gone_on])
    sites = sorted({calls[rank].site for rank in senders})
    theirs = _text(snapshot, {rank: calls[rank] for rank in gone_on})
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(senders)} {verb(list(senders), 'sends', 'send')} to {name_ranks(gone_on)} at "
        f"{' and '.join(sites[:3])}, but {verb(gone_on, 'it receives', 'they receive')} no more: {theirs}",
        cause="send-without-receive",
        advice="post a receive for every message: a receive takes one, however large its buffer is; to collect from "
        "all ranks use Gather",
    )


def _receiver(snapshot: Snapshot, call: Call) -> int:
    group = snapshot.groups.get(call.communicator)
    return group.ranks[call.root] if group is not None and 0 <= call.root < len(group.ranks) else call.root


def _unsent(snapshot: Snapshot, calls: Mapping[int, Call]) -> Explanation:
    """Explain receives, or waits, that nothing comes for, because the others are in a collective."""
    odd = _odd_ones(calls)
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(odd)} fell out of line: {_text(snapshot, calls)}",
        cause="receive-without-send",
        advice="let every receive have its send, and every rank make the collective, in the same order",
    )


def _odd_ones(calls: Mapping[int, Call]) -> tuple[int, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for rank, call in calls.items():
        groups.setdefault((call.operation, call.communicator), []).append(rank)
    return minority(list(groups.values())) if len(groups) > 1 else tuple(sorted(calls))


def _text(snapshot: Snapshot, calls: Mapping[int, Call]) -> str:
    groups: dict[tuple[object, ...], list[int]] = {}
    for rank, call in calls.items():
        key = (call.operation, call.communicator, call.site, call.root, call.tag, call.source, call.source_tag)
        groups.setdefault(key, []).append(rank)
    ordered: Sequence[list[int]] = sorted(groups.values(), key=lambda ranks: (-len(ranks), ranks))
    texts = []
    for ranks in ordered[:_MAX_SAID]:
        call = calls[ranks[0]]
        detail = call_detail(snapshot, call)
        group = snapshot.groups.get(call.communicator)
        on = f" on {group.name}" if group is not None and call.is_collective else ""
        texts.append(
            f"{name_ranks(ranks)} in {call_name(call)}{on} at {call.site}" + (f" ({detail})" if detail else "")
        )
    more = f" and {len(ordered) - _MAX_SAID} more" if len(ordered) > _MAX_SAID else ""
    return ", ".join(texts) + more
