"""Reads lists of hosts, as launchers and Slurm write them."""

from __future__ import annotations

import re
from itertools import islice

MOST_HOSTS = 100_000
_WORD = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")  # commas within brackets do not end it
_BRACKETS = re.compile(r"([^\[]*)\[([^\]]*)\](.*)")


def expand_hosts(text: str) -> list[str]:
    """Return the hosts of a list.

    >>> expand_hosts("n[08-10,12],login"), expand_hosts("a:4,b"), expand_hosts("r[1-2]n[1-2]")
    (['n08', 'n09', 'n10', 'n12', 'login'], ['a', 'b'], ['r1n1', 'r1n2', 'r2n1', 'r2n2'])
    """
    hosts: list[str] = []
    for word in _WORD.findall(text):
        hosts += _expand_word(word.strip())[: MOST_HOSTS - len(hosts)]
    return [host for host in hosts if host]


def _expand_word(word: str) -> list[str]:
    found = _BRACKETS.fullmatch(word)
    if found is None:
        return [] if "[" in word or "]" in word else [word.partition(":")[0]]
    before, numbers, after = found.groups()
    ends = _expand_word(after) if after else [""]
    names = (f"{before}{number}{end}" for number in _numbers(numbers) for end in ends)
    return list(islice(names, MOST_HOSTS))


def _numbers(text: str) -> list[str]:
    """Return the numbers of a pair of brackets, with the zeros they begin with."""
    found: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        last = last or first
        if first.isdecimal() and last.isdecimal():
            end = min(int(last), int(first) + MOST_HOSTS)
            found += [f"{number:0{len(first)}}" for number in range(int(first), end + 1)]
    return found
