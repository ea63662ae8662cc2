"""Facts as small pieces of HTML, for notebooks. All texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Names and values under a title.

    Examples
    --------
    >>> facts_html("kelp", {"rows": 2000})
    '<div><b>kelp</b><table><tr><th>rows</th><td>2,000</td></tr></table></div>'
    """
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{_shown(value)}</td></tr>" for name, value in facts.items())
    return f"<div><b>{escape(title)}</b><table>{rows}</table></div>"


def rows_html(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under heads.

    Examples
    --------
    >>> rows_html(["name"], [["<b>"]])
    '<table><tr><th>name</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def text_html(text: str) -> str:
    """Lines that are laid out already.

    Examples
    --------
    >>> text_html("a < b")
    '<pre>a &lt; b</pre>'
    """
    return f"<pre>{escape(text)}</pre>"


class LaidOut(str):
    """Lines for people, which a notebook shows as lines; otherwise a text like any other."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return text_html(self)


def _shown(value: object) -> str:
    return escape(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))
