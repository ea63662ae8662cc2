"""Changing the rows, columns and metadata of a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lancelet.fragment import reported
from lancelet.table.commit.patience import CHANGE_RETRIES, CHANGE_SECONDS
from lancelet.view import TableView

if TYPE_CHECKING:
    from lancelet._api.merge_insert import MergeInsertBuilder
    from lancelet.editing.delete import DeleteResult
    from lancelet.editing.update import UpdateResult


class EditableTable(TableView):
    """A table whose rows, columns and metadata can be changed; each change moves it to its new version."""

    # Rows

    def insert(self, data: Any, *, mode: str = "append", **kwargs: Any) -> None:
        """Write rows and move to the new version.

        The options are those of :func:`lancelet.write_dataset`, but for ``storage_options`` and ``session``: the
        dataset has its own.
        """
        from lancelet.writing.options import write_options
        from lancelet.writing.table import Target, write_table

        schema, progress = kwargs.pop("schema", None), reported(kwargs.pop("progress", None))
        target = Target.of(self, None, kwargs.pop("base_store_params", None))
        self._move(write_table(data, schema, target, write_options(mode, **kwargs), progress))

    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        conflict_retries: int = CHANGE_RETRIES,
        retry_timeout: timedelta = timedelta(seconds=CHANGE_SECONDS),
    ) -> DeleteResult:
        """Delete the rows for which a predicate is true, and move to the new version.

        Parameters
        ----------
        predicate
            SQL text or a pyarrow expression.
        conflict_retries, retry_timeout
            How often and how long to find the rows again when somebody else changed them in between. Ten times, the
            default of pylance, are not counted: the time decides.
        """
        from lancelet.editing.delete import delete_where

        seconds = retry_timeout.total_seconds()
        snapshot, count = delete_where(self._table, predicate, retries=conflict_retries, timeout=seconds)
        self._move(snapshot)
        return {"num_deleted_rows": count}

    def update(
        self,
        updates: Mapping[str, str],
        where: str | pc.Expression | None = None,
        conflict_retries: int = CHANGE_RETRIES,
        retry_timeout: timedelta = timedelta(seconds=CHANGE_SECONDS),
        data_storage_version: str | None = None,
    ) -> UpdateResult:
        """Give columns new values in the rows for which a condition is true, and move to the new version.

        The rows come out at the end of the table; in a table with stable row ids they keep their ids.

        Parameters
        ----------
        updates
            Columns and the SQL expressions of their new values. All expressions see the row as it was.
        where
            SQL text or a pyarrow expression; all rows by default.
        conflict_retries, retry_timeout
            How often and how long to find the rows again when somebody else changed them in between. Ten times, the
            default of pylance, are not counted: the time decides.
        data_storage_version
            File version of the new rows; that of the table by default.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"a": [1, 2, 3]}, "memory://updated")
        >>> dataset.update({"a": "a * 10"}, where="a > 1")
        {'num_rows_updated': 2}
        >>> dataset.to_table()["a"].to_pylist()
        [1, 20, 30]
        """
        from lancelet.editing.update import update_rows

        snapshot, count = update_rows(
            self._table,
            updates,
            where,
            retries=conflict_retries,
            timeout=retry_timeout.total_seconds(),
            version=data_storage_version,
        )
        self._move(snapshot)
        return {"num_rows_updated": count}

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Update, insert and delete rows in one commit, matching them with those of a source.

        Rows that are updated come out at the end of the table.

        Parameters
        ----------
        on
            The columns to match rows by; the table's primary key by default. A null matches nothing.

        Returns
        -------
        A builder, to be told what to do with each kind of rows, and then executed.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": [1, 2], "x": ["a", "b"]}, "memory://merged")
        >>> upsert = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        >>> upsert.execute({"id": [2, 3], "x": ["B", "C"]})
        {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        >>> dataset.to_table().to_pydict()
        {'id': [1, 2, 3], 'x': ['a', 'B', 'C']}
        """
        from lancelet._api.merge_insert import MergeInsertBuilder

        return MergeInsertBuilder(self, on)

    # Columns

    def add_columns(
        self,
        transforms: Any,
        read_columns: Sequence[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Add columns, and move to the new version. The files that are there stay as they are.

        Appends and deletions by others do not stand in the way: rows that came meanwhile get their values too.

        Parameters
        ----------
        transforms
            What the columns hold: a dict of names and SQL expressions over the other columns; a function from batches
            of rows to batches of new columns, see :func:`lancelet.batch_udf`; a table or a stream of batches with a row
            for each live row; or fields, for columns that are null everywhere. A struct that is there already adds
            its new fields to the one that the table has.
        read_columns
            The columns that a function gets; all of them by default.
        reader_schema
            The columns of a stream that does not tell them.
        batch_size
            How many rows to read at once.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"a": [1, 2]}, "memory://docs/add_columns")
        >>> dataset.add_columns({"b": "a * 10"})
        >>> dataset.to_table().to_pydict()
        {'a': [1, 2], 'b': [10, 20]}
        """
        from lancelet.editing.columns.add import add_columns

        self._move(add_columns(self._table, transforms, read_columns, reader_schema, batch_size))

    def merge(self, data_obj: Any, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None) -> None:
        """Add the columns of other rows, found by a key, and move to the new version; rows without a match get null.

        Parameters
        ----------
        data_obj
            The other rows, as for :func:`lancelet.write_dataset`; they are held in memory. Of rows with the same key,
            the last counts.
        left_on, right_on
            The key here and there; ``right_on`` is the same name by default.
        schema
            The columns of a stream that does not tell them.
        """
        from lancelet.editing.columns.join import merge_columns

        self._move(merge_columns(self._table, data_obj, left_on, right_on, schema))

    def alter_columns(self, *alterations: Mapping[str, Any]) -> None:
        """Rename columns, change their types or whether they take nulls, and move to the new version.

        Parameters
        ----------
        alterations
            Dicts with the ``path`` of a column and one or more of ``name``, ``nullable`` and ``data_type``. A column
            with nulls cannot be made to refuse them. A type can be another of the same sort (numbers of another size,
            texts, lists); only this writes new files, and a value that does not fit is an error. Paths are those
            from before the change.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"a": [1, 2]}, "memory://docs/alter_columns")
        >>> dataset.alter_columns({"path": "a", "name": "b", "data_type": pa.int8()})
        >>> dataset.schema
        b: int8
        """
        from lancelet.editing.columns.alter import alter_columns

        self._move(alter_columns(self._table, alterations))

    def drop_columns(self, columns: list[str]) -> None:
        """Drop columns or fields of structs, and move to the new version. Files stay as they are until compaction.

        Parameters
        ----------
        columns
            Names and paths (``"a.b"``).
        """
        from lancelet.editing.columns.drop import drop_columns

        self._move(drop_columns(self._snapshot, columns))

    # Metadata

    def update_config(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Edit the table's config, move to the new version and return the new config.

        Parameters
        ----------
        values
            Entries to set; None removes one.
        replace
            The values are all that is to be there.
        """
        from lancelet.editing.metadata import update_config

        self._move(update_config(self._snapshot, values, replace=replace))
        return self.config()

    def delete_config_keys(self, keys: list[str]) -> None:
        """Remove entries of the table's config, and move to the new version."""
        from lancelet.editing.metadata import delete_config_keys

        self._move(delete_config_keys(self._snapshot, keys))

    def update_metadata(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Edit the table's metadata as :meth:`update_config` does the config."""
        from lancelet.editing.metadata import update_table_metadata

        self._move(update_table_metadata(self._snapshot, values, replace=replace))
        return self.metadata

    def update_schema_metadata(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Edit the metadata of the schema as :meth:`update_config` does the config."""
        from lancelet.editing.metadata import update_schema_metadata

        self._move(update_schema_metadata(self._snapshot, values, replace=replace))
        return self.schema_metadata

    def update_field_metadata(
        self, field_updates: Mapping[str, Mapping[str, str | None]], *, replace: bool = False
    ) -> None:
        """Edit the metadata of fields, given by their paths, as :meth:`update_config` does the config."""
        from lancelet.editing.metadata import update_field_metadata

        self._move(update_field_metadata(self._snapshot, field_updates, replace=replace))

    def replace_schema_metadata(self, new_metadata: Mapping[str, str]) -> None:
        """Deprecated in favour of :meth:`update_schema_metadata`."""
        warnings.warn(
            "replace_schema_metadata is deprecated, use update_schema_metadata(metadata, replace=True)",
            DeprecationWarning,
            stacklevel=2,
        )
        self.update_schema_metadata(new_metadata, replace=True)

    def replace_field_metadata(self, field_name: str, new_metadata: Mapping[str, str]) -> None:
        """Deprecated in favour of :meth:`update_field_metadata`."""
        warnings.warn(
            "replace_field_metadata is deprecated, use update_field_metadata({path: metadata}, replace=True)",
            DeprecationWarning,
            stacklevel=2,
        )
        self.update_field_metadata({field_name: new_metadata}, replace=True)
