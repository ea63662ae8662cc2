"""A table whose columns have indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lancelet.editable import EditableTable
from lancelet.errors import InvalidInput, InvalidType, NotSupported

if TYPE_CHECKING:
    from typing_extensions import Self

    from lancelet._api.transaction import Index
    from lancelet.index.kind import Kind
    from lancelet.indexing.create import Watch
    from lancelet.progress import IndexProgress

_STAGE = "read rows"


class IndexedTable(EditableTable):
    """Creates, drops and looks at indices."""

    def create_scalar_index(
        self,
        column: str | list[str],
        index_type: Any,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        format_version: int | str | None = None,
        document_granularity: Any = None,
        **kwargs: Any,
    ) -> None:
        """Build an index over a column, and move to the version that has it. Filters use it from then on.

        Parameters
        ----------
        column
            A name, or the path of a field inside structs; several for kinds that are over more than one.
        index_type
            ``BTREE`` (values of all kinds), ``BITMAP`` (few different values), ``LABEL_LIST`` (lists of labels),
            ``ZONEMAP`` (values that come nearly in order), ``BLOOMFILTER`` (equality only, small) or ``NGRAM`` (parts of
            texts); or an :class:`lancelet.indices.IndexConfig`.
        name
            By default the column's, with ``_idx`` behind it.
        replace
            Whether an index of this name may be there already.
        train
            False makes an index that covers no rows yet; ``optimize.optimize_indices`` fills it.
        fragment_ids
            Refused: :meth:`create_index_uncommitted` builds over some fragments.
        index_uuid
            The name of the folder of its files; drawn by default.
        progress_callback
            Hears how many rows have been read.
        format_version, document_granularity
            For kinds that are not supported yet.
        kwargs
            Options of the kind: ``rows_per_zone``, ``number_of_items``, ``probability``.

        Examples
        --------
        >>> import lancelet
        >>> dataset = lancelet.write_dataset({"id": range(1000)}, "memory://docs/indexed")
        >>> dataset.create_scalar_index("id", "BTREE")
        >>> dataset.to_table(filter="id = 7").num_rows, dataset.describe_indices()[0].name
        (1, 'id_idx')
        """
        from lancelet.indexing.create import create_index

        kind, options = _kind(index_type, kwargs)
        if document_granularity is not None:
            raise InvalidType("document_granularity is an option of INVERTED indices, which are not supported yet")
        if fragment_ids is not None:
            raise InvalidInput(
                f'{kind.name} distributed indexing uses create_index_uncommitted(..., index_type="{kind.name}", '
                "fragment_ids=...)"
            )
        with _Reported(progress_callback) as watch:
            made = create_index(
                self._table,
                _columns(column, kind),
                kind,
                name=name,
                replace=replace,
                train=train,
                options=options,
                uuid=index_uuid,
                watch=watch,
            )
        self._move(made)

    def create_index(
        self, column: str | list[str], index_type: str, name: str | None = None, *args: Any, **kwargs: Any
    ) -> Self:
        """Build an index of any kind; see :meth:`create_scalar_index`. Vector indices are not supported yet."""
        if args:
            raise NotSupported("vector indices are not supported yet")
        kwargs.setdefault("replace", False)
        self.create_scalar_index(column, index_type, name, **kwargs)
        return self

    def create_index_uncommitted(
        self,
        column: str | list[str],
        index_type: Any,
        name: str | None = None,
        *,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        **kwargs: Any,
    ) -> Index:
        """Build an index over some fragments without committing it: a part for :meth:`commit_existing_index_segments`."""
        from lancelet._api.conversion import shown_index
        from lancelet.indexing.parts import build_part

        if fragment_ids is None:
            raise InvalidInput("create_index_uncommitted requires fragment_ids for distributed index build")
        kind, options = _kind(index_type, kwargs)
        chosen = _columns(column, kind)
        with _Reported(progress_callback) as watch:
            part = build_part(
                self._table,
                chosen,
                kind,
                name or f"{'_'.join(chosen)}_idx",
                fragment_ids,
                options=options,
                uuid=index_uuid,
                watch=watch,
            )
        return shown_index(part, self._snapshot.manifest.path)

    def merge_existing_index_segments(self, segments: Sequence[Index]) -> Index:
        """One part out of several, over the fragments of all of them."""
        from lancelet._api.conversion import shown_index, stored_index
        from lancelet.indexing.parts import merge_parts

        merged = merge_parts(self._table, [stored_index(segment) for segment in segments])
        return shown_index(merged, self._snapshot.manifest.path)

    def commit_existing_index_segments(self, index_name: str, column: str, segments: Sequence[Index]) -> Self:
        """Make parts an index, and move to the version that has it."""
        from lancelet._api.conversion import stored_index
        from lancelet.indexing.parts import commit_parts

        parts = [stored_index(segment) for segment in segments]
        self._move(commit_parts(self._table, index_name, column, parts))
        return self

    def drop_index(self, name: str) -> None:
        """Remove an index by its name, and move to the version without it. Its files stay until a cleanup."""
        from lancelet.indexing.create import drop_index

        self._move(drop_index(self._table, name))

    def prewarm_index(
        self, name: str, *, with_position: bool = False, index_segments: Iterable[str | UUID] | None = None
    ) -> None:
        """Read an index into memory now, so that filters do not wait for it; as much of it as the index cache may hold.

        Parameters
        ----------
        name
            The index.
        with_position
            Only for kinds that are not supported yet.
        index_segments
            Some of its segments; all by default.
        """
        from lancelet.execution.open_indices import prewarm  # type: ignore[import-not-found,unused-ignore]

        wanted = None if index_segments is None else {UUID(str(segment)) for segment in index_segments}
        prewarm(self._table, name, wanted)


def _columns(column: str | list[str], kind: Kind) -> list[str]:
    """The names of the columns of an index, of which most kinds have one."""
    names = list(column) if isinstance(column, (list, tuple)) else [column]
    if not 1 <= len(names) <= kind.most_columns:
        raise NotSupported("Scalar indices currently only support a single column")
    for name in names:
        if not isinstance(name, str):
            raise InvalidType(f"a column is named by a text, not by {name!r}")
    return names


def _kind(index_type: Any, options: dict[str, Any]) -> tuple[Kind, dict[str, Any]]:
    from lancelet.index.registry import kind_named
    from lancelet.indices import IndexConfig

    if isinstance(index_type, IndexConfig):
        index_type, options = index_type.index_type, {**index_type.parameters, **options}
    if not isinstance(index_type, str):
        raise InvalidType(f"index_type is a text or an IndexConfig, not {index_type!r}")
    return kind_named(index_type), options


class _Reported:
    """Tells a callback about the beginning, the rows and the end of a build."""

    def __init__(self, callback: Callable[[IndexProgress], None] | None) -> None:
        self._callback = callback

    def __enter__(self) -> Watch | None:
        if self._callback is None:
            return None
        self._tell("start")
        return lambda done, total: self._tell("progress", done, total)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None and self._callback is not None:
            self._tell("complete")

    def _tell(self, event: Any, done: int | None = None, total: int | None = None) -> None:
        from lancelet.progress import IndexProgress

        assert self._callback is not None
        self._callback(IndexProgress(event, _STAGE, done, total, "rows"))
