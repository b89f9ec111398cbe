"""Why it probably happened, in words: what the lines, the loops and the ends of ranks say together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.guard.verdict.first_difference import Parting, collectives_of, place_of
from paceline.guard.verdict.match import Mismatch
from paceline.guard.verdict.snapshot import Call, EndKind, Snapshot
from paceline.guard.verdict.user_source import Lines, relate
from paceline.guard.verdict.wording import (
    call_name,
    member_rank,
    name_ranks,
    new_group_text,
    nth,
    size_text,
    verb,
)

Sources = Callable[[str], str | None]

_EVEN_STEPS = (
    "give every rank the same number of steps: paceline.PlanSampler does, or stop all ranks at the smallest count "
    "(all_reduce with MIN before the loop)"
)
_CRASHES = (4, 6, 7, 8, 11)  # signals that compiled code ends with by itself: ILL, ABRT, BUS, FPE, SEGV
_PLURALS = {"list of ranks": "lists of ranks"}
_NAMES_A_RANK = re.compile(r"rank|main|master|leader|process_index", re.IGNORECASE)
_FIELD_CAUSES = {"root": "root", "reduction": "reduction", "dtype": "dtype", "count": "shape", "communicator": "group"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The words of a finding."""

    ranks: tuple[int, ...]
    summary: str
    cause: str
    advice: str
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uneven:
    """Some ranks have left a loop that others are still in."""

    left: tuple[int, ...]
    stayed: tuple[int, ...]
    rounds_of_left: int
    rounds_of_stayed: int
    still_in: bool
    site: str
    after: str


def explain_mismatch(snapshot: Snapshot, mismatch: Mismatch, parting: Parting | None, sources: Sources) -> Explanation:
    """Explain calls that differ at one position."""
    known = _explain_parting(snapshot, parting, sources)
    if known is not None:
        return known
    if mismatch.field == "operation" or _lines_are_shared(snapshot, mismatch):
        return _explain_operation(snapshot, mismatch)
    values = _values(snapshot, mismatch)
    where = _place_text(mismatch.calls.values())
    name = _field_words(mismatch)
    at = f"{nth(mismatch.sequence)} collective on {snapshot.groups[mismatch.communicator].name}"
    summary = f"{name_ranks(mismatch.odd_ones)} {verb(mismatch.odd_ones, 'calls', 'call')} {where} with another {name}"
    if len(mismatch.odd_ones) == len(mismatch.calls):
        summary = f"ranks call {where} with different {_PLURALS.get(name, f'{name}s')}"
    return Explanation(
        ranks=mismatch.odd_ones,
        summary=f"{summary}: {values} ({at})",
        cause=_FIELD_CAUSES[mismatch.field],
        advice=_field_advice(mismatch),
    )


def _field_words(mismatch: Mismatch) -> str:
    names = {"count": "size", "dtype": "element type", "communicator": "list of ranks"}
    return names.get(mismatch.field, mismatch.field)


def _field_advice(mismatch: Mismatch) -> str:
    site = next(iter(mismatch.calls.values())).site
    return {
        "root": f"every rank must name the same root in the call at {site}; do not compute it from data of one rank",
        "reduction": f"every rank must use the same reduction in the call at {site}",
        "dtype": f"convert to one element type before the call at {site}: libraries read the bytes as they come",
        "count": f"give every rank the same number of elements in the call at {site}: pad the last batch, or use a "
        "call that takes a count per rank",
        "communicator": f"every rank must make the same groups in the same order, with the same ranks, at {site}",
    }[mismatch.field]


def _values(snapshot: Snapshot, mismatch: Mismatch) -> str:
    groups: dict[str, list[int]] = {}
    for rank, call in mismatch.calls.items():
        if mismatch.field == "root":
            text = f"root {member_rank(snapshot, call, call.root).removeprefix('rank ')}"
        elif mismatch.field == "reduction":
            text = call.reduction
        elif mismatch.field == "communicator":
            text = new_group_text(snapshot, call) or f"a group at {call.site}"
        else:
            text = size_text(call) or "not known"
        groups.setdefault(text, []).append(rank)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return "; ".join(f"{text} on {name_ranks(ranks)}" for text, ranks in ordered)


def _place_text(calls: object) -> str:
    listed = list(calls)  # type: ignore[call-overload]
    sites = sorted({call.site for call in listed})
    return f"{call_name(listed[0])} at {' and '.join(sites[:3])}"


def _explain_parting(snapshot: Snapshot, parting: Parting | None, sources: Sources) -> Explanation | None:
    """Explain ranks that have parted before: the call that does not fit is then only where it shows."""
    uneven = find_uneven(snapshot, parting, sources)
    if uneven is not None:
        return explain_uneven(uneven)
    return _conditional(snapshot, parting, sources)


def _explain_operation(snapshot: Snapshot, mismatch: Mismatch) -> Explanation:
    texts = _calls_text(mismatch.calls)
    group = snapshot.groups[mismatch.communicator].name
    order = _is_other_order(snapshot, mismatch) or _lines_are_shared(snapshot, mismatch)
    return Explanation(
        ranks=mismatch.odd_ones,
        summary=f"{name_ranks(mismatch.odd_ones)} fell out of line: at the {nth(mismatch.sequence)} collective on "
        f"{group}, {texts}",
        cause="call-order" if order else "rank-conditional-call",
        advice="let every rank make the same calls in the same order"
        if order
        else "let every rank make this call, or none: look for an `if` on the rank, or on data that only some have",
    )


def _calls_text(calls: Mapping[int, Call]) -> str:
    groups: dict[tuple[str, str], list[int]] = {}
    for rank, call in calls.items():
        groups.setdefault((call_name(call), call.site), []).append(rank)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return ", ".join(
        f"{name_ranks(ranks)} {verb(ranks, 'calls', 'call')} {name} at {site}" for (name, site), ranks in ordered
    )


def _lines_are_shared(snapshot: Snapshot, mismatch: Mismatch) -> bool:
    """Say whether ranks are at different lines here, and each has been at the other's line too: the order differs."""
    ranks: dict[tuple[str, ...], int] = {}
    for rank, call in mismatch.calls.items():
        ranks.setdefault(place_of(call), rank)
    if len(ranks) < 2:
        return False
    for place, rank in ranks.items():
        past = {place_of(call) for call in collectives_of(snapshot, rank, mismatch.communicator).values()}
        if not ranks.keys() - {place} <= past:
            return False
    return True


def _is_other_order(snapshot: Snapshot, mismatch: Mismatch) -> bool:
    """Say whether what the odd ones call here is what the others called, or call, at another position nearby."""
    sites: dict[tuple[str, ...], int] = {}
    for rank, call in mismatch.calls.items():
        sites.setdefault(place_of(call), rank)
    for rank in sites.values():
        past = collectives_of(snapshot, rank, mismatch.communicator)
        others = set(sites) - {place_of(mismatch.calls[rank])}
        if any(place_of(call) in others for at, call in past.items() if abs(at - mismatch.sequence) <= 2):
            return True
    return False


# loops


def find_uneven(snapshot: Snapshot, parting: Parting | None, sources: Sources) -> Uneven | None:
    """Find out whether ranks parted because some left a loop earlier than others."""
    if parting is None:
        return None
    groups: dict[tuple[str, ...], list[int]] = {}
    for rank, call in parting.calls.items():
        groups.setdefault(place_of(call), []).append(rank)
    if len(groups) < 2:
        return None
    ordered = sorted(groups.values(), key=len, reverse=True)
    for stayed, left in ((ordered[0], ordered[1]), (ordered[1], ordered[0])):
        in_loop, after = parting.calls[stayed[0]], parting.calls[left[0]]
        past = collectives_of(snapshot, left[0], parting.communicator)
        longest = collectives_of(snapshot, stayed[0], parting.communicator)
        rounds = _rounds(past, parting.sequence, place_of(in_loop), place_of(after))
        if rounds == 0 or not _has_left_loop(parting, in_loop, after, past, longest, sources):
            continue
        ends = [at for at, call in longest.items() if at > parting.sequence and place_of(call) == place_of(after)]
        until = min(ends, default=max(longest) + 1)
        more = _rounds(longest, until, place_of(in_loop), place_of(after), before=parting.sequence)
        return Uneven(
            left=tuple(left), stayed=tuple(stayed), rounds_of_left=rounds, rounds_of_stayed=more,
            still_in=not ends, site=in_loop.site, after=after.site,
        )  # fmt: skip
    return None


def _rounds(
    past: Mapping[int, Call], until: int, loop: tuple[str, ...], after: tuple[str, ...], before: int | None = None
) -> int:
    """Count the calls from the loop's line since the last call from the line after it, if there was one."""
    limit = until if before is None else before
    previous = max((at for at, call in past.items() if at < limit and place_of(call) == after), default=0)
    return sum(1 for at, call in past.items() if previous < at < until and place_of(call) == loop)


def _has_left_loop(
    parting: Parting, in_loop: Call, after: Call, past: Mapping[int, Call], others: Mapping[int, Call], sources: Sources
) -> bool:
    """Say whether the second call comes after the loop that the first is in, and not from an `if` within it."""
    back = any(at > parting.sequence and place_of(call) == place_of(in_loop) for at, call in past.items())
    met = any(at > parting.sequence and place_of(call) == place_of(after) for at, call in others.items())
    if back and not met:
        return False  # it is in the loop again, and the others never make that call
    related = _relate(in_loop, after, sources)
    if related is None or related.loop_line is None:
        return True  # the loop is further out, or there is no source: what the calls say must do
    return not related.second_in_loop


def explain_uneven(uneven: Uneven) -> Explanation:
    """Explain ranks that make different numbers of steps."""
    left, stayed = uneven.left, uneven.stayed
    odd = left if len(left) <= len(stayed) else stayed
    rounds = "1 step" if uneven.rounds_of_left == 1 else f"{uneven.rounds_of_left} steps"
    theirs = f"{verb(stayed, 'is', 'are')} in step" if uneven.still_in else f"{verb(stayed, 'makes', 'make')}"
    summary = (
        f"{verb(left, 'it', 'they') if odd == left else name_ranks(left)} left the loop at {uneven.site} after "
        f"{rounds}; {name_ranks(stayed)} {theirs} {uneven.rounds_of_stayed}"
    )
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(odd)} fell out of line: {summary}",
        cause="uneven-steps",
        advice=_EVEN_STEPS,
    )


def _relate(first: Call, second: Call, sources: Sources) -> Lines | None:
    """Relate the lines at which the stacks of two calls part, seen from the outside."""
    for one, other in zip(
        reversed((first.site, *first.callers)), reversed((second.site, *second.callers)), strict=False
    ):
        if one != other:
            file, _, line = one.rpartition(":")
            other_file, _, other_line = other.rpartition(":")
            source = sources(file) if file == other_file else None
            found = relate(source, int(line), int(other_line)) if source is not None else None
            return replace(found, file=file) if found is not None else None
    return None


def _place_of_condition(condition: str, site: str) -> str:
    """Say where a condition is, unless the call stands right below it."""
    file, _, line = condition.rpartition(":")
    called_file, _, called = site.rpartition(":")
    return "" if file == called_file and 0 <= int(called) - int(line) <= 2 else f" at {condition}"


def _conditional(snapshot: Snapshot, parting: Parting | None, sources: Sources) -> Explanation | None:
    """Explain ranks that parted because a call is under an `if` that only some of them enter."""
    if parting is None:
        return None
    groups: dict[tuple[str, ...], list[int]] = {}
    for rank, call in parting.calls.items():
        groups.setdefault(place_of(call), []).append(rank)
    if len(groups) != 2:
        return None
    first, second = sorted(groups.values(), key=len, reverse=True)
    one, other = parting.calls[first[0]], parting.calls[second[0]]
    related = _relate(one, other, sources)
    if related is None:
        return None
    for condition, line, inside, site in (
        (related.second_condition, related.second_condition_line, second, other.site),
        (related.first_condition, related.first_condition_line, first, one.site),
    ):
        if condition is not None:
            at = _place_of_condition(f"{related.file}:{line}", site)
            call = parting.calls[inside[0]]
            their = verb(inside, "its", "their")
            return Explanation(
                ranks=tuple(sorted(inside if len(first) == len(second) else second)),
                summary=f"only {name_ranks(inside)} {verb(inside, 'makes', 'make')} the {call_name(call)} at {site}, "
                f"under `if {condition}`{at}; from then on {their} calls meet other calls of the "
                f"others",
                cause="rank-conditional-call",
                advice=f"take the {call_name(call)} at {site} out of the `if {condition}`{at}: every rank must make it",
            )
    return None


# ranks that have gone


def explain_gone(
    snapshot: Snapshot, missing: Sequence[int], posters: Sequence[int], communicator: str, at: int,
    parting: Parting | None, sources: Sources,
) -> Explanation:  # fmt: skip
    """Explain ranks that have ended although others need them."""
    ends = {}
    for rank in missing:
        state = snapshot.state(rank)
        if state is not None and state.end is not None:
            ends[rank] = state.end
    guilty = tuple(sorted(ends)) or tuple(sorted(missing))
    needed = _needed_text(snapshot, posters, guilty, communicator, at)
    if not ends:
        return Explanation(
            ranks=guilty, summary=f"{name_ranks(guilty)} gave the communicator up; {needed}", cause="early-exit",
            advice="free a communicator, or destroy a group, only after the last collective on it",
        )  # fmt: skip
    first = min(ends.values(), key=lambda end: end.at_ns)
    if first.kind is EndKind.RAISED:
        cause = first.cause or "exception"
        advice = f"mend what raised at {first.site}, or tell the other ranks before leaving"
    elif first.kind is EndKind.KILLED:
        cause = first.cause or "killed"
        advice = "see who sent the signal: the system's log, the batch system, another program"
        if first.signal in _CRASHES:
            advice = "look for a fault in compiled code that this rank runs: start it with -X faulthandler"
    else:
        known = _fewer_steps(snapshot, guilty, posters, communicator, at)
        known = known or _only_some(snapshot, guilty, posters, communicator, at, sources)
        if known is not None:
            return known
        cause, advice = "early-exit", "let every rank make the same calls before it ends"
    advice = {
        "out-of-memory": "lower what a rank holds at one time (batch size, workers, caches), or give it more memory",
        "disk-full": "make room on the disk, raise the quota or the limit on file sizes, or write elsewhere",
    }.get(cause, advice)
    how = {EndKind.RAISED: "raised", EndKind.KILLED: "was killed", EndKind.EXITED: "ended"}.get(first.kind, "ended")
    details = f" ({first.detail})" if first.detail else ""
    site = f" at {first.site}" if first.site else ""
    said = f"{name_ranks(guilty)} {how if len(guilty) == 1 else how.replace('was', 'were')}{site}{details}"
    return Explanation(ranks=guilty, summary=f"{said}; {needed}", cause=cause, advice=advice)


def _needed_text(snapshot: Snapshot, posters: Sequence[int], missing: Sequence[int], communicator: str, at: int) -> str:
    if not posters:
        return "the other ranks were ended because of it"
    state = snapshot.state(posters[0])
    assert state is not None
    call = collectives_of(snapshot, posters[0], communicator).get(at) if communicator else None
    if call is None and state.end is not None:
        failed = next((past for past in state.history if past.number == state.end.failed_call), None)
        if failed is not None:
            return f"{name_ranks(posters)} failed in {call_name(failed)} at {failed.site} because of it"
    if call is None:
        waiting = next((waiting for waiting in state.threads if waiting is not None), None)
        call = waiting.call if waiting is not None else None
    where = f" in {call_name(call)} at {call.site}" if call is not None else ""
    return f"{name_ranks(posters)} {verb(posters, 'waits', 'wait')} for {verb(missing, 'it', 'them')}{where}"


def _fewer_steps(
    snapshot: Snapshot, guilty: tuple[int, ...], posters: Sequence[int], communicator: str, at: int
) -> Explanation | None:
    """Explain a rank that ended while others go on from a line that it had called from before."""
    if not posters or not communicator:
        return None
    call = collectives_of(snapshot, posters[0], communicator).get(at)
    past = collectives_of(snapshot, guilty[0], communicator)
    if call is None:
        return None
    rounds = sum(1 for other in past.values() if place_of(other) == place_of(call))
    if rounds == 0:
        return None
    more = sum(
        1 for other in collectives_of(snapshot, posters[0], communicator).values() if place_of(other) == place_of(call)
    )
    return Explanation(
        ranks=guilty,
        summary=f"{name_ranks(guilty)} ended{_exit_text(snapshot, guilty)} after {rounds} "
        f"{'call' if rounds == 1 else 'calls'} of {call_name(call)} "
        f"at {call.site}; {name_ranks(posters)} {verb(posters, 'is', 'are')} in the {nth(more)} and "
        f"{verb(posters, 'waits', 'wait')} for {verb(guilty, 'it', 'them')}",
        cause="uneven-steps",
        advice=_EVEN_STEPS,
    )


def _exit_text(snapshot: Snapshot, ranks: Sequence[int]) -> str:
    """Say by which line ranks have ended, if it was one that ends them."""
    state = snapshot.state(ranks[0])
    end = state.end if state is not None else None
    return f" ({end.detail} at {end.site})" if end is not None and end.site else ""


def _only_some(
    snapshot: Snapshot, guilty: tuple[int, ...], posters: Sequence[int], communicator: str, at: int, sources: Sources
) -> Explanation | None:
    """Explain a call that only a minority makes, while the others come to their end without it."""
    call = collectives_of(snapshot, posters[0], communicator).get(at) if posters and communicator else None
    condition = _condition_of(call, sources) if call is not None else None
    by_rank = condition is not None and _NAMES_A_RANK.search(condition) is not None
    if call is None or (len(posters) >= len(guilty) and not by_rank):
        return None
    odd = posters if len(posters) < len(guilty) else guilty
    under = f", under `if {condition}`" if condition else ""
    return Explanation(
        ranks=tuple(sorted(odd)),
        summary=f"only {name_ranks(posters)} {verb(posters, 'makes', 'make')} the {call_name(call)} at {call.site}"
        f"{under}; {name_ranks(guilty)} ended without it",
        cause="rank-conditional-call",
        advice=f"let every rank make the {call_name(call)} at {call.site}, or none",
    )


def _condition_of(call: Call, sources: Sources) -> str | None:
    file, _, line = call.site.rpartition(":")
    source = sources(file)
    related = relate(source, int(line), 0) if source is not None else None
    return related.first_condition if related is not None else None
