"""Scans as users ask for them: options one by one, then a scanner that runs them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypedDict

import pyarrow as pa

from lancelet._naming.html import LaidOut, text_html
from lancelet._naming.keywords import refuse_unknown
from lancelet.errors import FilterSyntaxError, InvalidInput, InvalidType, NotSupported
from lancelet.execution.blobs import has_blobs
from lancelet.execution.opening import open_scan
from lancelet.execution.plan import ScanPlan, column_of, default_batch_size, plan_filter, plan_outputs
from lancelet.execution.rebatch import by_bytes, by_rows
from lancelet.expressions.expr import Column
from lancelet.expressions.sort import SortKey
from lancelet.format.system_columns import DISTANCE, DOC_INDEX, QUERY_INDEX, SCORE, SEARCH_FIELDS
from lancelet.log import LOGGER, debug
from lancelet.runtime import compute as pc
from lancelet.runtime.events import RUNS, is_heard, tell

if TYPE_CHECKING:
    import pandas as pd

    from lancelet._api.protocols import Scanned
    from lancelet.execution.matching_plan import Matching
    from lancelet.execution.near_text_plan import NearText
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.plan import Outputs
    from lancelet.execution.ranked_scan import RankedScan
    from lancelet.execution.row_mask import RowMask
    from lancelet.execution.scan import Scan
    from lancelet.query import FullTextQuery, MinHashQuery, VectorSearchQuery

Columns: TypeAlias = "Sequence[str] | Mapping[str, str | pc.Expression] | None"
MAX_BATCH_SIZE = 2**32 - 1
BLOB_HANDLING = ("all_binary", "all_descriptions", "blobs_descriptions")


@dataclass
class ColumnOrdering:
    """A column to sort by."""

    column_name: str
    ascending: bool = True
    nulls_first: bool = False


@dataclass(frozen=True)
class ScanStatistics:
    """What a finished scan cost."""

    iops: int
    """Requests to the store; for local files the ranges that were asked for."""
    requests: int
    bytes_read: int
    indices_loaded: int = 0
    parts_loaded: int = 0
    index_comparisons: int = 0
    index_cache_hits: int = 0
    index_cache_misses: int = 0
    all_counts: dict[str, int] = field(default_factory=dict)
    all_times: dict[str, int] = field(default_factory=dict)
    """Nanoseconds."""


_COSTS: Final = tuple(one.name for one in fields(ScanStatistics) if not one.name.startswith("all_"))


class ScannerBuilder:
    """Collects the options of a scan.

    Read-ahead is bounded in bytes by the engine itself, so the options that bound it otherwise are accepted and
    have no effect.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": range(100)}, "memory://docs/scanner_builder")
    >>> ScannerBuilder(dataset).filter("id % 2 = 1").limit(3).with_row_id().to_scanner().to_table().to_pydict()
    {'id': [1, 3, 5], '_rowid': [1, 3, 5]}
    """

    def __init__(self, ds: Scanned) -> None:
        self.ds = ds
        self._columns: Columns = None
        self._filter: str | pc.Expression | None = None
        self._limit: int | None = None
        self._offset = 0
        self._batch_size: int | None = None
        self._batch_size_bytes: int | None = None
        self._scan_in_order = True
        self._fragment_ids: tuple[int, ...] | None = None
        self._with_row_id = False
        self._with_row_address = False
        self._late = True
        self._blob_handling: str | None = None
        self._include_deleted_rows = False
        self._stats_callback: Callable[[ScanStatistics], None] | None = None
        self._strict_batch_size = False
        self._use_scalar_index = True
        self._fast_search = False
        self._order_by: tuple[SortKey, ...] = ()
        self._index_segments: tuple[str, ...] | None = None
        self._mask: RowMask | None = None
        self._nearest: Nearest | None = None
        self._text_query: tuple[str | FullTextQuery, Sequence[str] | None] | None = None
        self._text_filter: FullTextQuery | None = None
        self._near_filter: VectorSearchQuery | None = None
        self._near_text: MinHashQuery | None = None
        self._prefilter = False
        self._adds_marks = True

    def apply_defaults(self, default_opts: Mapping[str, Any]) -> ScannerBuilder:
        """Set options by name."""
        for name, value in default_opts.items():
            setter = None if name.startswith("_") or name == "to_scanner" else getattr(self, name, None)
            if setter is None or not callable(setter):
                raise InvalidInput(f"Unknown option {name}; the options are those of scanner()")
            if name == "nearest" and type(value).__name__ == "MinHashQuery":
                self.minhash_search(value)
            elif name == "nearest":
                if not isinstance(value, Mapping):
                    raise InvalidType(f"nearest is a dict with the column and the query, not {value!r}")
                from lancelet._api.nearest_query import NearestOptions

                refuse_unknown("nearest", value, NearestOptions)
                missing = [key for key in ("column", "q") if key not in value]
                if missing:
                    raise InvalidType(f"nearest has no '{missing[0]}'; it needs a column and a query, q")
                self.nearest(**value)
            elif name == "full_text_search" and isinstance(value, Mapping):
                refuse_unknown("full_text_query", value, _TextOptions)
                if "query" not in value:
                    raise InvalidType("full_text_query has no 'query'; it needs a text")
                self.full_text_search(**value)
            else:
                setter(value)
        return self

    def columns(self, cols: Columns = None) -> ScannerBuilder:
        """Names and nested paths, or a dict of names and SQL expressions; all columns by default."""
        if cols is not None and (isinstance(cols, str) or not isinstance(cols, (Sequence, Mapping))):
            raise InvalidType(f"columns is a list of names or a dict of names and expressions, not {cols!r}")
        self._columns = cols
        return self

    def filter(
        self,
        filter: str | pc.Expression | FullTextQuery | VectorSearchQuery | Mapping[str, Any] | None,  # noqa: A002
    ) -> ScannerBuilder:
        """Rows for which an SQL text or a pyarrow expression is true, or whose texts match a query.

        A query of :mod:`lancelet.query` for texts goes with a search for vectors, a ``VectorSearchQuery`` with one for texts. Both
        kinds of filter may be given, as a dict of ``expr_filter`` and ``search_filter``. With :meth:`prefilter` the search finds
        the best of the rows that the filter lets through; without, of the rows that it found those are left.
        """
        if isinstance(filter, Mapping):
            for part in (filter.get("expr_filter"), filter.get("search_filter")):
                if part is not None:
                    self.filter(part)
            return self
        if isinstance(filter, str) and not filter.strip():
            raise FilterSyntaxError(filter, 0, "the filter is empty")
        if filter is not None and not isinstance(filter, (str, pc.Expression)):
            from lancelet._api.text_query import is_text_query, is_vector_query

            if is_vector_query(filter):
                self._near_filter = filter
                return self
            if not is_text_query(filter):
                raise InvalidType(
                    f"a filter is an SQL text, a pyarrow expression or a query of lancelet.query, not {filter!r}"
                )
            self._text_filter = filter
            return self
        self._filter = filter
        return self

    def limit(self, n: int | None = None) -> ScannerBuilder:
        """At most so many rows."""
        self._limit = None if n is None else _count("limit", n)
        return self

    def offset(self, n: int | None = None) -> ScannerBuilder:
        """Pass over the first so many rows that the filter lets through."""
        self._offset = 0 if n is None else _count("offset", n)
        return self

    def batch_size(self, batch_size: int) -> ScannerBuilder:
        """The greatest number of rows in a batch."""
        if not 1 <= _count("batch_size", batch_size) <= MAX_BATCH_SIZE:
            raise InvalidInput(f"batch_size must be between 1 and {MAX_BATCH_SIZE}, got {batch_size}")
        self._batch_size = int(batch_size)
        return self

    def batch_size_bytes(self, batch_size_bytes: int) -> ScannerBuilder:
        """About the greatest number of bytes in a batch."""
        self._batch_size_bytes = _count("batch_size_bytes", batch_size_bytes)
        return self

    def strict_batch_size(self, strict_batch_size: bool = False) -> ScannerBuilder:
        """Every batch but the last has exactly ``batch_size`` rows."""
        self._strict_batch_size = strict_batch_size
        return self

    def io_buffer_size(self, io_buffer_size: int) -> ScannerBuilder:
        """Checked and not used: reads are bounded by their units."""
        _count("io_buffer_size", io_buffer_size)
        return self

    def batch_readahead(self, nbatches: int | None = None) -> ScannerBuilder:
        """Checked and not used: see :meth:`fragment_readahead`."""
        if nbatches is not None and _count("batch_readahead", nbatches) == 0:
            raise InvalidInput("batch_readahead must be greater than 0")
        return self

    def fragment_readahead(self, nfragments: int | None = None) -> ScannerBuilder:
        """Checked and not used: how much is read ahead follows from the sizes of units."""
        if nfragments is not None:
            _count("fragment_readahead", nfragments)
        return self

    def scan_in_order(self, scan_in_order: bool = True) -> ScannerBuilder:
        """Whether batches come in the order of the table."""
        self._scan_in_order = scan_in_order
        return self

    def with_row_id(self, with_row_id: bool = True) -> ScannerBuilder:
        """Add the column ``_rowid``."""
        self._with_row_id = with_row_id
        return self

    def with_row_address(self, with_row_address: bool = True) -> ScannerBuilder:
        """Add the column ``_rowaddr``."""
        self._with_row_address = with_row_address
        return self

    def with_fragments(self, fragments: Iterable[object] | None) -> ScannerBuilder:
        """Only these fragments, in this order."""
        if fragments is None:
            self._fragment_ids = None
            return self
        ids = []
        for fragment in fragments:
            number = getattr(fragment, "fragment_id", None)
            if not isinstance(number, int):
                raise InvalidType(f"fragments are LanceFragments, not {type(fragment)}")
            ids.append(number)
        self._fragment_ids = tuple(ids)
        return self

    def late_materialization(self, late_materialization: bool | list[str]) -> ScannerBuilder:
        """Whether columns outside the filter are read for the passing rows only; a list of names counts as yes."""
        if not isinstance(late_materialization, (bool, list)):
            raise InvalidInput("late_materialization must be a bool or a list of strings")
        self._late = bool(late_materialization)
        return self

    def blob_handling(self, blob_handling: str | None) -> ScannerBuilder:
        """Blobs as descriptions, or with ``"all_binary"`` as their bytes."""
        if blob_handling is not None and blob_handling not in BLOB_HANDLING:
            raise InvalidInput(f"Invalid blob_handling: {blob_handling}. It is one of: {', '.join(BLOB_HANDLING)}")
        self._blob_handling = blob_handling
        return self

    def include_deleted_rows(self, flag: bool) -> ScannerBuilder:
        """Deleted rows too, with a null as their ``_rowid``."""
        self._include_deleted_rows = flag
        return self

    def order_by(self, orderings: Sequence[ColumnOrdering | str] | str | None) -> ScannerBuilder:
        """Columns to sort the result by."""
        keys = []
        for order in [orderings] if isinstance(orderings, str) else orderings or ():
            if isinstance(order, str):
                keys.append(SortKey(order))
            elif isinstance(order, ColumnOrdering):
                keys.append(SortKey(order.column_name, order.ascending, order.nulls_first))
            else:
                raise InvalidType(f"order_by is a list of names and ColumnOrderings, not of {type(order)}")
        self._order_by = tuple(keys)
        return self

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], None]) -> ScannerBuilder:
        """Called with the costs when the scan has ended."""
        self._stats_callback = callback
        return self

    def use_stats(self, use_stats: bool = True) -> ScannerBuilder:
        """Taken and not needed: statistics of pages never change an answer."""
        return self

    def use_scalar_index(self, use_scalar_index: bool = True) -> ScannerBuilder:
        """Whether scalar indices are asked which rows the filter can be true for."""
        self._use_scalar_index = use_scalar_index
        return self

    def prefilter(self, prefilter: bool) -> ScannerBuilder:
        """Whether a search looks among the rows that pass the filter; by default the rows that it found are filtered."""
        self._prefilter = bool(prefilter)
        return self

    def disable_scoring_autoprojection(self, disable: bool = True) -> ScannerBuilder:
        """Leave ``_distance`` or ``_score`` out of the result of a search unless it is among the columns that are asked for."""
        self._adds_marks = not disable
        return self

    def fast_search(self, flag: bool) -> ScannerBuilder:
        """Leave out fragments that the indices do not cover which the filter or the search asks."""
        self._fast_search = flag
        return self

    def nearest(
        self,
        column: str,
        q: object,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: str = "normal",
        distance_range: tuple[float | None, float | None] | None = None,
        search_effort: object = None,
    ) -> ScannerBuilder:
        """The rows whose vectors are nearest to ``q``, the nearest first, with their distances as ``_distance``.

        Parameters
        ----------
        column
            A column of vectors (lists of fixed size of float16, bfloat16, float32, float64 or uint8), or of lists of
            vectors; also the path of one inside structs.
        q
            The query: a list or an array of as many numbers as the vectors have. Several of them (a list of lists, an array of
            two dimensions) are asked together, and the result begins with a column ``query_index``; with lists of vectors
            they are one query, whose distance is the sum of those of its vectors to the nearest of the row's.
        k
            How many rows, at most; 10 by default. Of rows at the same distance those with the lower row ids come first.
        metric
            ``"l2"`` (squared), ``"cosine"``, ``"dot"`` (1 - product) or, for uint8, ``"hamming"`` (bits). By default that of
            the index that is asked, else l2, or hamming for uint8.
        nprobes, minimum_nprobes, maximum_nprobes, search_effort
            How many partitions of an index are looked at.
        refine_factor
            Ask an index for so many times ``k`` rows, and compare their vectors.
        use_index
            False: compare all vectors.
        ef
            How many candidates the search of a graph keeps in mind.
        query_parallelism
            How many partitions of a segment are looked at side by side for one query, at most one for each core (-1: as
            many); by default, and with 0 or 1, one after the other. Segments, and several queries, always are side by side.
        approx_mode
            ``"fast"``, ``"normal"`` or ``"accurate"``, for indices of type IVF_RQ.
        distance_range
            Only rows with distances from the first number up to, and not including, the second; either may be None.

        Examples
        --------
        >>> import lancelet
        >>> import pyarrow as pa
        >>> vectors = pa.array([[0.0, 0.0], [1.0, 0.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
        >>> dataset = lancelet.write_dataset(pa.table({"id": [1, 2, 3], "v": vectors}), "memory://docs/nearest")
        >>> dataset.to_table(columns=["id", "_distance"], nearest={"column": "v", "q": [1, 1], "k": 2}).to_pydict()
        {'id': [2, 1], '_distance': [1.0, 2.0]}
        """
        from lancelet._api.nearest_query import nearest_query

        self._nearest = nearest_query(
            self.ds.table.snapshot.manifest.schema,
            column,
            q,
            k=k,
            metric=metric,
            nprobes=nprobes,
            minimum_nprobes=minimum_nprobes,
            maximum_nprobes=maximum_nprobes,
            refine_factor=refine_factor,
            use_index=use_index,
            ef=ef,
            query_parallelism=query_parallelism,
            approx_mode=approx_mode,
            distance_range=distance_range,
            search_effort=search_effort,
        )
        return self

    def full_text_search(self, query: str | FullTextQuery, columns: Sequence[str] | None = None) -> ScannerBuilder:
        """The rows whose texts match a query, the best first, with their scores (BM25) as ``_score``.

        Parameters
        ----------
        query
            A text, of which a row has any word, or a query of :mod:`lancelet.query`.
        columns
            The columns to search for a text; by default all that have an INVERTED index. A row has the score of its best
            column.

        Examples
        --------
        >>> import lancelet
        >>> from lancelet.query import MatchQuery
        >>> texts = ["a lazy dog", "a quick fox", "a quick and lazy fox, quick"]
        >>> dataset = lancelet.write_dataset({"id": [1, 2, 3], "text": texts}, "memory://docs/full_text_search")
        >>> search = ScannerBuilder(dataset).columns(["id"]).full_text_search(MatchQuery("quick", "text"))
        >>> search.disable_scoring_autoprojection().to_scanner().to_table()["id"].to_pylist()
        [3, 2]
        """
        from lancelet._api.text_query import check_text_query

        check_text_query(query, columns)
        self._text_query = (query, columns)
        return self

    def minhash_search(self, query: MinHashQuery) -> ScannerBuilder:
        """The rows whose texts are nearly the same as one, the nearest first, with their distances as ``_distance``.

        The column has an index of the kind MINHASHLSH. The distance is 1 less the share of the texts that is estimated to
        be the same; texts that are quite different are not found. Without a limit there are at most 10.

        Examples
        --------
        >>> import lancelet
        >>> from lancelet.query import MinHashQuery
        >>> texts = ["kelp grows in cold and clear water", "kelp grows in cold and clear waters", "a tide pool"]
        >>> dataset = lancelet.write_dataset({"text": texts}, "memory://docs/minhash_search")
        >>> dataset.create_scalar_index("text", "MINHASHLSH")
        >>> dataset.to_table(nearest=MinHashQuery(texts[0], "text"))["_distance"].to_pylist()
        [0.0, 0.328125]
        """
        from lancelet.query import MinHashQuery

        asked: Any = query
        if not isinstance(asked, MinHashQuery) or not all(isinstance(part, str) for part in (asked.text, asked.column)):
            raise InvalidType(f"minhash_search takes a MinHashQuery of a text and a column, not {query!r}")
        self._near_text = query
        return self

    def with_index_segments(self, index_segments: Iterable[str | uuid.UUID] | None) -> ScannerBuilder:
        """The segments of a vector index to search; refused for scans without a vector search."""
        self._index_segments = None if index_segments is None else _segment_ids(index_segments)
        return self

    def row_addr_prefilter(self, allowlist: bytes | None = None, blocklist: bytes | None = None) -> ScannerBuilder:
        """Only rows whose row id is in one set and not in another; each is given as an index stores it."""
        self._mask = None
        if allowlist is not None or blocklist is not None:
            from lancelet.execution.row_mask import RowMask

            self._mask = RowMask(allowlist, blocklist)
        return self

    def substrait_aggregate(self, aggregate: bytes) -> ScannerBuilder:
        """Not supported: aggregates are left to engines."""
        return _needs_index("substrait aggregates")

    def to_scanner(self) -> LanceScanner:
        """Check the options against the table."""
        return LanceScanner(
            self.ds, self._plan(), self._batch_size_bytes, self._strict_batch_size, self._stats_callback
        )

    def _plan(self) -> ScanPlan:
        if self._strict_batch_size and self._batch_size_bytes:
            raise InvalidInput("strict_batch_size cannot be combined with batch_size_bytes; choose one of them")
        if self._include_deleted_rows and not self._with_row_id:
            raise InvalidInput("include_deleted_rows is set but with_row_id is false; ask for the row ids too")
        nearest = self._nearest
        if self._index_segments is not None and nearest is None:
            raise InvalidInput("index_segments is only supported for vector search; filters choose their segments")
        if nearest is not None:
            if self._include_deleted_rows:
                raise InvalidInput("Cannot include deleted rows in a nearest neighbor search; leave one of them out")
            if self._prefilter or self._index_segments is not None:
                nearest = replace(nearest, prefilter=self._prefilter, segments=self._index_segments)
        matching = None if self._text_query is None else self._matching(*self._text_query)
        near_text = self._near()
        if sum(search is not None for search in (matching, nearest, near_text)) > 1:
            raise InvalidInput("Cannot have both nearest and full text search; ask for one of them at a time")
        if self._text_filter is not None:
            if nearest is None:
                raise InvalidInput(
                    "Query filter can only be used with vector search, not with a scan or with full text search: give the "
                    "query as full_text_query, put together with another one where there is one"
                )
            nearest = replace(nearest, text=self._matching(self._text_filter, None))
        if self._near_filter is not None:
            matching = self._with_near(matching, self._near_filter)
        if self._mask is not None:
            self._mask.check()
        schema = self.ds.table.snapshot.manifest.schema
        search = near_text or (nearest if matching is None else matching)
        made = () if search is None else search.made
        outputs = plan_outputs(
            schema, self._columns, with_row_id=self._with_row_id, with_row_address=self._with_row_address, made=made
        )
        if search is not None:
            outputs = self._with_search_columns(outputs, DISTANCE if matching is None else SCORE, made)
        names = {name for name, _ in outputs}.union(made)
        for key in self._order_by:
            if key.column not in names:
                column_of(schema, key.column)
        binary: frozenset[str] = frozenset()
        if self._blob_handling == "all_binary":
            stored = set(schema.names)
            binary = frozenset(
                name
                for name, expr in outputs
                if isinstance(expr, Column) and expr.path[0] in stored and has_blobs(schema.field_by_path(expr.path))
            )
        debug("a scan of %s gives %s", self.ds.table.snapshot.uri, ", ".join(name for name, _ in outputs))
        return ScanPlan(
            schema,
            outputs,
            plan_filter(schema, self._filter, made if not self._prefilter else ()),
            self._limit,
            self._offset,
            self._order_by,
            self._batch_size or default_batch_size(),
            self._fragment_ids,
            self._include_deleted_rows,
            self._scan_in_order,
            self._late,
            binary,
            use_index=self._use_scalar_index,
            indexed_only=self._fast_search,
            mask=self._mask,
            nearest=nearest,
            matching=matching,
            near_text=near_text,
        )

    def _near(self) -> NearText | None:
        """The search for texts that are nearly the same, its column found in the table."""
        if self._near_text is None:
            return None
        if self._include_deleted_rows:
            raise InvalidInput("Cannot include deleted rows in a search for texts; leave one of them out")
        from lancelet.execution.near_texts import near_text_of

        found = near_text_of(self.ds.table, self._near_text.column, self._near_text.text)
        return replace(found, prefilter=self._prefilter)

    def _matching(self, query: str | FullTextQuery, columns: Sequence[str] | None) -> Matching:
        """A search for texts, its columns found in the table."""
        if self._include_deleted_rows:
            raise InvalidInput("Cannot include deleted rows in an FTS search; leave one of them out")
        from lancelet._api.text_query import text_matching

        found = text_matching(self.ds.table, query, columns)
        return replace(found, prefilter=True) if self._prefilter else found

    def _with_near(self, matching: Matching | None, query: VectorSearchQuery) -> Matching:
        """A search for texts, filtered by one for vectors."""
        if matching is None:
            raise InvalidInput(
                "a VectorSearchQuery can only be the filter of a full text search: give the texts as full_text_query, or "
                "search for the vectors by nearest"
            )
        if matching.has_items:
            raise InvalidInput(
                "vectors belong to rows, and this query finds items of lists: ask for rows, by the document_granularity"
            )
        from lancelet._api.nearest_query import nearest_query

        near = nearest_query(self.ds.table.snapshot.manifest.schema, **query.inner(), distance_range=None)
        if near.is_batch:
            raise InvalidInput("a VectorSearchQuery has one query vector; search for several one by one")
        return replace(matching, near=near)

    def _with_search_columns(self, outputs: Outputs, mark: str, made: Sequence[str]) -> Outputs:
        """The number of the query first, where there are several; the distance or score before what every table has."""
        is_batch = QUERY_INDEX in made
        found = [output for output in outputs if output[0] != QUERY_INDEX or not is_batch]
        if self._adds_marks and all(name != mark for name, _ in found):
            if self._columns is not None:
                LOGGER.warning(
                    "the columns that were asked for do not have '%s'. A search adds it, and will not do so in the "
                    "future: ask for it, or use disable_scoring_autoprojection",
                    mark,
                )
            system = int(self._with_row_id) + int(self._with_row_address)
            found.insert(len(found) - system, (mark, _made_column(mark)))
        if DOC_INDEX in made and all(name != DOC_INDEX for name, _ in found):
            # Where all columns are asked for it comes before the score, as in pylance.
            system = int(self._with_row_id) + int(self._with_row_address) + (self._columns is None and self._adds_marks)
            found.insert(len(found) - system, (DOC_INDEX, _made_column(DOC_INDEX)))
        if is_batch:
            found.insert(0, (QUERY_INDEX, _made_column(QUERY_INDEX)))
        return tuple(found)


class LanceScanner:
    """A scan that is ready to run, as often as it is asked to.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": range(100)}, "memory://docs/scanner")
    >>> scanner = dataset.scanner(filter="id >= 90", batch_size=4)
    >>> scanner.count_rows(), [batch.num_rows for batch in scanner.to_batches()]
    (10, [4, 4, 2])
    """

    def __init__(
        self,
        dataset: Scanned,
        plan: ScanPlan,
        batch_bytes: int | None = None,
        strict: bool = False,
        callback: Callable[[ScanStatistics], None] | None = None,
    ) -> None:
        self._ds = dataset
        self._plan = plan
        self._batch_bytes = batch_bytes
        self._strict = strict
        self._callback = partial(_tell_run, callback) if is_heard() else callback

    @cached_property
    def _scan(self) -> Scan | RankedScan:
        return open_scan(self._ds.table, self._plan)

    @property
    def plan(self) -> ScanPlan:
        """What is read, as a small value that goes to other processes."""
        return self._plan

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._plan.output_schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._ds.schema

    def to_table(self) -> pa.Table:
        """The whole result."""
        if self._callback is None:
            return self._scan.to_table()
        with self._watch() as watch:
            return watch.done(watch.scan.to_table())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The result as it comes."""
        if self._callback is None:
            yield from self._sized(self._scan.batches())
            return
        with self._watch() as watch:
            for batch in self._sized(watch.scan.batches()):
                watch.rows += batch.num_rows
                yield batch

    def _sized(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self._strict:
            return by_rows(batches, self._plan.batch_size)
        return by_bytes(batches, self._batch_bytes) if self._batch_bytes else batches

    def to_reader(self) -> pa.RecordBatchReader:
        """The result as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.projected_schema.__arrow_c_schema__()

    def to_pandas(self, *, blob_mode: str = "lazy", **kwargs: object) -> pd.DataFrame:
        """The result as a data frame.

        Parameters
        ----------
        blob_mode
            Blobs as file-like objects (``"lazy"``), as ``"bytes"`` or as ``"descriptions"``.
        kwargs
            Handed to :meth:`pyarrow.Table.to_pandas`.
        """
        if blob_mode not in ("lazy", "bytes", "descriptions"):
            raise InvalidInput("blob_mode must be one of: 'lazy', 'bytes', 'descriptions'")
        plan, stored = self._plan, set(self._plan.schema.names)
        blobs = {
            name: expr.path
            for name, expr in plan.outputs
            if isinstance(expr, Column)
            and expr.path[0] in stored
            and name not in plan.blobs_as_binary
            and has_blobs(plan.schema.field_by_path(expr.path))
        }
        if not blobs or blob_mode == "descriptions":
            return self.to_table().to_pandas(**kwargs)
        if blob_mode == "bytes":
            plan = replace(plan, blobs_as_binary=plan.blobs_as_binary | frozenset(blobs))
            return open_scan(self._ds.table, plan).to_table().to_pandas(**kwargs)
        from lancelet._api.blob_files import lazy_frame

        return lazy_frame(self._ds.table, plan, blobs, kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """The first rows of the result."""
        if num_rows < 0:
            return self.to_table()[:num_rows]
        limit = num_rows if self._plan.limit is None else min(self._plan.limit, num_rows)
        return open_scan(self._ds.table, replace(self._plan, limit=limit)).to_table()

    def count_rows(self) -> int:
        """How many rows pass the filter."""
        if self._plan.limit is not None or self._plan.offset:
            raise InvalidInput("rows are counted without limit and offset; apply them to the count")
        return self._scan.count()

    def scan_batches(self) -> list[pa.RecordBatch]:
        """All batches."""
        return list(self.to_batches())

    def explain_plan(self, verbose: bool = False) -> str:
        """What the scan will do, as a tree."""
        from lancelet.execution.explain import explain

        return LaidOut(explain(self._ds.table, self._plan, verbose=verbose))

    def __repr__(self) -> str:
        columns = ", ".join(self.projected_schema.names)
        snapshot = self._ds.table.snapshot
        return f"<LanceScanner of {snapshot.uri!r}, version {snapshot.version}: {columns}>"

    def _repr_html_(self) -> str:
        return text_html(self.explain_plan())

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan, and tell what it did and what it cost."""
        counters = self._ds.table.snapshot.store.counters
        requests, read = counters.requests, counters.bytes
        started = time.perf_counter()
        batches = 0
        scan = open_scan(self._ds.table, self._plan)
        if count_rows:
            rows = scan.count()
        else:
            rows = 0
            for batch in scan.batches():
                rows += batch.num_rows
                batches += 1
        taken = time.perf_counter() - started
        cost = (
            f"Analyze: rows={rows}, batches={batches}, requests={counters.requests - requests}, "
            f"bytes={counters.bytes - read}, elapsed={taken * 1000:.3f}ms"
        )
        from lancelet.execution.explain import explain

        tree = explain(self._ds.table, self._plan, found=scan.candidates, use=scan.use)
        return LaidOut("\n".join([cost, *(f"  {line}" for line in tree.splitlines())]))

    def take(self, indices: object) -> NoReturn:
        """Not supported: see :meth:`lancelet.LanceDataset.take`."""
        raise NotSupported("a scanner has no take; use LanceDataset.take")

    @staticmethod
    def from_dataset(*args: object, **kwargs: object) -> NoReturn:
        """Not supported: see :meth:`lancelet.LanceDataset.scanner`."""
        raise NotSupported("a scanner is not made from a pyarrow dataset; use LanceDataset.scanner")

    @staticmethod
    def from_fragment(*args: object, **kwargs: object) -> NoReturn:
        """Not supported: see :meth:`lancelet.LanceFragment.scanner`."""
        raise NotSupported("a scanner is not made from a pyarrow fragment; use LanceFragment.scanner")

    @staticmethod
    def from_batches(*args: object, **kwargs: object) -> NoReturn:
        """Not supported: see :meth:`lancelet.LanceDataset.scanner`."""
        raise NotSupported("a scanner is not made from batches; use LanceDataset.scanner")

    def _watch(self) -> _Watch:
        assert self._callback is not None
        return _Watch(open_scan(self._ds.table, self._plan), self._callback)


class _Watch:
    """Counts what happens to the store during a scan, and tells it when the scan has ended."""

    def __init__(self, scan: Scan | RankedScan, callback: Callable[[ScanStatistics], None]) -> None:
        self.scan = scan
        self.rows = 0
        self._callback = callback
        table, plan = scan.table, scan.plan
        self._counters = table.snapshot.store.counters
        self._before = (self._counters.requests, self._counters.bytes)
        ids = plan.fragment_ids
        self._fragments = len(table.snapshot.manifest.fragments) if ids is None else len(ids)
        self._started = time.perf_counter_ns()

    def done(self, table: pa.Table) -> pa.Table:
        self.rows += table.num_rows
        return table

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            return
        requests, read = self._counters.requests - self._before[0], self._counters.bytes - self._before[1]
        counts = {"rows_scanned": self.rows, "fragments_scanned": self._fragments}
        times = {"elapsed": time.perf_counter_ns() - self._started}
        candidates = self.scan.candidates
        if candidates is None:
            self._callback(ScanStatistics(requests, requests, read, all_counts=counts, all_times=times))
            return
        use = candidates.use
        counts |= {"fragments_scanned": len(candidates.fragments), "index_rows_found": sum(use.found.values())}
        index = (use.loaded, use.parts, use.rows, use.cached, use.loaded)
        self._callback(ScanStatistics(requests, requests, read, *index, all_counts=counts, all_times=times))


def _tell_run(callback: Callable[[ScanStatistics], None] | None, found: ScanStatistics) -> None:
    """Tell listeners what a scan cost, and then whom the scan itself was given."""
    costs = {name: getattr(found, name) for name in _COSTS}
    tell(RUNS, found.all_times["elapsed"], type="plan_run", output_rows=found.all_counts["rows_scanned"], **costs)
    if callback is not None:
        callback(found)


class _TextOptions(TypedDict, total=False):
    """What a dict of ``full_text_query`` has."""

    query: Any
    columns: Any


def _count(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is a number, not {value!r}") from None
    if number != value:
        raise InvalidType(f"{name} is a whole number, not {value!r}")
    if number < 0:
        raise InvalidInput(f"{name.capitalize()} must be non-negative, got {number}")
    return number


def _made_column(name: str) -> Column:
    return Column((name,), SEARCH_FIELDS[name].type)


def _segment_ids(segments: Iterable[str | uuid.UUID]) -> tuple[str, ...]:
    if isinstance(segments, (str, bytes, uuid.UUID)) or not isinstance(segments, Iterable):
        raise InvalidType(f"index_segments is a list of texts or uuids, not a single {type(segments)}")
    ids = []
    for segment in segments:
        if not isinstance(segment, (str, uuid.UUID)):
            raise InvalidType(f"index_segments is a list of texts or uuids, not of {type(segment)}")
        try:
            ids.append(str(uuid.UUID(str(segment))))
        except ValueError:
            raise InvalidInput(f"invalid index segment uuid '{segment}'") from None
    if not ids:
        raise InvalidInput("index_segments is empty; leave it out to search all segments")
    return tuple(ids)


def _needs_index(what: str) -> NoReturn:
    raise NotSupported(f"{what} is not supported yet: scans use scalar indices only")
