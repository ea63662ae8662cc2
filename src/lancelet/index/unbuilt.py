"""Kinds that are recognised, described and kept, but neither built nor asked yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lancelet.index.kind import KnownKind

if TYPE_CHECKING:
    from lancelet.index.metadata import IndexMetadata
    from lancelet.table.manifest.snapshot import Snapshot


class FMKind(KnownKind):
    """Parts of texts, of any length."""

    name = "FM"
    type_url = "/lance.index.pb.FMIndexDetails"

    def title(self, snapshot: Snapshot, entry: IndexMetadata) -> str:
        return "Fm"


KINDS: Final = (FMKind(),)
