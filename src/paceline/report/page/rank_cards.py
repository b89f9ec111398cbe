"""Cards of ranks in the same situation, with the source around their line: what verdicts of a page are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from paceline.guard.verdict.finding import GroupState, RankGroup
from paceline.guard.verdict.rank_names import name_with_hosts
from paceline.report.page.page_values import RankCard, SourceLine

SOURCE_AROUND = 4  # lines before a site, and the same number after it


def rank_card(
    group: RankGroup,
    sources: Mapping[str, Mapping[str, str]],
    *,
    out_of_line: Collection[int],
    focus: tuple[int, int] | None = None,
) -> RankCard:
    """Return the card of a group of ranks.

    Args:
        group: The ranks and their situation.
        sources: Lines of source, by file and number of the line.
        out_of_line: The ranks that the verdict names.
        focus: The call to show on the timeline: a rank and the number of its call.
    """
    site = group.site or ""
    return RankCard(
        ranks=name_with_hosts(group.ranks, group.hosts, group.num_hosts) if group.ranks else "no rank",
        state=shown_state(group),
        is_out_of_line=bool(group.ranks) and set(out_of_line).issuperset(group.ranks),
        call=group.call or "",
        position=position_text(group.sequence, group.communicator),
        site=site,
        detail=group.detail,
        source=lines_around(sources, site, around=SOURCE_AROUND),
        focus=focus,
    )


def shown_state(group: RankGroup) -> str:
    """Name what ranks do; a call that the verdict names may have returned, and is named for what it was."""
    if group.state is not GroupState.BLOCKED:
        return group.state
    return "this call has returned" if group.has_returned else "waiting"


def position_text(sequence: int | None, communicator: str | None) -> str:
    """Name a call of a communicator as the text of a finding does.

    >>> position_text(4, "WORLD"), position_text(None, "WORLD"), position_text(None, None)
    ('call 4 on WORLD', 'on WORLD', '')
    """
    if not communicator:
        return ""
    return f"on {communicator}" if sequence is None else f"call {sequence} on {communicator}"


def lines_around(sources: Mapping[str, Mapping[str, str]], site: str, *, around: int) -> tuple[SourceLine, ...]:
    """Return the lines around a site that were kept, as far as there are any."""
    path, _, line = site.rpartition(":")
    known = sources.get(path)
    if known is None or not line.isdigit():
        return ()
    numbers = range(max(1, int(line) - around), int(line) + around + 1)
    return tuple(
        SourceLine(number=number, text=str(known[str(number)]), is_site=number == int(line))
        for number in numbers
        if str(number) in known
    )


def sentence(text: str) -> str:
    """Begin with a capital, unless it begins with a name.

    >>> sentence("rank 1 left"), sentence("MPI failed")
    ('Rank 1 left', 'MPI failed')
    """
    return f"{text[:1].upper()}{text[1:]}" if text.partition(" ")[0].islower() else text
