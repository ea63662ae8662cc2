"""Indices on vectors, of all types: one kind, since all have one type of details (spec indices.md 14).

The type (``IVF_PQ``) is an option, ``index_type``; users write it as the name of the kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lancelet.errors import CorruptFile, LanceletError
from lancelet.file.container import Container
from lancelet.index.kind import Built, Moves
from lancelet.index.ranked import RankedKind
from lancelet.table.commit.index_upkeep import ANY_VERSION
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.format.proto.vector_index_pb2 import VectorIndexDetails
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.kind import NewRows, Segment, Source
    from lancelet.index.metadata import IndexMetadata
    from lancelet.index.vector.segment import VectorSegment
    from lancelet.table.manifest.snapshot import Snapshot

_METRICS: Final = ("L2", "COSINE", "DOT", "HAMMING")
_PLACE: Final = "index details"
_FILE: Final = "index.idx"
_MERGED_BYTES: Final = 4 << 30
_NEWEST: Final = 2
"""That of RQ; all others have 1."""


class VectorKind(RankedKind):
    """The nearest vectors."""

    name = "VECTOR"
    aliases = ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")
    type_url = "/lance.index.pb.VectorIndexDetails"
    marks = (_FILE,)
    last_version_with_ids = ANY_VERSION
    moves = Moves.REWRITTEN
    has_metric = True
    newest_version = _NEWEST
    learns = True

    def title(self, snapshot: Snapshot, entry: IndexMetadata) -> str:
        """``IVF_PQ``; indices without parameters in the manifest name their type in their own file."""
        from lancelet.index.folder import IndexFolder

        if not entry.details:
            return _title_in_file(IndexFolder(snapshot, entry))
        return _type_of(_details(entry, snapshot.manifest.path))

    def parameters(self, entry: IndexMetadata, path: str) -> dict[str, Any]:
        if not entry.details:
            return {}
        details = _details(entry, path)
        metric = details.metric_type
        shown: dict[str, Any] = {"metric_type": _METRICS[metric] if metric < len(_METRICS) else str(metric)}
        if details.HasField("target_partition_size"):
            shown["target_partition_size"] = details.target_partition_size
        if details.HasField("hnsw_index_config"):
            graph = details.hnsw_index_config
            shown["hnsw"] = {
                "max_connections": graph.max_connections,
                "construction_ef": graph.construction_ef,
                "max_level": graph.max_level,
            }
        match details.WhichOneof("compression"):
            case "pq":
                inner = {"num_bits": details.pq.num_bits, "num_sub_vectors": details.pq.num_sub_vectors}
                shown["compression"] = {"type": "pq", **inner}
            case "sq":
                shown["compression"] = {"type": "sq", "num_bits": details.sq.num_bits}
            case "rq":
                rotation = "matrix" if details.rq.rotation_type else "fast"
                shown["compression"] = {"type": "rq", "num_bits": details.rq.num_bits, "rotation_type": rotation}
        if details.runtime_hints:
            shown["runtime_hints"] = dict(sorted(details.runtime_hints.items()))
        return shown

    def statistics(self, snapshot: Snapshot, entry: IndexMetadata) -> Mapping[str, Any]:
        """Of indices of old, which have other files, only what the manifest tells."""
        from lancelet.index.folder import IndexFolder
        from lancelet.index.vector.files import INDEX_FILE, STORAGE_FILE, VectorHeads
        from lancelet.index.vector.statistics import segment_statistics

        folder = IndexFolder(snapshot, entry)
        try:
            return segment_statistics(folder, VectorHeads.read(folder.open(INDEX_FILE), folder.open(STORAGE_FILE)))
        except LanceletError:
            place = snapshot.places.index_file(str(entry.uuid), _FILE, entry.base_id)
            return {"index_type": self.title(snapshot, entry), "uuid": str(entry.uuid), "uri": place.full_path}

    def opens(self, entry: IndexMetadata) -> bool:
        from lancelet.index.vector.quantizers import is_known

        if not entry.details:
            return True
        return is_known(_type_of(_details(entry, entry.name)))

    def options_of(self, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        from lancelet.index.vector.options import INDEX_TYPE

        return {**options, INDEX_TYPE: name.upper()}

    def check(self, column: pa.Field, options: Mapping[str, Any]) -> None:
        from lancelet.index.vector.options import read_options

        read_options(column.type, options, column.name)

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        from lancelet.index.vector.options import INDEX_TYPE, options_of_details

        entry = folder.entry
        index_type = self.title(folder.snapshot, entry)
        if entry.details:
            told = options_of_details(_details(entry, folder.snapshot.manifest.path))
            return {INDEX_TYPE: index_type, **told}
        return _told_by_files(folder)

    def options_beside(self, folder: IndexFolder) -> Mapping[str, Any]:
        from lancelet.index.vector.options import MODEL

        told = self.options(folder)
        if not self.is_built(folder.entry):
            return told
        return {**told, MODEL: _open(folder).model}

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> VectorSegment:
        from lancelet.index.vector.segment import VectorSegment

        segment = VectorSegment(folder, dtype)
        path = folder.snapshot.manifest.path
        told = self.parameters(folder.entry, path).get("metric_type")
        if told not in (None, segment.metric.value.upper()):
            problem = f"compares vectors by {segment.metric.value}, but the entry of the index in {path} says {told}"
            raise CorruptFile(segment.files.path, problem)
        return segment

    def write(self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, Any]) -> Built:
        from lancelet.index.vector.build import write_vectors
        from lancelet.index.vector.options import read_options

        return write_vectors(sources, rows, out, read_options(rows.dtype, options))

    def learned(self, rows: NewRows, options: Mapping[str, Any]) -> Mapping[str, Any] | None:
        from lancelet.index.vector.build import train_model
        from lancelet.index.vector.options import ACCELERATOR, MODEL, read_options

        told = read_options(rows.dtype, options)
        model = told.model or train_model(rows, told)
        plain = {name: value for name, value in options.items() if name != ACCELERATOR}
        return None if model is None else {**plain, MODEL: model}

    def is_worth_merging(self, rows: int, options: Mapping[str, Any]) -> bool:
        """Graphs would be built anew, and very many codes are better left where they are."""
        from lancelet.index.vector.options import INDEX_TYPE, MODEL
        from lancelet.index.vector.quantizers import parts_of

        model = options.get(MODEL)
        _, graph = parts_of(str(options[INDEX_TYPE]))
        return graph is None and (model is None or rows * model.entry_bytes <= _MERGED_BYTES)

    def is_built(self, entry: IndexMetadata) -> bool:
        return bool(entry.files or entry.fragment_ids)

    def can_merge(self, segments: Sequence[Segment]) -> bool:
        """Whether codes of segments go together without a look at the rows."""
        from lancelet.index.vector.build import merged_model
        from lancelet.index.vector.segment import VectorSegment

        try:
            merged_model([segment for segment in segments if isinstance(segment, VectorSegment)])
        except LanceletError:
            return False
        return True

    def rebalanced(
        self, segments: Sequence[Segment], options: Mapping[str, Any], new: NewRows
    ) -> Mapping[str, Any] | None:
        """Options with other centroids, where partitions are far too large or too small (spec indices.md 16.1, corrected)."""
        from lancelet.index.vector.balance import rebalanced_model
        from lancelet.index.vector.options import MODEL, read_options
        from lancelet.index.vector.segment import VectorSegment

        opened = [segment for segment in segments if isinstance(segment, VectorSegment)]
        if not opened:
            return None
        model = rebalanced_model(opened, read_options(opened[0].dtype, options), new)
        return None if model is None else {**options, MODEL: model}


KIND: Final = VectorKind()


def _details(entry: IndexMetadata, path: str) -> VectorIndexDetails:
    from lancelet.format.proto.vector_index_pb2 import VectorIndexDetails

    return parse_message(entry.details, VectorIndexDetails, path, _PLACE)


def _type_of(details: VectorIndexDetails) -> str:
    graph = ["HNSW"] if details.HasField("hnsw_index_config") else []
    return "_".join(["IVF", *graph, (details.WhichOneof("compression") or "flat").upper()])


def _open(folder: IndexFolder) -> VectorSegment:
    from lancelet.index.vector.segment import VectorSegment

    nodes = {node.id: node for node in folder.snapshot.manifest.schema.walk()}
    return VectorSegment(folder, nodes[folder.entry.fields[0]].arrow_field.type)


def _told_by_files(folder: IndexFolder) -> Mapping[str, Any]:
    """Entries of old have no options; the files tell what matters."""
    from lancelet.index.vector.options import INDEX_TYPE

    segment = _open(folder)
    about = segment.files.heads.about
    told: dict[str, Any] = {INDEX_TYPE: segment.index_type, "metric": segment.metric.value}
    names = {"num_sub_vectors": "num_sub_vectors", "nbits": "num_bits", "rotation_type": "rotation_type"}
    told |= {ours: about[theirs] for theirs, ours in names.items() if theirs in about}
    return told


def _title_in_file(folder: IndexFolder) -> str:
    from lancelet.index.vector.old_file import title_in

    if (title := title_in(folder)) is not None:
        return title
    try:
        source = folder.source(_FILE)
        text = Container.read(source, source.size, source.path).schema(source).metadata.get("lance:index", "")
        kind = json.loads(text).get("type")
    except (LanceletError, ValueError, AttributeError):
        # All that is known of it is that it is on vectors.
        return "Vector"
    return str(kind)
