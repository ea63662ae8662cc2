"""Queries in SQL on one table: DataFusion runs them, or DuckDB where only that is installed; scans of the table feed it.

::

    dataset.sql("SELECT ...") ── SqlQueryBuilder ── build() ──> SqlQuery ── to_batch_records(), to_stream_reader()

Both hand the columns and the filters that they can down to the scan, where indices answer them. DuckDB has a dialect of its
own, and none of the options that the table is read with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import sqlglot
from sqlglot import expressions as sqlx

from lancelet._naming.extras import import_extra
from lancelet.errors import InvalidInput, InvalidType, LanceletError, MissingPackage
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    from typing_extensions import Self

    from lancelet._api.protocols import Askable

_ASKING: Final = frozenset(["SELECT", "SELECT_STATEMENT", "EXPLAIN", "EXPLAIN_STATEMENT"])
_BLOBS: Final = ("all_binary", "blobs_descriptions", "all_descriptions")


class SqlQueryBuilder:
    """A query that is being put together; :meth:`LanceDataset.sql` begins one.

    Examples
    --------
    >>> import lancelet
    >>> kelp = lancelet.write_dataset({"id": [1, 2, 3]}, "memory://docs/sql")
    >>> query = kelp.sql("SELECT count(*) AS many FROM kelp WHERE id > 1").table_name("kelp").build()
    >>> query.to_stream_reader().read_all().to_pydict()
    {'many': [2]}
    """

    def __init__(self, dataset: Askable, sql: str) -> None:
        if not isinstance(sql, str):
            raise InvalidType(f"a query is a text in SQL, not {type(sql).__name__}")
        self._dataset = dataset
        self._sql = sql
        self._name = "dataset"
        self._rows: list[str] = []
        self._options: dict[str, Any] = {}

    def table_name(self, table_name: str) -> Self:
        """The name that the table has in the query; ``dataset`` by default."""
        self._name = table_name
        return self

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Add the column ``_rowid`` to the table, and to the result where that has rows of the table."""
        return self._row_column(ROW_ID, with_row_id)

    def with_row_addr(self, with_row_addr: bool = True) -> Self:
        """Add the column ``_rowaddr`` to the table, and to the result where that has rows of the table."""
        return self._row_column(ROW_ADDRESS, with_row_addr)

    def _row_column(self, name: str, wanted: bool) -> Self:
        self._rows = [row for row in (ROW_ID, ROW_ADDRESS) if (wanted if row == name else row in self._rows)]
        return self

    def batch_size(self, batch_size: int) -> Self:
        """The most rows that a batch of the scan has."""
        if batch_size < 1:
            raise InvalidInput(f"batch_size is a number of rows above 0, not {batch_size!r}")
        self._options["batch_size"] = batch_size
        return self

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """About the most bytes that a batch of the scan has."""
        self._options["batch_size_bytes"] = batch_size_bytes
        return self

    def blob_handling(self, blob_handling: str) -> Self:
        """What blob columns are: ``all_binary`` their bytes, ``blobs_descriptions`` (as by default) or
        ``all_descriptions`` where these are."""
        if blob_handling not in _BLOBS:
            raise InvalidInput(f"blob_handling is one of {', '.join(_BLOBS)}, not {blob_handling!r}")
        self._options["blob_handling"] = blob_handling
        return self

    def build(self) -> SqlQuery:
        """The query, ready to run.

        Raises
        ------
        ValueError
            It is not SQL, or names a column or table that is not there.
        ImportError
            Neither DataFusion nor DuckDB is installed: ``pip install 'lancelet[sql]'``.
        """
        if find_spec("datafusion") is None and find_spec("duckdb") is not None:
            return SqlQuery(self._sql, self._with_duckdb())
        engine = import_extra("datafusion", "sql", "SQL on a dataset")
        from lancelet._api.table_provider import FFILanceTableProvider

        options = {"with_row_id": ROW_ID in self._rows, "with_row_addr": ROW_ADDRESS in self._rows, **self._options}
        config = engine.SessionConfig()
        if "batch_size" in self._options:
            config = config.with_batch_size(self._options["batch_size"])
        context = engine.SessionContext(config)
        table = FFILanceTableProvider(self._dataset, **options)
        sql = _with_columns(self._sql, self._name, self._rows) if self._rows else self._sql
        queries = engine.SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
        with _told(sql):
            context.register_table(self._name, table)
            return SqlQuery(sql, context.sql_with_options(sql, queries))

    def _with_duckdb(self) -> Any:
        if self._rows or self._options:
            raise MissingPackage(
                "row ids, sizes of batches and blobs of a query in SQL need the package datafusion: pip install 'lancelet[sql]'"
            )
        engine = import_extra("duckdb", "sql", "SQL on a dataset")
        # Nothing but this table: no files, no other databases.
        connection = engine.connect(":memory:", config={"enable_external_access": "false"})
        connection.register(self._name, self._dataset)
        with _told(self._sql):
            kinds = {str(one.type).rpartition(".")[2] for one in connection.extract_statements(self._sql)}
            if not kinds <= _ASKING:
                raise InvalidInput(f"a query asks, and changes nothing, unlike {self._sql!r}")
            found = connection.sql(self._sql)
        if found is None:
            raise InvalidInput(f"there is no query in {self._sql!r}")
        return found


class SqlQuery:
    """A query that can be run, more than once."""

    def __init__(self, sql: str, frame: Any) -> None:
        self._sql = sql
        self._frame = frame

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """All of the result, in memory."""
        return list(self.to_stream_reader())

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """The result as it comes.

        Raises
        ------
        ValueError
            The query cannot be run to its end: a number is divided by zero, a text is no number.
        """
        with _told(self._sql):
            found = pa.RecordBatchReader.from_stream(self._frame)

        def batches() -> Iterator[pa.RecordBatch]:
            with _told(self._sql):
                yield from found

        return pa.RecordBatchReader.from_batches(found.schema, batches())


@contextmanager
def _told(sql: str) -> Iterator[None]:
    """What DataFusion says is wrong with a query, in its words, as an error of ours; what a scan raises stays what it is."""
    try:
        yield
    except LanceletError:
        raise
    except ValueError as error:
        raise InvalidInput(f"{error}, in the query {sql!r}") from error
    except Exception as error:
        # Some of DataFusion's errors have no class of their own, and DuckDB's have one that is nobody else's.
        if type(error) is not Exception and not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        raise InvalidInput(f"{error}, in the query {sql!r}") from error


def _with_columns(sql: str, table: str, names: list[str]) -> str:
    """A query whose result has columns of its rows too, where each of its rows is one of the table."""
    try:
        parsed = sqlglot.parse_one(sql, dialect="postgres")
    except sqlglot.ParseError as error:
        columns = " and ".join(names)
        raise InvalidInput(f"cannot add {columns} to this query; name them in it instead: {sql!r}") from error
    if not isinstance(parsed, sqlx.Select) or not _gives_rows(parsed, table):
        return sql
    there = {one.alias_or_name for one in parsed.expressions}
    added = [sqlx.column(name, quoted=True) for name in names if name not in there]
    if parsed.is_star or not added:
        return sql
    return parsed.select(*added).sql(dialect="postgres")


def _gives_rows(query: sqlx.Select, table: str) -> bool:
    source = query.args.get("from_") or query.args.get("from")
    # A name without quotes is the same in upper case, and one that the query gives to something is no longer the table's.
    single = source is not None and isinstance(source.this, sqlx.Table) and source.this.name.lower() == table.lower()
    single = single and all(one.alias_or_name.lower() != table.lower() for one in query.ctes)
    grouped = any(query.args.get(part) for part in ("group", "distinct", "having", "joins", "laterals"))
    gathered = any(found.parent_select is query for one in query.expressions for found in one.find_all(sqlx.AggFunc))
    windowed = any(True for one in query.expressions for _ in one.find_all(sqlx.Window))
    return single and not grouped and (windowed or not gathered)
