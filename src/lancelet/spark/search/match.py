"""``lance_match`` and its like: conditions on texts that Spark hands to a scan (spec spark-sql.md 7.2)::

    WHERE lance_match(text, 'sunset beach', 'operator=AND') AND likes > 10
    WHERE lance_match_phrase(text, 'old harbour', 1)
    WHERE lance_multi_match('sunset', title, text)

One that has to hold for all rows is the search of the scan, which then knows scores. Others (several of them, or under OR and
NOT) are answered before the scan, by the ids of the rows that match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancelet._api.text_query import text_matching
from lancelet.errors import InvalidInput
from lancelet.execution.matching import MatchingScan
from lancelet.execution.plan import ScanPlan, visible_schema
from lancelet.execution.table_reader import TableReader
from lancelet.expressions import build
from lancelet.expressions.expr import Literal
from lancelet.format.schema import join_path
from lancelet.format.system_columns import ROW_ID
from lancelet.query import BooleanQuery, FullTextOperator, MatchQuery, MultiMatchQuery, Occur, PhraseQuery

if TYPE_CHECKING:
    from lancelet.execution.matching_plan import Matching
    from lancelet.expressions.expr import Expr
    from lancelet.query import FullTextQuery
    from lancelet.table.manifest.snapshot import Snapshot

MATCH = "match"
"""What such a condition begins with, as the bridge writes it: ``["match", function, [argument, ...]]``."""
_COUNTS = ("fuzziness", "prefix_length", "max_expansions")
_FORMS = {
    "lance_match": "lance_match(column, 'words' [, 'operator=AND,fuzziness=1,boost=2,prefix_length=1,max_expansions=50'])",
    "lance_match_phrase": "lance_match_phrase(column, 'phrase' [, slop])",
    "lance_multi_match": "lance_multi_match('words' [, 'operator=AND'], column, ...)",
}


def split_search(condition: Any) -> tuple[Any, Any]:
    """The condition on texts that a scan can answer as a search, or None, and what is left of all conditions."""
    match condition:
        case ["and", *parts]:
            texts = [part for part in parts if part[0] == MATCH]
            if len(texts) == 1:
                return texts[0], ["and", *(part for part in parts if part[0] != MATCH)]
    return None, condition


def matching_of(snapshot: Snapshot, node: Any) -> Matching:
    """The search that a condition means; other conditions come first."""
    _, function, arguments = node
    return replace(text_matching(TableReader(snapshot), text_query(function, arguments), None), prefilter=True)


def rows_that_match(snapshot: Snapshot, node: Any) -> Expr:
    """The same condition, on the ids of rows."""
    table, schema = TableReader(snapshot), snapshot.manifest.schema
    plan = ScanPlan(schema, (), matching=matching_of(snapshot, node))
    ((_, ids),) = MatchingScan(table, plan).answers
    rows = build.column(visible_schema(schema), [ROW_ID])
    return build.in_list(rows, [Literal(number, pa.uint64()) for number in ids.tolist()]) if len(ids) else build.FALSE


def text_query(function: str, arguments: Sequence[Any]) -> FullTextQuery:
    """What a function with some arguments looks for.

    Examples
    --------
    >>> text_query("lance_match", [["col", "text"], ["lit", "string", "old town"], ["lit", "string", "operator=AND"]])
    MatchQuery('old town', 'text', operator=FullTextOperator.AND)
    """
    if function == "lance_multi_match":
        return _of_columns(function, arguments)
    match arguments:
        case [["col", *path], ["lit", "string", str() as text], *rest] if len(rest) <= 1:
            column = join_path(path)
            if function == "lance_match_phrase":
                return PhraseQuery(text, column, slop=_slop(rest))
            return MatchQuery(text, column, **_options(function, rest))
    raise _misused(function)


def _of_columns(function: str, arguments: Sequence[Any]) -> FullTextQuery:
    match arguments:
        case [["lit", "string", str() as text], ["lit", "string", str()] as option, *columns]:
            options = _options(function, [option])
        case [["lit", "string", str() as text], *columns]:
            options = {}
        case _:
            raise _misused(function)
    if not columns or any(column[0] != "col" for column in columns):
        raise _misused(function)
    names = [join_path(path) for _, *path in columns]
    if options.get("operator") is FullTextOperator.AND:
        return BooleanQuery([(Occur.MUST, MatchQuery(text, name)) for name in names])
    return MultiMatchQuery(text, names)


def _slop(rest: Sequence[Any]) -> int:
    match rest:
        case []:
            return 0
        case [["lit", str(), str() as text]] if text.isdecimal():
            return int(text)
    raise _misused("lance_match_phrase")


def _options(function: str, rest: Sequence[Any]) -> dict[str, Any]:
    """``operator=AND,fuzziness=1`` as arguments of a query."""
    if not rest:
        return {}
    match rest:
        case [["lit", "string", str() as text]]:
            parts = [part.split("=", 1) for part in text.split(",") if part.strip()]
            if all(len(part) == 2 for part in parts):
                given = {name.strip().lower(): value.strip() for name, value in parts}
                return {name: _value(function, name, value) for name, value in given.items()}
    raise _misused(function)


def _value(function: str, name: str, text: str) -> Any:
    known = ("operator",) if function == "lance_multi_match" else ("operator", "boost", *_COUNTS)
    if name not in known:
        raise InvalidInput(f"{function} has no option '{name}'; it has: {', '.join(known)}")
    operators: Mapping[str, FullTextOperator] = {"AND": FullTextOperator.AND, "OR": FullTextOperator.OR}
    if name == "operator" and text.upper() in operators:
        return operators[text.upper()]
    if name in _COUNTS and text.isdecimal():
        return int(text)
    if name == "boost":
        try:
            return float(text)
        except ValueError:
            pass
    wanted = "AND or OR" if name == "operator" else "a number" if name == "boost" else "a whole number"
    raise InvalidInput(f"the option {name} of {function} is {wanted}, not {text!r}")


def _misused(function: str) -> InvalidInput:
    return InvalidInput(f"{function} is written {_FORMS[function]}, with names of columns and constants")
