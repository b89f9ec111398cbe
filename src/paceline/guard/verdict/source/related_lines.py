"""Relates the lines from which two calls came: a loop that only one is in, an `if` that only one is under."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.control_flow import flow_of
from paceline.guard.verdict.source.passed_over import asks_for_rank, inner_blocks
from paceline.guard.verdict.source.user_source import (
    LineRelation,
    SourceBlock,
    condition_around,
    function_line,
    in_other_cases,
    loop_around,
    relate,
)

_NOT_OF_STEPS = re.compile(
    r"param|grad|bucket|tensor|layer|module|field|key|name|weight|buffer|attempt|retry|retries|tries", re.IGNORECASE
)


_OF_STEPS = re.compile(r"step|epoch|batch|loader|iter|sample|data|range\(|while", re.IGNORECASE)


def frames_of_call(call: Call) -> tuple[str, ...]:
    """Return the lines that led to a call, from the outside in."""
    return tuple(reversed((call.site, *call.callers)))


def shared_line(inspection: Inspection, first: Call, second: Call) -> SourceBlock | None:
    """Return the innermost `for` around the line that leads to both calls, by functions of which each has one."""
    frames, others = frames_of_call(first), frames_of_call(second)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(frames, others, strict=False)))
    if not 0 < shared < min(len(frames), len(others)):
        return None
    if _function_at(inspection, frames[shared]) == _function_at(inspection, others[shared]):
        return None  # two lines of one function
    file, _, line = frames[shared - 1].rpartition(":")
    source = inspection.sources(file)
    loop = loop_around(source, int(line)) if source is not None else None
    return replace(loop, file=file) if loop is not None else None


def _function_at(inspection: Inspection, frame: str) -> tuple[str, int | None]:
    """Tell the function that a line is in, by its file and its first line."""
    file, _, line = frame.rpartition(":")
    source = inspection.sources(file)
    return file, function_line(source, int(line)) if source is not None else None


def relate_calls(inspection: Inspection, first: Call, second: Call) -> LineRelation | None:
    """Relate the outermost lines in which the stacks of two calls differ."""
    stacks = zip(reversed((first.site, *first.callers)), reversed((second.site, *second.callers)), strict=False)
    for one, other in stacks:
        if one != other:
            file, _, line = one.rpartition(":")
            other_file, _, other_line = other.rpartition(":")
            source = inspection.sources(file) if file == other_file else None
            relation = relate(source, int(line), int(other_line)) if source is not None else None
            return _with_inner_blocks(inspection, replace(relation, file=file), first, second) if relation else None
    return None


def are_alternatives(inspection: Inspection, first: Call, second: Call) -> bool:
    """Say whether two calls stand in branches of one `if` or `match`: then a rank makes one of them, and never both."""
    relation = relate_calls(inspection, first, second)
    if relation is None or relation.fork is not None:
        return relation is not None
    pairs = zip(frames_of_call(first), frames_of_call(second), strict=False)
    one, other = next((one, other) for one, other in pairs if one != other)
    source = inspection.sources(relation.file)
    lines = [int(frame.rpartition(":")[2]) for frame in (one, other)]
    return source is not None and in_other_cases(source, *lines)


def _with_inner_blocks(inspection: Inspection, relation: LineRelation, first: Call, second: Call) -> LineRelation:
    """Add the loops and conditions of the functions that only one of the calls is in, where there are none outside."""
    inner_first, inner_second = inner_blocks(inspection, first, second), inner_blocks(inspection, second, first)
    return replace(
        relation,
        first_loop=relation.first_loop or inner_first.loop,
        second_loop=relation.second_loop or inner_second.loop,
        first_condition=relation.first_condition or inner_first.condition,
        second_condition=relation.second_condition or inner_second.condition,
    )


def condition_of(inspection: Inspection, call: Call) -> SourceBlock | None:
    """Return the innermost `if` that a call is under, or the innermost around its callers that asks for the rank."""
    for frame in (call.site, *call.callers):
        file, _, line = frame.rpartition(":")
        source = inspection.sources(file)
        condition = condition_around(source, int(line)) if source is not None else None
        if condition is not None and (frame == call.site or names_a_rank(condition)):
            return replace(condition, file=file)
    return None


def goes_through_tensors(inspection: Inspection, call: Call) -> bool:
    """Say whether a call stands in a loop over parameters, layers, fields or whatever is not a step."""
    file, _, line = call.site.rpartition(":")
    source = inspection.sources(file)
    flow = flow_of(source, int(line)) if source is not None else None
    innermost = flow.loops[-1] if flow is not None and flow.loops else None
    return innermost is not None and bool(_NOT_OF_STEPS.search(innermost) or not _OF_STEPS.search(innermost))


def names_a_rank(condition: SourceBlock | None) -> bool:
    """Say whether a condition asks which rank this is."""
    return condition is not None and asks_for_rank(condition.head)


def is_loop_of_steps(loop: SourceBlock | None) -> bool:
    """Say whether a loop may be one of steps, and not one over parameters, layers or fields."""
    return loop is not None and _NOT_OF_STEPS.search(loop.head) is None
