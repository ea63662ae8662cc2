"""A table and what its MemWAL has of it, at one moment: the levels, and which of their rows count (spec memwal.md 8.4).

::

    MemTables    newest     of the writer itself, or replayed from the log
    runs         g, g-1, …  of every shard, those that are not in the table yet
    base table   oldest

With a primary key the newest row of each key counts, and none if that is a deletion. Shards have different keys. Without a key
all rows count.

A view is taken from the new to the old: states of shards and logs first, the base table last. What was compacted in between is
in the base table then, which says so, and its runs are passed over. The other way round, rows could be in neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import numpy as np
import pyarrow as pa

from lancelet.editing.merge.join import Pieces, match_keys
from lancelet.editing.merge.keys import KeyIndex, plain
from lancelet.editing.moved import lineage_of
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import numpy_array
from lancelet.errors import CorruptFile, InvalidInput, MissingFile
from lancelet.execution.plan import ScanPlan, table_schema
from lancelet.execution.scan import Scan
from lancelet.execution.shown import scan_field
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column, Expr
from lancelet.file import FileCache
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.index.row_set import RowSet
from lancelet.memwal.ahead import Ahead
from lancelet.memwal.details import MemWalDetails, check_progress, read_details, require_details
from lancelet.memwal.log import read_log
from lancelet.memwal.names import TOMBSTONE
from lancelet.memwal.primary_key import PrimaryKey, key_values, last_of_each
from lancelet.memwal.run_files import Run, write_run
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, SsTable, list_shards
from lancelet.memwal.wal_entry import entry_schema, fitted
from lancelet.store.memory import MemoryStore
from lancelet.table.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.store import Store

_SCAN_ROWS = 1 << 16
_REPLAYS = 16
_SHARDS, _RUNS = Ahead("lancelet-memwal-shards"), Ahead("lancelet-memwal-runs")
_ADDRESS: tuple[str, Expr] = (ROW_ADDRESS, Column((ROW_ADDRESS,), pa.uint64()))


@dataclass(frozen=True)
class ShardView:
    """What is looked at of a shard."""

    shard: UUID
    runs: tuple[SsTable, ...]
    """By ascending generation."""
    memtables: tuple[tuple[int, tuple[pa.RecordBatch, ...]], ...] = ()
    """Rows in memory by ascending generation, each in the columns of the log."""
    field_values: Mapping[str, bytes] = field(default_factory=dict)
    sealed: bool = False
    generation: int | None = None
    """Of the next run, where that is known."""


@dataclass(frozen=True, eq=False)
class Level:
    """A table whose rows are looked at, and what others hide of it."""

    table: TableReader
    generation: int
    """0 for the base table."""
    shard: UUID | None = None
    run: Run | None = None

    @property
    def schema(self) -> pa.Schema:
        return table_schema(self.table.snapshot.manifest.schema)


class View:
    """The levels of a table at one moment. What is read of them is kept.

    ``cached_property`` is not for what reads: up to Python 3.11 views of all threads would wait for each other.
    """

    def __init__(self, base: TableReader, shards: Sequence[ShardView]) -> None:
        self.base = base
        self.shards = tuple(shards)
        self._runs: dict[UUID, tuple[Level, ...]] | None = None
        self._newest: _Newest | None = None
        self._hidden: tuple[RowSet | None] | None = None

    @cached_property
    def key(self) -> PrimaryKey:
        return PrimaryKey.of(self.base.snapshot.manifest.schema)

    @cached_property
    def details(self) -> MemWalDetails | None:
        return read_details(self.base.snapshot.manifest)

    def values_of(self, one: ShardView) -> Mapping[str, bytes]:
        """The values of sharding fields that all rows of a shard have, as far as anybody says."""
        told = None if one.field_values or self.details is None else self.details.told.get(one.shard)
        return one.field_values if told is None else told.field_values

    @property
    def runs(self) -> dict[UUID, tuple[Level, ...]]:
        """The levels of each shard, the newest first; those that are in the base table already are not among them."""
        if self._runs is None:
            self._runs = self._open_runs()
        return self._runs

    def _open_runs(self) -> dict[UUID, tuple[Level, ...]]:
        compacted = {} if self.details is None else self.details.compacted
        wanted = [
            (place, sstable)
            for place, one in enumerate(self.shards)
            for sstable in reversed(one.runs)
            if sstable.generation > compacted.get(one.shard, 0)
        ]
        opened = _RUNS.each(self.base.snapshot.store, wanted, self._open_run)
        runs: dict[int, list[Level]] = {}
        for (place, sstable), run in zip(wanted, opened, strict=True):
            runs.setdefault(place, []).append(Level(run.table, sstable.generation, self.shards[place].shard, run))
        found: dict[UUID, tuple[Level, ...]] = {}
        for place, one in enumerate(self.shards):
            levels = [
                self._memory_level(one.shard, generation, batches)
                for generation, batches in reversed(one.memtables)
                if generation > compacted.get(one.shard, 0)
            ]
            found[one.shard] = (*levels, *runs.get(place, ()))
        return found

    def _open_run(self, wanted: tuple[int, SsTable]) -> Run:
        place, sstable = wanted
        folder = ShardStates.of(self.base.snapshot.store, self.shards[place].shard).store
        return Run.open(folder, sstable, self.base.snapshot.manifest.schema, self.base.cache)

    def _memory_level(self, shard: UUID, generation: int, batches: Sequence[pa.RecordBatch]) -> Level:
        """A MemTable as a table in memory, which all that reads tables can read."""
        target = entry_schema(self.base.snapshot.manifest.schema)
        batches = [fitted(batch, target) for batch in batches]
        store = MemoryStore(f"memory://memwal-{uuid4().hex}").private()
        sstable = write_run(store, self.base.snapshot, batches, generation, self._text_indices)
        run = Run.open(store, sstable, self.base.snapshot.manifest.schema, FileCache())
        return Level(run.table, generation, shard, run)

    @cached_property
    def _text_indices(self) -> tuple[str, ...]:
        """Indices without which a search in memory would not find what one in the table does."""
        texts = (
            index for index in self.base.snapshot.manifest.indices if index.index_details.type_url.endswith(_INVERTED)
        )
        return tuple(dict.fromkeys(index.name for index in texts))

    @property
    def levels(self) -> tuple[Level, ...]:
        """All levels, the newest of each shard first, the base table last."""
        return (*(level for levels in self.runs.values() for level in levels), Level(self.base, 0))

    def newest(self) -> _Newest:
        """Which row of each key counts, above the base table."""
        if self._newest is None:
            self._newest = self._find_newest()
        return self._newest

    def _find_newest(self) -> _Newest:
        counted: dict[int, RowSet] = {}
        keys: list[list[pa.Array]] = []
        place = 0
        for levels in self.runs.values():
            parts = [keys_of(level.table, self.key) for level in reversed(levels)]
            if parts:
                columns = [pa.concat_arrays(arrays) for arrays in zip(*(part.columns for part in parts), strict=True)]
                gone = np.concatenate([part.tombstones for part in parts])
                last = last_of_each(key_values(columns))
                keys.append([pick_rows(column, pa.array(last)) for column in columns])
                alive = last[~gone[last]]
                ends = np.cumsum([len(part.tombstones) for part in parts])
                for number, part in enumerate(parts):
                    start = ends[number] - len(part.tombstones)
                    here = alive[(alive >= start) & (alive < ends[number])] - start
                    counted[place + len(levels) - 1 - number] = RowSet.of(part.addresses[here])
            place += len(levels)
        return _Newest(counted, [pa.concat_arrays(arrays) for arrays in zip(*keys, strict=True)] if keys else [])

    def allowed(self, place: int) -> RowSet | None:
        """The rows of a level that count, by their ids; None: all."""
        if not self.key or place == len(self.levels) - 1:
            return None
        return self.newest().rows[place]

    @property
    def hidden(self) -> RowSet | None:
        """The rows of the base table that do not count, by their ids; None for none."""
        if self._hidden is None:
            self._hidden = (self._find_hidden(),)
        return self._hidden[0]

    def _find_hidden(self) -> RowSet | None:
        return self.hidden_within(None)

    def hidden_within(self, pieces: Pieces | None) -> RowSet | None:
        """The rows of pieces of the base table that do not count, by their ids; None for none."""
        if not self.key or not self.newest().keys:
            return None
        matches = match_keys(self.base, self.key.fields, KeyIndex(self.newest().keys), pieces)
        if not len(matches):
            return None
        addresses = np.unique(matches.addresses)
        lineage = lineage_of(self.base, addresses)
        return RowSet.of(addresses if lineage is None else np.sort(lineage.row_ids))


_INVERTED = "InvertedIndexDetails"


@dataclass(frozen=True, slots=True)
class _Newest:
    rows: dict[int, RowSet]
    """Of each level, by its place, the rows that count."""
    keys: list[pa.Array]
    """The columns of all keys that levels above the base table have."""


@dataclass(frozen=True, slots=True)
class RunKeys:
    """Of the rows of a run that are not hidden."""

    columns: list[pa.Array]
    tombstones: npt.NDArray[np.bool_]
    addresses: npt.NDArray[np.uint64]


def keys_of(table: TableReader, key: PrimaryKey) -> RunKeys:
    """The keys of a run's rows that are not hidden."""
    schema = table.snapshot.manifest.schema
    outputs: list[tuple[str, Expr]] = [(one.name, Column((one.name,), scan_field(one).type)) for one in key.fields]
    outputs.append((TOMBSTONE, Column((TOMBSTONE,), pa.bool_())))
    plan = ScanPlan(schema, (*outputs, _ADDRESS), batch_size=_SCAN_ROWS)
    batches = list(Scan(table, plan).batches())
    if not batches:
        return RunKeys([pa.array([], dtype) for dtype in key.types], np.empty(0, np.bool_), np.empty(0, np.uint64))
    whole = pa.Table.from_batches(batches)
    *columns, gone, addresses = (plain(column) for column in whole.columns)
    return RunKeys(columns, numpy_array(gone.fill_null(False)), numpy_array(addresses))


def shard_view(manifest: ShardManifest, memtables: Sequence[tuple[int, tuple[pa.RecordBatch, ...]]] = ()) -> ShardView:
    """All that a state of a shard tells of."""
    values = dict(manifest.field_values)
    return ShardView(manifest.shard, manifest.sstables, tuple(memtables), values, manifest.sealed, manifest.generation)


def take_view(snapshot: Snapshot, cache: FileCache, *, strong: bool = False, own: Sequence[ShardView] = ()) -> View:
    """The newest version of a table with what its shards have; ``strong`` reads their logs too.

    ``own`` are shards of which the caller knows better, since it writes them.
    """
    known = {one.shard for one in own}
    for _ in range(_REPLAYS):
        shards, without = [*own], set()
        looked_at = [shard for shard in list_shards(snapshot.store) if shard not in known]
        look = partial(_look_at, snapshot.store, strong=strong)
        for shard, seen in zip(looked_at, _SHARDS.each(snapshot.store, looked_at, look), strict=True):
            if seen is not None:
                shards.append(seen)
            else:
                without.add(shard)
        view = View(TableReader(snapshot.latest(), cache), tuple(shards))
        if any(one.runs or one.memtables for one in shards):
            # After an overwrite the folders of shards are still there, with rows of what was overwritten.
            require_details(view.base.snapshot)
        _check_same(view)
        if not _is_overtaken(view, known):
            _check_whole(view, known)
            _check_stated(view, without)
            check_apart(view.base.snapshot, shards)
            return view
    raise MissingFile(snapshot.uri, "its runs are compacted faster than its logs can be read; read it again")


def _check_same(view: View) -> None:
    """Raise when the table's progress is that of other shards than those that are here."""
    base = view.base.snapshot
    compacted = {} if view.details is None else view.details.compacted
    for one in view.shards:
        if one.generation is not None and one.generation <= compacted.get(one.shard, 0):
            # Else the shard only went on since it was looked at.
            check_progress(base, ShardStates.of(base.store, one.shard).latest() or ShardManifest(one.shard))


def _is_overtaken(view: View, own: set[UUID]) -> bool:
    """Whether the table has rows of a log already, of which nobody can say where in the log they end."""
    compacted = {} if view.details is None else view.details.compacted
    return any(
        generation <= compacted.get(one.shard, 0)
        for one in view.shards
        if one.shard not in own
        for generation, _ in one.memtables
    )


def _look_at(table: Store, shard: UUID, *, strong: bool) -> ShardView | None:
    states = ShardStates.of(table, shard)
    return _replayed(states) if strong else _flushed(states)


def _flushed(states: ShardStates) -> ShardView | None:
    manifest = states.latest()
    return None if manifest is None else shard_view(manifest)


def _replayed(states: ShardStates) -> ShardView | None:
    """The runs of a shard and what is in its log after them, both of one moment."""
    for _ in range(_REPLAYS):
        manifest = states.latest()
        if manifest is None:
            return None
        batches = tuple(batch for entry in read_log(states, manifest) for batch in entry.batches)
        newest = states.latest()
        if newest is not None and newest.flushed == manifest.flushed:
            return shard_view(manifest, [(manifest.generation, batches)] if batches else ())
    raise MissingFile(states.store.uri, "its runs are written faster than its log can be read; read it again")


def _check_whole(view: View, own: set[UUID]) -> None:
    """Raise when runs are neither listed nor in the table: rows would be missing."""
    compacted = {} if view.details is None else view.details.compacted
    for one in view.shards:
        generations = [run.generation for run in one.runs]
        first = compacted.get(one.shard, 0) + 1
        wanted = [number for number in generations if number >= first]
        if one.shard not in own and wanted and wanted != list(range(first, wanted[-1] + 1)):
            raise CorruptFile(
                f"{view.base.snapshot.uri}/_mem_wal/{one.shard}",
                f"runs up to {first - 1} are in the table and {wanted} are listed: those in between are lost",
            )


def _check_stated(view: View, without: Set[UUID]) -> None:
    """Raise when the states of a shard are gone of which the table tells that it had rows."""
    if not without or view.details is None:
        return
    told, compacted = view.details.told, view.details.compacted
    for shard in without:
        state = told[shard].state if shard in told else None
        runs = () if state is None else state.sstables
        lost = [run.path for run in runs if run.generation > compacted.get(shard, 0)]
        if lost:
            raise CorruptFile(
                f"{view.base.snapshot.uri}/_mem_wal/{shard}",
                f"the shard has no states any more, and the table tells of its runs {lost}, which are not in it: put the folder "
                "'manifest' back, or remove that of the shard to give its rows up",
            )


def check_apart(base: Snapshot, shards: Sequence[ShardView]) -> None:
    """Raise when a sealed shard and one after it both have rows above a version, as after an older version was restored.

    Keys are in one shard at a time otherwise: a sealed one is compacted before others get such rows.
    """
    if not PrimaryKey.of(base.manifest.schema):
        return
    details = read_details(base.manifest)
    compacted = {} if details is None else details.compacted
    found: dict[tuple[tuple[str, bytes], ...], ShardView] = {}
    for one in shards:
        if one.memtables or any(run.generation > compacted.get(one.shard, 0) for run in one.runs):
            other = found.setdefault(tuple(sorted(one.field_values.items())), one)
            if one.field_values and other is not one and (one.sealed or other.sealed):
                first, then = (one, other) if one.sealed else (other, one)
                raise InvalidInput(
                    f"shards {first.shard} and {then.shard} of {base.uri} both have rows of the same keys that are not in the "
                    f"table. The first one is sealed and has the older ones: call compact_mem_wal(['{first.shard}']) first"
                )


def given_view(base: TableReader, shards: Sequence[ShardView]) -> View:
    """A version of a table with runs that a caller names."""
    return View(base, tuple(shards))


def iterate_shards(table: Store) -> Iterator[ShardManifest]:
    """The newest states of all shards of a table."""
    for manifest in _SHARDS.each(table, list_shards(table), lambda shard: ShardStates.of(table, shard).latest()):
        if manifest is not None:
            yield manifest
