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
from lance.indices import IndexConfig

import lancelet
from lancelet.errors import CorruptFile, InvalidInput, NotSupported
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import Built, Kind, NewRows, Segment, Source
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.questions import Question
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.snapshot import Snapshot

Rows = npt.NDArray[np.uint64]


class Workbench:
    """A table of one column ``v`` with an index that pylance made, beside which further segments are written."""

    def __init__(
        self, where: Path, values: pa.Array, kind: Kind, parameters: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        self.where = where
        self.kind = kind
        self.dtype = values.type
        self.dataset = lance.write_dataset(pa.table({"v": values}), where, **options)
        self.create(self.dataset, kind, parameters or {})

    @staticmethod
    def create(dataset: Any, kind: Kind, parameters: Mapping[str, Any]) -> None:
        """Make an index with options, by either engine."""
        if isinstance(dataset, lancelet.LanceDataset):
            dataset.create_scalar_index("v", kind.name, **parameters)
        else:
            config = IndexConfig(kind.name.lower(), dict(parameters)) if parameters else kind.name
            dataset.create_scalar_index("v", config)

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


def made(
    bench: Workbench,
    file: str,
    columns: Mapping[str, pa.Array],
    metadata: Mapping[str, str] | None = None,
    buffer: bytes | None = None,
) -> IndexFolder:
    """A segment of one file that some other writer could have left."""
    out = SegmentWriter(bench.snapshot.store, uuid4(), "2.1", WrittenFiles(bench.snapshot.store))
    batch = pa.record_batch(dict(columns))
    with out.create(file, batch.schema) as writer:
        writer.write(batch)
        if buffer is not None:
            writer.add_global_buffer(buffer)
        for key, value in (metadata or {}).items():
            writer.add_metadata(key, value)
    return IndexFolder(bench.snapshot, replace(bench.entry, uuid=out.uuid, files=tuple(out.written)))


def refused_flips(bench: Workbench, file: str, asked: Sequence[Question], count: int = 150) -> int:
    """Damage single bits of pylance's file; each time there is an answer, or an error that names the file. Counts these."""
    path = bench.folder(bench.entry) / file
    good = path.read_bytes()
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(count):
        data = bytearray(good)
        data[rng.integers(0, len(data))] ^= 1 << rng.integers(0, 8)
        path.write_bytes(data)
        try:
            segment = bench.theirs()
            for question in asked:
                segment.ask(question)
            bench.write(None, None, [Source(segment)])
        except (CorruptFile, NotSupported, InvalidInput) as error:
            assert file in str(error) or not isinstance(error, CorruptFile)
            refused += 1
    return refused


def only_files(where: Path, files: Sequence[str]) -> tuple[IndexMetadata, list[Any]]:
    """The entry of the only segment of a table, and what its files hold."""
    (entry,) = read_indices(lancelet.dataset(where)._snapshot.manifest)
    found = [content(where / "_indices" / str(entry.uuid) / file) for file in files]
    return entry, [(table.schema, table.to_pylist(), sorted(metadata.items())) for table, metadata in found]


def content(path: Path) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    """A file of an index as pylance reads it, and its metadata."""
    table = LanceFileReader(str(path)).read_all().to_table()
    return table.replace_schema_metadata(None), table.schema.metadata or {}
