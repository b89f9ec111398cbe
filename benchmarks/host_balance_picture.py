"""The picture of docs/balance.md, as SVG: what crosses the network, how even ranks are, and how long deciding takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

WAYS = {"by hosts": "#00796b", "limited": "#80cbc4", "flat": "#ef6c00", "dealt anew": "#9e9e9e"}
PANEL, GAP, HEIGHT, TOP, LEFT = 250, 60, 190, 64, 60


def draw(table: dict[str, dict[str, Any]]) -> str:
    """Return the picture of a table: ranks -> way -> figures."""
    panels = [
        _panel(
            0, table, "bytes between hosts", lambda row, way: row[way]["bytes"] / row["all rows"]["bytes"], _percent
        ),
        _panel(1, table, "heaviest rank over the mean", lambda row, way: row[way]["max_over_mean"] - 1, _above_one),
        _panel(2, table, "time to decide", lambda row, way: row[way]["processor_ms"], _milliseconds),
    ]
    width = LEFT + 3 * PANEL + 2 * GAP + 20
    names = "".join(
        f'<rect x="{LEFT + 130 * number}" y="14" width="12" height="12" fill="{colour}"/>'
        f'<text x="{LEFT + 130 * number + 18}" y="24">{way}</text>'
        for number, (way, colour) in enumerate(WAYS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + 44}" '
        f'font-family="sans-serif" font-size="12" fill="#212121">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{names}{"".join(panels)}</svg>\n'
    )


def _panel(
    number: int,
    table: dict[str, dict[str, Any]],
    title: str,
    value: Callable[[dict[str, Any], str], float],
    label: Callable[[float], str],
) -> str:
    """Return a group of bars for each number of ranks, on a scale of powers of ten."""
    left = LEFT + number * (PANEL + GAP)
    values = [[max(1e-6, value(row, way)) for way in WAYS] for row in table.values()]
    low = math.floor(math.log10(min(map(min, values))))
    high = math.ceil(math.log10(max(map(max, values))))

    def y_of(number: float) -> float:
        return TOP + HEIGHT - HEIGHT * (math.log10(number) - low) / max(1, high - low)

    parts = [f'<text x="{left}" y="{TOP - 14}" font-weight="bold">{title}</text>']
    for power in range(low, high + 1):
        y = y_of(10.0**power)
        parts.append(f'<line x1="{left}" x2="{left + PANEL}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e0e0e0"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label(10.0**power)}</text>')
    space = PANEL / len(values)
    bar = space * 0.8 / len(WAYS)
    for place, (ranks, of_ways) in enumerate(zip(table, values, strict=True)):
        begin = left + place * space + space * 0.1
        for way, colour, height in zip(range(len(WAYS)), WAYS.values(), of_ways, strict=True):
            y = y_of(height)
            parts.append(
                f'<rect x="{begin + way * bar:.1f}" y="{y:.1f}" width="{bar:.1f}" '
                f'height="{max(0.5, TOP + HEIGHT - y):.1f}" fill="{colour}"/>'
            )
        middle = left + (place + 0.5) * space
        parts.append(f'<text x="{middle:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{int(ranks):,}</text>')
    parts.append(f'<text x="{left + PANEL / 2}" y="{TOP + HEIGHT + 36}" text-anchor="middle">ranks</text>')
    return "".join(parts)


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _above_one(excess: float) -> str:
    return f"{1 + excess:g}"


def _milliseconds(number: float) -> str:
    return f"{number:g} ms"
