"""What a page is made of. Each part but the title may be missing."""

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
    is_site: bool  # the line of the call


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCard:
    """A card of ranks in the same situation.

    Attributes:
        ranks: The ranks, as text: "ranks 0-5".
        is_out_of_line: Whether they are those that the verdict names.
        state: What they do: waiting, running, exited, raised, killed.
        call: The call they are in, or were.
        position: Which call of its communicator that is: "call 5 on WORLD".
        site: file.py:line.
        detail: What else is known.
        source: The lines around the site.
        focus: The call to show on the timeline: a rank and the number of its call, from 1; None if it is not there.
    """

    ranks: str
    state: str = ""
    is_out_of_line: bool = False
    call: str = ""
    position: str = ""
    site: str = ""
    detail: str = ""
    source: tuple[SourceLine, ...] = ()
    focus: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageVerdict:
    """What stands at the top of a page.

    Attributes:
        tone: How it is shown: "bad", "good", "warn" or "plain".
        label: One or two words: "finding", "ended well".
        summary: The sentence.
        groups: Ranks in groups, each where it is.
        groups_title: What stands above them.
        first_difference: The same ranks at the first difference.
        first_difference_position: Which call that is: "call 4 on WORLD".
        cause: A slug.
        cause_text: The same in words.
        advice: What to change.
        notes: Further sentences: how sure it is, what cannot be concluded.
    """

    tone: str
    label: str
    summary: str
    groups: tuple[RankCard, ...] = ()
    groups_title: str = "Where ranks are"
    first_difference: tuple[RankCard, ...] = ()
    first_difference_position: str = ""
    cause: str = ""
    cause_text: str = ""
    advice: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWarning:
    """What is certain and did not stop the job.

    Attributes:
        summary: The sentence.
        cause: A slug.
        cause_text: The same in words.
        advice: What to change.
        is_note: Whether programs do it on purpose too.
        sites: The lines it is about, each with the source around it.
    """

    summary: str
    cause: str
    cause_text: str
    advice: str
    is_note: bool
    sites: tuple[tuple[str, tuple[SourceLine, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFrame:
    """One line of a stack: the function, and its file.py:line or the library that it is compiled into."""

    function: str
    place: str
    is_native: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownThread:
    """The stack of a thread, innermost frame first."""

    name: str
    frames: tuple[ShownFrame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStacks:
    """The stacks of ranks that are all at the same lines."""

    ranks: str
    threads: tuple[ShownThread, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that a page shows.

    Attributes:
        title: Of the browser's tab and the page.
        header: Names and values for the line below the title: command, ranks, when, how long.
        verdict: What stands at the top.
        warnings: What did not stop the job.
        figures: A few names and values below the verdict, for a run without a finding.
        timeline: What the script draws; see `timeline.py`.
        costs: Who waited, and for whom.
        steps: How long steps took.
        work: How even the work was, and what became of the samples.
        stacks: Where the threads of ranks were, for a job that was looked at from outside.
        missing: What could not be read, as sentences.
    """

    title: str
    header: tuple[tuple[str, str], ...] = ()
    verdict: PageVerdict | None = None
    warnings: tuple[PageWarning, ...] = ()
    figures: tuple[tuple[str, str], ...] = ()
    timeline: Mapping[str, Any] | None = None
    costs: Costs | None = None
    steps: Steps | None = None
    work: Work | None = None
    stacks: tuple[RankStacks, ...] = ()
    missing: tuple[str, ...] = ()
