"""Values as HTML for notebooks: a title, sentences and a table. No style of our own: a notebook has its colours."""

from __future__ import annotations

from collections.abc import Sequence


def notebook_html(
    title: str,
    rows: Sequence[Sequence[object]],
    *,
    header: Sequence[str] = (),
    sentences: Sequence[tuple[str, str]] = (),
) -> str:
    """Return a title, a table and sentences with their labels. All text is escaped: it may be anybody's.

    >>> notebook_html("2 < 3", [("steps", 5)])
    '<b>2 &lt; 3</b><table><tr><td>steps</td><td>5</td></tr></table>'
    """
    from html import escape  # with its table of every name, which a job that shows no notebook need not load

    lines = [_row(header, "th")] if header else []
    lines += [_row(row, "td") for row in rows]
    table = f"<table>{''.join(lines)}</table>" if lines else ""
    below = "".join(f"<p><b>{escape(label)}:</b> {escape(text)}</p>" for label, text in sentences)
    return f"<b>{escape(title)}</b>{table}{below}"


def _row(cells: Sequence[object], tag: str) -> str:
    from html import escape

    return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"
