"""What watching adds around a call: the processor time that passes outside of the carrier's own function.

Ranks that meet wait for each other inside that function, by polling or asleep, and how long is a matter of luck. So
functions are marked before the guard wraps them: a mark notes when they are entered and left. Watched and unwatched
calls take turns, one by one, and each figure is the median of their differences, with the quarters below and above it.
"""

import functools
import time

from alternation import spread

ROUNDS_AT_ONCE, LEAST_ROUNDS, MOST_ROUNDS, SECONDS = 10, 30, 400, 8.0
now = time.thread_time_ns
entered_and_left = [0, 0]


def marked(function):
    """Return a function that does the same, and notes when the carrier's own one is entered and left."""

    @functools.wraps(function)
    def call(*args, **named):
        entered_and_left[0] = now()
        value = function(*args, **named)
        entered_and_left[1] = now()
        return value

    return call


def layered(function):
    """Return a function with about as much Python around it as the guard is worth, which watches nothing."""
    table = dict.fromkeys(range(16), 0)

    def inner(*args, **named):
        for place in range(12):
            table[place] += 1
        return function(*args, **named)

    def outer(*args, **named):
        return inner(*args, **named)

    return outer


class Around:
    """Makes calls, and keeps the microseconds of each that were spent around the carrier's function."""

    def __init__(self):
        self.microseconds = []

    def __call__(self, function, *args):
        """Make a call, and return what it returns."""
        before = now()
        value = function(*args)
        after = now()
        entered, left = entered_and_left
        self.microseconds.append((entered - before + after - left) / 1e3)
        return value


def added_around(run, watched, plain, *, agree):
    """Return what is spent around an unwatched call, what more around a watched one, and how many calls there were.

    `run` gets a set of functions and what makes the call that counts, and makes one round of calls. `agree` brings the
    first rank's wish to go on to all: on busy cores a call in which ranks poll takes as long as others are let run.
    """
    with_guard, without = Around(), Around()
    turns, rounds, begin = [(watched, with_guard), (plain, without)], 0, time.monotonic()
    while agree(rounds < LEAST_ROUNDS or (rounds < MOST_ROUNDS and time.monotonic() - begin < SECONDS)):
        for _ in range(ROUNDS_AT_ONCE):
            for functions, around in turns:
                run(functions, around)
            turns.reverse()
        rounds += ROUNDS_AT_ONCE
    differences = [one - other for one, other in zip(with_guard.microseconds, without.microseconds, strict=True)]
    warm = ROUNDS_AT_ONCE  # the first calls of a line are slower
    figures = {"plain": spread(without.microseconds[warm:]), "added": spread(differences[warm:])}
    return {"processor": {**figures, "calls": len(differences) - warm}}
