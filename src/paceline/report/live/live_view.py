"""A run in progress: a table for a terminal, made with rich, and one line for a log."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from paceline.errors import name_ranks
from paceline.guard.observe.gauges import JobView, RankView, mean
from paceline.report.safe_text import terminal_safe

_ORDER = ("killed", "raised", "exited", "absent", "running", "waiting")
_STYLES = {"killed": "bold red", "raised": "bold red", "running": "green", "waiting": "yellow", "absent": "dim"}
_LONG_SECONDS = 1.0
_COLUMNS = ("ranks", "state", "in", "for", "steps/s", "in calls", "last")
_CALL_COLUMN = 2  # the one that gives way; those after it are aligned to the right
_HEAD_LINES = 3  # the rule, the head line and the names of columns


def live_lines(
    views: Sequence[JobView],
    *,
    columns: int,
    rows: int,
    notice: str = "",
    warning: str = "",
    colours: str | None = "standard",
) -> list[str]:
    """Return the lines of the view, narrower than the terminal, with the terminal's codes in them."""
    console = Console(
        file=io.StringIO(), width=columns - 1, force_terminal=True, color_system=colours, highlight=False,  # type: ignore[arg-type]
        legacy_windows=False, _environ={},
    )  # fmt: skip
    foot = [line for view in views for line in _sentences(view)]
    if warning:
        foot.append(f"warnings: {terminal_safe(warning)}")
    if notice:
        foot.append(f"notice: {terminal_safe(notice)}")
    foot = foot[: max(1, rows - _HEAD_LINES - 1)]
    room = max(1, rows - _HEAD_LINES - len(foot))
    lines = [Text.styled("─" * (columns - 1), "dim"), _head(views), *_table(views, room, columns - 1)]
    lines += [Text.styled(line, "yellow") for line in foot]
    for line in lines[:rows]:
        line.truncate(columns - 1, overflow="ellipsis")
    # each line by itself: rich takes ten times as long to lay out a table, and this runs all the time
    return ["".join(_coded(console, line)) for line in lines[:rows]]


def _coded(console: Console, line: Text) -> Iterator[str]:
    for part in line.render(console):
        yield part.style.render(part.text, color_system=console._color_system) if part.style else part.text


def _head(views: Sequence[JobView]) -> Text:
    text = Text.styled("paceline", "bold")
    if not views:
        text.append("  no rank has joined yet", style="dim")
    for view in views:
        here = sum(1 for rank in view.ranks if rank.state != "absent")
        text.append(f"  {here} of {view.world_size} ranks" if here < len(view.ranks) else f"  {_count(view)}")
        text.append(f"  {_clock(view.seconds)}", style="dim")
        if view.step_site:
            text.append(f"  step {view.steps} of {terminal_safe(view.step_site)}", style="dim")
    return text


def _count(view: JobView) -> str:
    """Return how many ranks there are, and how many of a large job are shown."""
    is_whole = len(view.ranks) == view.world_size
    return f"{view.world_size} ranks" if is_whole else f"{view.world_size:,} ranks, {len(view.ranks)} of them shown"


def _table(views: Sequence[JobView], room: int, width: int) -> list[Text]:
    """Lay the ranks out in columns; call and site give way if they do not fit."""
    groups = [ranks for view in views for ranks in _rows(view, max(1, room // max(1, len(views))))]
    cells = [[Text(name, style="dim") for name in _COLUMNS], *map(_cells, groups)]
    widths = [max(cell_len(row[column].plain) for row in cells) for column in range(len(_COLUMNS))]
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    widths[_CALL_COLUMN] = max(10, widths[_CALL_COLUMN] + min(0, spare))
    lines = []
    for row in cells:
        line = Text()
        for column, (cell, size) in enumerate(zip(row, widths, strict=True)):
            text = cell.plain
            if cell_len(text) > size:
                text = _shortened(text, size)
            gap = " " * (size - cell_len(text))
            line.append(gap + text if column > _CALL_COLUMN else text + gap, style=cell.style)
            line.append("  " if column + 1 < len(row) else "")
        line.rstrip()
        lines.append(line)
    return lines


def _shortened(text: str, size: int) -> str:
    """Cut a call and its site to a number of cells: file name and line stay, folders go.

    >>> _shortened("Barrier at a/long/folder/train.py:41", 22)
    'Barrier at …rain.py:41'
    """
    head, at, tail = text.rpartition(" at ")
    room = size - cell_len(head + at) - 1
    if at and room >= 8:
        return set_cell_size(f"{head}{at}…{tail[-room:]}", size)
    return f"{set_cell_size(text, size - 1)}…"


def _rows(view: JobView, room: int) -> list[tuple[RankView, ...]]:
    """Return ranks line by line: each on its own if there is room, otherwise similar ones together, odd ones first."""
    if len(view.ranks) <= room:
        return [(rank,) for rank in view.ranks]
    groups: dict[tuple[str, ...], list[RankView]] = {}
    for rank in view.ranks:
        is_late = rank.rank == view.last_rank or rank.rank in view.waited_for[:2]
        alone = (str(rank.rank),) if is_late else ()
        groups.setdefault((rank.state, rank.call, rank.site, *alone), []).append(rank)
    ordered = sorted(groups.values(), key=lambda group: (len(group), _ORDER.index(group[0].state), group[0].rank))
    if len(ordered) > room:
        shown, rest = ordered[: room - 1], [rank for group in ordered[room - 1 :] for rank in group]
        ordered = [*shown, sorted(rest, key=lambda rank: rank.rank)]
    return [tuple(group) for group in ordered]


def _cells(ranks: Sequence[RankView]) -> list[Text]:
    first = ranks[0]
    states = sorted({rank.state for rank in ranks}, key=_ORDER.index)
    calls = {(rank.call, rank.site) for rank in ranks if rank.call}
    if len(calls) > 1:
        where = f"{len(calls)} different calls"
    elif calls:
        where = " at ".join(*calls)
    else:
        where = f"{first.detail} {first.site}".strip()
    waits = [rank.seconds for rank in ranks if rank.state == "waiting"]
    return [
        Text(_names(ranks)),
        Text(", ".join(states), style=_STYLES.get(first.state, "")),
        Text(terminal_safe(where)),
        Text(f"{max(waits):.0f} s" if waits and max(waits) >= _LONG_SECONDS else ""),
        Text(_rate(ranks)),
        Text(_percent(mean(rank.share_in_calls for rank in ranks))),
        Text(_percent(sum(rank.share_last or 0.0 for rank in ranks)) if first.share_last is not None else ""),
    ]


def _names(ranks: Sequence[RankView]) -> str:
    names = name_ranks(rank.rank for rank in ranks).partition(" ")[2]
    names = names if len(names) <= 24 else f"{len(ranks)} ranks, {ranks[0].rank} first"
    return f"{names}{_hosts(ranks)}"


def _hosts(ranks: Iterable[RankView]) -> str:
    """Return the hosts of some ranks in brackets, or how many there are; nothing if the job is on one."""
    hosts = dict.fromkeys(terminal_safe(rank.host) for rank in ranks if rank.host)
    names = ", ".join(hosts)
    return f" ({names if len(names) <= 24 or len(hosts) == 1 else f'{len(hosts)} hosts'})" if hosts else ""


def _rate(ranks: Sequence[RankView]) -> str:
    rates = [rank.steps_per_second for rank in ranks if rank.steps_per_second is not None]
    if not rates:
        return ""
    low, high = f"{min(rates):.3g}", f"{max(rates):.3g}"
    return low if low == high else f"{low}-{high}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def _sentences(view: JobView) -> list[str]:
    """Return who waits for whom, and who is last."""
    sentences = []
    waiting = [rank for rank in view.ranks if rank.state == "waiting" and rank.seconds >= _LONG_SECONDS]
    if waiting:
        longest = max(waiting, key=lambda rank: rank.seconds)
        wanted = f" for {_named(view, view.waited_for)}" if view.waited_for else ""
        sentences.append(
            f"{_named(view, [rank.rank for rank in waiting])} waiting {longest.seconds:.0f} s in "
            f"{terminal_safe(longest.call)} at {terminal_safe(longest.site)}{wanted}"
        )
    last = next((rank for rank in view.ranks if rank.rank == view.last_rank), None)
    if last is not None:
        share = last.share_last
        sentences.append(
            f"{_named(view, [last.rank])} is the last to reach {_percent(share)} of calls, "
            f"{view.last_by_ms:.3g} ms after the median rank"
        )
    return sentences


def _named(view: JobView, ranks: Sequence[int]) -> str:
    """Name ranks in a sentence, or count them, with their hosts if there are several."""
    names = name_ranks(ranks)
    wanted = set(ranks)
    hosts = _hosts(rank for rank in view.ranks if rank.rank in wanted)
    return f"{names if len(names) <= 40 else f'{len(ranks)} ranks'}{hosts}"


def live_text(views: Sequence[JobView], warning: str = "") -> str:
    """Return the same in one line, for a log."""
    parts = []
    for view in views:
        states: dict[str, int] = {}
        for rank in view.ranks:
            states[rank.state] = states.get(rank.state, 0) + 1
        counts = ", ".join(f"{states[state]} {state}" for state in _ORDER if state in states)
        text = f"{_count(view)} after {view.seconds:.0f} s: {counts}"
        rate = _rate(view.ranks)
        if rate and view.step_site:
            text += f"; step {view.steps}, {rate} steps/s at {terminal_safe(view.step_site)}"
        share = mean(rank.share_in_calls for rank in view.ranks)
        text += f"; {_percent(share)} of the time in calls" if share is not None else ""
        parts.append("; ".join([text, *_sentences(view)]))
    if warning and parts:
        parts.append(f"warnings: {terminal_safe(warning)}")
    return f"paceline: {' | '.join(parts)}" if parts else "paceline: no rank has joined yet"
