"""Numbers for a peer, root or tag that does not exist, so that the judge can say what the user wrote.

A record has one field for a peer, and its negative values are taken: -1, -2 and -3 mean nothing, any and nobody
(layout.py), and a rank outside a torch group has a number that some member of the group may have. So a number that
names nobody is moved into a range of its own, far below all others, and moved back where it is shown.
"""

from __future__ import annotations

# Codes lie in the lower half of the negative 32-bit numbers. Of a root the board keeps the lowest 23 bits
# (board.pack_call): there the centre is in the middle, so that an outsider and a member of a group of up to two million
# ranks look different as long as the outsider is within two million of zero.
_CENTRE = -(3 << 29) + (1 << 22)
FARTHEST = (1 << 29) - (1 << 23)  # stands for all numbers from there on


def encode_outsider(number: int) -> int:
    """Return the code of a rank, root or tag that does not exist.

    Numbers more than about 500 million away from zero become the nearest one that fits.

    >>> decode_outsider(encode_outsider(-7)), decode_outsider(encode_outsider(1))
    (-7, 1)
    """
    return _CENTRE + max(-FARTHEST, min(FARTHEST, number))


def decode_outsider(code: int) -> int | None:
    """Return the number that the user wrote; None if this code is an ordinary number.

    >>> decode_outsider(3) is None, decode_outsider(-3) is None
    (True, True)
    """
    number = code - _CENTRE
    return number if -FARTHEST <= number <= FARTHEST else None
