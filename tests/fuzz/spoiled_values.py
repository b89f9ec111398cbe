"""Spoils files and values at random, from a seed: what a broken disk, an old version or a stranger may have written."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

# what stands where something else is expected
VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 1.5, 10**12, 10**400, -(10**30), 1e308, float("inf"), float("nan"), "", "x", "2024",
    "9" * 5000, "\x1b[2J\x1b]0;title\x07", "\u202e", "\udcff", "</script><img src=x onerror=alert(1)>",
    "a.py:" + "9" * 30,
    [], {}, [[]], [None], [{}], [1, "a"], [10**9], ["a", "b"], {"a": 1}, {"": None},
)  # fmt: skip


def spoil_bytes(chance: random.Random, content: bytes) -> bytes:
    """Return the content with some bytes changed, cut out, put in or cut off."""
    spoiled = bytearray(content)
    for _ in range(chance.randrange(1, 20)):
        at = chance.randrange(max(1, len(spoiled)))
        match chance.randrange(6):
            case 0 | 1:
                spoiled[at : at + 1] = bytes([chance.randrange(256)])
            case 2:
                spoiled[at : at + 8] = chance.choice([b"\xff" * 8, bytes(8), (1 << 62).to_bytes(8, "little")])
            case 3:
                del spoiled[at : at + chance.randrange(1, 100)]
            case 4:
                spoiled[at:at] = chance.randbytes(chance.randrange(1, 20))
            case 5:
                start = chance.randrange(max(1, len(spoiled)))
                spoiled[at:at] = spoiled[start : start + chance.randrange(1, 50)]
    if chance.random() < 0.1:
        del spoiled[chance.randrange(max(1, len(spoiled))) :]
    return bytes(spoiled)


def spoil_value(chance: random.Random, value: Any) -> Any:
    """Return a copy of lists and dicts with some of their parts replaced or left out."""
    spoiled = {"": copy.deepcopy(value)}
    for _ in range(chance.randrange(1, 4)):
        holder, key = chance.choice(list(_places(spoiled)))
        if chance.random() < 0.15 and key != "":
            del holder[key]
        else:
            holder[key] = copy.deepcopy(chance.choice(VALUES))
    return spoiled[""]


def spoil_json(chance: random.Random, content: bytes) -> bytes:
    """Return JSON with other values in it, or bytes that are mostly not JSON any more."""
    if chance.random() < 0.3:
        return spoil_bytes(chance, content)
    return json.dumps(spoil_value(chance, json.loads(content))).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return each list or dict inside a value with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
