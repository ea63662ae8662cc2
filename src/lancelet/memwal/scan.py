"""Reading a view: scans, counts, searches and lookups over all of its levels as over one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet._api.scanner import ScannerBuilder
from lancelet.editing.merge.join import match_keys
from lancelet.editing.merge.keys import KeyIndex, plain
from lancelet.encoding.picking import keep_rows, pick_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.execution.opening import open_scan
from lancelet.execution.plan import plan_take
from lancelet.execution.row_mask import RowMask
from lancelet.execution.scan import Scan
from lancelet.format.system_columns import DISTANCE, ROW_ADDRESS, SCORE
from lancelet.memwal.names import GENERATION, TOMBSTONE
from lancelet.memwal.primary_key import PrimaryKey, hashes, key_values, last_of_each
from lancelet.memwal.sharding import BUCKET, IDENTITY, evaluate, scalar_bytes
from lancelet.memwal.texts import LevelTexts
from lancelet.memwal.view import Level, View
from lancelet.runtime import compute as pc

_GENERATION_FIELD = pa.field(GENERATION, pa.uint64(), nullable=False)
_SEARCHED = 10
"""How many rows a search gives where nobody says."""


@dataclass(frozen=True)
class LevelScan:
    """What is asked of all levels together."""

    columns: tuple[str, ...] | None = None
    filter: str | None = None
    limit: int | None = None
    offset: int = 0
    row_address: bool = False
    generation: bool = False
    nearest: Mapping[str, Any] | None = None
    """The options of a search for vectors."""
    text: tuple[Any, Sequence[str] | None] | None = None
    """A search for texts, and its columns."""

    def batches(self, view: View) -> Iterator[pa.RecordBatch]:
        """The rows, those of newer levels first; of a search the best first."""
        if self.nearest is not None or self.text is not None:
            yield from self._ranked(view).to_batches()
            return
        skip, left = self.offset, self.limit
        for place, level in enumerate(view.levels):
            if left == 0:
                return
            builder = self._builder(view, place, level)
            if left is not None:
                builder.limit(skip + left)
            for batch in builder.to_scanner().to_batches():
                shown = self._shown(batch, level)
                if skip:
                    passed = min(skip, shown.num_rows)
                    skip -= passed
                    shown = shown.slice(passed)
                if left is not None:
                    shown = shown.slice(0, left)
                    left -= shown.num_rows
                if shown.num_rows:
                    yield shown

    def count(self, view: View) -> int:
        """How many rows pass the filter."""
        if self.limit is not None or self.offset or self.nearest is not None or self.text is not None:
            return sum(batch.num_rows for batch in self.batches(view))
        asked = replace(self, row_address=False, generation=False)
        return sum(
            asked._builder(view, place, level).to_scanner().count_rows() for place, level in enumerate(view.levels)
        )

    def schema(self, view: View) -> pa.Schema:
        """The columns of the result."""
        base = Level(view.base, 0)
        builder = self._builder(view, len(view.levels) - 1, base, masked=False)
        return self._shown_schema(builder.to_scanner().projected_schema)

    def _builder(self, view: View, place: int, level: Level, *, masked: bool = True) -> ScannerBuilder:
        builder = ScannerBuilder(level)
        names = self.columns
        if names is None:
            names = tuple(view.base.snapshot.manifest.schema.names)
            mark = DISTANCE if self.nearest is not None else SCORE if self.text is not None else None
            names = names if mark is None else (*names, mark)
        builder.columns(list(names))
        if self.filter is not None:
            builder.filter(self.filter)
        if self.row_address:
            builder.with_row_address()
        if masked:
            builder.row_addr_prefilter(*_mask(view, place, level))
        if self.nearest is not None:
            builder.nearest(**self._nearest_options(view)).prefilter(True)
        if self.text is not None:
            builder.full_text_search(*self.text).prefilter(True)
        return builder

    def _nearest_options(self, view: View) -> dict[str, Any]:
        """The metric of the base table's index is that of all levels, and vectors are compared themselves: distances by
        the codes of different indices do not go together."""
        assert self.nearest is not None
        options = dict(self.nearest)
        if len(view.levels) > 1 and options.get("refine_factor") is None:
            options["refine_factor"] = 1
        if options.get("metric") is None:
            plan = ScannerBuilder(Level(view.base, 0)).nearest(**options).to_scanner().plan
            assert plan.nearest is not None
            index = view.base.vector_indices.choose(plan.nearest)
            options["metric"] = None if index is None else index.metric.value
        return options

    def _ranked(self, view: View) -> pa.Table:
        """The best rows of all levels, of which each tells its own best."""
        self._check_one_query(view)
        wanted = None if self.limit is None else self.limit + self.offset
        if self.nearest is not None:
            found = int(self.nearest.get("k") or _SEARCHED)
            wanted = found if wanted is None else min(wanted, found)
        mark, order = (DISTANCE, "ascending") if self.nearest is not None else (SCORE, "descending")
        asked = self
        if self.columns is not None and mark not in self.columns:
            asked = replace(self, columns=(*self.columns, mark))
        parts = []
        for level, table in zip(view.levels, asked._found(view, wanted), strict=True):
            batches = [asked._shown(batch, level) for batch in table.to_batches()]
            parts.append(pa.Table.from_batches(batches, asked._shown_schema(table.schema)))
        whole = pa.concat_tables(parts, promote_options="permissive")
        # Levels that are as good keep their order: newer ones come first.
        values = numpy_array(whole.column(mark).combine_chunks())
        places = np.argsort(values if order == "ascending" else -values, kind="stable")
        places = places[self.offset : wanted]
        return pick_rows(whole, arrow_array(places))

    def _found(self, view: View, wanted: int | None) -> list[pa.Table]:
        """The best rows of each level."""
        if self.text is None:
            return [
                self._builder(view, place, level).to_scanner().to_table() for place, level in enumerate(view.levels)
            ]
        # Columns, and what is a text, are those of the base table.
        *above, base = enumerate(view.levels)
        plan = self._builder(view, *base).limit(wanted).to_scanner().plan
        if not above:
            return [open_scan(view.base, plan).to_table()]
        plans = [
            (
                level.table,
                replace(plan, schema=level.table.snapshot.manifest.schema, mask=_row_mask(view, place, level)),
            )
            for place, level in above
        ]
        return LevelTexts([*plans, (view.base, plan)]).tables()

    def _check_one_query(self, view: View) -> None:
        if self.nearest is None:
            return
        plan = ScannerBuilder(Level(view.base, 0)).nearest(**self.nearest).to_scanner().plan
        if plan.nearest is not None and plan.nearest.is_batch and len(plan.nearest.queries) > 1:
            raise NotSupported(
                "a search over a table and its MemWAL takes one vector, and several were given: search for one after the other, or "
                "call compact_mem_wal() and search the table"
            )

    def _shown_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema.append(_GENERATION_FIELD) if self.generation else schema

    def _shown(self, batch: pa.RecordBatch, level: Level) -> pa.RecordBatch:
        """Rows with what tells where they are from; only rows of the base table have addresses."""
        columns, schema = list(batch.columns), batch.schema
        if self.row_address and level.generation:
            at = schema.get_field_index(ROW_ADDRESS)
            columns[at] = pa.nulls(batch.num_rows, pa.uint64())
        if self.generation:
            columns.append(arrow_array(np.full(batch.num_rows, level.generation, np.uint64)))
        return pa.RecordBatch.from_arrays(columns, schema=self._shown_schema(schema))


def _mask(view: View, place: int, level: Level) -> tuple[bytes | None, bytes | None]:
    """The rows of a level that count, and those that do not, as far as either is known."""
    if not level.generation:
        return None, None if view.hidden is None else view.hidden.serialize()
    allowed = view.allowed(place)
    return None if allowed is None else allowed.serialize(), None


def _row_mask(view: View, place: int, level: Level) -> RowMask | None:
    mask = _mask(view, place, level)
    return None if mask == (None, None) else RowMask(*mask)


def lookup(view: View, keys: pa.Array | Sequence[pa.Array], columns: Sequence[str] | None = None) -> pa.Table:
    """The rows with some keys, in the order of levels; keys that are nowhere, or deleted, have none.

    ``keys`` are values of the key, or structs of those of its columns.
    """
    key = view.key
    key.require("a lookup")
    left = _key_columns(key, keys)
    names = list(columns) if columns is not None else list(view.base.snapshot.manifest.schema.names)
    found: list[pa.Table] = []
    # The filters of all runs ask for the same hashes.
    hashed = hashes(left)
    for one in view.shards:
        for level in view.runs[one.shard]:
            if not len(left[0]):
                break
            if not _may_be_in(view, view.values_of(one), left):
                break
            assert level.run is not None
            if level.run.may_hold(hashed):
                rows, left = _in_run(level, key, left, names)
                found.append(rows)
                hashed = hashes(left)
    if len(left[0]):
        matches = match_keys(view.base, key.fields, KeyIndex(left))
        if len(matches):
            scan = Scan(view.base, plan_take(view.base.snapshot.manifest.schema, names))
            found.append(scan.take(*view.base.locate_addresses(np.unique(matches.addresses))))
    if not found:
        return Scan(view.base, plan_take(view.base.snapshot.manifest.schema, names)).schema.empty_table()
    return pa.concat_tables(found, promote_options="permissive")


def _key_columns(key: PrimaryKey, keys: pa.Array | Sequence[pa.Array]) -> list[pa.Array]:
    if isinstance(keys, pa.ChunkedArray):
        keys = plain(keys)
    if isinstance(keys, pa.StructArray):
        missing = [name for name in key.names if keys.type.get_field_index(name) < 0]
        if missing:
            raise InvalidInput(
                f"the key has the columns {list(key.names)}, and {missing[0]!r} is not among those given"
            )
        keys = [keys.field(name) for name in key.names]
    elif isinstance(keys, pa.Array):
        keys = [keys]
    if len(keys) != len(key.fields):
        raise InvalidInput(f"the key has the columns {list(key.names)}, not {len(keys)}; give structs of them")
    found = []
    for values, dtype, name in zip(keys, key.types, key.names, strict=True):
        try:
            found.append(plain(values if values.type == dtype else values.cast(dtype)))
        except pa.ArrowException as error:
            raise InvalidType(f"column '{name}' of the key is {dtype}, and the value is not: {error}") from error
    return found


def _may_be_in(view: View, field_values: Mapping[str, bytes], columns: Sequence[pa.Array]) -> bool:
    """Whether a shard can have some keys, by the values that all of its rows share."""
    specs = () if view.details is None else view.details.specs
    if not field_values or not specs or len(specs[-1].fields) != 1:
        return True
    (one,) = specs[-1].fields
    if one.transform not in (BUCKET, IDENTITY):
        # Of the first model, or of a later one: rows are read, wherever they are.
        return True
    schema = view.base.snapshot.manifest.schema
    names = {node.id: node.name for node in schema.fields}
    known = field_values.get(one.field_id)
    if known is None or len(one.source_ids) != 1 or names.get(one.source_ids[0]) not in view.key.names:
        return True
    batch = pa.RecordBatch.from_arrays(list(columns), names=list(view.key.names))
    values = evaluate(batch, specs[-1], schema).column(0)
    return any(scalar_bytes(value) == known for value in values)


def _in_run(
    level: Level, key: PrimaryKey, left: list[pa.Array], names: Sequence[str]
) -> tuple[pa.Table, list[pa.Array]]:
    """The rows of a run that have some keys and are no deletions, and the keys that it does not have."""
    assert level.run is not None
    table = level.table
    (reader,) = table.readers()
    offsets = level.run.rows_of(key, left)
    if reader.fragment.deletion_file is not None:
        offsets = offsets[~reader.deletions.contains(offsets)]
    schema = table.snapshot.manifest.schema
    asked = list(dict.fromkeys([*names, *key.names, TOMBSTONE]))
    rows = Scan(table, plan_take(schema, asked)).take(np.zeros(len(offsets), np.int64), offsets)
    if not level.run.has_key_index:
        # Written when the table had no key, or in the first model: older rows of a key are not hidden.
        last = last_of_each(key_values([plain(rows.column(name)) for name in key.names]))
        rows = pick_rows(rows, arrow_array(last))
    _, known = KeyIndex(left).match([plain(rows.column(name)) for name in key.names])
    rest = np.ones(len(left[0]), np.bool_)
    rest[known] = False
    alive = keep_rows(rows, pc.invert(rows.column(TOMBSTONE).fill_null(False)))
    return alive.select(list(names)), [keep_rows(column, arrow_array(rest)) for column in left]
