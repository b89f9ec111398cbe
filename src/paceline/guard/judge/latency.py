"""How long after the last event that made it certain a finding comes."""

from __future__ import annotations

import time
from dataclasses import replace

from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.snapshot import Snapshot


def add_latency(snapshot: Snapshot, finding: Finding) -> Finding:
    """Add how long after the last event that made it certain the finding comes."""
    last = 0
    for state in snapshot.ranks:
        if state is None:
            continue
        events = [waiting.call.entered_ns for waiting in state.waiting]
        events += [state.stop.call.entered_ns] if state.stop is not None else []
        events += [state.end.at_ns] if state.end is not None else []
        last = max([last, *events])
    return latency_since(finding, last)


def latency_since(finding: Finding, event_ns: int) -> Finding:
    """Add how long after an event the finding comes; 0 stands for none."""
    now = time.monotonic_ns()
    latency = (now - event_ns) / 1e6 if event_ns else 0.0
    return replace(finding, latency_ms=round(max(0.0, latency), 1), decided_ns=now)
