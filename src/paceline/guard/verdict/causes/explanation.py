"""What a rule or a cause has to say: the ranks out of line, one sentence, the cause and the advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind, FirstDifference, RankGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The words of a finding."""

    ranks: tuple[int, ...]
    summary: str
    cause: Cause
    advice: str

    def finding(
        self,
        kind: FindingKind,
        groups: Sequence[RankGroup],
        *,
        field: FindingField | None = None,
        first_difference: FirstDifference | None = None,
    ) -> Finding:
        """Return the finding that these words belong to."""
        return Finding(
            kind=kind, field=field, ranks=self.ranks, summary=self.summary, cause=self.cause, advice=self.advice,
            groups=tuple(groups), first_difference=first_difference,
        )  # fmt: skip
