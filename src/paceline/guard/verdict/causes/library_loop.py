"""Uneven steps where a library has the loop: all calls come from one line of the user, such as `trainer.train()`.

There is no source of the user's to read. What tells is that one side makes the next call of a row that all have made,
and the other goes on to one that comes after it.
"""

from __future__ import annotations

from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.causes.habit import usual_continuation
from paceline.guard.verdict.causes.uneven_loop import EVEN_STEPS, opening
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import call_name, call_place, name_ranks, nth, verb

_FEWEST_ROUNDS = 2  # calls that make a row


def explain_library_loop(deviation: Deviation) -> Explanation | None:
    """Explain ranks that a library has led out of its loop, while it leads others through one more round."""
    usual, odd = deviation.usual_call, deviation.odd_call
    if usual.site != odd.site or not (usual.library and odd.library):
        return None
    for stays, stay_call, left, left_call in (
        (deviation.usual, usual, deviation.odd, odd),
        (deviation.odd, odd, deviation.usual, usual),
    ):
        rounds = _rounds(deviation, stay_call, left_call)
        if rounds >= _FEWEST_ROUNDS:
            return Explanation(
                ranks=deviation.out_of_line,
                summary=f"{opening(deviation)}: {name_ranks(left)} made {rounds} calls of "
                f"{call_name(stay_call)} {call_place(stay_call, left_call)}, and {verb(left, 'is', 'are')} now in "
                f"{call_name(left_call)}{_function(left_call, stay_call)}; {name_ranks(stays)} "
                f"{verb(stays, 'makes', 'make')} the {nth(rounds + 1)}",
                cause=Cause.UNEVEN_STEPS,
                advice=EVEN_STEPS,
            )
    return None


def _function(call: Call, other: Call) -> str:
    """Name the function of the library that makes a call, as `call_place` does, without the user's line."""
    return call_place(call, other).removeprefix(f"at {call.site}")


def _rounds(deviation: Deviation, stays: Call, left: Call) -> int:
    """Count the calls of the row that one side goes on with; 0 if it does not go on as before, or the other does."""
    line, after = line_of(stays), line_of(left)
    if usual_continuation(deviation.past)[:1] != [line]:
        return 0
    rounds = 0
    for past in reversed(deviation.past):
        if past == after:
            break
        rounds += past == line
    return rounds
