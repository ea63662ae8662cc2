"""INVERTED indices (also called FTS): words of texts, and where they are (spec indices.md 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lancelet.errors import LanceletError
from lancelet.index.kind import Built, Kind, Moves
from lancelet.table.commit.index_upkeep import ANY_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.kind import NewRows, Segment, Source
    from lancelet.index.metadata import IndexMetadata
    from lancelet.index.text.segment import TextSegment
    from lancelet.table.manifest.snapshot import Snapshot

_NEWEST: Final = 3


class InvertedKind(Kind):
    """Words of texts, and where they are."""

    name = "INVERTED"
    aliases = ("FTS",)
    type_url = "/lance.table.InvertedIndexDetails"
    marks = ("tokens.lance", "metadata.lance")
    last_version_with_ids = ANY_VERSION
    moves = Moves.REWRITTEN
    newest_version = _NEWEST
    named_options = frozenset({"format_version", "document_granularity"})
    takes_json = True
    takes_items = True
    is_heavy = True

    def parameters(self, entry: IndexMetadata, path: str) -> dict[str, Any]:
        from lancelet.index.text.params import Params

        if not entry.type_url:
            return {}
        # The first releases told nothing; descriptions show what is usual.
        params = Params.from_details(entry.details, path) if entry.details else Params()
        told = {**params.to_dict(), "document_granularity": params.document_granularity}
        # What the message does not tell.
        return told | {"lance_tokenizer": None, "custom_stop_words": None}

    def statistics(self, snapshot: Snapshot, entry: IndexMetadata) -> Mapping[str, Any]:
        """Of a segment that is not used here, for the column that it is about, what its files tell."""
        import pyarrow as pa

        from lancelet.index.folder import IndexFolder
        from lancelet.index.text.segment import TextSegment

        try:
            return TextSegment(IndexFolder(snapshot, entry), pa.null()).statistics()
        except LanceletError:
            return super().statistics(snapshot, entry)

    def opens(self, entry: IndexMetadata) -> bool:
        """Not one with options that are not known: its tokens may be others."""
        from lancelet.index.text.params import has_unknown_details

        return not has_unknown_details(entry.details, entry.name)

    def check(self, column: pa.Field, options: Mapping[str, Any]) -> None:
        from lancelet.index.text.analyzer import Analyzer
        from lancelet.index.text.params import read_options

        told = read_options(column, options)
        # A tokenizer without its library or dictionary is refused before anything is read.
        Analyzer(told.params)

    def options_on(self, column: pa.Field, options: Mapping[str, Any]) -> Mapping[str, Any]:
        from lancelet.index.text.params import PARAMS, read_options

        return {**options, PARAMS: read_options(column, options).params}

    def name_suffix(self, options: Mapping[str, Any]) -> str:
        from lancelet.index.text.params import LIST_ELEMENT, granularity_of

        is_item = granularity_of(options.get("document_granularity")) == LIST_ELEMENT
        return f"_{LIST_ELEMENT}_idx" if is_item else "_idx"

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        from lancelet.index.text.metadata import Head
        from lancelet.index.text.params import PARAMS, Params

        try:
            return {PARAMS: Head.read(folder).params}
        except LanceletError:
            if not folder.entry.details:
                raise
            # Of a damaged segment the manifest knows all but the custom stop words.
            return {PARAMS: Params.from_details(folder.entry.details, folder.snapshot.manifest.path)}

    def is_worth_merging(self, rows: int, options: Mapping[str, Any]) -> bool:
        """Postings would all be written again, and segments share their statistics when they are searched."""
        return False

    def can_merge(self, segments: Sequence[Segment]) -> bool:
        from lancelet.index.text.segment import TextSegment

        texts = [segment for segment in segments if isinstance(segment, TextSegment)]
        return all(one.params.same_tokens(texts[0].params) for one in texts)

    def stage_options(self, fragments: Sequence[int]) -> Mapping[str, Any]:
        """A part over some fragments is called like the first row of the first of them."""
        from lancelet.index.text.params import STAGED
        from lancelet.table.rows.addresses import row_address

        return {STAGED: row_address(min(fragments), 0)}

    def staged(self, folder: IndexFolder, names: Sequence[str], dtype: pa.DataType) -> list[Segment]:
        from lancelet.index.text.metadata import staged_numbers
        from lancelet.index.text.segment import TextSegment

        found: list[Segment] = [TextSegment(folder, dtype, number) for number in staged_numbers(names)]
        # A part without a document does not even tell what its documents would be.
        return [segment for segment in found if isinstance(segment, TextSegment) and segment.partitions] or found

    def options_of_staged(self, segments: Sequence[Segment]) -> Mapping[str, Any]:
        from lancelet.index.text.params import PARAMS
        from lancelet.index.text.segment import TextSegment

        (first, *_) = segments
        assert isinstance(first, TextSegment)
        return {PARAMS: first.params}

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> TextSegment:
        from lancelet.index.text.segment import TextSegment

        return TextSegment(folder, dtype)

    def write(self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, Any]) -> Built:
        import pyarrow as pa

        from lancelet.index.text.build import write_texts
        from lancelet.index.text.params import read_options

        return write_texts(sources, rows, out, read_options(pa.field("", rows.dtype), options))


KIND: Final = InvertedKind()
