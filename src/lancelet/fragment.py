"""Fragments: reading the rows of one, and writing new ones without committing them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import numpy as np
import pyarrow as pa

from lancelet._api.scan_options import FRAGMENT_DEFAULTS, FRAGMENT_POSITIONS, FragmentOptions, set_options
from lancelet._api.scanner import Columns, LanceScanner, ScannerBuilder
from lancelet._naming.html import facts_html
from lancelet._naming.keywords import by_name, refuse_former, refuse_unknown, takes
from lancelet._naming.lazy import lazy_names
from lancelet.errors import InvalidInput, InvalidType, NotSupported, RowNotFound, UnfitData
from lancelet.execution.plan import ScanPlan, plan_take
from lancelet.execution.row_numbers import row_numbers
from lancelet.execution.scan import Scan
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID
from lancelet.runtime import compute as pc
from lancelet.schema import LanceSchema
from lancelet.table.rows.addresses import MAX_ROWS
from lancelet.writing.defaults import MAX_BYTES_PER_FILE as DEFAULT_MAX_BYTES_PER_FILE
from lancelet.writing.keywords import DEFAULTS, FragmentKeywords

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

    from lancelet._api.fragment_metadata import (
        DataFile,
        DeletionFile,
        FragmentMetadata,
        RowDatasetVersionMeta,
        RowIdMeta,
    )
    from lancelet._api.protocols import Scanned
    from lancelet._api.row_id_sequence import RowIdSequence
    from lancelet._api.transaction import Transaction
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.schema import LanceSchema
    from lancelet.table.manifest.fragment import Fragment

__all__ = [
    "DEFAULT_MAX_BYTES_PER_FILE",
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "LanceFragment",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "write_fragments",
]


__getattr__ = lazy_names(
    __name__,
    {
        "lancelet.udf": ("BatchUDF",),
        "lancelet.bitmap": ("Bitmap",),
        "lancelet.progress": ("FragmentWriteProgress", "NoopFragmentWriteProgress"),
        "lancelet._api.fragment_metadata": (
            "DataFile",
            "DeletionFile",
            "FragmentMetadata",
            "RowDatasetVersionMeta",
            "RowIdMeta",
        ),
        "lancelet._api.row_id_sequence": ("RowIdSequence",),
    },
)


class LanceFragment:
    """One fragment of a dataset.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": range(10)}, "memory://docs/fragment", max_rows_per_file=6)
    >>> [(fragment.fragment_id, fragment.count_rows()) for fragment in dataset.get_fragments()]
    [(0, 6), (1, 4)]
    >>> dataset.get_fragment(1).to_table(filter="id > 7")["id"].to_pylist()
    [8, 9]
    """

    def __init__(self, dataset: Scanned, fragment_id: int | None, *, position: int | None = None) -> None:
        fragments = dataset.table.snapshot.manifest.fragments
        if position is None:
            if fragment_id is None:
                raise InvalidInput("the id of the fragment is missing")
            position = fragments.position(fragment_id)
            if position is None:
                raise InvalidInput(f"Fragment id does not exist: {fragment_id}")
        self._ds = dataset
        self._position = position
        # Of the version at hand, whatever becomes of the dataset; it is looked into when that is needed.
        self._fragments = fragments

    @classmethod
    def _all(cls, dataset: Scanned) -> list[LanceFragment]:
        """Those of a dataset, which may be very many."""
        fragments, found = dataset.table.snapshot.manifest.fragments, []
        for position in range(len(fragments)):
            one = cls.__new__(cls)
            one._ds, one._position, one._fragments = dataset, position, fragments
            found.append(one)
        return found

    @cached_property
    def _fragment(self) -> Fragment:
        return self._fragments[self._position]

    def _repr_html_(self) -> str:
        files = [file.path for file in self._fragment.files]
        facts = {"rows": self.count_rows(), "deleted": self.num_deletions, "files": ", ".join(files)}
        return facts_html(f"fragment {self.fragment_id}", facts)

    def __repr__(self) -> str:
        files = [file.path for file in self._fragment.files]
        deletions = self.deletion_file()
        tail = "" if deletions is None else f", deletion_file={deletions!r}"
        return f"LanceFileFragment(id={self.fragment_id}, data_files={files}{tail})"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._ds, self._position)

    @staticmethod
    def create(
        dataset_uri: str | os.PathLike[str],
        data: Any,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int | None = 1024,
        progress: Any = None,
        mode: str = "append",
        *,
        data_storage_version: str | None = None,
        use_legacy_format: bool | None = None,
        storage_options: Mapping[str, str] | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
        session: Any = None,
        **options: Any,
    ) -> FragmentMetadata:
        """Write rows into one new fragment, to be committed later; see :func:`write_fragments`."""
        from lancelet._api.row_writes import NumberedProgress

        written: list[FragmentMetadata] = write_fragments(
            data,
            dataset_uri,
            schema,
            mode=mode,
            max_rows_per_file=MAX_ROWS,
            max_bytes_per_file=2**63,
            max_rows_per_group=max_rows_per_group,
            progress=None if progress is None else NumberedProgress(progress, fragment_id or 0),
            data_storage_version=data_storage_version,
            use_legacy_format=use_legacy_format,
            storage_options=storage_options,
            namespace_client=namespace_client,
            table_id=table_id,
            session=session,
            **options,
        )
        if not written:
            raise UnfitData("there are no rows to write; a fragment has at least one")
        written[0].id = fragment_id or 0
        return written[0]

    def delete(self, predicate: str | pc.Expression) -> FragmentMetadata | None:
        """This fragment without the rows that match, to be committed later; None when no row is left."""
        from lancelet.editing.delete import delete_from_fragment

        left = delete_from_fragment(self._ds.table, self._fragment, predicate)
        return None if left is None else _described(left)

    def delete_rows(self, offsets: Iterable[int]) -> FragmentMetadata | None:
        """This fragment without some rows, given by their physical offsets, to be committed later.

        None when no row is left.
        """
        from lancelet.editing.delete import delete_offsets

        left = delete_offsets(self._ds.table, self._fragment, offsets)
        return None if left is None else _described(left)

    def merge_columns(
        self,
        value_func: object,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """This fragment with new columns, and the schema of the table with them.

        Both are for a ``LanceOperation.Merge`` of all fragments. The arguments are those of
        :meth:`lancelet.LanceDataset.add_columns`; functions cannot have a checkpoint here.
        """
        from lancelet.editing.columns.add import add_to_fragment
        from lancelet.editing.columns.sources import column_source

        source = column_source(value_func, columns, reader_schema, batch_size)
        if getattr(source, "checkpoint", None) is not None:
            raise InvalidInput("a function with a checkpoint file is for add_columns; fragments are checkpoints enough")
        fragment, schema = add_to_fragment(self._ds.table, self._position, source)
        return _described(fragment), LanceSchema(schema)

    def merge(
        self, data_obj: object, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """This fragment with the columns of other rows, found by a key, and the schema of the table with them.

        Both are for a ``LanceOperation.Merge`` of all fragments; see :meth:`lancelet.LanceDataset.merge`.
        """
        from lancelet.editing.columns.join import merge_into_fragment

        fragment, joined = merge_into_fragment(self._ds.table, self._position, data_obj, left_on, right_on, schema)
        return _described(fragment), LanceSchema(joined)

    def update_columns(
        self,
        data_obj: object,
        left_on: str = ROW_ID,
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> tuple[FragmentMetadata, list[int]] | tuple[FragmentMetadata, list[int], bytes]:
        """This fragment with new values in some columns, and the ids of their fields, to be committed later.

        They are for a ``LanceOperation.Update``. Rows without a match keep their values; of other rows with the
        same key, the last counts.

        Parameters
        ----------
        data_obj
            Other rows: a key, and the columns to replace.
        left_on, right_on
            The key here and there; ``right_on`` is the same name by default.
        schema
            The columns of a stream that does not tell them.
        with_offsets
            Return also which rows have new values, as a Roaring bitmap for ``updated_fragment_offsets``.
        """
        from lancelet.editing.columns.join import update_fragment_columns

        fragment, fields, rows = update_fragment_columns(
            self._ds.table, self._position, data_obj, left_on, right_on, schema
        )
        updated = _described(fragment), list(fields)
        return (*updated, rows) if with_offsets else updated

    @staticmethod
    def create_from_file(filename: str, dataset: Scanned, fragment_id: int) -> FragmentMetadata:
        """The fragment that a data file of the table makes, for a file that no version refers to."""
        from lancelet.writing.adopt import adopted_fragment

        return _described(adopted_fragment(dataset.table.snapshot, filename, fragment_id))

    @property
    def _reader(self) -> FragmentReader:
        return self._ds.table.reader(self._position)

    @property
    def fragment_id(self) -> int:
        """Its number in the table, which no other fragment gets."""
        return self._fragment.id

    @property
    def metadata(self) -> FragmentMetadata:
        """What the manifest says of it, for operations that are committed."""
        return _described(
            self._fragment,
            self.physical_rows if self._fragment.physical_rows is None else None,
            self.num_deletions if self._fragment.num_deletions is None else None,
        )

    @property
    def schema(self) -> pa.Schema:
        """The table's schema."""
        return self._ds.schema

    @property
    def physical_rows(self) -> int:
        """Rows in the files, deleted ones included."""
        return self._reader.physical_rows

    @property
    def num_deletions(self) -> int:
        """How many of its rows are deleted."""
        known = self._fragment.num_deletions
        return len(self._reader.deletions) if known is None else known

    @property
    def num_rows(self) -> int:
        """Live rows."""
        return self._reader.num_rows

    def data_files(self) -> list[DataFile]:
        """Its data files; each holds some of the columns."""
        from lancelet._api.fragment_metadata import data_file

        return [data_file(file) for file in self._fragment.files]

    def deletion_file(self) -> str | None:
        """Path of the deletion file, relative to the table."""
        stored = self._fragment.deletion_file
        return None if stored is None else stored.path(self.fragment_id)

    @property
    def physical_schema(self) -> NoReturn:
        """Not supported: each data file has a schema of its own."""
        raise NotSupported("a fragment has no physical schema; each of its data files has one")

    @property
    def partition_expression(self) -> NoReturn:
        """Not supported: tables have no partitions."""
        raise NotSupported("Lance tables are not partitioned, so a fragment has no partition expression")

    def count_rows(self, filter: str | pc.Expression | None = None) -> int:  # noqa: A002
        """Live rows, or those that pass a filter."""
        return self._builder().filter(filter).to_scanner().count_rows() if filter is not None else self.num_rows

    @takes(FragmentOptions, defaults=FRAGMENT_DEFAULTS)
    def scanner(self, **options: Unpack[FragmentOptions]) -> LanceScanner:
        """A scan of this fragment; see :meth:`lancelet.LanceDataset.scanner` for the options."""
        return self._builder().apply_defaults(set_options(options, FragmentOptions)).to_scanner()

    def _builder(self) -> ScannerBuilder:
        return ScannerBuilder(self._ds).with_fragments([self])

    @takes(FragmentOptions, FRAGMENT_POSITIONS, positions=FRAGMENT_POSITIONS, defaults=FRAGMENT_DEFAULTS, others=True)
    def to_table(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        *more: object,
        **options: object,
    ) -> pa.Table:
        """The fragment's live rows; the options are those of :meth:`scanner`."""
        named = by_name("to_table", FRAGMENT_POSITIONS, more, options)
        return self.scanner(columns=columns, filter=filter, limit=limit, offset=offset, **named).to_table()

    @takes(FragmentOptions, defaults=FRAGMENT_DEFAULTS)
    def to_batches(self, **options: Unpack[FragmentOptions]) -> Iterator[pa.RecordBatch]:
        """The fragment's live rows as they come; the options are those of :meth:`scanner`."""
        return self.scanner(**options).to_batches()

    def to_pandas(
        self,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_mode: str = "lazy",
        order_by: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> pd.DataFrame:
        """The fragment's live rows as a data frame; ``kwargs`` go to :meth:`pyarrow.Table.to_pandas`."""
        scanner = self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            order_by=order_by,
        )
        return scanner.to_pandas(blob_mode=blob_mode, **kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """The first live rows."""
        return self.scanner(limit=num_rows).to_table()

    def take(self, indices: object, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their position among the fragment's live rows, in the order given."""
        return self.open_session(columns).take(indices)

    def open_session(
        self, columns: Sequence[str] | None = None, with_row_address: bool | None = None
    ) -> FragmentSession:
        """Prepare many takes of the same columns."""
        schema = self._ds.table.snapshot.manifest.schema
        if columns is not None and (isinstance(columns, (str, dict)) or not isinstance(columns, Sequence)):
            raise InvalidType(f"columns is a list of names, not {columns!r}")
        if with_row_address:
            columns = [*(schema.names if columns is None else columns), ROW_ADDRESS]
        return FragmentSession(self, plan_take(schema, columns))

    def validate(self) -> None:
        """Check that files, row counts and deleted rows fit together; raises what is wrong."""
        reader = self._reader
        for file in reader.files:
            if file.reader.num_rows != reader.physical_rows:
                raise InvalidInput(f"{file.source.path} has {file.reader.num_rows} rows, not {reader.physical_rows}")
        _ = reader.deletions, reader.row_ids


def _restored(dataset: Scanned, position: int) -> LanceFragment:
    return LanceFragment(dataset, None, position=position)


class FragmentSession:
    """Takes of the same columns from one fragment."""

    def __init__(self, fragment: LanceFragment, plan: ScanPlan) -> None:
        self._fragment = fragment
        self._scan = Scan(fragment._ds.table, plan)

    def take(self, indices: object) -> pa.Table:
        """Rows by their position among the fragment's live rows, in the order given."""
        rows = row_numbers(indices)
        number, position = self._fragment.fragment_id, self._fragment._position
        reader = self._scan.table.reader(position)
        if len(rows) and int(rows.max()) >= reader.num_rows:
            raise RowNotFound(f"row {int(rows.max())} is out of range: fragment {number} has {reader.num_rows} rows")
        return self._scan.take(np.full(len(rows), position, np.int64), reader.physical(rows))


@overload
def write_fragments(
    data: object,
    dataset_uri: object,
    schema: pa.Schema | None = None,
    *,
    return_transaction: Literal[True],
    mode: str = "append",
    progress: object = None,
    storage_options: Mapping[str, str] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    namespace_client: object = None,
    table_id: Sequence[str] | None = None,
    session: object = None,
    storage_options_provider: None = None,
    **options: Unpack[FragmentKeywords],
) -> Transaction: ...
@overload
def write_fragments(
    data: object,
    dataset_uri: object,
    schema: pa.Schema | None = None,
    *,
    return_transaction: Literal[False] = False,
    mode: str = "append",
    progress: object = None,
    storage_options: Mapping[str, str] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    namespace_client: object = None,
    table_id: Sequence[str] | None = None,
    session: object = None,
    storage_options_provider: None = None,
    **options: Unpack[FragmentKeywords],
) -> list[FragmentMetadata]: ...
@takes(FragmentKeywords, defaults=DEFAULTS)
def write_fragments(
    data: object,
    dataset_uri: object,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: str = "append",
    progress: object = None,
    storage_options: Mapping[str, str] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    namespace_client: object = None,
    table_id: Sequence[str] | None = None,
    session: object = None,
    storage_options_provider: None = None,
    **options: Unpack[FragmentKeywords],
) -> list[FragmentMetadata] | Transaction:
    """Write rows into new fragments without committing them, so that many processes can write and one commits.

    Parameters
    ----------
    data, schema
        Rows, as for :func:`lancelet.write_dataset`.
    dataset_uri
        The table, by its uri or as a dataset.
    return_transaction
        Return a transaction for :meth:`lancelet.LanceDataset.commit` instead of the fragments.
    mode
        ``append`` fits the rows to the table; ``create`` and ``overwrite`` number the columns anew.
    max_rows_per_file, max_rows_per_group, max_bytes_per_file, data_cache_bytes, max_page_bytes, data_storage_version, \
    use_legacy_format, target_bases, target_all_bases, initial_bases, base_store_params, external_blob_mode, \
    allow_external_blob_outside_bases, progress, storage_options
        See :func:`lancelet.write_dataset`.
    enable_stable_row_ids
        Of a new table; it is the commit that makes one.
    namespace_client, table_id
        A ``LanceNamespace`` and the table's id in it: for storage options where none are given, and for the newest
        version where it makes them.
    session
        Without effect.
    storage_options_provider
        None: pylance had it once, and Ray still hands it over.

    Examples
    --------
    >>> from lancelet.fragment import write_fragments
    >>> [fragment.physical_rows for fragment in write_fragments({"x": [1, 2, 3]}, "memory://docs/fragments")]
    [3]
    """
    from lancelet._api.row_writes import write_new_fragments

    refuse_former("storage_options_provider", storage_options_provider, "namespace_client and table_id")
    from lancelet.writing.options import write_options

    refuse_unknown("write_fragments", options, FragmentKeywords)
    fragments, transaction = write_new_fragments(
        data,
        dataset_uri,
        schema,
        write_options(mode, **options),
        progress=progress,
        storage_options=storage_options,
        base_store_params=base_store_params,
        namespace_client=namespace_client,
        table_id=table_id,
    )
    return transaction if return_transaction else fragments


def _described(fragment: Fragment, rows: int | None = None, deleted: int | None = None) -> FragmentMetadata:
    """A fragment as users hold it, with counts that it does not know itself."""
    from lancelet._api.fragment_metadata import fragment_metadata

    return fragment_metadata(fragment, rows, deleted)
