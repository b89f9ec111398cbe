"""What ranks must have in common, and how it is compared: all raise the same error, with every rank's value.

It needs neither torch nor a communicator; `first_message` brings the values of all ranks to every rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from paceline.errors import PacelineError, name_ranks

_MISSING = "nothing"

_Value = TypeVar("_Value")


class DisagreementError(PacelineError):
    """Ranks do not have what they must have in common. Every rank raises it, with every rank's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MustAgree:
    """What one rank has of the things that must be the same on all ranks.

    Attributes:
        chosen: The things that the user chooses, by name, as a reader sees them.
        derived: Things that follow from these. They are compared only if all ranks chose the same: otherwise they
            would repeat the difference in words that say less.
        problem: Why this rank cannot continue, or nothing. It is raised after a difference in what was chosen, which
            may be its cause, and before one in what is derived, which it may cause.
    """

    chosen: Mapping[str, str]
    derived: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it in a form that travels."""
        return {"chosen": dict(self.chosen), "derived": dict(self.derived), "problem": self.problem}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> MustAgree:
        """Return what `to_json` was made of."""
        return cls(chosen=content["chosen"], derived=content["derived"], problem=content["problem"])


def check_agreement(ranks: Sequence[MustAgree]) -> None:
    """Compare what all ranks have, one value per rank in the order of ranks.

    >>> check_agreement([MustAgree(chosen={"seed": "0"}), MustAgree(chosen={"seed": "7"})])
    Traceback (most recent call last):
    paceline.loader.agreement.must_agree.DisagreementError: ranks disagree on seed: 0 on rank 0; 7 on rank 1

    Raises:
        DisagreementError: If ranks differ, or one cannot continue. Every rank that compares the same values raises the
            same error.
    """
    _check_equal([rank.chosen for rank in ranks])
    problems = {number: rank.problem for number, rank in enumerate(ranks) if rank.problem}
    if problems:
        texts = [f"{name_ranks(members)} cannot continue: {text}" for text, members in group_ranks(problems).items()]
        raise DisagreementError(" | ".join(texts))
    _check_equal([rank.derived for rank in ranks])


def _check_equal(ranks: Sequence[Mapping[str, str]]) -> None:
    differences = []
    for name in dict.fromkeys(name for values in ranks for name in values):
        groups = group_ranks({number: values.get(name, _MISSING) for number, values in enumerate(ranks)})
        if len(groups) > 1:
            values = "; ".join(f"{value} on {name_ranks(members)}" for value, members in groups.items())
            differences.append(f"{name}: {values}")
    if differences:
        raise DisagreementError(f"ranks disagree on {' | '.join(differences)}")


def group_ranks(values: Mapping[int, _Value]) -> dict[_Value, list[int]]:
    """Return the ranks of each value, in the order in which values first appear.

    >>> group_ranks({0: "pad", 1: "drop", 2: "pad"})
    {'pad': [0, 2], 'drop': [1]}
    """
    groups: dict[_Value, list[int]] = {}
    for rank, value in values.items():
        groups.setdefault(value, []).append(rank)
    return groups
