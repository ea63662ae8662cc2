"""Kinds that are recognised, described and kept, but neither built nor asked yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lancelet.index.kind import KnownKind
from lancelet.table.commit.index_upkeep import ANY_VERSION
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.index.metadata import IndexMetadata

_PLACE: Final = "index details"
_BLOCK_SIZE: Final = 128


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


KINDS: Final = (InvertedKind(), RTreeKind(), MinHashKind(), FMKind())
