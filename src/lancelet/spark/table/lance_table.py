"""A Lance table as Spark programs hold it, in the manner of Delta's ``DeltaTable``."""

# ruff: noqa: N802, N803 - the names are Delta's, or in their manner

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lancelet._api.entry import dataset
from lancelet._api.opening import parse_time
from lancelet.errors import InvalidInput, InvalidType, TableNotFound
from lancelet.format.schema import split_path
from lancelet.spark.named_tables import NamedTable
from lancelet.spark.names import is_case_sensitive, path_named
from lancelet.spark.options import TableRef
from lancelet.store import open_store
from lancelet.store.limit import elsewhere, limit_options
from lancelet.table.refs.read import check_reference

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from typing_extensions import Unpack

    from lancelet._api.scan_options import SearchOptions
    from lancelet._api.scanner import Columns
    from lancelet.dataset import LanceDataset
    from lancelet.editing.delete import DeleteResult
    from lancelet.editing.merge import MergeResult
    from lancelet.editing.update import UpdateResult
    from lancelet.indices import IndexDescription
    from lancelet.maintenance.cleanup_report import CleanupExplanation
    from lancelet.maintenance.compaction.commit import CompactionMetrics
    from lancelet.query import FullTextQuery
    from lancelet.spark.table.merge import Clause, Merge
    from lancelet.table.cleanup.run import CleanupStats
    from lancelet.table.refs.read import Reference


class LanceTable:
    """The newest version of a table, to be read and changed with Spark.

    Rows are found, joined and written by executors; the driver commits once. When somebody else changed the same rows
    meanwhile, the work is done again on the newest version. Conditions and expressions are Spark's, as SQL text or as
    columns.

    Examples
    --------
    >>> from pathlib import Path
    >>> import lancelet
    >>> uri = str(Path("people.lance").absolute())  # or s3://bucket/people.lance
    >>> dataset = lancelet.write_dataset({"name": ["Ann", "Ben"], "age": [40, 17]}, uri)
    >>> table = LanceTable.forPath(spark, uri)
    >>> table.delete("age < 18")
    {'num_deleted_rows': 1}
    """

    def __init__(self, spark: SparkSession, place: TableRef, alias: str | None = None) -> None:
        self._spark = spark
        self._place = place
        self._alias = alias

    def __repr__(self) -> str:
        return f"LanceTable({self._place.uri!r})"

    # Opening and reading

    @classmethod
    def forPath(
        cls, spark: SparkSession, path: str, storageOptions: Mapping[str, str] | None = None, branch: str | None = None
    ) -> LanceTable:
        """The table at a path.

        Parameters
        ----------
        spark
            The session that does the work.
        path
            A path or URI that driver and executors can reach.
        storageOptions
            Options of the object store; they travel to the executors.
        branch
            A branch of the table; the main one by default.
        """
        if not isinstance(path, str):
            raise InvalidType(f"the path of a table is a text, not {path!r}")
        place = TableRef(path, dict(storageOptions or {}), None if branch is None else (branch, None))
        snapshot = place.open()
        # A branch refers to its root: the limit, if there is one, is measured by that.
        return cls(spark, TableRef(snapshot.uri, {**place.storage_options, **limit_options(snapshot.store.options)}))

    @classmethod
    def forName(
        cls,
        spark: SparkSession,
        name: str,
        namespace: str,
        storageOptions: Mapping[str, str] | None = None,
        branch: str | None = None,
    ) -> LanceTable:
        """The table with a name in the directory namespace of a folder, such as ``sales.orders``.

        Parameters
        ----------
        name
            Its names with dots between them; backticks around one that has dots.
        namespace
            The folder of the namespace.
        spark, storageOptions, branch
            See :meth:`forPath`.
        """
        options = dict(storageOptions or {})
        found = NamedTable(namespace, tuple(split_path(name)), options).uri()
        return cls.forPath(spark, found, options, branch)

    @classmethod
    def isLanceTable(
        cls,
        spark: SparkSession,
        path: str,
        storageOptions: Mapping[str, str] | None = None,
    ) -> bool:
        """Whether there is a table at a path."""
        try:
            cls.forPath(spark, path, storageOptions)
        except TableNotFound:
            return False
        return True

    def alias(self, name: str) -> LanceTable:
        """The same table under a name by which conditions and expressions can call its columns."""
        return LanceTable(self._spark, self._place, name)

    def toDF(self) -> DataFrame:
        """The rows of the newest version; the data frame stays with that version."""
        from lancelet.spark.table.edit import pin_version
        from lancelet.spark.table.values import table_frame

        # Over Spark Connect only a version that is named stays.
        frame = table_frame(self._spark, pin_version(self._place.open(), self._place))
        return frame if self._alias is None else frame.alias(self._alias)

    def version(self) -> int:
        """The number of the newest version."""
        return self._place.open().version

    # Rows

    def delete(self, condition: str | Column | None = None) -> DeleteResult:
        """Delete the rows for which a condition is true; all rows without one."""
        from lancelet.spark.table.edit import delete_where

        return delete_where(self._spark, self._place, condition, self._alias)

    def update(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002 - Delta's name
    ) -> UpdateResult:
        """Give columns new values in the rows for which a condition is true; in all rows without one.

        Parameters
        ----------
        condition
            SQL text or a column; ``_rowid`` and ``_rowaddr`` are among the columns.
        set
            Columns and the expressions of their new values, which see the row as it was. Numbers are converted to the
            type of their column, and one that does not fit is an error; other types must be cast.
        """
        from lancelet.spark.table.edit import update_where

        if set is None:
            raise InvalidInput("an update needs set=, a dict of columns and their new values")
        return update_where(self._spark, self._place, condition, set, self._alias)

    def updateExpr(self, condition: str | None, set: Mapping[str, str]) -> UpdateResult:  # noqa: A002
        """As :meth:`update`, with texts only."""
        return self.update(condition, set)

    def merge(self, source: DataFrame, condition: str | Column) -> LanceMergeBuilder:
        """Match the rows of a data frame with those of the table, and change the table by what was found.

        Parameters
        ----------
        source
            The rows to merge. They may be computed more than once, so they must come out the same each time.
        condition
            When two rows match. Columns are called by the alias of the table (``target`` when it has none) and of the
            source (``source`` when it has none).

        Returns
        -------
        LanceMergeBuilder
            To be told what to do with each kind of rows, and executed.
        """
        from lancelet.spark.table.merge import Merge, checked_source

        return LanceMergeBuilder(self._spark, self._place, Merge(checked_source(source), condition, self._alias))

    # Columns

    def addColumns(
        self,
        columns: Any,
        *,
        on: str | Sequence[str] | None = None,
        types: Mapping[str, str] | None = None,
        readColumns: Sequence[str] | None = None,
        batchSize: int | None = None,
        checkpoint: str | bool = False,
    ) -> None:
        """Add columns. Only files with the new columns are written; appends by others do not stand in the way.

        Parameters
        ----------
        columns
            What they hold: a dict of names and Spark expressions (SQL texts or columns, pandas UDFs among them); a
            function from batches of the table (``pyarrow.RecordBatch``) to batches of new columns, which tasks call
            without Spark in between; or a data frame, whose rows are found by a key.
        on
            The key of a data frame: columns of both, or ``_rowid``. Rows without a match get null.
        types
            Lance types of new columns that Spark does not have: ``{"embedding": "fixed_size_list:float:768"}``.
        readColumns, batchSize
            The columns that a function gets, and how many rows at once.
        checkpoint
            Note finished fragments, so that a run that was broken off can be continued: ``True`` beside the table, a
            text in that folder. The next run uses what it finds there, so the columns must mean the same then.
        """
        from lancelet.spark.table.columns import add_columns

        add_columns(
            self._spark,
            self._place,
            columns,
            on=on,
            types=types,
            read_columns=readColumns,
            batch_size=batchSize,
            checkpoint=checkpoint,
        )

    def dropColumns(self, *columns: str) -> None:
        """Drop columns or fields of structs. Files stay as they are until compaction."""
        dataset = self._dataset()
        schema, case_sensitive = dataset.table.snapshot.manifest.schema, is_case_sensitive(self._spark)
        dataset.drop_columns([path_named(column, schema, case_sensitive=case_sensitive) for column in columns])

    # Versions

    def history(self, limit: int | None = None) -> DataFrame:
        """How the versions came about, the newest first."""
        from lancelet.spark.table.history import HISTORY, history

        return self._spark.createDataFrame(history(self._place.open(), limit), HISTORY)

    def detail(self) -> DataFrame:
        """What the newest version is like, in one row."""
        from lancelet.spark.table.history import DETAIL, detail

        return self._spark.createDataFrame([detail(self._place.open())], DETAIL)

    def restoreToVersion(self, version: int) -> None:
        """Make an older version the newest again, as a new version."""
        self._dataset(replace(self._place, version=version)).restore()

    def restoreToTimestamp(self, timestamp: str | datetime) -> None:
        """Make the version that was the newest at a time the newest again."""
        self._dataset(replace(self._place, asof=parse_time(timestamp))).restore()

    def tags(self) -> dict[str, dict[str, Any]]:
        """All tags by name."""
        return self._dataset().tags.list()

    def createTag(self, name: str, version: Reference | None = None) -> None:
        """Give a version a name; the newest one by default. A tagged version is not vacuumed."""
        self._dataset().tags.create(name, version)

    def updateTag(self, name: str, version: Reference | None = None) -> None:
        """Let a tag name another version."""
        self._dataset().tags.update(name, version)

    def deleteTag(self, name: str) -> None:
        """Remove a tag; its version stays."""
        self._dataset().tags.delete(name)

    def branches(self) -> dict[str, dict[str, Any]]:
        """All branches but the main one, by name."""
        return self._dataset().branches.list()

    def createBranch(self, name: str, version: Reference | None = None) -> LanceTable:
        """Begin a branch at a version, the newest one by default; the table on that branch."""
        made = self._dataset().create_branch(name, version)
        options = {**self._place.storage_options, **limit_options(made.table.snapshot.store.options)}
        return LanceTable(self._spark, TableRef(made.table.snapshot.uri, options), self._alias)

    def deleteBranch(self, name: str) -> None:
        """Remove a branch with all versions of its own."""
        self._dataset().branches.delete(name)

    def clone(self, target: str, isShallow: bool = True, version: Reference | None = None) -> LanceTable:
        """Make a table of a version; a shallow one refers to the files of this one, of a deep one tasks copy them."""
        from lancelet.cloning.clone import shallow_clone
        from lancelet.spark.table.clone import clone_deep

        newest = self._place.open()
        source = newest if version is None else newest.at(check_reference(version))
        store = open_store(target, elsewhere(self._place.storage_options))
        made = shallow_clone(source, store) if isShallow else clone_deep(self._spark, source, store)
        return LanceTable(self._spark, TableRef(made.uri, elsewhere(self._place.storage_options)))

    # Vectors

    def search(
        self,
        query: Any = None,
        column: str | None = None,
        k: int = 10,
        *,
        text: str | FullTextQuery | None = None,
        vector: Any = None,
        text_columns: Sequence[str] | None = None,
        vector_column: str | None = None,
        filter: str | None = None,  # noqa: A002 - as in scanners
        columns: Columns = None,
        prefilter: bool | None = None,
        fusion: str = "rrf",
        rrf_k: float = 60.0,
        weight: float = 0.7,
        candidates: int | None = None,
        fast_search: bool = False,
        with_row_id: bool = False,
        **options: Unpack[SearchOptions],
    ) -> DataFrame:
        """The rows whose vectors are nearest to a query, whose texts fit one best, or both; the best first.

        Segments of an index, and the rows that no index knows, are searched by tasks side by side; the answer is that of
        one process: of ``LanceDataset.to_table(nearest=...)`` with ``_distance``, for ``text`` of
        ``LanceDataset.to_table(full_text_query=...)`` with ``_score``, for both of :meth:`lancelet.LanceDataset.search` with
        ``_relevance_score``. The data frame stays with the version that is the newest now. For texts a job gathers at once
        what scores depend on.

        Parameters
        ----------
        query, vector
            A vector; several of them, whose numbers come first in the result as ``query_index``; or a data frame with
            such vectors in its only column, or in the one that is called as the table's. Queries are held by the driver:
            for many of them see :meth:`joinNearest`. With ``text``, one vector.
        column, vector_column
            The column of vectors; ``vector`` by default, or the only one that there is.
        k
            How many rows for each query, at most.
        text
            A text, or a query of :mod:`lancelet.query`.
        text_columns
            Where a text is looked for; by default in all columns with an INVERTED index.
        filter
            SQL of Lance's, as in ``LanceDataset.to_table``: with ``prefilter`` among all rows, else among those that were found.
        columns
            Names, or a dict of names and expressions; all columns by default.
        prefilter
            By default True where there is a ``text``, and False where there is none.
        fusion, rrf_k, weight, candidates
            How texts and vectors go together: see :meth:`lancelet.LanceDataset.search`.
        fast_search
            Leave out rows that the index does not know.
        with_row_id
            Add ``_rowid``.
        options
            ``metric``, ``nprobes``, ``minimum_nprobes``, ``maximum_nprobes``, ``refine_factor``, ``ef``, ``use_index``,
            ``approx_mode``, ``search_effort`` and ``distance_range`` mean what they do in ``nearest``.

        Examples
        --------
        >>> from pathlib import Path
        >>> import lancelet
        >>> import pyarrow as pa
        >>> uri = str(Path("pictures.lance").absolute())  # or s3://bucket/pictures.lance
        >>> vectors = pa.array([[0.0, 0.0], [1.0, 0.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
        >>> captions = ["a cat", "a dog", "a cat and a dog"]
        >>> dataset = lancelet.write_dataset(pa.table({"id": [1, 2, 3], "v": vectors, "caption": captions}), uri)
        >>> pictures = LanceTable.forPath(spark, uri)
        >>> pictures.search([1, 1], k=2, columns=["id"]).show()
        +---+---------+
        | id|_distance|
        +---+---------+
        |  2|      1.0|
        |  1|      2.0|
        +---+---------+
        <BLANKLINE>
        >>> pictures.createIndex("caption", "INVERTED")
        >>> [row.id for row in pictures.search(text="cat", k=2, columns=["id"]).collect()]
        [1, 3]
        """
        from lancelet.spark.search.frames import search_texts, search_vectors
        from lancelet.spark.search.request import SearchRequest, TextRequest

        vector = _one_of("query", query, "vector", vector)
        name = _one_of("column", column, "vector_column", vector_column)
        exact = is_case_sensitive(self._spark)
        if text is None:
            _without_text(text_columns=text_columns, candidates=candidates)
            request = SearchRequest(
                name, k, filter, columns, bool(prefilter), fast_search, with_row_id, case_sensitive=exact
            )
            return search_vectors(self._spark, self._dataset(), self._place, vector, request, options)
        asked = TextRequest(
            text_columns,
            name,
            k,
            filter,
            columns,
            prefilter is None or prefilter,
            fast_search,
            with_row_id,
            fusion=fusion,
            rrf_k=rrf_k,
            weight=weight,
            candidates=candidates,
            case_sensitive=exact,
        )
        return search_texts(self._spark, self._dataset(), self._place, text, vector, asked, options)

    def joinNearest(
        self,
        frame: DataFrame,
        on: str,
        k: int = 1,
        how: str = "inner",
        *,
        column: str | None = None,
        filter: str | None = None,  # noqa: A002 - as in scanners
        columns: Columns = None,
        prefilter: bool = False,
        fast_search: bool = False,
        with_row_id: bool = False,
        **options: Unpack[SearchOptions],
    ) -> DataFrame:
        """Beside each row of a data frame the ``k`` rows of the table that are nearest to it, with their ``_distance``.

        Each task asks the table, and its index, about the rows of its partition; nothing is shuffled. Vectors that are null
        or have a NaN in them are near to nothing.

        Parameters
        ----------
        frame
            The rows to join.
        on
            Its column of vectors, arrays of numbers.
        how
            ``"inner"``, or ``"left"`` to keep rows for which nothing was found.
        columns
            Columns of the table, or a dict of new names and expressions where both sides have a column of one name.
        k, column, filter, prefilter, fast_search, with_row_id, options
            See :meth:`search`.

        Examples
        --------
        >>> from pathlib import Path
        >>> import lancelet
        >>> import pyarrow as pa
        >>> uri = str(Path("cities.lance").absolute())  # or s3://bucket/cities.lance
        >>> places = pa.array([[52.5, 13.4], [48.9, 2.4]], pa.list_(pa.float32(), 2))
        >>> dataset = lancelet.write_dataset(pa.table({"city": ["Berlin", "Paris"], "place": places}), uri)
        >>> trips = spark.createDataFrame([("Ann", [50.0, 3.0])], "name string, at array<double>")
        >>> LanceTable.forPath(spark, uri).joinNearest(trips, "at", columns=["city"]).select("name", "city").collect()
        [Row(name='Ann', city='Paris')]
        """
        from lancelet.spark.search.join import join_frame
        from lancelet.spark.search.request import SearchRequest
        from lancelet.spark.table.edit import pin_version

        dataset = self._dataset()
        request = SearchRequest(
            column,
            k,
            filter,
            columns,
            prefilter,
            fast_search,
            with_row_id,
            case_sensitive=is_case_sensitive(self._spark),
        )
        here = pin_version(dataset.table.snapshot, self._place)
        return join_frame(frame, dataset, here, on, how, request, options)

    # Indices

    def createIndex(
        self,
        column: str,
        indexType: str = "BTREE",
        name: str | None = None,
        replace: bool = True,
        **options: Any,
    ) -> None:
        """Build an index over a column, on the executors, and commit it once.

        The kinds and their options are those of :meth:`lancelet.LanceDataset.create_scalar_index`, and for vectors those of
        :meth:`lancelet.LanceDataset.create_index`: ``createIndex("embedding", "IVF_PQ", metric="cosine")``. The driver learns from a
        sample of the vectors; tasks assign and encode all of them.
        """
        from lancelet.spark.table.indices import create_index

        create_index(self._spark, self._place, column, indexType, name, replace, options)

    def optimizeIndices(
        self,
        numIndicesToMerge: int | None = None,
        indexNames: list[str] | None = None,
        retrain: bool = False,
    ) -> None:
        """Extend indices by the rows that they do not know yet; executors read them."""
        from lancelet.spark.table.indices import extend_indices

        extend_indices(self._spark, self._place, numIndicesToMerge, indexNames, retrain)

    def dropIndex(self, name: str) -> None:
        """Remove an index. Its files stay until a vacuum."""
        self._dataset().drop_index(name)

    def indices(self) -> list[IndexDescription]:
        """All indices, with their segments and the rows that they cover."""
        return self._dataset().describe_indices()

    # Files

    def optimize(self) -> LanceOptimizeBuilder:
        """Compaction: ``table.optimize().executeCompaction()``."""
        return LanceOptimizeBuilder(self._spark, self._place)

    def vacuum(
        self,
        retentionHours: float | None = None,
        dryRun: bool = False,
        deleteUnverified: bool = False,
    ) -> CleanupStats | CleanupExplanation:
        """Remove versions older than this, and the files that only they needed; two weeks by default.

        Tagged versions stay. Files that no version names, such as those of a driver that was killed, go when they are
        seven days old, since a write may be at work on them; with ``deleteUnverified``, at once. With ``dryRun`` nothing
        is removed, and the answer tells what would be.
        """
        if retentionHours is not None and retentionHours < 0:
            raise InvalidInput(f"retentionHours is a number of hours, not {retentionHours!r}")
        age = None if retentionHours is None else timedelta(hours=retentionHours)
        dataset = self._dataset()
        if dryRun:
            return dataset.explain_cleanup_old_versions(
                age,
                delete_unverified=deleteUnverified,
                error_if_tagged_old_versions=False,
                include_files=True,
            )
        return dataset.cleanup_old_versions(age, delete_unverified=deleteUnverified, error_if_tagged_old_versions=False)

    # MemWAL

    def initializeMemWal(
        self,
        bucketColumn: str | None = None,
        numBuckets: int | None = None,
        identityColumn: str | None = None,
        unsharded: bool = False,
        **options: Any,
    ) -> None:
        """Give the table a MemWAL, for writes with the option ``writePath``. For all options see
        :meth:`lancelet.LanceDataset.initialize_mem_wal`."""
        self._dataset().initialize_mem_wal(
            bucket_column=bucketColumn,
            num_buckets=numBuckets,
            identity_column=identityColumn,
            unsharded=unsharded,
            **options,
        )

    def repartitionByShard(self, frame: DataFrame) -> DataFrame:
        """A data frame, or a stream, of which one task has all rows of a shard of the MemWAL.

        Written with ``writePath=memwal``, each batch is one run in each shard then, however many tasks the query has.
        """
        from lancelet.spark.memwal.routing import by_shard

        return by_shard(self._spark, self._place.open(), frame)

    def compactMemWal(self, shards: Sequence[str] | None = None) -> dict[str, int]:
        """Take the runs of a MemWAL into the table: Spark finds the older rows, tasks write the new ones, one commit.

        Parameters
        ----------
        shards
            Which ones, as the texts of UUIDs; all by default.

        Returns
        -------
        dict
            ``num_runs``, ``num_inserted_rows``, ``num_updated_rows`` and ``num_deleted_rows``.
        """
        from lancelet.spark.memwal.compaction import compact_shards, shards_named

        return compact_shards(self._spark, self._place, shards_named(shards))

    def cleanupMemWal(self, retentionHours: float = 1.0) -> dict[str, int]:
        """Remove runs that are in versions older than this, and entries of logs that are in runs."""
        return self._dataset().cleanup_mem_wal(older_than=timedelta(hours=retentionHours))

    def _dataset(self, place: TableRef | None = None) -> LanceDataset:
        """The table as one process holds it."""
        chosen = place or self._place
        version: Any = chosen.version
        return dataset(chosen.uri, version, chosen.asof, storage_options=chosen.storage_options or None)


def _one_of(name: str, value: Any, other: str, same: Any) -> Any:
    """A value that goes by two names."""
    if value is not None and same is not None:
        raise InvalidInput(f"{name} and {other} are two names of one thing; give one of them")
    return same if value is None else value


def _without_text(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"{name} is about a text that is looked for, and there is none; give text=, or leave it out"
            )


@dataclass(frozen=True)
class LanceMergeBuilder:
    """What a merge does with each kind of rows; made by :meth:`LanceTable.merge`.

    Of clauses of one kind, the first whose condition is true decides. ``set`` and ``values`` are dicts of the table's
    columns and SQL texts or columns. The methods return a new builder.
    """

    _spark: SparkSession = field(repr=False)
    _place: TableRef
    _merge: Merge = field(repr=False)

    def whenMatchedUpdate(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002
    ) -> LanceMergeBuilder:
        """Give columns of matched rows new values; the other columns keep theirs."""
        return self._with("MATCHED", "UPDATE", condition, _given(set, "set"))

    def whenMatchedUpdateAll(self, condition: str | Column | None = None) -> LanceMergeBuilder:
        """Give matched rows the values of all columns that the source has."""
        return self._with("MATCHED", "UPDATE", condition)

    def whenMatchedDelete(self, condition: str | Column | None = None) -> LanceMergeBuilder:
        """Delete matched rows."""
        return self._with("MATCHED", "DELETE", condition)

    def whenNotMatchedInsert(
        self, condition: str | Column | None = None, values: Mapping[str, str | Column] | None = None
    ) -> LanceMergeBuilder:
        """Insert rows that only the source has; columns without a value are null."""
        return self._with("SOURCE", "INSERT", condition, _given(values, "values"))

    def whenNotMatchedInsertAll(self, condition: str | Column | None = None) -> LanceMergeBuilder:
        """Insert rows that only the source has, with all of its columns."""
        return self._with("SOURCE", "INSERT", condition)

    def whenNotMatchedBySourceUpdate(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002
    ) -> LanceMergeBuilder:
        """Give columns new values in rows that only the table has."""
        return self._with("TARGET", "UPDATE", condition, _given(set, "set"))

    def whenNotMatchedBySourceDelete(self, condition: str | Column | None = None) -> LanceMergeBuilder:
        """Delete rows that only the table has."""
        return self._with("TARGET", "DELETE", condition)

    def execute(self) -> MergeResult:
        """Merge, and say how many rows were inserted, updated and deleted.

        Raises
        ------
        MergeRefused
            Several rows of the source match one row of the table. Nothing was changed.
        """
        from lancelet.spark.table.merge import merge_rows

        return merge_rows(self._spark, self._place, self._merge)

    def _with(self, side: str, kind: str, condition: Any, values: Any = None) -> LanceMergeBuilder:
        from lancelet.spark.table.merge import Clause, Side
        from lancelet.spark.table.rows import RowAction

        added: Clause = Clause(Side[side], RowAction[kind], condition, values)
        return replace(self, _merge=replace(self._merge, clauses=(*self._merge.clauses, added)))


def _given(values: Any, name: str) -> Any:
    if values is None:
        raise InvalidInput(f"the clause needs {name}=, a dict of columns and their values")
    return values


@dataclass(frozen=True)
class LanceOptimizeBuilder:
    """Which fragments to put together; made by :meth:`LanceTable.optimize`."""

    _spark: SparkSession = field(repr=False)
    _place: TableRef
    _where: Any = None

    def where(self, condition: str | Column) -> LanceOptimizeBuilder:
        """Only fragments that have a row for which a condition is true."""
        return replace(self, _where=condition)

    def executeCompaction(self, **options: Any) -> CompactionMetrics:
        """Rewrite small and worn fragments, each group by a task, and commit once.

        The options are those of :meth:`lancelet.optimize.DatasetOptimizer.compact_files`.
        """
        from lancelet.spark.table.compaction import compact_table

        return compact_table(self._spark, self._place, options, self._where)
