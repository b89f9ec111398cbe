"""Relates the lines from which two calls came: one loop, a loop and what follows it, an `if` that only one is under."""

from __future__ import annotations

import re
from dataclasses import replace

from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.user_source import LineRelation, relate

_NAMES_A_RANK = re.compile(r"rank|main|master|leader|process_index", re.IGNORECASE)


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


def condition_of(inspection: Inspection, call: Call) -> str | None:
    """Return the test of the innermost `if` that a call is under."""
    file, _, line = call.site.rpartition(":")
    source = inspection.sources(file)
    relation = relate(source, int(line), 0) if source is not None else None
    return relation.first_condition if relation is not None else None


def names_a_rank(condition: str | None) -> bool:
    """Say whether a condition asks which rank this is."""
    return condition is not None and _NAMES_A_RANK.search(condition) is not None
