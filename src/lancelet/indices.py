"""Indices as a dataset describes them, from the manifest alone.

The messages that hold an index's parameters are read field by field here: only
a few of their fields are shown (spec indices.md, chapters 10.1 and 14.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from lancelet.bitmap import Bitmap
from lancelet.errors import CorruptFile, IndexNotFound, InvalidType, LanceletError
from lancelet.file.container import Container
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.segments import indexed_field, open_segment, usable_kind
from lancelet.index.vector_statistics import FILE as VECTOR_FILE
from lancelet.index.vector_statistics import vector_statistics
from lancelet.index.wire import read_fields

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field
    from lancelet.table.manifest.snapshot import Snapshot

_VECTOR = "VectorIndexDetails"
_INVERTED = "InvertedIndexDetails"
_METRICS = ("L2", "COSINE", "DOT", "HAMMING")
_COMPRESSIONS = {4: "PQ", 5: "SQ", 6: "RQ"}
_FLAT = "FLAT"
_OLD_FILES = {
    "page_lookup.lance": "BTree",
    "bitmap_page_lookup.lance": "Bitmap",
    "ngram_postings.lance": "NGram",
    "tokens.lance": "Inverted",
    "metadata.lance": "Inverted",
}
"""By these the kinds of entries without details are known."""


@dataclass
class IndexConfig:
    """A kind of index and its options."""

    index_type: str
    parameters: dict[str, Any]


class IndexInformation(TypedDict):
    """A segment as ``list_indices`` shows it."""

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: Bitmap
    base_id: int | None


class SupportedDistributedIndices(str, Enum):
    """Kinds whose parts ``merge_index_metadata`` of pylance can put together."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"
    IVF_SQ = "IVF_SQ"
    VECTOR = "VECTOR"


@dataclass(frozen=True)
class IndexSegmentDescription:
    """One segment of an index."""

    uuid: str
    dataset_version_at_last_update: int
    fragment_ids: Bitmap
    index_version: int
    created_at: datetime | None
    size_bytes: int | None
    base_id: int | None
    covering_fields: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class IndexDescription:
    """An index: all of its segments together."""

    name: str
    type_url: str
    index_type: str
    num_rows_indexed: int
    fields: list[int]
    field_names: list[str]
    segments: list[IndexSegmentDescription]
    details: dict[str, Any]
    total_size_bytes: int | None


def remap_row_addresses(snapshot: Snapshot, addresses: Any) -> pa.Array | None:
    """Present addresses of rows that compactions may have moved; null for rows that are gone.

    None when the version remembers no compaction.
    """
    if not isinstance(addresses, pa.Array) or addresses.type != pa.uint64():
        raise InvalidType(f"addresses are an array of uint64, not {getattr(addresses, 'type', type(addresses))}")
    from lancelet.index.fragment_reuse import FragmentReuse

    reuse = FragmentReuse.of(snapshot)
    if reuse is None:
        return None
    found, kept = reuse.follow(addresses.fill_null(0).to_numpy())
    return pa.array(found, mask=~kept | addresses.is_null().to_numpy(zero_copy_only=False))


def describe_indices(table: TableReader) -> list[IndexDescription]:
    """All indices by name."""
    by_name: dict[str, list[IndexMetadata]] = {}
    for segment in read_indices(table.snapshot.manifest):
        by_name.setdefault(segment.name, []).append(segment)
    return [_describe(table, by_name[name]) for name in sorted(by_name)]


def index_statistics(table: TableReader, name: str) -> dict[str, Any]:
    """Rows and fragments with and without an index, and what its segments tell of themselves."""
    segments = [segment for segment in read_indices(table.snapshot.manifest) if segment.name == name]
    if not segments:
        raise IndexNotFound(f'Index "{name}" not found in version {table.snapshot.version} of {table.snapshot.uri}')
    live = table.snapshot.manifest.fragments.ids.tolist()
    covered = set().union(*(segment.covers(live) for segment in segments))
    per_segment = [_rows(table, segment.covers(live)) for segment in segments]
    indexed = _rows(table, covered)
    shown = [_segment_statistics(table, segment) for segment in segments]
    times = [segment.created_at for segment in segments if segment.created_at is not None]
    return {
        "index_type": _kind(table, segments[0]),
        "name": name,
        "num_indices": len(segments),
        "num_segments": len(segments),
        "indices": shown,
        "segments": shown,
        "num_indexed_fragments": len(covered),
        "num_indexed_rows": indexed,
        "num_unindexed_fragments": len(live) - len(covered),
        "num_unindexed_rows": table.num_rows - indexed,
        "num_indexed_rows_per_delta": per_segment,
        "updated_at_timestamp_ms": round(max(times).timestamp() * 1000) if times else None,
    }


def _segment_statistics(table: TableReader, segment: IndexMetadata) -> dict[str, Any]:
    """What the files of a segment tell; of kinds that we do not know, only which one it is."""
    if usable_kind(table.snapshot, segment) is None:
        kind = _kind(table, segment)
        is_vector = segment.type_name == _VECTOR or kind.startswith("IVF")
        return vector_statistics(table.snapshot, segment, kind) if is_vector else {"uuid": str(segment.uuid)}
    dtype = indexed_field(table.snapshot, segment).arrow_field.type
    return dict(open_segment(table.snapshot, segment, dtype).statistics())


def _describe(table: TableReader, segments: Sequence[IndexMetadata]) -> IndexDescription:
    first = segments[0]
    names = {node.id: path for path, node in _named(table)}
    live = table.snapshot.manifest.fragments.ids.tolist()
    covered = set().union(*(segment.covers(live) for segment in segments))
    shown = [
        IndexSegmentDescription(
            str(segment.uuid),
            segment.dataset_version,
            Bitmap(segment.fragment_ids or ()),
            segment.index_version or 0,
            segment.created_at,
            _size(segment),
            segment.base_id,
            list(segment.covering_fields),
        )
        for segment in segments
    ]
    sizes = [segment.size_bytes for segment in shown]
    return IndexDescription(
        first.name,
        first.type_url,
        _kind(table, first),
        _rows(table, covered),
        list(first.fields),
        [names.get(number, str(number)) for number in first.fields],
        shown,
        _details(first, table.snapshot.manifest.path),
        None if None in sizes else sum(size or 0 for size in sizes),
    )


def _named(table: TableReader) -> Iterator[tuple[str, Field]]:
    """All fields with their paths, in which names with dots or backticks stand between backticks."""

    def below(prefix: str, fields: Iterable[Field]) -> Iterator[tuple[str, Field]]:
        for node in fields:
            name = "`" + node.name.replace("`", "``") + "`" if prefix and {".", "`"} & set(node.name) else node.name
            yield prefix + name, node
            yield from below(f"{prefix}{name}.", node.children)

    return below("", table.snapshot.manifest.schema.fields)


def _rows(table: TableReader, fragment_ids: Any) -> int:
    """Live rows of some fragments."""
    wanted = set(fragment_ids)
    ids = table.snapshot.manifest.fragments.ids.tolist()
    return sum(rows for number, rows in zip(ids, table.row_counts.tolist(), strict=True) if number in wanted)


def _size(segment: IndexMetadata) -> int | None:
    return sum(file.size for file in segment.files) if segment.files else None


def _kind(table: TableReader, segment: IndexMetadata) -> str:
    """The kind of an index by its usual name, for example ``BTree`` or ``IVF_PQ``."""
    if not segment.type_url:
        return _old_kind(table, segment)
    if segment.type_name != _VECTOR:
        return segment.type_name.removesuffix("IndexDetails") or "Unknown"
    found = dict(read_fields(segment.details, table.snapshot.manifest.path))
    if not found:
        return _vector_kind(table, segment)
    parts = ["IVF", "HNSW"] if 3 in found else ["IVF"]
    return "_".join([*parts, next((name for number, name in _COMPRESSIONS.items() if number in found), _FLAT)])


def _old_kind(table: TableReader, segment: IndexMetadata) -> str:
    """The oldest entries do not tell their kind; their files do."""
    names = {file.path for file in segment.files}
    if not names:
        folder = table.snapshot.places.index_file(str(segment.uuid), VECTOR_FILE, segment.base_id)
        names = set(folder.store.list_names(folder.path.rpartition("/")[0]))
    if VECTOR_FILE in names:
        return _vector_kind(table, segment)
    return next((kind for name, kind in _OLD_FILES.items() if name in names), "Unknown")


def _vector_kind(table: TableReader, segment: IndexMetadata) -> str:
    """Indices without parameters in the manifest name their kind in their own file."""
    place = table.snapshot.places.index_file(str(segment.uuid), VECTOR_FILE, segment.base_id)
    try:
        source = place.open()
        text = Container.read(source, source.size, source.path).schema(source).metadata.get("lance:index", "")
        kind = json.loads(text).get("type")
    except (LanceletError, ValueError, AttributeError):
        # The oldest vector indices are no Lance files; all that is known of them is that they are vector indices.
        return "Vector"
    return str(kind)


def _details(segment: IndexMetadata, path: str) -> dict[str, Any]:
    """The parameters that an index was built with."""
    if segment.type_name == _VECTOR and segment.details:
        return _vector_details(read_fields(segment.details, path), path)
    if segment.type_name == _INVERTED and segment.details:
        return _inverted_details(dict(read_fields(segment.details, path)), path)
    return {}


def _vector_details(fields: Sequence[tuple[int, int | bytes]], path: str) -> dict[str, Any]:
    found = dict(fields)
    metric = found.get(1, 0)
    shown: dict[str, Any] = {"metric_type": _METRICS[metric] if isinstance(metric, int) and metric < 4 else str(metric)}
    if isinstance(found.get(2), int):
        shown["target_partition_size"] = found[2]
    if 3 in found:
        graph = _numbers(found[3], path)
        shown["hnsw"] = {
            "max_connections": graph.get(1, 0),
            "construction_ef": graph.get(2, 0),
            "max_level": graph.get(3, 0),
        }
    for number, name in _COMPRESSIONS.items():
        if number not in found:
            continue
        inner = _numbers(found[number], path)
        shown["compression"] = {"type": name.lower(), "num_bits": inner.get(1, 0)}
        if name == "PQ":
            shown["compression"]["num_sub_vectors"] = inner.get(2, 0)
        if name == "RQ":
            shown["compression"]["rotation_type"] = "matrix" if inner.get(2) else "fast"
    hints = [dict(read_fields(value, path)) for number, value in fields if number == 9 and isinstance(value, bytes)]
    if hints:
        shown["runtime_hints"] = {_text(hint.get(1)): _text(hint.get(2)) for hint in hints}
    return shown


def _inverted_details(found: dict[int, int | bytes], path: str) -> dict[str, Any]:
    code = _numbers(found[13], path) if 13 in found else {}
    return {
        "lance_tokenizer": None,
        "base_tokenizer": _text(found.get(1)),
        "language": _text(found.get(2)).strip('"'),
        "with_position": bool(found.get(3)),
        "max_token_length": found.get(4),
        "lower_case": bool(found.get(5)),
        "stem": bool(found.get(6)),
        "remove_stop_words": bool(found.get(7)),
        "custom_stop_words": None,
        "ascii_folding": bool(found.get(8)),
        "min_ngram_length": found.get(9, 0),
        "max_ngram_length": found.get(10, 0),
        "prefix_only": bool(found.get(11)),
        "block_size": found.get(12, 128),
        "split_identifiers": bool(code.get(1)),
        "split_on_numerics": bool(code.get(2)),
        "preserve_original": bool(code.get(3)),
        "index_operators": bool(code.get(4)),
        "document_granularity": "list_element" if found.get(14) else "row",
    }


def _text(value: int | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _numbers(data: int | bytes, path: str) -> dict[int, int]:
    if not isinstance(data, bytes):
        raise CorruptFile(path, "a message is a number", "index details")
    return {number: value for number, value in read_fields(data, path) if isinstance(value, int)}
