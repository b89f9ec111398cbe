"""The first message of every exchange: what ranks must agree on, in a size that nothing can change.

Its size depends on the number of ranks alone, so ranks that disagree on everything else still meet in it, and all of
them learn the same. What room is left carries the begin of the payload: small batches need no second message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from paceline.comm import Comm
from paceline.errors import PacelineError, name_ranks

_TEXT_BYTES = 65536
_GATHERED_BYTES = 128 * 1024  # the first messages that a rank receives
_SENT_BYTES = 32 * 1024  # the first messages that a rank sends in an exchange
_LEAST_BYTES = 256


class DisagreementError(PacelineError):
    """Ranks do not have what they must have in common. Every rank raises it, with every rank's value."""


def gather_message_bytes(world_size: int) -> int:
    """Return how large the first message of a rank to all others is, in a job of so many ranks."""
    return max(_LEAST_BYTES, _GATHERED_BYTES // world_size // 8 * 8)


def exchange_message_bytes(world_size: int) -> int:
    """Return how large the first message of a rank to one other is, in a job of so many ranks."""
    return max(_LEAST_BYTES, _SENT_BYTES // world_size // 8 * 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one rank says.

    Attributes:
        same: Numbers that must be equal on all ranks, by what they mean.
        details: Gives, for each of these, lines for a reader; asked for only if ranks disagree.
        problem: What is wrong on this rank already, or nothing.
    """

    same: dict[str, int]
    details: Callable[[], dict[str, Sequence[str]]]
    problem: str = ""

    def header(self) -> list[int]:
        """Return the numbers that travel."""
        return [int(bool(self.problem)), *self.same.values()]

    @property
    def size(self) -> int:
        """How many numbers travel."""
        return 1 + len(self.same)


def check_agreement(comm: Comm, facts: Facts, told: list[list[int]], device: torch.device) -> None:
    """Compare every rank's header; if ranks disagree, all raise the same error. It has every rank's value."""
    same = [row[1 : facts.size] for row in told]
    unequal = [name for index, name in enumerate(facts.same) if len({row[index] for row in same}) > 1]
    if any(row[0] for row in told) and "batch_size" not in unequal:
        raise DisagreementError(_with_texts(comm, "a rank cannot go on", facts.problem, device))
    if not unequal:
        return
    mine = "\n".join(line for name in unequal for line in facts.details()[name])
    raise DisagreementError(_with_texts(comm, f"ranks disagree on {' and '.join(unequal)}", mine, device))


def _with_texts(comm: Comm, what: str, mine: str, device: torch.device) -> str:
    """Return what is wrong with every rank's lines, without those that all ranks share."""
    content = mine.encode()[:_TEXT_BYTES]
    padded = torch.tensor(list(content.ljust(_TEXT_BYTES, b"\0")), dtype=torch.uint8, device=device)
    texts = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in comm.all_gather(padded).tolist()]
    lines = [text.splitlines() for text in texts]
    shared = set(lines[0]).intersection(*lines[1:]) if any(own != lines[0] for own in lines) else set()
    ranks: dict[str, list[int]] = {}
    for rank, own in enumerate(lines):
        ranks.setdefault("; ".join(line for line in own if line not in shared), []).append(rank)
    who = (f"{name_ranks(members)}: {text or 'nothing of its own'}" for text, members in ranks.items())
    return f"{what} - {' | '.join(who)}"
