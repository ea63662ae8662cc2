"""Blobs that are given by URI: kept as references, or read and stored with the table (spec encodings.md 7.5).

A reference into one of the table's base paths (those that are no table's root)
is stored relative to it, with the id of the base path, and follows when the
base path moves. All others are absolute, and need the user's leave.

What goes on to the file writer is ``struct<data, uri, position, size, blob_id>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import UnfitData
from lancelet.execution.threads import ordered_map
from lancelet.format.blob_types import INLINE, PREPARED
from lancelet.format.extensions import storage_of
from lancelet.format.schema import Field, Schema
from lancelet.runtime import compute as pc
from lancelet.writing.bases import plain_path

if TYPE_CHECKING:
    from lancelet.store import ByteSource, Store
    from lancelet.table.manifest.paths import Places

_READS_AT_ONCE = 8
_STEP_BYTES = 64 << 20
"""How many bytes are read before they are handed on."""
_ABSOLUTE = r"^(?:[A-Za-z][A-Za-z0-9+.-]*://|/)"
_DOTTED = r"(?:^|/)\.{0,2}(?:/|$)"
_FILE = "file://"


@dataclass(frozen=True, slots=True)
class BlobRules:
    """What becomes of a URI."""

    places: Places
    ingest: bool = False
    """Read what it names, and store the bytes."""
    anywhere: bool = False
    """Keep it even when it is below none of the table's base paths."""

    def prefixes(self) -> list[tuple[int, str]]:
        """Base paths that references may go to, and their ids; the longest come last. Id 0 stands for no base path."""
        bases = [base for base in self.places.bases.values() if base.id and not base.is_dataset_root]
        return sorted(((base.id, plain_path(base.path)) for base in bases), key=lambda entry: len(entry[1]))


def stored_blobs(batches: Iterator[pa.RecordBatch], schema: Schema, rules: BlobRules) -> Iterator[pa.RecordBatch]:
    """The batches with their blobs as the file writer takes them; ingested ones come in smaller batches."""
    fields = {field.name: field for field in schema.fields if any(node.is_blob_v2 for node in field.walk())}
    if not fields:
        yield from batches
        return
    for batch in batches:
        _mapped(batch, fields, _checked)
        if rules.ingest:
            yield from _ingested(batch, fields, rules)
        else:
            yield _mapped(batch, fields, lambda column, field: _referred(column, field, rules))


def _mapped(
    batch: pa.RecordBatch, fields: dict[str, Field], change: Callable[[pa.StructArray, Field], pa.Array]
) -> pa.RecordBatch:
    """The batch with its blobs changed, wherever they are nested in structs."""

    def changed(column: pa.Array, field: Field) -> pa.Array:
        array = storage_of(column)
        if field.is_blob_v2:
            return change(array, field) if pa.types.is_struct(array.type) else column
        if not pa.types.is_struct(array.type) or not any(node.is_blob_v2 for node in field.walk()):
            return column
        inner = array.flatten() if array.null_count else [array.field(at) for at in range(len(field.children))]
        children = [changed(column, child) for column, child in zip(inner, field.children, strict=True)]
        members = [pa.field(child.name, made.type) for child, made in zip(field.children, children, strict=True)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=members, mask=mask)

    columns = [
        changed(column, fields[name]) if name in fields else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _checked(array: pa.StructArray, field: Field) -> pa.StructArray:
    """Refuse values that say nothing, or two things."""
    if array.type == PREPARED:
        kinds = array.field("kind")
        if pc.any(pc.not_equal(kinds, INLINE)).as_py():
            raise UnfitData(
                f"column '{field.name}' has prepared blobs, which belong beside one data file: write that file with "
                "LanceFileSession.open_writer, and commit it"
            )
        return array
    flags = {name: _given(array, name) for name in ("data", "uri", "position", "size")}
    present = array.is_valid()
    for wrong, text in (
        (pc.equal(flags["data"], flags["uri"]), "must set exactly one of `data` and `uri`"),
        (pc.not_equal(flags["position"], flags["size"]), "must set both `position` and `size`, or neither"),
        (pc.and_not(flags["position"], flags["uri"]), "sets `position` and `size`, which are for a `uri`"),
        (_are_zero(array), "has a range of a `uri` whose `size` is not greater than zero"),
    ):
        rows = pc.indices_nonzero(pc.and_(present, wrong))
        if len(rows):
            raise UnfitData(f"column '{field.name}': the blob in row {rows[0].as_py()} of a batch {text}")
    return array


def _given(array: pa.StructArray, name: str) -> pa.Array:
    if array.type.get_field_index(name) < 0:
        return pa.array(np.zeros(len(array), np.bool_))
    return array.field(name).is_valid()


def _are_zero(array: pa.StructArray) -> pa.Array:
    if array.type.get_field_index("size") < 0:
        return pa.array(np.zeros(len(array), np.bool_))
    return pc.equal(array.field("size"), 0).fill_null(False)


def _has_uris(array: pa.StructArray) -> bool:
    return bool(array.type.get_field_index("uri") >= 0 and array.field("uri").null_count < len(array))


class _Reference(NamedTuple):
    """Bytes of an object somewhere; size 0 is all from the position on."""

    uri: str
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class _Values:
    """The parts of a column of blobs."""

    outer: pa.StructArray
    data: pa.Array
    uri: pa.Array
    """Null where there is data."""
    position: pa.Array
    size: pa.Array
    """0: the whole object."""

    @classmethod
    def of(cls, array: pa.StructArray) -> _Values:
        def numbers(name: str) -> pa.Array:
            if array.type.get_field_index(name) < 0:
                return pa.array(np.zeros(len(array), np.uint64))
            return array.field(name).cast(pa.uint64()).fill_null(0)

        data = array.field("data").cast(pa.large_binary())
        unused = pc.or_(data.is_valid(), array.is_null())
        uri = pc.if_else(unused, pa.scalar(None, pa.string()), array.field("uri").cast(pa.string()))
        return cls(array, data, uri, numbers("position"), numbers("size"))

    def rows(self) -> npt.NDArray[np.int64]:
        """The rows with a URI."""
        return np.flatnonzero(self.uri.is_valid().to_numpy(zero_copy_only=False))

    def references(self, field: Field) -> list[_Reference]:
        """What the rows with a URI name."""
        rows = pa.array(self.rows())
        uris = self.uri.take(rows)
        _check_absolute(uris, field)
        parts = (uris.to_pylist(), *(part.take(rows).to_pylist() for part in (self.position, self.size)))
        return [_Reference(*reference) for reference in zip(*parts, strict=True)]

    def stored(self, data: pa.Array, uri: pa.Array, base: pa.Array | None = None) -> pa.StructArray:
        bases = pa.array(np.zeros(len(data), np.uint32)) if base is None else base
        parts = [data, uri, self.position, self.size, bases]
        mask = self.outer.is_null() if self.outer.null_count else None
        return pa.StructArray.from_arrays(parts, names=["data", "uri", "position", "size", "blob_id"], mask=mask)


def _referred(array: pa.StructArray, field: Field, rules: BlobRules) -> pa.StructArray:
    """The URIs as they are stored."""
    if array.type == PREPARED or not _has_uris(array):
        return array
    values = _Values.of(array)
    plain = _plain(values.uri)
    kept, base = values.uri, pa.array(np.zeros(len(array), np.uint32))
    for number, prefix in rules.prefixes():
        relative = pc.utf8_slice_codeunits(plain, start=len(prefix) + 1)
        inside = pc.and_(
            pc.starts_with(plain, f"{prefix}/"), pc.invert(pc.match_substring_regex(relative, _DOTTED))
        ).fill_null(False)
        kept = pc.if_else(inside, relative, kept)
        base = pc.if_else(inside, pa.scalar(number, pa.uint32()), base)
    outside = kept.filter(pc.and_(values.uri.is_valid(), pc.equal(base, 0)))
    _check_outside(outside, field, rules)
    for uri in outside.unique().to_pylist():
        rules.places.check_external(uri, f"a blob of column '{field.name}'")
    return values.stored(values.data, kept, base)


def _check_outside(uris: pa.Array, field: Field, rules: BlobRules) -> None:
    if len(uris) and not rules.anywhere:
        raise UnfitData(
            f"column '{field.name}' refers to the blob {uris[0].as_py()!r} outside of the table's base paths; give its "
            "bytes as 'data', read it with external_blob_mode='ingest', add a base path that it is below, or write "
            "with allow_external_blob_outside_bases=True"
        )
    _check_absolute(uris, field)


def _check_absolute(uris: pa.Array, field: Field) -> None:
    relative = uris.filter(pc.invert(pc.match_substring_regex(uris, _ABSOLUTE)))
    if len(relative):
        raise UnfitData(f"column '{field.name}' refers to the blob {relative[0].as_py()!r}, which is no absolute URI")


def _plain(uris: pa.Array) -> pa.Array:
    """URIs of local files as paths."""
    local = pc.starts_with(uris, _FILE).fill_null(False)
    if pc.any(pc.and_(local, pc.match_substring(uris, "%").fill_null(False))).as_py():
        # Escapes are rare, and Arrow does not know them.
        texts = [
            unquote(uri) if is_local else uri for uri, is_local in zip(uris.to_pylist(), local.to_pylist(), strict=True)
        ]
        uris = pa.array(texts, pa.string())
    return pc.if_else(local, pc.utf8_slice_codeunits(uris, start=len(_FILE)), uris)


def _ingested(batch: pa.RecordBatch, fields: dict[str, Field], rules: BlobRules) -> Iterator[pa.RecordBatch]:
    """The batch in steps, each with the bytes of its blobs."""
    sources = _Sources(rules)
    sizes = np.zeros(batch.num_rows, np.int64)

    def measure(array: pa.StructArray, field: Field) -> pa.Array:
        if array.type == PREPARED or not _has_uris(array):
            return array
        values = _Values.of(array)
        lengths = list(ordered_map(sources.length, values.references(field), _READS_AT_ONCE))
        np.add.at(sizes, values.rows(), np.array(lengths, np.int64))
        return array

    def read(array: pa.StructArray, field: Field) -> pa.Array:
        if array.type == PREPARED or not _has_uris(array):
            return array
        values = _Values.of(array)
        found = list(ordered_map(sources.read, values.references(field), _READS_AT_ONCE))
        data = pc.replace_with_mask(values.data, values.uri.is_valid(), pa.array(found, pa.large_binary()))
        whole = pa.array(np.zeros(len(array), np.uint64))
        return replace(values, position=whole, size=whole).stored(data, pa.nulls(len(array), pa.string()))

    _mapped(batch, fields, measure)
    for start, stop in _steps(sizes):
        yield _mapped(batch.slice(start, stop - start), fields, read)


def _steps(sizes: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of rows with about as many bytes as are read at once, or one row with more."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _STEP_BYTES, side="right")))
        yield start, stop
        start = stop


class _Sources:
    """The objects that URIs name, each opened once."""

    def __init__(self, rules: BlobRules) -> None:
        self._rules = rules
        self._opened: dict[str, ByteSource] = {}

    def length(self, reference: _Reference) -> int:
        return reference.size or max(self._open(reference.uri).size - reference.position, 0)

    def read(self, reference: _Reference) -> bytes:
        source = self._open(reference.uri)
        (found,) = source.read([(reference.position, self.length(reference))])
        return found.tobytes()

    def _open(self, uri: str) -> ByteSource:
        source = self._opened.get(uri)
        if source is None:
            store, path = self._place(uri)
            source = self._opened.setdefault(uri, store.open(path))
        return source

    def _place(self, uri: str) -> tuple[Store, str]:
        path = plain_path(uri)
        for number, prefix in reversed(self._rules.prefixes()):
            if path.startswith(f"{prefix}/"):
                return self._rules.places.data_folder(number).store, path[len(prefix) + 1 :]
        place = self._rules.places.external(uri)
        return place.store, place.path
