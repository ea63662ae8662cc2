"""Indices as users ask for them: a kind by its name, one column, a callback; and as listings show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lancelet._api.conversion import shown_index, stored_index
from lancelet._api.index_descriptions import IndexConfig, SupportedDistributedIndices, describe_indices
from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.execution.open_indices import prewarm
from lancelet.index.kind import BuiltInStages, Stages
from lancelet.index.registry import kind_named
from lancelet.indexing.create import create_index, name_index
from lancelet.indexing.parts import build_part, commit_parts, merge_parts
from lancelet.indexing.staging import merge_staged, stage_part
from lancelet.progress import IndexProgress
from lancelet.runtime.steps import expect, is_watched, step

if TYPE_CHECKING:
    from lancelet._api.transaction import Index
    from lancelet.execution.table_reader import TableReader
    from lancelet.index.kind import Kind
    from lancelet.indexing.create import Watch
from lancelet.table.manifest.snapshot import Snapshot

_STAGE = "read rows"


def build_index(
    table: TableReader,
    column: str | list[str],
    index_type: object,
    name: str | None,
    options: Mapping[str, object],
    *,
    replace: bool,
    train: bool,
    fragment_ids: list[int] | None,
    uuid: str | None,
    progress: Callable[[IndexProgress], None] | None,
    named: Mapping[str, object],
) -> Snapshot:
    """Build an index over all rows, and commit it; see :meth:`lancelet.LanceDataset.create_scalar_index`.

    ``named`` are options that are arguments of their own, whatever the kind; what is None was not given.
    """
    kind, options = _choose_kind(index_type, options)
    for option, value in named.items():
        if value is not None and option in kind.named_options:
            options = {**options, option: value}
        elif value is not None and option != "format_version":
            raise InvalidType(f"{option} is an option of INVERTED indices, not of {kind.name}")
    if fragment_ids is not None and isinstance(kind, BuiltInStages):
        names = _columns(column, kind)
        with _Reported(progress) as watch:
            stage_part(table, names, kind, name or f"{'_'.join(names)}_idx", fragment_ids, options, uuid, watch)
        return table.snapshot
    if fragment_ids is not None:
        raise InvalidInput(
            f'{kind.name} distributed indexing uses create_index_uncommitted(..., index_type="{kind.name}", '
            "fragment_ids=...)"
        )
    names = _columns(column, kind)
    if kind.learns:
        stages = _Staged(progress)
        return create_index(
            table, names, kind, name=name, replace=replace, train=train, options=options, uuid=uuid, stages=stages
        )
    with _Reported(progress) as watch:
        return create_index(
            table, names, kind, name=name, replace=replace, train=train, options=options, uuid=uuid, watch=watch
        )


def build_index_part(
    table: TableReader,
    column: str | list[str],
    index_type: object,
    name: str | None,
    fragment_ids: list[int] | None,
    options: Mapping[str, object],
    *,
    replace: bool,
    train: bool,
    uuid: str | None,
    progress: Callable[[IndexProgress], None] | None,
) -> Index:
    """Build a part of an index over some fragments, without committing it; without ``train`` it covers none of them."""
    if fragment_ids is None:
        raise InvalidInput("create_index_uncommitted requires fragment_ids for distributed index build")
    kind, options = _choose_kind(index_type, options)
    names = _columns(column, kind)
    name = name or f"{'_'.join(names)}_idx"
    name_index(table, names, kind, name, replace)
    if not train:
        fragment_ids = []
    if kind.learns:
        stages = _Staged(progress)
        part = build_part(table, names, kind, name, fragment_ids, options=options, uuid=uuid, stages=stages)
    else:
        with _Reported(progress) as watch:
            part = build_part(table, names, kind, name, fragment_ids, options=options, uuid=uuid, watch=watch)
    return shown_index(part, table.snapshot.manifest.path)


def merge_index_parts(table: TableReader, parts: Sequence[Index]) -> Index:
    """One part out of several."""
    merged = merge_parts(table, [stored_index(part) for part in parts])
    return shown_index(merged, table.snapshot.manifest.path)


def merge_index_stages(table: TableReader, uuid: str, index_type: str) -> None:
    """A segment out of parts that wait in its folder."""
    known = [member.name for member in SupportedDistributedIndices]
    if str(index_type).upper() not in known:
        raise NotSupported(f"Only {', '.join(known)} are supported, received {index_type}")
    kind = kind_named(index_type)
    if not isinstance(kind, BuiltInStages):
        raise InvalidInput(
            f"{kind.name} distributed indexing does not use merge_index_metadata; build segments with "
            "create_index_uncommitted(...), merge them with merge_existing_index_segments(...), and commit with "
            "commit_existing_index_segments(...)"
        )
    merge_staged(table, kind, uuid)


def commit_index_parts(table: TableReader, name: str, column: str, parts: Sequence[Index]) -> Snapshot:
    """Make parts an index."""
    return commit_parts(table, name, column, [stored_index(part) for part in parts])


def warm_index(table: TableReader, name: str, segments: Iterable[str | UUID] | None) -> None:
    """Read an index, or some of its segments, into memory."""
    prewarm(table, name, None if segments is None else {UUID(str(segment)) for segment in segments})


def list_segments(table: TableReader) -> list[dict[str, Any]]:
    """All segments of all indices, as :meth:`lancelet.LanceDataset.list_indices` shows them."""
    return [
        {
            "name": index.name,
            "type": index.index_type,
            "uuid": segment.uuid,
            "fields": index.field_names,
            "version": segment.dataset_version_at_last_update,
            "fragment_ids": segment.fragment_ids,
            "base_id": segment.base_id,
        }
        for index in describe_indices(table)
        for segment in index.segments
    ]


def _columns(column: str | list[str], kind: Kind) -> list[str]:
    """The names of the columns of an index, of which most kinds have one."""
    names = list(column) if isinstance(column, (list, tuple)) else [column]
    if not 1 <= len(names) <= kind.most_columns:
        raise NotSupported("Scalar indices currently only support a single column")
    for name in names:
        if not isinstance(name, str):
            raise InvalidType(f"a column is named by a text, not by {name!r}")
    return names


def _choose_kind(index_type: Any, options: Mapping[str, Any]) -> tuple[Kind, Mapping[str, Any]]:
    if isinstance(index_type, IndexConfig):
        index_type, options = index_type.index_type, {**index_type.parameters, **options}
    if not isinstance(index_type, str):
        raise InvalidType(f"index_type is a text or an IndexConfig, not {index_type!r}")
    kind = kind_named(index_type).chosen(options)
    return kind, kind.options_of(index_type, options)


class _Reported:
    """Tells a callback about the beginning, the rows and the end of a build."""

    def __init__(self, callback: Callable[[IndexProgress], None] | None) -> None:
        self._callback = callback
        self._seen = 0

    def __enter__(self) -> Watch | None:
        if self._callback is None and not is_watched():
            return None
        self._tell("start")
        return lambda done, total: self._tell("progress", done, total)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            self._tell("complete")

    def _tell(self, event: Any, done: int | None = None, total: int | None = None) -> None:
        if event == "start":
            self._seen = 0
        elif done is not None:
            if not self._seen and total is not None:
                expect(f"index: {_STAGE}", total)
            step(f"index: {_STAGE}", done - self._seen)
            self._seen = done
        if self._callback is not None:
            self._callback(IndexProgress(event, _STAGE, done, total, "rows"))


class _Staged(Stages):
    """Tells a callback about each stage of a build."""

    def __init__(self, callback: Callable[[IndexProgress], None] | None) -> None:
        self._callback = callback
        self._stage: tuple[str, int | None, str] = ("", None, "")
        self._done = 0

    def begin(self, name: str, total: int | None, unit: str) -> None:
        self._stage, self._done = (name, total, unit), 0
        expect(f"index: {name}", total or 0)
        self._tell("start")

    def advance(self, done: int) -> None:
        step(f"index: {self._stage[0]}", done - self._done)
        self._done = done
        self._tell("progress")

    def complete(self) -> None:
        self._tell("complete")

    def _tell(self, event: Any) -> None:
        if self._callback is not None:
            name, total, unit = self._stage
            self._callback(IndexProgress(event, name, self._done, total, unit))
