"""The fragments of a version as bytes, for the next version to keep as they are.

Most commits leave nearly all fragments alone. Their records go from one manifest into the next as bytes; what a
commit has to know of them, their ids and what they have, one pass over the bytes tells::

    version 4   [0] [1] [2] [3]
    changed          1           taken out and parsed
    new                      4
    version 5   [0]  1  [2] [3] 4
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancelet.format.proto import table_pb2
from lancelet.table.manifest.fragment import Fragment, fragment_from_proto
from lancelet.table.manifest.manifest import Manifest
from lancelet.table.manifest.manifest_wire import HAS_DELETIONS, HAS_ROW_IDS, HAS_SPILLED, survey_fragments


@dataclass(frozen=True, slots=True, eq=False)
class KeptFragments:
    """Records of a manifest, in their order."""

    data: bytes
    """Fields of a Manifest message: its fragments and nothing else."""
    id_bytes: bytes
    """The id of each, in 8 bytes."""
    marks: bytes
    """What each has, in one byte."""
    end_bytes: bytes
    """Where in the data each ends, in 8 bytes."""
    any_marks: int
    all_marks: int
    greatest: int
    """The greatest id; -1 when there are no fragments."""
    is_ascending: bool
    physical_bytes: bytes
    live_bytes: bytes
    """Rows of each, and rows that are not deleted, as :func:`survey_fragments` has them."""

    @property
    def ids(self) -> npt.NDArray[np.uint64]:
        return np.frombuffer(self.id_bytes, np.uint64)

    @property
    def have_deletions(self) -> bool:
        return bool(self.any_marks & HAS_DELETIONS)

    @property
    def have_spilled(self) -> bool:
        """Whether ids or versions of some rows are hidden columns."""
        return bool(self.any_marks & HAS_SPILLED)

    @property
    def all_have_row_ids(self) -> bool:
        return bool(self.all_marks & HAS_ROW_IDS)

    def has(self, number: int) -> bool:
        """Whether there is a fragment with this id; new ones are greater than all."""
        return number <= self.greatest and bool(np.any(self.ids == number))

    def take_out(self, ids: Collection[int]) -> tuple[KeptFragments, list[table_pb2.DataFragment]]:
        """The others, and the records of these ids, as far as there are any."""
        if not ids:
            return self, []
        chosen = np.flatnonzero(np.isin(self.ids, np.array(sorted(ids), np.uint64)))
        if not len(chosen):
            return self, []
        bounds = self._bounds()
        pieces, taken, at = [], [], 0
        for place in chosen.tolist():
            begin, end = int(bounds[place]), int(bounds[place + 1])
            pieces.append(self.data[at:begin])
            taken.append(self.data[begin:end])
            at = end
        pieces.append(self.data[at:])
        found = survey_fragments(b"".join(pieces))
        assert found is not None, "all records are plain"
        return KeptFragments(*found[1:]), list(table_pb2.Manifest.FromString(b"".join(taken)).fragments)

    def _bounds(self) -> npt.NDArray[np.int64]:
        return np.append(0, np.frombuffer(self.end_bytes, np.int64))

    def with_others(self, records: Sequence[table_pb2.DataFragment]) -> bytes:
        """These and other fragments in the order of their ids, as fields of a Manifest message; both are in that order."""
        if not records:
            return self.data
        bounds = self._bounds()
        places = np.searchsorted(self.ids, np.array([record.id for record in records], np.uint64), "right")
        pieces, at = [], 0
        for place, record in zip(bounds[places].tolist(), records, strict=True):
            pieces += [self.data[at:place], table_pb2.Manifest(fragments=[record]).SerializeToString()]
            at = place
        return b"".join([*pieces, self.data[at:]])


def find_fragment(manifest: Manifest, number: int) -> Fragment | None:
    """The (first) fragment with this id; those of a version that was just committed are not all parsed for it."""
    found = None if manifest.is_parsed else kept_fragments(manifest)
    if found is None:
        return manifest.fragments.by_id(number)
    _, records = found[1].take_out({number})
    return fragment_from_proto(records[0], manifest.path) if records else None


def kept_fragments(manifest: Manifest) -> tuple[table_pb2.Manifest, KeptFragments] | None:
    """A copy of the manifest's message without fragments, and those; None when they have to be looked into.

    That is so when they have what this release does not know, or knows only by parsing it.
    """
    if manifest.body is None:
        return None
    found = survey_fragments(manifest.body)
    if found is None:
        return None
    return table_pb2.Manifest.FromString(found[0]), KeptFragments(*found[1:])
