"""What a page is made of. Each part but the title may be missing; a page is what there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.report.evidence.steps import Steps
from paceline.report.evidence.waiting_costs import Costs
from paceline.report.evidence.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of the user's source."""

    number: int
    text: str
    is_site: bool  # the line that is meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ranks in the same situation.

    Attributes:
        ranks: The ranks, as text: "ranks 0-5".
        is_out_of_line: Whether they are those that the verdict names.
        state: What they do: waiting, running, exited, raised, killed.
        call: The call they are in, or were.
        place: Where it stands: "call 5 on WORLD".
        site: file.py:line.
        detail: What else is known.
        source: Lines around the site.
        focus: The call to show on the timeline: a rank and the number of its call; None if it is not there.
    """

    ranks: str
    state: str = ""
    is_out_of_line: bool = False
    call: str = ""
    place: str = ""
    site: str = ""
    detail: str = ""
    source: tuple[SourceLine, ...] = ()
    focus: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What stands on top.

    Attributes:
        tone: How it is shown: "bad", "good", "warn" or "plain".
        label: One or two words: "finding", "ended well".
        summary: The sentence.
        groups: Ranks in groups.
        divergence: The same at the first difference.
        divergence_place: Where that is: "call 4 on WORLD".
        cause: A slug.
        cause_text: The same in words.
        advice: What to change.
        notes: Further sentences: how sure it is, what cannot be concluded.
    """

    tone: str
    label: str
    summary: str
    groups: tuple[Group, ...] = ()
    divergence: tuple[Group, ...] = ()
    divergence_place: str = ""
    cause: str = ""
    cause_text: str = ""
    advice: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that a page shows.

    Attributes:
        title: Of the browser's tab and the page.
        facts: Names and values for the line below the title: command, ranks, when, how long.
        verdict: What was found.
        figures: A few names and values below the verdict, for a run of which there is nothing worse to say.
        timeline: What the script draws; see `timeline.py`.
        costs: Who waited, and for whom.
        steps: How long steps took.
        work: How even the work was, and what became of the samples.
        missing: What could not be read, as sentences.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    verdict: Verdict | None = None
    figures: tuple[tuple[str, str], ...] = ()
    timeline: Mapping[str, Any] | None = None
    costs: Costs | None = None
    steps: Steps | None = None
    work: Work | None = None
    missing: tuple[str, ...] = ()
