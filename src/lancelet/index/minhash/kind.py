"""MINHASHLSH: short signatures of texts, whose parts are looked up to find texts that are nearly the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lancelet.errors import InvalidType
from lancelet.index.kind import Built, Moves, NewRows, Source
from lancelet.index.ranked import RankedKind
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.kind import Segment
    from lancelet.index.metadata import IndexMetadata
    from lancelet.index.minhash.segment import NearTexts


class MinHashKind(RankedKind):
    """The kind of index that users call ``MINHASHLSH``."""

    name = "MINHASHLSH"
    type_url = "/lance.index.pb.MinHashLshIndexDetails"
    last_version_with_ids = 0
    moves = Moves.REWRITTEN

    def parameters(self, entry: IndexMetadata, path: str) -> dict[str, Any]:
        from lancelet.index.minhash.params import MinHashParams

        return MinHashParams.from_details(entry.details, path).shown()

    def opens(self, entry: IndexMetadata) -> bool:
        """Not one whose signatures are made in another way."""
        from lancelet.format.proto.minhash_index_pb2 import MinHashLshIndexDetails

        return parse_message(entry.details, MinHashLshIndexDetails, entry.name, "index details").signature_version == 0

    def check(self, column: pa.Field, options: Mapping[str, Any]) -> None:
        from lancelet.index.minhash.params import read_options
        from lancelet.index.text.analyzer import Analyzer

        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise InvalidType(f"a MINHASHLSH index is on texts; column {column.name!r} is {column.type}")
        # A tokenizer without its library is refused before anything is read.
        Analyzer(read_options(options).tokenizer)

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        from lancelet.index.minhash.params import PARAMS, MinHashParams

        return {PARAMS: MinHashParams.from_details(folder.entry.details, folder.snapshot.manifest.path)}

    def can_merge(self, segments: Sequence[Segment]) -> bool:
        return len({segment.params for segment in segments}) == 1  # type: ignore[attr-defined]

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> NearTexts:
        from lancelet.index.minhash.segment import NearTexts

        return NearTexts(folder)

    def write(self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, Any]) -> Built:
        from lancelet.index.minhash.params import read_options
        from lancelet.index.minhash.segment import write_segment

        params = read_options(options)
        write_segment(sources, rows, out, params)
        return Built(params.to_details())


KIND: Final = MinHashKind()
