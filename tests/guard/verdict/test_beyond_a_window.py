"""An access that reaches beyond the end of a window, in words."""

from __future__ import annotations

from tests.guard.verdict.simulated import WORLD, certain, stopped, waits

from paceline.guard.shared_memory.layout import STOP_ARGUMENT
from paceline.guard.verdict.finding import Cause, FindingField, FindingKind
from paceline.guard.verdict.snapshot import Call


def test_it_is_told_how_far_it_reaches_and_how_much_there_is() -> None:
    put = Call(
        operation="Win.Put", communicator=WORLD, site="train.py:7", peer=1, num_bytes=32, source=1, source_bytes=16
    )
    fence = Call(operation="Barrier", communicator=WORLD, site="train.py:9", sequence=1)
    finding = certain(stopped(0, put, reason=STOP_ARGUMENT), waits(1, fence))
    assert (finding.kind, finding.field, finding.ranks) == (FindingKind.ARGUMENT, FindingField.COUNT, (0,))
    assert finding.cause is Cause.TRUNCATED
    assert "the Win.Put at train.py:7 goes to byte 32, and the window has 16 bytes there" in finding.summary
