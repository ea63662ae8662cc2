"""Row ids and row versions that are given when a manifest is built (spec table-format.md 5.3 and 5.4).

Only tables with stable row ids have them. They depend on the version being
committed and on the next free id, so a retry computes them anew::

                          row ids                   created at           last updated at
    append, overwrite     next_row_id, + 1, ...     this version         this version
    rows rewritten        kept; new rows get more   of the row before    this version
    columns rewritten,
    cells overlaid        kept                      kept                 this version for the changed rows
    file new or replaced  kept                      kept                 this version for all rows
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.errors import InvalidInput, NotSupported
from lancelet.format.proto import table_pb2
from lancelet.table.manifest.fragment import Fragment, Spilled, fragment_from_proto
from lancelet.table.rows.row_id_write import complete_row_ids, encode_versions, same_version, stamp_versions
from lancelet.table.rows.row_ids import (
    Ids,
    parse_row_ids,
    parse_versions,
    read_created_at,
    read_last_updated_at,
    read_row_ids,
)

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest

_SPILL = "lance.row_lineage.spill"
_INLINE_BYTES = "lance.row_lineage.inline_max_bytes"
_DEFAULT_INLINE_BYTES = 200 << 10


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """Where rows came from: their ids, ascending, and in which version each was created."""

    ids: Ids
    created: Ids

    @classmethod
    def of(cls, fragments: Iterable[Fragment], path: str) -> Origins:
        """The rows of some fragments, by id."""
        ids, created = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for fragment in fragments:
            rows = _rows(fragment)
            _refuse_spilled(fragment, fragment.row_ids, fragment.created_at)
            ids.append(read_row_ids(fragment, rows, path).slice(0, rows))
            created.append(read_created_at(fragment, rows, path).slice(0, rows))
        together = np.concatenate(ids)
        order = np.argsort(together, kind="stable")
        return cls(together[order], np.concatenate(created)[order])

    def created_at(self, ids: Ids, otherwise: int) -> Ids:
        """The version in which each row was created; ``otherwise`` for ids that were not there."""
        found = np.full(len(ids), otherwise, np.uint64)
        if len(self.ids):
            at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
            known = self.ids[at] == ids
            found[known] = self.created[at[known]]
        return found


def new_rows(message: table_pb2.DataFragment, next_id: int, version: int) -> int:
    """Give ids and versions to a fragment of new rows; returns the next free id."""
    message.inline_row_ids, following = complete_row_ids(None, message.physical_rows, next_id, "", "")
    versions = same_version(version, message.physical_rows)
    message.inline_created_at_versions = message.inline_last_updated_at_versions = versions
    return following


def moved_rows(
    message: table_pb2.DataFragment, fragment: Fragment, origins: Origins, next_id: int, version: int, path: str
) -> int:
    """Give ids and versions to a fragment whose first rows come from elsewhere; returns the next free id."""
    rows, place = message.physical_rows, f"new fragment {message.id}"
    if not isinstance(fragment.last_updated_at, Spilled):
        message.inline_last_updated_at_versions = same_version(version, rows)
    if isinstance(fragment.row_ids, Spilled):
        if not isinstance(fragment.created_at, Spilled):
            _refuse_spilled(fragment, fragment.row_ids)
        return next_id
    message.inline_row_ids, following = complete_row_ids(fragment.row_ids, rows, next_id, path, place)
    if fragment.created_at is None:
        ids = parse_row_ids(message.inline_row_ids, rows, path, place).slice(0, rows)
        message.inline_created_at_versions = encode_versions(origins.created_at(ids, version))
    elif isinstance(fragment.created_at, bytes):
        known = parse_versions(fragment.created_at, None, path, place)
        fresh = np.full(max(rows - len(known), 0), version, np.uint64)
        message.inline_created_at_versions = encode_versions(np.concatenate([known.slice(0, len(known)), fresh]))
    return following


def changed_rows(
    message: table_pb2.DataFragment, rows: npt.NDArray[np.integer] | None, version: int, path: str
) -> None:
    """Set the last update of some rows, or of all of them, to ``version``."""
    count = message.physical_rows
    if rows is None:
        message.inline_last_updated_at_versions = same_version(version, count)
        return
    fragment = fragment_from_proto(message, path)
    _refuse_spilled(fragment, fragment.last_updated_at)
    if len(rows) and int(rows.max()) >= count:
        raise InvalidInput(f"row {int(rows.max())} of fragment {message.id} cannot have changed: it has {count} rows")
    message.inline_last_updated_at_versions = stamp_versions(
        read_last_updated_at(fragment, count, path), rows.astype(np.int64), version
    )


def inline_bytes(manifest: Manifest) -> float:
    """How long the ids and versions of a fragment may be before they become hidden columns."""
    config = manifest.config
    if config.get(_SPILL, "").lower() != "true":
        return float("inf")
    text = config.get(_INLINE_BYTES, str(_DEFAULT_INLINE_BYTES))
    if not text.isdecimal():
        raise InvalidInput(f"{_INLINE_BYTES} in the config of {manifest.path} is a number of bytes, not {text!r}")
    return int(text)


def _rows(fragment: Fragment) -> int:
    if fragment.physical_rows is None:
        raise InvalidInput(f"fragment {fragment.id} does not say how many rows it has")
    return fragment.physical_rows


def _refuse_spilled(fragment: Fragment, *sequences: bytes | Spilled | None) -> None:
    if any(isinstance(sequence, Spilled) for sequence in sequences):
        raise NotSupported(
            f"the row ids or row versions of fragment {fragment.id} are in a column of its files; give new fragments "
            "their created_at sequence, or compact with lance.row_lineage.spill turned off first"
        )
