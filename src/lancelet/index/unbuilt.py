"""Kinds that are recognised, described and kept, but neither built nor asked yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lancelet.errors import LanceletError
from lancelet.file.container import Container
from lancelet.index.kind import KnownKind, Moves
from lancelet.index.vector_statistics import FILE, vector_statistics
from lancelet.table.commit.index_upkeep import ANY_VERSION
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.format.proto.vector_index_pb2 import VectorIndexDetails
    from lancelet.index.metadata import IndexMetadata
    from lancelet.table.manifest.snapshot import Snapshot

_METRICS: Final = ("L2", "COSINE", "DOT", "HAMMING")
_PLACE: Final = "index details"
_BLOCK_SIZE: Final = 128


class VectorKind(KnownKind):
    """All kinds of indices on vectors, which have one type of details."""

    name = "VECTOR"
    aliases = ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")
    type_url = "/lance.index.pb.VectorIndexDetails"
    marks = (FILE,)
    last_version_with_ids = ANY_VERSION
    moves = Moves.FOLLOWED
    has_metric = True

    def title(self, snapshot: Snapshot, entry: IndexMetadata) -> str:
        """``IVF_PQ``; indices without parameters in the manifest name their kind in their own file."""
        if not entry.details:
            return _title_in_file(snapshot, entry)
        details = _vector_details(entry, snapshot.manifest.path)
        graph = ["HNSW"] if details.HasField("hnsw_index_config") else []
        return "_".join(["IVF", *graph, (details.WhichOneof("compression") or "flat").upper()])

    def parameters(self, entry: IndexMetadata, path: str) -> dict[str, Any]:
        if not entry.details:
            return {}
        details = _vector_details(entry, path)
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
        return vector_statistics(snapshot, entry, self.title(snapshot, entry))


class InvertedKind(KnownKind):
    """Words of texts, and where they are."""

    name = "INVERTED"
    aliases = ("FTS",)
    type_url = "/lance.table.InvertedIndexDetails"
    marks = ("tokens.lance", "metadata.lance")
    last_version_with_ids = ANY_VERSION

    def parameters(self, entry: IndexMetadata, path: str) -> dict[str, Any]:
        from lancelet.format.proto.index_details_pb2 import InvertedIndexDetails

        if not entry.details:
            return {}
        details = parse_message(entry.details, InvertedIndexDetails, path, _PLACE)
        code = details.code_config
        return {
            "lance_tokenizer": None,
            "base_tokenizer": details.base_tokenizer,
            "language": details.language.strip('"'),
            "with_position": details.with_position,
            "max_token_length": details.max_token_length if details.HasField("max_token_length") else None,
            "lower_case": details.lower_case,
            "stem": details.stem,
            "remove_stop_words": details.remove_stop_words,
            "custom_stop_words": None,
            "ascii_folding": details.ascii_folding,
            "min_ngram_length": details.min_ngram_length,
            "max_ngram_length": details.max_ngram_length,
            "prefix_only": details.prefix_only,
            "block_size": details.block_size if details.HasField("block_size") else _BLOCK_SIZE,
            "split_identifiers": code.split_identifiers,
            "split_on_numerics": code.split_on_numerics,
            "preserve_original": code.preserve_original,
            "index_operators": code.index_operators,
            "document_granularity": "list_element" if details.document_granularity else "row",
        }


class RTreeKind(KnownKind):
    """Boxes around places on a map."""

    name = "RTREE"
    type_url = "/lance.index.pb.RTreeIndexDetails"


class MinHashKind(KnownKind):
    """Texts that are nearly the same."""

    name = "MINHASHLSH"
    type_url = "/lance.index.pb.MinHashLshIndexDetails"


class FMKind(KnownKind):
    """Parts of texts, of any length."""

    name = "FM"
    type_url = "/lance.index.pb.FMIndexDetails"


KINDS: Final = (VectorKind(), InvertedKind(), RTreeKind(), MinHashKind(), FMKind())


def _vector_details(entry: IndexMetadata, path: str) -> VectorIndexDetails:
    from lancelet.format.proto.vector_index_pb2 import VectorIndexDetails

    return parse_message(entry.details, VectorIndexDetails, path, _PLACE)


def _title_in_file(snapshot: Snapshot, entry: IndexMetadata) -> str:
    place = snapshot.places.index_file(str(entry.uuid), FILE, entry.base_id)
    try:
        source = place.open()
        text = Container.read(source, source.size, source.path).schema(source).metadata.get("lance:index", "")
        kind = json.loads(text).get("type")
    except (LanceletError, ValueError, AttributeError):
        # The oldest vector indices are no Lance files; all that is known of them is that they are vector indices.
        return "Vector"
    return str(kind)
