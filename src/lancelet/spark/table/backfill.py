"""New columns as a Spark job: tasks write a file of new columns for each fragment, the driver commits them once.

Values come from a function over batches of the table, which each task calls on its own
fragments, or from a data frame with the addresses of the rows. Expressions see
the rows fragment by fragment; what was joined, Spark brings together by fragment. The old files stay as they are. When others append or
change rows meanwhile, only the fragments that are new or have other columns are
filled again. With a checkpoint, a task notes every fragment that it has finished, so
that a later run goes on where one was broken off::

    <checkpoint>/<fragment>.json    the new file, its columns, and what it was made of
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from lancelet._api.fragment_metadata import DataFile, data_file, stored_file
from lancelet.editing.columns import Addition, Filled, Growth, fill_fragment, grown, with_file
from lancelet.encoding.plain import numpy_array
from lancelet.errors import InvalidChange, InvalidInput, RetryableCommitConflict
from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.attempts import swept
from lancelet.spark.options import TableRef
from lancelet.spark.table.edit import pin_version
from lancelet.spark.table.jobs import run_over, run_tasks
from lancelet.store import open_store
from lancelet.store.removal import remove_below
from lancelet.table.commit.operations import Merge
from lancelet.table.commit.patience import SPARK_SECONDS, Patience
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable
from lancelet.table.manifest.names import DATA_DIR
from lancelet.table.rows.addresses import OFFSET_BITS, OFFSET_MASK, by_fragment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.editing.columns import Computed
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.table.manifest.fragment import DataFile as StoredFile
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

_MOST_PARTITIONS = 512
Files = dict[int, "StoredFile"]
"""New files by fragment."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What is known of fragments that are finished."""

    uri: str
    storage_options: Mapping[str, str]
    beside_table: bool = False
    """Whether the folder is ours alone."""

    def write(self, fragment: Fragment, file: StoredFile, growth: Growth) -> None:
        """Note that a fragment is finished."""
        content = {"made_of": _made_of(fragment, growth), "file": data_file(file).to_json()}
        store = open_store(self.uri, self.storage_options or None)
        store.put(f"{fragment.id}.json", json.dumps(content).encode())

    def read(self, snapshot: Snapshot, fragments: Iterable[Fragment], growth: Growth) -> Files:
        """The files that an earlier run made, as far as they are there and still right."""
        store = open_store(self.uri, self.storage_options or None)
        names = set(store.list_names(""))
        found: Files = {}
        for fragment in fragments:
            name = f"{fragment.id}.json"
            if name not in names:
                continue
            file = self._file(store.read_all(name), fragment, growth)
            if file is not None and snapshot.store.exists(f"{DATA_DIR}/{file.path}"):
                found[fragment.id] = file
        return found

    def _file(self, data: bytes, fragment: Fragment, growth: Growth) -> StoredFile | None:
        try:
            content = json.loads(data)
            if content["made_of"] != _made_of(fragment, growth):
                return None
            return stored_file(DataFile(**content["file"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"{self.uri}/{fragment.id}.json is no note of a backfill: {error}; remove the folder, or choose another "
                "checkpoint"
            ) from None

    def remove(self, numbers: Iterable[int]) -> None:
        """All is committed."""
        if self.beside_table:
            # <folder>/<table>.backfill/<columns>
            folder, name, columns = self.uri.rsplit("/", 2)
            remove_below(open_store(folder, self.storage_options or None), f"{name}/{columns}")
            return
        store = open_store(self.uri, self.storage_options or None)
        for number in numbers:
            store.delete(f"{number}.json")


def _made_of(fragment: Fragment, growth: Growth) -> str:
    """Changes when the fragment's files do, or the new columns."""
    columns = [(node.id, node.name, node.logical_type) for node in growth.added.walk()]
    return hashlib.sha256(repr((fragment.files, fragment.overlays, columns)).encode()).hexdigest()


class Filler(Protocol):
    """Makes new columns as Spark jobs."""

    def growth(self, table: TableReader) -> Growth:
        """The schema with the new columns."""

    def fill(self, job: FillJob, table: TableReader, missing: Sequence[int], note: Callable[[Files], None]) -> None:
        """Write the new columns of some fragments; ``note`` gets their files."""


@dataclass(frozen=True, slots=True)
class FillJob:
    """What all tasks of a backfill share."""

    place: TableRef
    growth: Growth
    notes: Notes | None
    stem: bytes
    """Begins the names of all files of the job."""

    def filled(self, table: TableReader, reader: FragmentReader, work: Any) -> StoredFile:
        """Write the columns of one fragment; an error leaves no file."""
        with WrittenFiles(table.snapshot.store) as files:
            file = fill_fragment(table, reader, work, self.growth, files, self.stem).file
        assert file is not None, "there are new columns"
        if self.notes is not None:
            self.notes.write(reader.fragment, file, self.growth)
        return file


def backfill(table: TableReader, place: TableRef, filler: Filler, notes: Notes | None) -> Snapshot:
    """Fill all fragments and commit them together."""
    patience = Patience(SPARK_SECONDS)
    filled: dict[int, Filled] = {}
    with WrittenFiles(table.snapshot.store) as files:
        while True:
            snapshot = table.snapshot
            check_writable(snapshot.manifest.path, snapshot.manifest.head.writer_feature_flags)
            growth = filler.growth(table)
            fragments = {fragment.id: fragment for fragment in snapshot.manifest.fragments}
            for number in [n for n, f in filled.items() if n not in fragments or not f.fits(fragments[n], growth)]:
                _discard(filled.pop(number), files)

            def note(made: Files, fragments: Mapping[int, Fragment] = fragments) -> None:
                for number, file in made.items():
                    filled[number] = Filled(fragments[number], file)
                    if notes is None:
                        files.add(f"{DATA_DIR}/{file.path}")

            if notes is not None:
                note(notes.read(snapshot, (fragments[n] for n in fragments if n not in filled), growth))
            missing = [number for number in fragments if number not in filled]
            if missing:
                kept = partial(_kept, filled, notes, snapshot, [fragments[number] for number in missing], growth)
                with swept(snapshot.store, kept) as stem:
                    filler.fill(FillJob(pin_version(snapshot, place), growth, notes, stem), table, missing, note)
            left = [number for number in missing if number not in filled]
            if left:
                raise InvalidChange(f"there are no new values for the rows of fragment {left[0]}")
            new = tuple(
                with_file(reader.fragment, reader.physical_rows, filled[reader.fragment.id].file, growth.schema)
                for reader in table.readers()
            )
            try:
                done = commit(snapshot, Merge(new, growth.schema, preserves_nullability=not growth.strict), files=files)
                break
            except RetryableCommitConflict:
                if patience.is_over:
                    raise
            table = TableReader(snapshot.latest(), table.cache)
    if notes is not None:
        notes.remove(filled)
    return done


def _kept(
    filled: Mapping[int, Filled], notes: Notes | None, snapshot: Snapshot, fragments: Iterable[Fragment], growth: Growth
) -> list[str]:
    """Paths of the files that are done, as we know or a note tells; what else the tasks have written goes."""
    noted = {} if notes is None else notes.read(snapshot, fragments, growth)
    files = [*(known.file for known in filled.values()), *noted.values()]
    return [f"{DATA_DIR}/{file.path}" for file in files if file is not None]


def _discard(filled: Filled, files: WrittenFiles) -> None:
    if filled.file is not None:
        files.discard(f"{DATA_DIR}/{filled.file.path}")


# Functions over batches


@dataclass(frozen=True, slots=True)
class TaskFunction:
    """A function that each task calls on its own fragments."""

    spark: SparkSession
    source: Computed

    def growth(self, table: TableReader) -> Growth:
        return Addition(self.source).growth(table)

    def fill(self, job: FillJob, table: TableReader, missing: Sequence[int], note: Callable[[Files], None]) -> None:
        run_tasks(self.spark, partial(_call, job, self.source), list(missing), note)


def _call(job: FillJob, source: Computed, number: int) -> Files:
    table = TableReader(job.place.open())
    (reader,) = table.readers([number])
    return {number: job.filled(table, reader, Addition(source))}


# Values in a data frame


@dataclass(frozen=True, slots=True)
class Values:
    """A data frame with the address of each row and its values."""

    frame: Callable[[TableReader], DataFrame]
    """The address, then the values, for all rows of a version."""
    columns: pa.Schema
    """The new columns as they are stored."""
    in_order: bool = False
    """Whether every partition has whole fragments, and their rows in order, unless Spark moved rows between them."""

    def growth(self, table: TableReader) -> Growth:
        return grown(table.snapshot.manifest, self.columns)

    def fill(self, job: FillJob, table: TableReader, missing: Sequence[int], note: Callable[[Files], None]) -> None:
        frame = self.frame(table)
        number = F.shiftright(ROW_ADDRESS, OFFSET_BITS)
        if len(missing) < len(table.snapshot.manifest.fragments):
            frame = frame.filter(number.isin(list(missing)))
        if not self.in_order or moves_rows(frame):
            frame = frame.repartition(min(len(missing), _MOST_PARTITIONS), number).sortWithinPartitions(ROW_ADDRESS)
        run_over(frame, partial(_write, job, self.columns), note)


def moves_rows(frame: DataFrame) -> bool:
    """Whether Spark brings rows of different partitions together for a data frame; its plan says so."""
    shown = io.StringIO()
    with redirect_stdout(shown):
        frame.explain()
    return "Exchange" in shown.getvalue()


def _write(job: FillJob, columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Files:
    table = TableReader(job.place.open())
    pieces = (
        (number, batch.slice(here.start, here.stop - here.start))
        for batch in batches
        for number, here, _ in by_fragment(numpy_array(batch.column(0)).astype(np.uint64))
    )
    made: Files = {}
    with WrittenFiles(table.snapshot.store) as files:
        for number, own in groupby(pieces, lambda piece: piece[0]):
            (reader,) = table.readers([number])
            made[number] = job.filled(table, reader, _Given(columns, (piece for _, piece in own)))
            if job.notes is None:
                files.add(f"{DATA_DIR}/{made[number].path}")
    return made


@dataclass(frozen=True, slots=True)
class _Given:
    """The values of one fragment, in the order of its rows."""

    columns: pa.Schema
    pieces: Iterator[pa.RecordBatch]
    repeatable: bool = False

    def growth(self, table: TableReader) -> Growth:
        return grown(table.snapshot.manifest, self.columns)

    def covers_deleted(self, table: TableReader) -> bool:
        return False

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        live = np.flatnonzero(reader.deletions.keep(0, reader.physical_rows))
        at = 0
        for piece in self.pieces:
            offsets = numpy_array(piece.column(0)) & OFFSET_MASK
            if not np.array_equal(live[at : at + len(offsets)], offsets):
                raise InvalidChange(
                    f"the data frame does not have exactly one row for each row of fragment {reader.fragment.id}; if it "
                    "was joined, make its keys unique"
                )
            at += len(offsets)
            values = pa.RecordBatch.from_arrays(piece.columns[1:], names=self.columns.names)
            yield from conformed_batches([values], self.columns)

    def check_end(self) -> None:
        """The number of values is checked where they are written."""
