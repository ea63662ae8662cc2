"""ZONEMAP: the least and the greatest value of every zone. For values that come nearly in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from google.protobuf.message import DecodeError

from lancelet.errors import InvalidInput
from lancelet.format.proto import index_details_pb2
from lancelet.index.kind import Built, NewRows, ScalarKind, Source
from lancelet.index.questions import Between, IsIn, Missing, Question, StartsWith
from lancelet.index.scalar.arrow_bytes import is_text_or_bytes
from lancelet.index.scalar.options import DEFAULT_ROWS, ROWS_PER_ZONE, USE_SEEDS, positive, refuse_json, refuse_unknown
from lancelet.index.scalar.value_types import is_ordered

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.scalar.zone_map_segment import ZoneMap


class ZoneMapKind(ScalarKind):
    """The kind of index that users call ``ZONEMAP``."""

    name = "ZONEMAP"
    type_url = "/lance.table.ZoneMapIndexDetails"
    rank = 4

    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        refuse_json(column, self.name)
        refuse_unknown(options, (ROWS_PER_ZONE, USE_SEEDS), self.name)
        positive(options, ROWS_PER_ZONE, DEFAULT_ROWS)
        if not isinstance(options.get(USE_SEEDS, False), bool):
            raise InvalidInput(f"{USE_SEEDS} is True or False, not {options[USE_SEEDS]!r}")

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        if isinstance(question, Missing):
            # In such files of pylance the null rows are not counted as null.
            return not pa.types.is_null(dtype)
        if isinstance(question, StartsWith):
            return is_text_or_bytes(dtype)
        return isinstance(question, IsIn | Between) and is_ordered(dtype)

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        try:
            details = index_details_pb2.ZoneMapIndexDetails.FromString(folder.entry.details)
        except DecodeError:
            return {}
        chosen: dict[str, Any] = {}
        if details.HasField(ROWS_PER_ZONE) and details.rows_per_zone:
            chosen[ROWS_PER_ZONE] = details.rows_per_zone
        if details.HasField(USE_SEEDS):
            chosen[USE_SEEDS] = details.use_seeds
        return chosen

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> ZoneMap:
        from lancelet.index.scalar.zone_map_segment import open_segment

        return open_segment(folder, dtype)

    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        from lancelet.index.scalar.zone_map_segment import write_segment

        return Built(write_segment(sources, rows, out, options))


KIND: Final = ZoneMapKind()
