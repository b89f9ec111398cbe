"""What ranks returned, if all of them ended well."""

from __future__ import annotations

from typing import Any

from paceline.launch import Outcome


def values(outcomes: list[Outcome]) -> list[Any]:
    """Return the value of each rank; fail with the tracebacks of those that did not end well."""
    assert [outcome.traceback or outcome for outcome in outcomes if not outcome.ok] == []
    return [outcome.value for outcome in outcomes]
