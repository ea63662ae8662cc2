"""Segments of one kind of index, written and opened without a planner around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.file import LanceFileReader

import lancelet
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import Built, Kind, NewRows, Segment, Source
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.table.snapshot import Snapshot
from lancelet.table.written import WrittenFiles

Rows = npt.NDArray[np.uint64]


class Workbench:
    """A table of one column ``v`` with an index that pylance made, beside which further segments are written."""

    def __init__(self, where: Path, values: pa.Array, kind: Kind, **options: Any) -> None:
        self.where = where
        self.kind = kind
        self.dtype = values.type
        lance.write_dataset(pa.table({"v": values}), where, **options)
        lance.dataset(where).create_scalar_index("v", kind.name)
        self.dataset = lance.dataset(where)

    @property
    def snapshot(self) -> Snapshot:
        return lancelet.dataset(self.where)._snapshot

    @property
    def entry(self) -> IndexMetadata:
        """The index that pylance made."""
        return read_indices(self.snapshot.manifest)[0]

    def theirs(self) -> Segment:
        return self.kind.open(IndexFolder(self.snapshot, self.entry), self.dtype)

    def write(
        self,
        values: pa.Array | None,
        rows: Rows | None = None,
        sources: Sequence[Source] = (),
        step: int = 1000,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Segment, Built, Path]:
        """Write a segment and open it; also tells its folder."""
        new = NewRows(self.dtype)
        if values is not None:
            numbers = np.arange(len(values), dtype=np.uint64) if rows is None else rows
            new = NewRows(self.dtype, batches(values, numbers, step))
        out = SegmentWriter(self.snapshot.store, uuid4(), "2.1", WrittenFiles(self.snapshot.store))
        built = self.kind.write(sources, new, out, options or {})
        entry = replace(
            self.entry,
            uuid=out.uuid,
            files=tuple(out.written),
            index_version=built.index_version,
            details=built.details,
        )
        folder = self.where / "_indices" / str(out.uuid)
        return self.kind.open(IndexFolder(self.snapshot, entry), self.dtype), built, folder

    def folder(self, entry: IndexMetadata) -> Path:
        return self.where / "_indices" / str(entry.uuid)


def batches(values: pa.Array, rows: Rows, step: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(values), step):
        part = values[start : start + step]
        yield pa.record_batch({"value": part, "row": pa.array(rows[start : start + len(part)], pa.uint64())})


def content(path: Path) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    """A file of an index as pylance reads it, and its metadata."""
    table = LanceFileReader(str(path)).read_all().to_table()
    return table.replace_schema_metadata(None), table.schema.metadata or {}
