"""Relates the lines from which two calls came: a loop that only one is in, an `if` that only one is under."""

from __future__ import annotations

import re
from dataclasses import replace

from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.user_source import LineRelation, SourceBlock, condition_around, relate

_NAMES_A_RANK = re.compile(r"rank|main|master|leader|primary|process_index", re.IGNORECASE)
_NOT_OF_STEPS = re.compile(
    r"param|grad|bucket|tensor|layer|module|field|key|name|weight|buffer|attempt|retry|retries|tries", re.IGNORECASE
)


def relate_calls(inspection: Inspection, first: Call, second: Call) -> LineRelation | None:
    """Relate the outermost lines in which the stacks of two calls differ."""
    stacks = zip(reversed((first.site, *first.callers)), reversed((second.site, *second.callers)), strict=False)
    for one, other in stacks:
        if one != other:
            file, _, line = one.rpartition(":")
            other_file, _, other_line = other.rpartition(":")
            source = inspection.sources(file) if file == other_file else None
            relation = relate(source, int(line), int(other_line)) if source is not None else None
            return replace(relation, file=file) if relation is not None else None
    return None


def condition_of(inspection: Inspection, call: Call) -> SourceBlock | None:
    """Return the innermost `if` that a call is under."""
    file, _, line = call.site.rpartition(":")
    source = inspection.sources(file)
    return condition_around(source, int(line)) if source is not None else None


def names_a_rank(condition: SourceBlock | None) -> bool:
    """Say whether a condition asks which rank this is."""
    return condition is not None and _NAMES_A_RANK.search(condition.head) is not None


def is_loop_of_steps(loop: SourceBlock | None) -> bool:
    """Say whether a loop may be one of steps, and not one over parameters, layers or fields."""
    return loop is not None and _NOT_OF_STEPS.search(loop.head) is None
