"""Search by texts and vectors together, as users ask for it: every argument checked, and made into a plan."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lancelet._api.scan_options import SearchOptions
from lancelet._api.scanner import ScannerBuilder
from lancelet._naming.keywords import refuse_unknown
from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.execution.fusion import RANK_CONSTANT, VECTOR_WEIGHT, Fusion, Linear, ReciprocalRank
from lancelet.execution.hybrid import HybridPlan
from lancelet.execution.nearest_plan import choose_vector_column
from lancelet.format.system_columns import DISTANCE, FUSED_FIELDS, RELEVANCE, ROW_ID, SCORE

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lancelet._api.protocols import Scanned
    from lancelet._api.scanner import Columns
    from lancelet.query import FullTextQuery

_CANDIDATES = 5
"""How many rows each search is asked for, for one of the result."""


def hybrid_plan(
    dataset: Scanned,
    text: str | FullTextQuery | None,
    vector: Any,
    *,
    text_columns: Sequence[str] | None = None,
    vector_column: str | None = None,
    filter: str | pc.Expression | None = None,  # noqa: A002
    columns: Columns = None,
    k: int = 10,
    offset: int = 0,
    fusion: str = "rrf",
    rrf_k: float = RANK_CONSTANT,
    weight: float = VECTOR_WEIGHT,
    candidates: int | None = None,
    fast_search: bool = False,
    with_row_id: bool = False,
    options: Mapping[str, Any],
) -> HybridPlan:
    """The search, or an error that says which argument makes no sense."""
    refuse_unknown("search", options, SearchOptions)
    if text is None and vector is None:
        raise InvalidInput("a search needs something to look for: text=, vector=, or both")
    if text is None and text_columns is not None:
        raise InvalidInput(
            "text_columns says where a text is looked for, and there is none; give text=, or leave it out"
        )
    if vector is None and (vector_column is not None or options):
        name = "vector_column" if vector_column is not None else next(iter(options))
        raise InvalidInput(f"{name} is about a query vector, and there is none; give vector=, or leave it out")
    count, first = _count("k", k, 1), _count("offset", offset, 0)
    how = _fusion(fusion, rrf_k, weight)
    most = max(
        count + first, _CANDIDATES * (count + first) if candidates is None else _count("candidates", candidates, 1)
    )

    def side() -> ScannerBuilder:
        asked = ScannerBuilder(dataset).columns([]).filter(filter).prefilter(True).fast_search(fast_search)
        return asked.disable_scoring_autoprojection()

    texts = vectors = None
    if text is not None:
        texts = side().full_text_search(text, text_columns).limit(most).to_scanner().plan
        assert texts.matching is not None
        if texts.matching.has_items:
            raise NotSupported(
                "rows are searched, and the text is looked for in items of lists (document_granularity); ask with "
                "to_table(full_text_query=...), or search a column whose rows are indexed"
            )
    if vector is not None:
        if vector_column is None:
            vector_column = choose_vector_column(dataset.table.snapshot.manifest.schema)
        vectors = side().nearest(vector_column, vector, most, **options).to_scanner().plan
        assert vectors.nearest is not None
        if vectors.nearest.is_batch:
            raise InvalidInput("a search takes one query vector, not a list of them; ask for them one by one")
    asked_marks = ((DISTANCE, vector), (SCORE, text), (RELEVANCE, True))
    marks = [name for name, asked in asked_marks if asked is not None]
    shown = ScannerBuilder(dataset).columns(_stored(columns)).with_row_id(with_row_id).to_scanner().plan
    taken = [name for name in FUSED_FIELDS if name in {name for name, _ in shown.outputs}]
    if taken:
        raise InvalidInput(
            f"a search makes a column '{taken[0]}', and the result has one of that name: rename it first"
        )
    names = [name for name, _ in shown.outputs]
    return HybridPlan(texts, vectors, how, count, first, shown, _order(names, columns, marks, with_row_id))


def _stored(columns: object) -> Any:
    """The columns that are asked for, without those that the search makes."""
    if isinstance(columns, Mapping):
        return {name: expr for name, expr in columns.items() if name not in FUSED_FIELDS or expr != name}
    if isinstance(columns, Iterable) and not isinstance(columns, str):
        return [name for name in columns if name not in FUSED_FIELDS]
    return columns


def _order(names: Sequence[str], columns: Any, marks: Sequence[str], with_row_id: bool) -> tuple[str, ...]:
    """What the search makes is where it was asked for, or at the end, before the row id."""
    asked = [name for name in (columns or ()) if name in FUSED_FIELDS]
    missing = [name for name in asked if name not in marks]
    if missing:
        what = "vector=" if missing[0] == DISTANCE else "text="
        raise InvalidInput(
            f"column '{missing[0]}' is there only in searches with {what}; give it, or leave the column out"
        )
    found = list(names)
    for place, name in enumerate(columns or ()):
        if name in asked:
            found.insert(place, name)
    last = len(found) - (with_row_id and found[-1:] == [ROW_ID] and ROW_ID not in list(columns or ()))
    return (*found[:last], *(name for name in marks if name not in asked), *found[last:])


def _fusion(name: object, rrf_k: object, weight: object) -> Fusion:
    if name == "rrf":
        constant = _real("rrf_k", rrf_k)
        if not constant > 0:
            raise InvalidInput(f"rrf_k is a number above 0, which ranks from 0 are added to, not {rrf_k!r}")
        return ReciprocalRank(constant)
    if name == "linear":
        share = _real("weight", weight)
        if not 0 <= share <= 1:
            raise InvalidInput(f"weight is the share of vectors, from 0 to 1, not {weight!r}")
        return Linear(share)
    raise InvalidInput(f"fusion is 'rrf' (by ranks) or 'linear' (by scores and distances), not {name!r}")


def _real(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise InvalidType(f"{name} is a number, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidType(f"{name} is a number, not {value!r}") from None
    if not math.isfinite(number):
        raise InvalidInput(f"{name} is a finite number, not {value!r}")
    return number


def _count(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidType(f"{name} is a whole number, not {value!r}") from None
    if number < least:
        raise InvalidInput(f"{name} is at least {least}, not {number}")
    return number
