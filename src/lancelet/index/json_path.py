"""JSON: an index on what is at one path of JSON documents, of another kind, its target (spec indices.md 11).

The files are those of the target, over values of one type: that of the first value at the path. Where there is nothing
at the path, or null, the value is null. Filters ask it through ``json_get_int`` and the like, whose results are the
values of an index of the same type; other functions see documents otherwise, and are left to the scan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lancelet.encoding.jsonb_paths import parse_path
from lancelet.encoding.jsonb_values import Selection, in_form, select
from lancelet.errors import CorruptFile, InvalidInput, InvalidType, NotSupported
from lancelet.index.kind import ROW, VALUE, Answering, Built, KnownKind, NewRows, ScalarKind, Source
from lancelet.index.questions import Question
from lancelet.index.scalar import bitmap, bloom_filter, btree, ngram, zone_map
from lancelet.index.scalar.options import refuse_unknown
from lancelet.table.commit.index_upkeep import details_name
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.format.proto.json_index_pb2 import JsonIndexDetails
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.kind import Kind
    from lancelet.index.metadata import IndexMetadata
    from lancelet.index.row_set import RowNumbers

PATH, TARGET, PARAMETERS, DATA_TYPE = "path", "target_index_type", "target_index_parameters", "target_data_type"
_TARGETS: Final[tuple[ScalarKind, ...]] = (btree.KIND, bitmap.KIND, ngram.KIND, zone_map.KIND, bloom_filter.KIND)
_TYPES: Final = {1: pa.bool_(), 2: pa.int64(), 3: pa.float64(), 4: pa.string(), 5: pa.large_binary()}
"""Types of values, by their number in the details."""
_NUMBERS: Final = {dtype: number for number, dtype in _TYPES.items()}
_TYPE_COLUMNS: Final = {
    "BTREE": ("page_lookup.lance", "min"),
    "BITMAP": ("bitmap_page_lookup.lance", "keys"),
    "ZONEMAP": ("zonemap.lance", "min"),
}
"""A column of the values' type, in the files of a target."""
_OF_TAG: Final = {1: pa.bool_(), 2: pa.int64(), 3: pa.float64(), 4: pa.string()}
_TAGS: Final = {pa.bool_(): (1,), pa.int64(): (2,), pa.float64(): (2, 3), pa.string(): (4,)}
_TAG_NAMES: Final = ("null", "a boolean", "an integer", "a number", "a text", "an array", "an object")
_PLACE: Final = "index details"


class JsonKind(ScalarKind):
    """The kind of index that users call ``JSON``; with a target, that of the segments over it."""

    name = "JSON"
    type_url = "/lance.index.pb.JsonIndexDetails"
    rank = 9
    reads_stored_json = True

    def __init__(self, target: ScalarKind | None = None) -> None:
        self.target = target
        if target is not None:
            self.moves, self.rank, self.is_exact = target.moves, target.rank, target.is_exact
            # The version is that of the wrapping, and always 0; pylance puts ids where a BITMAP or an NGRAM has them.
            self.last_version_with_ids = 0 if target in (bitmap.KIND, ngram.KIND) else None
            self.with_stable_ids = self.last_version_with_ids is not None

    def specific(self, entry: IndexMetadata) -> KnownKind:
        """The kind over the target that an entry names; itself for a target that is not known."""
        details = _details(entry, entry.name)
        name = details_name(details.target_details.type_url).lower()
        target = next((kind for kind in _TARGETS if kind.details_name.lower() == name), None)
        return self if target is None else _over(target)

    def chosen(self, options: Mapping[str, object]) -> Kind:
        """The kind over the target that a user asks for."""
        name = options.get(TARGET)
        if not isinstance(name, str):
            raise InvalidInput(f"a JSON index needs {TARGET!r}, one of {_names()}, not {name!r}")
        target = next((kind for kind in _TARGETS if kind.name == name.upper()), None)
        if target is None:
            if name.upper() == "INVERTED":
                raise NotSupported(
                    "there are no JSON indices over INVERTED; create an INVERTED index on the JSON column itself"
                )
            raise InvalidInput(f"a JSON index is over one of {_names()}, not over {name!r}")
        return _over(target)

    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        if self.target is None:
            self.chosen(options).check(column, options)
            return
        refuse_unknown(options, (TARGET, PATH, PARAMETERS, DATA_TYPE), self.name)
        path = options.get(PATH)
        if not isinstance(path, str):
            raise InvalidInput(f"a JSON index needs a {PATH!r}, such as '$.a', not {path!r}")
        parse_path(path)
        _chosen_type(options)
        parameters = _parameters(options)
        if self.target is not ngram.KIND:
            self.target.check(pa.field(column.name, pa.int64()), parameters)

    def opens(self, entry: IndexMetadata) -> bool:
        return self.target is not None and (
            self.target is not bloom_filter.KIND or _details(entry, entry.name).target_data_type in _TYPES
        )

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        return self.target is not None and self.target.takes(question, dtype)

    def keys(self, entry: IndexMetadata) -> tuple[str, ...] | None:
        """The names of the members that lead to the values. Numbers may be elements of arrays to whoever asks."""
        try:
            keys = parse_path(_details(entry, entry.name).path).keys
        except InvalidInput:
            return None
        return None if not keys or any(key.lstrip("+").isdigit() for key in keys) else keys

    def value_type(self, folder: IndexFolder, dtype: pa.DataType) -> pa.DataType:
        """The type of the values of a segment: as its details say, or as its files have it."""
        assert self.target is not None
        told = _TYPES.get(_details(folder.entry, folder.entry.name).target_data_type)
        if told is not None or self.target is ngram.KIND:
            return told or pa.string()
        name, column = _TYPE_COLUMNS[self.target.name]
        return folder.open(name).type(column)

    def indexed_values(self, values: pa.Array, folder: IndexFolder) -> pa.Array:
        """What is at the path of documents."""
        path = _details(folder.entry, folder.entry.name).path
        return _values(
            select(in_form(values, pa.large_binary()), parse_path(path)), self.value_type(folder, values.type)
        )

    def parameters(self, entry: IndexMetadata, path: str) -> dict[str, Any]:
        details = _details(entry, path)
        shown = {} if self.target is None else self.target.parameters(_target_entry(entry, details), path)
        return {PATH: details.path, "target_details": shown}

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        assert self.target is not None
        details = _details(folder.entry, folder.entry.name)
        beside = replace(folder, entry=_target_entry(folder.entry, details))
        options = {TARGET: self.target.name, PATH: details.path, PARAMETERS: dict(self.target.options(beside))}
        try:
            return {**options, DATA_TYPE: str(self.value_type(folder, pa.large_binary()))}
        except (CorruptFile, FileNotFoundError):
            # What replaces damaged files has the type of the first value again.
            return options

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> Answering:
        assert self.target is not None
        details = _details(folder.entry, folder.entry.name)
        inner = replace(folder, entry=_target_entry(folder.entry, details))
        return self.target.open(inner, self.value_type(folder, dtype))

    def write(self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, Any]) -> Built:
        from lancelet.format.proto.json_index_pb2 import JsonIndexDetails

        if self.target is None:
            if out.stable_row_ids:
                raise NotSupported("a JSON index of a table with stable row ids is built by create_scalar_index()")
            return self.chosen(options).write(sources, rows, out, options)
        path = parse_path(options[PATH])
        found: _Found = ((batch, select(batch.column(VALUE), path)) for batch in rows.batches)
        dtype = _chosen_type(options)
        missing: list[_Missing] = []
        if dtype is None:
            dtype, missing, found = _inferred(found, options[PATH])
        parameters = _parameters(options)
        self.target.check(pa.field(f"JSON at {options[PATH]}", dtype), parameters)

        def batches() -> Iterator[pa.RecordBatch]:
            for part in missing:
                yield pa.RecordBatch.from_arrays([pa.nulls(part.count, dtype), pa.array(part.rows)], names=[VALUE, ROW])
            for batch, selection in found:
                yield pa.RecordBatch.from_arrays([_values(selection, dtype), batch.column(ROW)], names=[VALUE, ROW])

        built = self.target.write(sources, NewRows(dtype, batches(), rows.count, None, rows.stages), out, parameters)
        details = JsonIndexDetails(path=options[PATH], target_data_type=_NUMBERS[dtype])
        details.target_details.type_url = self.target.type_url
        details.target_details.value = built.details
        return Built(details.SerializeToString(), 0, built.covers)


@cache
def _over(target: ScalarKind) -> JsonKind:
    return JsonKind(target)


def _names() -> str:
    return ", ".join(kind.name.lower() for kind in _TARGETS)


def _details(entry: IndexMetadata, path: str) -> JsonIndexDetails:
    from lancelet.format.proto.json_index_pb2 import JsonIndexDetails

    return parse_message(entry.details, JsonIndexDetails, path, _PLACE)


def _target_entry(entry: IndexMetadata, details: JsonIndexDetails) -> IndexMetadata:
    """A segment's entry as if it were of the target."""
    return replace(entry, type_url=details.target_details.type_url, details=details.target_details.value)


def _parameters(options: Mapping[str, object]) -> Mapping[str, Any]:
    """Options of the target, as a dict or as its JSON."""
    given = options.get(PARAMETERS) or {}
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            raise InvalidInput(f"{PARAMETERS} is a dict, or its JSON, not {given!r}") from None
    if not isinstance(given, Mapping):
        raise InvalidType(f"{PARAMETERS} is a dict, or its JSON, not {given!r}")
    return given


def _chosen_type(options: Mapping[str, object]) -> pa.DataType | None:
    name = options.get(DATA_TYPE)
    dtype = next((one for one in _TAGS if str(one) == name), None)
    if name is not None and dtype is None:
        raise InvalidInput(f"{DATA_TYPE} is one of {', '.join(map(str, _TAGS))}, not {name!r}")
    return dtype


_Found = Iterator[tuple[pa.RecordBatch, Selection]]


def _inferred(found: _Found, path: str) -> tuple[pa.DataType, list[_Missing], _Found]:
    """The type of the first value, the rows before it, which have none, and the others."""
    missing: list[_Missing] = []
    for batch, selection in found:
        tags = selection.tags()
        known = tags[tags != 0]
        if not len(known):
            missing.append(_Missing.of(np.asarray(batch.column(ROW))))
            continue
        if int(known[0]) not in _OF_TAG:
            raise InvalidInput(
                f"the values at JSON path {path!r} begin with {_TAG_NAMES[known[0]]}; an index is on single values"
            )
        return _OF_TAG[int(known[0])], missing, chain([(batch, selection)], found)
    return pa.string(), missing, iter(())


@dataclass(frozen=True, slots=True)
class _Missing:
    """Rows without a value, which may be many: those that follow each other are a range."""

    first: int
    count: int
    others: RowNumbers | None

    @classmethod
    def of(cls, rows: RowNumbers) -> _Missing:
        is_range = len(rows) > 0 and bool((np.diff(rows) == 1).all())
        return cls(int(rows[0]), len(rows), None) if is_range else cls(0, len(rows), rows)

    @property
    def rows(self) -> RowNumbers:
        if self.others is not None:
            return self.others
        found: RowNumbers = np.arange(self.count, dtype=np.uint64) + np.uint64(self.first)
        return found


def _values(selection: Selection, dtype: pa.DataType) -> pa.Array:
    """Values of one type, which those at a path must have."""
    one = selection.one()
    tags = one.tags()
    wrong = ~np.isin(tags, (0, *_TAGS[dtype]))
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidInput(
            f"the values at JSON path {selection.path.text!r} are of the type {dtype} in the index, but one is {_TAG_NAMES[tags[row]]}: "
            f"{one.json()[row].as_py()[:40]}; values that are indexed must be of one type"
        )
    if dtype == pa.bool_():
        return one.truths()
    if dtype == pa.int64():
        return one.integers()
    return one.floats() if dtype == pa.float64() else one.texts()


KIND: Final = JsonKind()
