"""A warning: something that is certainly wrong and did not stop the job. Text, JSON and page are made of this value.

Causes are a closed set: what is not listed here cannot be said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from paceline.errors import InputError


class WarningCause(StrEnum):
    """What a warning is about, as a slug; `sentence` says it in words."""

    sentence: str

    def __new__(cls, slug: str, sentence: str) -> WarningCause:
        """Make a member of a slug and its sentence."""
        member = str.__new__(cls, slug)
        member._value_ = slug
        member.sentence = sentence
        return member

    MESSAGE_NEVER_RECEIVED = "message-never-received", "a message was sent and nobody received it"
    REQUEST_NEVER_COMPLETED = "request-never-completed", "a request was started and nobody waited for it"
    BUFFER_IN_USE = "buffer-in-use", "memory was used while a call that had not completed still needed it"
    HANDLE_LEAK = "handle-leak", "handles were made again and again and not freed"
    MESSAGE_RACE = "message-race", "which message a receive takes depends on timing"
    RESULTS_DIFFER = "results-differ", "ranks got different results from a collective that gives all the same"

    @property
    def is_note(self) -> bool:
        """Whether programs do it on purpose too: then it is only shown on the page, unless it is asked for."""
        return self is WarningCause.MESSAGE_RACE


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWarning:
    """What is certainly wrong and did not stop the job.

    Attributes:
        cause: What it is about.
        ranks: The ranks whose code is to be changed.
        summary: One sentence.
        advice: What to change.
        sites: The lines it is about, as file.py:line, the one to change first.
    """

    cause: WarningCause
    ranks: tuple[int, ...]
    summary: str
    advice: str
    sites: tuple[str, ...] = ()


def read_causes(option: str, names: Iterable[str]) -> frozenset[WarningCause]:
    """Return the causes that an option names.

    Args:
        option: The option, for the message.
        names: The names, each of which may hold several with commas between them.

    Raises:
        InputError: One of them is not a cause.

    >>> sorted(read_causes("--ignore", ["handle-leak,message-race"]))
    [<WarningCause.HANDLE_LEAK: 'handle-leak'>, <WarningCause.MESSAGE_RACE: 'message-race'>]
    """
    slugs = {str(cause): cause for cause in WarningCause}
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    for name in wanted:
        if name not in slugs:
            raise InputError(f"{option}: there is no cause {name!r}; warnings have these: {', '.join(slugs)}")
    return frozenset(slugs[name] for name in wanted)
