"""What a rank usually does next: loops make the same calls in the same order, round after round.

The past up to now is compared with itself. Where it has been in this situation before, what followed then is what is
expected now; the longest situation that repeats decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby
from typing import TypeVar

Token = TypeVar("Token", bound=Hashable)


def knows_how_often(past: Sequence[Token]) -> bool:
    """Say whether the past tells how often the last call is repeated: it has been repeated as often in another round.

    >>> knows_how_often("rrrb rr".replace(" ", "")), knows_how_often("rrrr"), knows_how_often("br br".replace(" ", ""))
    (True, False, True)
    """
    if not past:
        return False
    runs = [len(list(run)) for token, run in groupby(past) if token == past[-1]]
    return any(run >= runs[-1] for run in runs[:-1])


def usual_continuation(past: Sequence[Token]) -> list[Token]:
    """Return what followed the last time that the past ended as it does now; nothing if it never did.

    >>> usual_continuation("aab aab a".replace(" ", ""))
    ['a', 'b', 'a']
    >>> usual_continuation("abc")
    []
    """
    end = len(past)
    best, best_length = 0, 0.0
    for at in range(end - 1, 0, -1):  # `at`: where a repetition of the present situation would end
        length = 0
        while length < at and past[at - 1 - length] == past[end - 1 - length]:
            length += 1
        # one that reaches back to the beginning has no earlier call that contradicts it
        weight = length + 0.5 if length == at else float(length)
        if length and weight > best_length:
            best, best_length = at, weight
        if best_length >= at:
            break  # the rest is too short to repeat more of it
    return list(past[best:]) if best_length else []


def calls_left_out(past: Sequence[Token], usual: Token, other: Token) -> list[Token] | None:
    """Return the calls that one who is at `other` has left out, if others at `usual` do what is usual.

    None if `usual` is not what is expected, or `other` does not come later in the round.

    >>> calls_left_out("rrb rrb r".replace(" ", ""), "r", "b")
    ['r']
    """
    expected = usual_continuation(past)
    if not expected or expected[0] != usual or other not in expected or other == usual:
        return None
    return expected[: expected.index(other)]


def left_out_of_round(past: Sequence[Token], usual: Token, other: Token) -> list[Token] | None:
    """Return the calls that one who is at `other` has left out of a round, each of which ends with `other`.

    None unless an earlier round began as this one, went on with `usual`, and none ended where this one does.

    >>> left_out_of_round("rrrb rrrb rr".replace(" ", ""), "r", "b")
    ['r']
    >>> left_out_of_round("arb rb r".replace(" ", ""), "r", "b") is None
    True
    """
    rounds: list[list[Token]] = [[]]
    for token in past:
        if token == other:
            rounds.append([])
        else:
            rounds[-1].append(token)
    *earlier, present = rounds
    longer = [one for one in earlier if one[: len(present) + 1] == [*present, usual]]
    return longer[-1][len(present) :] if longer and present not in earlier else None
