"""The indices of a catalog, written along with its rows (spec namespace.md 3.3). Nobody depends on them.

===========================  ==============  ==============
index                        kind            column
===========================  ==============  ==============
``object_id_btree``          BTREE           object_id
``object_type_bitmap``       BITMAP          object_type
``base_objects_label_list``  LABEL_LIST      base_objects
===========================  ==============  ==============
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.index.kind import ROW, VALUE, NewRows
from lancelet.index.registry import kind_named
from lancelet.index.segments import NewSegment, write_segment
from lancelet.table.rows.addresses import row_addresses

if TYPE_CHECKING:
    from lancelet.format.proto import table_pb2
    from lancelet.format.schema import Schema
    from lancelet.table.commit.written import WrittenFiles
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

_INDICES = (
    ("object_id_btree", "BTREE", "object_id"),
    ("object_type_bitmap", "BITMAP", "object_type"),
    ("base_objects_label_list", "LABEL_LIST", "base_objects"),
)


def write_indices(
    base: Snapshot, schema: Schema, rows: pa.Table, fragments: Sequence[Fragment], files: WrittenFiles
) -> list[table_pb2.IndexMetadata]:
    """Segments over the fragments that the version after ``base`` will consist of."""
    if not fragments:
        return []
    message = base.manifest.message
    first = message.max_fragment_id + 1 if message.HasField("max_fragment_id") else 0
    numbers = range(first, first + len(fragments))
    addresses = np.concatenate(
        [
            row_addresses(number, np.arange(fragment.physical_rows or 0, dtype=np.uint64))
            for number, fragment in zip(numbers, fragments, strict=True)
        ]
    )
    made = []
    for name, kind, column in _INDICES:
        new = NewSegment(name, (schema.field_by_path(column).id,), kind_named(kind), frozenset(numbers), {})
        values = rows[column].combine_chunks()
        batch = pa.RecordBatch.from_arrays([values, pa.array(addresses)], names=[VALUE, ROW])
        entry = write_segment(base, new, (), NewRows(values.type, [batch]), files)
        entry.dataset_version = base.version + 1
        entry.ClearField("created_at")
        made.append(entry)
    return made
