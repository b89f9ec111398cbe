"""Whether the source lets a rank pass a call over, or make it again: what it rules out is not offered as a cause.

Of frames whose source is not known everything is believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from paceline.guard.shared_memory.operations import shown_name
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.control_flow import LineFlow, flow_of, goes_a_fixed_number_of_times
from paceline.guard.verdict.source.functions_in_source import texts_around
from paceline.guard.verdict.source.user_source import SourceBlock, calls_a_method, calls_by_name, condition_around

_RETRIES = re.compile(r"attempt|retry|retries|tries|^while True$", re.IGNORECASE)
_NAMES_A_RANK = re.compile(
    r"rank|main|master|leader|primary|process_index|stage|chief|coordinator|is_(root|zero|first|last)|\b(r|me|my_?id)\b",
    re.IGNORECASE,
)
_HOLDS_BACK = re.compile(
    r"\bno_sync\b|\.accumulate\(|require_backward_grad_sync|set_requires_gradient_sync|set_is_last_backward"
)
_NUM_FRAMES = 6  # that a rank notes: the outermost of them may have callers that nobody knows
_UNKNOWN = LineFlow(conditions=("?",), is_caught=True, loops=("?",), has_continue_above=True, has_return_above=True)


def can_be_left_out(inspection: Inspection, call: Call, other: Call) -> bool:
    """Say whether a rank may come to another call without this one, in the same round of what holds both."""
    frames, others = _frames(call), _frames(other)
    differing = _first_difference(frames, others)
    if differing is None or len(frames) >= _NUM_FRAMES or not _is_made_here(inspection, call):
        return True
    outer = [_flow(inspection, frame) for frame in frames[:differing]]
    here = _flow(inspection, frames[differing], without=others[differing])
    comes_next_round = here.has_return_above and _line(others[differing]) < _line(frames[differing])
    return (
        any(flow.is_caught for flow in outer)
        or here.may_be_passed_over
        or here.may_be_repeated
        or comes_next_round
        or any(map(_may_be_passed, _inner_flows(inspection, frames, differing)))
    )


def is_led_to_by_method(inspection: Inspection, call: Call, other: Call) -> bool:
    """Say whether a method leads to a call, and not to another: ranks may have objects of other classes."""
    frames = _frames(call)
    differing = _first_difference(frames, _frames(other))
    if differing is None or differing + 1 >= len(frames):
        return False
    file, _, line = frames[differing].rpartition(":")
    source = inspection.sources(file)
    return source is not None and calls_a_method(source, int(line))


def can_be_left_out_of(inspection: Inspection, call: Call, loop: SourceBlock, in_file: str) -> bool:
    """Say whether a round of a loop may do without a call that is in it."""
    flow = _flow_in_loop(inspection, call, loop, in_file)
    return flow.may_be_passed_over or bool(flow.conditions) or bool(flow.loops) or flow.has_return_above


def may_be_left_out_of_a_round(inspection: Inspection, call: Call) -> bool:
    """Say whether the loop around a call may go on to its next round without it: by an `if`, a jump or a return."""
    for frame in reversed(_frames(call)):
        flow = _flow(inspection, frame)
        if flow is _UNKNOWN:
            return False
        if flow.may_be_passed_over or flow.loops:
            return flow.may_be_passed_over
        if flow.has_return_above:
            return True
    return False


def is_told_to_pass_over(inspection: Inspection, call: Call, loop: SourceBlock, in_file: str) -> bool:
    """Say whether the source goes on without the call by a `continue`, a `try`, or a test that counts no steps."""
    flow = _flow_in_loop(inspection, call, loop, in_file)
    if flow.has_break or loop.head.startswith("while"):
        return False  # leaving the loop is as likely
    tests = [condition for condition in flow.conditions if not counts_steps(condition) and not asks_for_rank(condition)]
    return flow.has_continue_above or bool(tests) or flow.is_caught


def may_be_held_back(inspection: Inspection, call: Call) -> bool:
    """Say whether a library makes a call in some steps only, as the script tells it: gradients that are accumulated."""
    if _is_made_here(inspection, call):
        return False
    texts = []
    for frame in _frames(call):
        source = inspection.sources(frame.rpartition(":")[0])
        if source is not None:
            texts += texts_around(source, _line(frame), with_called=frame == call.site)
    return any(map(_HOLDS_BACK.search, texts))


def can_end_early(inspection: Inspection, call: Call, loop: SourceBlock, in_file: str) -> bool:
    """Say whether ranks may leave a loop after different numbers of rounds."""
    if not goes_a_fixed_number_of_times(loop):
        return True
    frames = _frames(call)
    at = _frame_in(inspection, frames, loop, loop.file or in_file)
    if at is None or len(frames) >= _NUM_FRAMES:
        return True
    flows = [_flow(inspection, frame) for frame in frames[: at + 1]]
    return any(flow.is_caught for flow in flows) or _flow_in_loop(inspection, call, loop, in_file).has_break


def ends_by_condition(inspection: Inspection, call: Call, loop: SourceBlock, in_file: str) -> bool:
    """Say whether a test, a `break` or a caught exception ends a loop, and not the number of its items alone."""
    at = _frame_in(inspection, _frames(call), loop, loop.file or in_file)
    outer = _flow(inspection, _frames(call)[at]) if at is not None else LineFlow()
    has_break = at is not None and _flow_in_loop(inspection, call, loop, in_file).has_break
    return loop.head.startswith("while") or has_break or outer.is_caught


def can_be_passed_without_exception(inspection: Inspection, call: Call, other: Call) -> bool:
    """Say whether a rank may come behind this call, to another, by an `if`, a jump or the end of a loop."""
    frames, others = _frames(call), _frames(other)
    differing = _first_difference(frames, others)
    if differing is None or not _is_made_here(inspection, call):
        return True
    here = _flow(inspection, frames[differing], without=others[differing])
    jumps = here.has_continue_above or here.has_return_above or here.may_be_repeated
    passed = bool(here.conditions) or here.is_in_match or jumps
    return passed or any(map(_may_be_passed, _inner_flows(inspection, frames, differing)))


def can_be_left_by_exception(inspection: Inspection, call: Call, loop: SourceBlock, in_file: str) -> bool:
    """Say whether an exception in a loop is caught outside of it, so that a rank goes on behind it."""
    frames = _frames(call)
    at = _frame_in(inspection, frames, loop, loop.file or in_file)
    return at is not None and any(_flow(inspection, frame).is_caught for frame in frames[: at + 1])


def outermost_loop(inspection: Inspection, call: Call) -> SourceBlock | None:
    """Return the outermost loop that led to a call, of those that are known."""
    for frame in _frames(call):
        loop = _flow(inspection, frame).outermost_loop
        if loop is not None:
            return replace(loop, file=frame.rpartition(":")[0])
    return None


def may_come_after_several_rounds(inspection: Inspection, call: Call, other: Call) -> bool:
    """Say whether a call may be made in some rounds only of what holds both, so that several may lie between two."""
    frames, others = _frames(call), _frames(other)
    differing = _first_difference(frames, others)
    if differing is None:
        return False
    shared = [_flow(inspection, frame) for frame in frames[: differing + 1]]
    here = _flow(inspection, frames[differing], without=others[differing])
    has_rounds = any(flow.loops for flow in shared[:-1]) or len(shared[-1].loops) > len(here.loops)
    is_passed_over = bool(here.conditions) or here.is_in_match or here.has_continue_above
    return has_rounds and (is_passed_over or any(map(_is_left, _inner_flows(inspection, frames, differing))))


def can_be_made_again(inspection: Inspection, call: Call, other: Call) -> bool:
    """Say whether a loop may repeat a call without another one, or an `if` let one rank make it more often."""
    frames, others = _frames(call), _frames(other)
    differing = _first_difference(frames, others)
    if differing is None or len(frames) >= _NUM_FRAMES or len(set(frames)) < len(frames):
        return True
    outer = [_flow(inspection, frame) for frame in frames[: differing + 1]]
    here = _flow(inspection, frames[differing], without=others[differing])
    inner = [_flow(inspection, frame) for frame in frames[differing + 1 :]]
    retries = any(flow.is_retried or _RETRIES.search(loop) for flow in outer for loop in flow.loops)
    return retries or here.is_under_condition or here.may_be_repeated or any(flow.may_be_repeated for flow in inner)


def counts_steps(condition: str, names: frozenset[str] = frozenset()) -> bool:
    """Say whether a condition is about the number of a step, which all ranks should agree on.

    >>> counts_steps("step % 5 == 4"), counts_steps("loss.isnan()"), counts_steps("i == 3", frozenset({"i"}))
    (True, False, True)
    """
    words = set(re.findall(r"\w+", condition))
    return "%" in condition or bool(words & names) or re.search(r"step|epoch|iteration", condition) is not None


def asks_for_rank(condition: str) -> bool:
    """Say whether a condition asks which rank this is: it comes out the same in every round."""
    return _NAMES_A_RANK.search(condition) is not None


class InnerBlocks(NamedTuple):
    """The outermost loop and the outermost `if` in functions that one call is in and the other is not."""

    loop: SourceBlock | None = None
    condition: SourceBlock | None = None


def inner_blocks(inspection: Inspection, call: Call, other: Call) -> InnerBlocks:
    """Return the loop and the `if` that one call alone is in, in functions that the other is not in."""
    frames = _frames(call)
    differing = _first_difference(frames, _frames(other))
    loop = condition = None
    for frame in frames[differing + 1 :] if differing is not None else ():
        file, _, line = frame.rpartition(":")
        source = inspection.sources(file)
        flow = flow_of(source, int(line)) if source is not None else None
        if flow is not None and flow.outermost_loop is not None and loop is None:
            loop = replace(flow.outermost_loop, file=file)
        around = condition_around(source, int(line)) if source is not None else None
        if around is not None and condition is None:
            condition = replace(around, file=file)
    return InnerBlocks(loop, condition)


def _is_made_here(inspection: Inspection, call: Call) -> bool:
    """Say whether the user's line names the call: `loss.backward()` may come to its end with or without one."""
    file, _, line = call.site.rpartition(":")
    source = inspection.sources(file)
    return source is None or calls_by_name(source, int(line), shown_name(call.operation))


def _frames(call: Call) -> tuple[str, ...]:
    """Return the lines that led to a call, from the outside in."""
    return tuple(reversed((call.site, *call.callers)))


def _first_difference(frames: tuple[str, ...], others: tuple[str, ...]) -> int | None:
    return next((at for at, (one, two) in enumerate(zip(frames, others, strict=False)) if one != two), None)


def _line(frame: str) -> int:
    return int(frame.rpartition(":")[2])


def _flow(inspection: Inspection, frame: str, *, without: str = "") -> LineFlow:
    file, _, line = frame.rpartition(":")
    other_file, _, other_line = without.rpartition(":")
    source = inspection.sources(file)
    if source is None:
        return _UNKNOWN
    other = int(other_line) if other_file == file else None
    return flow_of(source, int(line), without=other) or _UNKNOWN


def _inner_flows(inspection: Inspection, frames: tuple[str, ...], at: int) -> Iterator[LineFlow]:
    return (_flow(inspection, frame) for frame in frames[at + 1 :])


def _may_be_passed(flow: LineFlow) -> bool:
    return flow.may_be_passed_over or flow.has_return_above or flow.may_be_repeated


def _is_left(flow: LineFlow) -> bool:
    return bool(flow.conditions) or flow.is_in_match or flow.has_return_above


def _frame_in(inspection: Inspection, frames: tuple[str, ...], loop: SourceBlock, file: str) -> int | None:
    """Return which frame of a stack is in a loop."""
    for at, frame in enumerate(frames):
        source = inspection.sources(file) if frame.rpartition(":")[0] == file else None
        if source is not None and flow_of(source, _line(frame), loop_at=loop.line) is not None:
            return at
    return None


def _flow_in_loop(inspection: Inspection, call: Call, loop: SourceBlock, in_file: str) -> LineFlow:
    """Return how a round of a loop comes to a call, through all functions on the way."""
    frames = _frames(call)
    at = _frame_in(inspection, frames, loop, loop.file or in_file)
    source = inspection.sources(loop.file or in_file)
    here = flow_of(source, _line(frames[at]), loop_at=loop.line) if at is not None and source is not None else None
    if here is None or at is None:
        return _UNKNOWN
    inner = list(_inner_flows(inspection, frames, at))
    return replace(
        here,
        conditions=here.conditions + tuple(condition for flow in inner for condition in flow.conditions),
        is_caught=here.is_caught or any(flow.is_caught for flow in inner),
        loops=here.loops + tuple(loop for flow in inner for loop in flow.loops),
        has_return_above=any(flow.has_return_above for flow in inner),
        has_continue_above=here.has_continue_above or any(flow.has_continue_above for flow in inner),
    )


__all__ = [
    "asks_for_rank",
    "can_be_left_by_exception",
    "can_be_left_out",
    "can_be_left_out_of",
    "can_be_made_again",
    "can_be_passed_without_exception",
    "can_end_early",
    "counts_steps",
    "ends_by_condition",
    "inner_blocks",
    "is_led_to_by_method",
    "is_told_to_pass_over",
    "may_be_held_back",
    "may_be_left_out_of_a_round",
    "may_come_after_several_rounds",
    "outermost_loop",
]
