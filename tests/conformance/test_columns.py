"""Columns added, altered and dropped: what pylance makes of a table, we make of its copy.

Each change is made twice, by pylance on a table and by us on a copy of it. Afterwards both tables must say the same:
rows, schema, field ids, files of each fragment, transaction and row versions, and each library reads both.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.editing.columns.casts import can_recast
from lancelet.errors import InvalidChange, InvalidInput, RetryableCommitConflict
from lancelet.testing import assert_identical

ROWS = 24
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
LISTS = pa.list_(pa.struct([("p", pa.int64())]))


def rows(start: int = 0, stop: int = ROWS) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "k": pa.array([n * 3 for n in numbers], pa.int32()),
            "n": pa.array([None if n % 3 == 0 else n for n in numbers], pa.int32()),
            "t": pa.array([f"text {n}" for n in numbers]),
            "f": pa.array([n / 4 for n in numbers], pa.float64()),
            "s": pa.array([None if n % 7 == 6 else {"x": n, "y": str(n)} for n in numbers], STRUCT),
            "l": pa.array([None if n % 5 == 4 else [{"p": i} for i in range(n % 3)] for n in numbers], LISTS),
            "v": pa.array([[n, n + 0.5] for n in numbers], pa.list_(pa.float32(), 2)),
        },
        schema=pa.schema(
            [
                pa.field("a", pa.int64(), nullable=False),
                pa.field("k", pa.int32()),
                pa.field("n", pa.int32()),
                pa.field("t", pa.string()),
                pa.field("f", pa.float64()),
                pa.field("s", STRUCT),
                pa.field("l", LISTS),
                pa.field("v", pa.list_(pa.float32(), 2)),
            ],
            metadata={"who": "test"},
        ),
    )


def make(path: Path, *, deleted: str | None = "a in (0, 1, 9, 23)", **options: Any) -> str:
    uri = str(path / "table.lance")
    table = rows()
    if options.get("data_storage_version") == "2.0":
        # Its structs are never null.
        table = table.set_column(
            5, table.schema.field("s"), pa.array([{"x": n, "y": str(n)} for n in range(ROWS)], STRUCT)
        )
    dataset = lance.write_dataset(table, uri, max_rows_per_file=10, **options)
    if deleted:
        dataset.delete(deleted)
    return uri


def copied(uri: str) -> str:
    target = uri.replace("table.lance", "copy.lance")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(uri, target)
    return target


def state(uri: str) -> dict[str, Any]:
    """What a table says of itself, but for names of files and times."""
    dataset = lance.dataset(uri)
    operation = dataset.read_transaction(dataset.version).operation
    fields = [(f.name(), f.id(), [(c.name(), c.id()) for c in f.children()]) for f in dataset.lance_schema.fields()]
    return {
        "version": dataset.version,
        "operation": type(operation).__name__,
        "pn": getattr(operation, "preserves_nullability", None),
        "fields": fields,
        "nulls": [(field.name, field.type, field.nullable) for field in dataset.schema],
        "metadata": dataset.schema.metadata,
        "files": [[(f.fields, f.column_indices) for f in part.data_files()] for part in dataset.get_fragments()],
        "physical": [(part.physical_rows, part.num_deletions) for part in dataset.get_fragments()],
        "indices": sorted(index.name for index in dataset.describe_indices()),
    }


def lineage(uri: str) -> pa.Table:
    return lance.dataset(uri).to_table(columns=["_rowid", "_row_created_at_version", "_row_last_updated_at_version"])


def data_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").iterdir()}


def same(theirs: str, ours: str) -> None:
    assert state(ours) == state(theirs)
    expected = lance.dataset(theirs).to_table()
    assert_identical(lance.dataset(ours).to_table(), expected)
    assert_identical(lancelet.dataset(ours).to_table(), expected)
    assert_identical(lancelet.dataset(theirs).to_table(), expected)
    lance.dataset(ours).validate()
    lancelet.dataset(ours).validate()
    if lance.dataset(theirs).has_stable_row_ids:
        assert lineage(ours).equals(lineage(theirs))


Change = Callable[[Any], None]


def both(uri: str, change: Change) -> None:
    ours = copied(uri)
    change(lance.dataset(uri))
    dataset = lancelet.dataset(ours)
    before = dataset.version
    change(dataset)
    assert dataset.version == before + 1
    same(uri, ours)


EXPRESSIONS = [
    {"b": "a * 2"},
    {"b": "n + 1", "c": "f / 2", "d": "t || '!'"},
    {"b": "a"},
    {"b": "k > 5 and n is null"},
    {"b": "coalesce(n, 0)"},
    {"b": "cast(a as int)"},
    {"b": "try_cast(t as int)"},
    {"b": "s.x"},
    {"b": "s"},
    {"b": "l"},
    {"b": "v"},
    {"b": "upper(t)"},
    {"b": "abs(a)"},
    {"b": "a in (1, 2)"},
    {"b": "a between 3 and 5"},
    {"b": "t like 'text 1%'"},
    {"b": "'x'"},
    {"b": "1"},
    {"b": "true"},
    {"b": "null"},
    {"b": "cast(null as int)"},
    {"b": "-a"},
    {"b": "a % 3"},
    {"A": "a + 1"},
    {},
]


@pytest.mark.parametrize("texts", EXPRESSIONS, ids=str)
def test_expressions(tmp_path, texts):
    both(make(tmp_path), lambda dataset: dataset.add_columns(texts))


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_every_file_version_and_kind_of_row_id(tmp_path, version, stable):
    uri = make(tmp_path, data_storage_version=version, enable_stable_row_ids=stable)
    both(uri, lambda dataset: dataset.add_columns({"b": "a * 2", "c": "t"}))
    both(uri, lambda dataset: dataset.add_columns(pa.field("z", pa.int32())))
    both(uri, lambda dataset: dataset.alter_columns({"path": "k", "data_type": pa.int64()}))
    both(uri, lambda dataset: dataset.alter_columns({"path": "b", "data_type": pa.int16()}))
    both(uri, lambda dataset: dataset.drop_columns(["c"]))
    both(uri, lambda dataset: dataset.drop_columns(["b", "s.y"]))
    both(uri, lambda dataset: dataset.merge(pa.table({"a": [5, 7, 99], "w": ["5", "7", "99"]}), "a"))


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"w": pc.multiply(batch["a"], 2)})


def library(dataset: Any) -> Any:
    return lance if isinstance(dataset, lance.LanceDataset) else lancelet


@pytest.mark.parametrize("deleted", [None, "a in (0, 1, 9, 23)", "a >= 10 and a < 19"])
def test_functions_see_the_same_batches(tmp_path, deleted):
    uri = make(tmp_path, deleted=deleted)
    for options in ({}, {"batch_size": 3}, {"read_columns": ["_rowid", "a", "_rowaddr"]}, {"read_columns": ["s", "a"]}):
        seen: dict[Any, list[Any]] = {lance: [], lancelet: []}
        drop: Change = lambda dataset: dataset.drop_columns(["w"])  # noqa: E731

        def change(dataset: Any, seen=seen, options=options) -> None:
            def function(rows: pa.RecordBatch) -> pa.RecordBatch:
                seen[library(dataset)].append(rows.to_pydict())
                return double(rows)

            dataset.add_columns(function, **options)

        both(uri, change)
        # pylance also calls it for batches of which all rows are deleted.
        assert seen[lancelet] == [batch for batch in seen[lance] if batch["a"]]
        both(uri, drop)


def test_functions_with_a_schema_and_frames(tmp_path):
    uri = make(tmp_path)
    schema = pa.schema([pa.field("w", pa.int64())])
    both(uri, lambda dataset: dataset.add_columns(library(dataset).batch_udf(schema)(double)))
    both(
        uri,
        lambda dataset: dataset.add_columns(
            library(dataset).batch_udf()(lambda b: b.select(["k"]).rename_columns(["k2"]))
        ),
    )
    lancelet_only = lancelet.dataset(uri)
    lancelet_only.add_columns(lambda batch: batch.to_pandas()[["a"]].rename(columns={"a": "frame"}))
    assert lance.dataset(uri).to_table()["frame"].to_pylist() == lance.dataset(uri).to_table()["a"].to_pylist()


def column(name: str, values: Any, **options: Any) -> pa.Table:
    return pa.table({name: pa.array(values, **options)})


LIVE = [n for n in range(ROWS) if n not in (0, 1, 9, 23)]


@pytest.mark.parametrize(
    "data",
    [
        column("w", LIVE),
        column("w", [None if n % 2 else str(n) for n in LIVE]),
        column("w", [[float(n)] * 3 for n in LIVE], type=pa.list_(pa.float32(), 3)),
        column("w", [{"q": n, "r": [n]} for n in LIVE]),
        column("w", ["x" if n % 2 else "y" for n in LIVE], type=pa.dictionary(pa.int8(), pa.string())),
        column("s", [None if n % 7 == 6 else {"z": n} for n in LIVE]),
        column("s", [None if n % 4 == 1 else {"z": n} for n in LIVE]),
        column("l", [None if n % 5 == 4 else [{"q": n}] * (n % 3) for n in LIVE]),
        column("l", [[{"q": n}] * (0 if n % 5 == 4 else n % 3) for n in LIVE]),
        column("w", LIVE).replace_schema_metadata({"who": "other", "more": "yes"}),
        pa.table({"w": LIVE}, schema=pa.schema([pa.field("w", pa.int64(), nullable=False)])),
    ],
    ids=lambda table: str(table.schema.types[0]),
)
def test_streams(tmp_path, data):
    uri = make(tmp_path)
    both(uri, lambda dataset: dataset.add_columns(data))
    both(uri, lambda dataset: dataset.add_columns({"again": "a"}))


def test_a_stream_in_pieces(tmp_path):
    uri = make(tmp_path)
    pieces = pa.table({"w": LIVE}).to_batches(max_chunksize=3)
    both(uri, lambda dataset: dataset.add_columns(iter(pieces), reader_schema=pa.schema([("w", pa.int64())])))


@pytest.mark.parametrize(
    "fields",
    [
        pa.field("w", pa.int32()),
        [pa.field("w", pa.int32(), metadata={"k": "v"}), pa.field("u", pa.struct([("q", pa.list_(pa.int8()))]))],
        pa.schema([pa.field("w", pa.list_(pa.float32(), 4))], metadata={"who": "other", "more": "yes"}),
        pa.field("s", pa.struct([("z", pa.int32())])),
        pa.field("l", pa.list_(pa.struct([("z", pa.int32())]))),
        pa.schema([]),
    ],
    ids=str,
)
def test_columns_without_values(tmp_path, fields):
    uri = make(tmp_path)
    before = data_files(uri)
    both(uri, lambda dataset: dataset.add_columns(fields))
    assert data_files(copied(uri)) == before


RENAMES: list[tuple[dict[str, Any], ...]] = [
    ({"path": "a", "name": "b"},),
    ({"path": "s.x", "name": "b"},),
    ({"path": "l.item.p", "name": "b"},),
    ({"path": "l.item", "name": "element"},),
    ({"path": "a", "name": "n"}, {"path": "n", "name": "a"}),
    ({"path": "a", "name": "a"},),
    ({"path": "a", "nullable": True},),
    ({"path": "k", "nullable": False},),
    ({"path": "k", "nullable": False, "name": "b"},),
    ({"path": "a", "name": "b"}, {"path": "a", "nullable": True}),
    (),
]


@pytest.mark.parametrize("changes", RENAMES, ids=str)
def test_names_and_nulls(tmp_path, changes):
    uri = make(tmp_path)
    before = data_files(uri)
    both(uri, lambda dataset: dataset.alter_columns(*changes))
    assert data_files(copied(uri)) == before


CASTS: list[tuple[str, pa.DataType]] = [
    ("a", pa.int8()),
    ("a", pa.uint64()),
    ("a", pa.int64()),
    ("n", pa.int64()),
    ("f", pa.float32()),
    ("f", pa.float16()),
    ("t", pa.large_string()),
    ("t", pa.dictionary(pa.int8(), pa.string())),
    ("s.x", pa.int32()),
    ("s.y", pa.large_string()),
    ("l.item.p", pa.int16()),
    ("v", pa.list_(pa.float16(), 2)),
    ("v", pa.list_(pa.float64(), 2)),
    ("v", pa.list_(pa.float32())),
]


@pytest.mark.parametrize(("path", "kind"), CASTS, ids=str)
def test_casts(tmp_path, path, kind):
    uri = make(tmp_path)
    both(uri, lambda dataset: dataset.alter_columns({"path": path, "data_type": kind}))


SCALARS = {
    "bool": pa.array([True, None]),
    "int8": pa.array([1, 2], pa.int8()),
    "uint64": pa.array([1, 2], pa.uint64()),
    "half": pa.array([1.0, 2.0], pa.float16()),
    "double": pa.array([1.0, None]),
    "string": pa.array(["a", None]),
    "large_string": pa.array(["a", "b"], pa.large_string()),
    "binary": pa.array([b"a", b"b"]),
    "large_binary": pa.array([b"a", b"b"], pa.large_binary()),
    "fixed": pa.array([b"a", b"b"], pa.binary(1)),
    "date32": pa.array([1, 2], pa.date32()),
    "date64": pa.array([86400000, 0], pa.date64()),
    "time32": pa.array([1, 2], pa.time32("s")),
    "time64": pa.array([1_000_000, 2_000_000], pa.time64("us")),
    "timestamp": pa.array([86400, -172800], pa.timestamp("s")),
    "zoned": pa.array([86_400_000_000, 0], pa.timestamp("us", "UTC")),
    "duration": pa.array([1, 2], pa.duration("s")),
    "decimal": pa.array([1, 2], pa.decimal128(10, 2)),
    "decimal256": pa.array([1, 2], pa.decimal256(40, 2)),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "list int32": pa.array([[1], [2]], pa.list_(pa.int32())),
    "large list": pa.array([[1], [2]], pa.large_list(pa.int32())),
    "list float": pa.array([[1], [2]], pa.list_(pa.float32())),
    "vector float": pa.array([[1], [2]], pa.list_(pa.float32(), 1)),
    "vector int8": pa.array([[1], [2]], pa.list_(pa.int8(), 1)),
    "struct": pa.array([{"x": 1}] * 2),
    "null": pa.nulls(2),
}


CASTABLE = {
    "int8": {"uint64"},
    "uint64": {"int8"},
    "half": {"double"},
    "double": {"half"},
    "string": {"large_string", "dictionary"},
    "large_string": {"string", "dictionary"},
    "binary": {"large_binary"},
    "large_binary": {"binary"},
    "date32": {"date64", "timestamp", "zoned"},
    "date64": {"date32", "timestamp", "zoned"},
    "time32": {"time64"},
    "time64": {"time32"},
    "timestamp": {"date32", "date64", "time32", "time64", "zoned"},
    "zoned": {"date32", "date64", "time32", "time64", "timestamp"},
    "decimal": {"decimal256"},
    "decimal256": {"decimal"},
    "dictionary": {"string", "large_string"},
    "list int32": {"large list", "vector int8"},
    "large list": {"list int32", "vector int8"},
    "list float": {"vector float"},
    "vector float": {"list float"},
    "vector int8": {"list int32", "large list"},
}
ALL_PAIRS = [(name, other) for name in SCALARS for other in SCALARS if name != other]


def cast_by_both(path: Path, pairs: list[tuple[str, str]]) -> None:
    """Each column of a table is cast alone, and the table restored."""
    uri = str(path / "table.lance")
    lance.write_dataset(pa.table(SCALARS), uri)
    for name, other in pairs:
        kind = SCALARS[other].type
        answers: list[Any] = []
        for module in (lance, lancelet):
            dataset = module.dataset(uri, version=1)
            dataset.restore()
            dataset.checkout_latest()
            try:
                dataset.alter_columns({"path": name, "data_type": kind})
                answers.append(lance.dataset(uri).to_table(columns=[name]))
            except OSError:
                answers.append(None)
        assert (answers[0] is not None) == (other in CASTABLE.get(name, ())), f"{name} to {other}"
        assert (answers[0] is None) == (answers[1] is None), f"{name} to {other}"
        if answers[0] is not None:
            assert_identical(answers[1], answers[0])


def test_types_that_can_be_cast(tmp_path):
    cast_by_both(tmp_path, [(name, other) for name, others in CASTABLE.items() for other in sorted(others)])


def test_types_that_cannot_be_cast():
    for name, other in ALL_PAIRS:
        assert can_recast(SCALARS[name].type, SCALARS[other].type) == (other in CASTABLE.get(name, ())), (
            f"{name}, {other}"
        )


@pytest.mark.soak
def test_every_pair_of_types(tmp_path):
    cast_by_both(tmp_path, ALL_PAIRS)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1, 2, 2**40]), pa.int32()),
        (pa.array([-1, 2]), pa.uint8()),
        (pa.array([1e300, 0.5]), pa.float32()),
        (pa.array([70000.0]), pa.float16()),
        (pa.array([[1e300]], pa.list_(pa.float64(), 1)), pa.list_(pa.float32(), 1)),
        (pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float64())), pa.list_(pa.float64(), 1)),
        (pa.array([1500], pa.timestamp("ms")), pa.timestamp("s")),
        (pa.array([1500], pa.timestamp("ms")), pa.timestamp("s", "Europe/Berlin")),
        (pa.array([10**18], pa.timestamp("s")), pa.timestamp("ns")),
        (pa.array([1], pa.time64("us")), pa.time32("s")),
        (pa.array([125], pa.decimal128(10, 0)).cast(pa.decimal128(12, 2)), pa.decimal128(2, 0)),
        (pa.array(["1.25"]).cast(pa.decimal128(10, 2)), pa.decimal128(10, 1)),
        (pa.array([str(n) for n in range(300)]), pa.dictionary(pa.int8(), pa.string())),
    ],
    ids=str,
)
def test_a_cast_that_loses_data_is_refused(tmp_path, values, kind):
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(pa.table({"c": values}), uri)
    refused(uri, lambda dataset: dataset.alter_columns({"path": "c", "data_type": kind}), InvalidChange)


DROPS = [
    ["a"],
    ["s.x"],
    ["s.x", "s.y"],
    ["s", "s.x"],
    ["l.item.p"],
    ["a", "a"],
    [],
    ["a", "k", "n", "t", "f", "s", "l"],
]


@pytest.mark.parametrize("columns", DROPS, ids=str)
def test_drops(tmp_path, columns):
    uri = make(tmp_path)
    before = data_files(uri)
    both(uri, lambda dataset: dataset.drop_columns(columns))
    assert data_files(copied(uri)) == before


def test_ids_of_dropped_columns_come_again_and_indices_go(tmp_path):
    uri = make(tmp_path)
    lance.dataset(uri).create_scalar_index("k", "BTREE")
    lance.dataset(uri).create_scalar_index("t", "BTREE")
    both(uri, lambda dataset: dataset.drop_columns(["k"]))
    both(uri, lambda dataset: dataset.add_columns({"k": "a * 3"}))
    both(uri, lambda dataset: dataset.drop_columns(["k"]))
    both(uri, lambda dataset: dataset.add_columns({"other": "a * 4"}))
    both(uri, lambda dataset: dataset.alter_columns({"path": "t", "name": "text"}))
    assert lance.dataset(uri).to_table(filter="text = 'text 5'")["other"].to_pylist() == [20]
    refused(uri, lambda dataset: dataset.alter_columns({"path": "text", "data_type": pa.large_string()}), InvalidChange)


OTHERS = [
    (pa.table({"a": [2, 3, 99], "w": ["x", "y", "z"]}), "a", None),
    (pa.table({"key": [2, 3, 99], "w": [[1.0], None, [2.0]]}), "a", "key"),
    (pa.table({"a": [2, 2], "w": ["first", "last"]}), "a", None),
    (pa.table({"n": pa.array([None, 4], pa.int32()), "w": [1, 2], "u": [True, False]}), "n", None),
    (pa.table({"t": ["text 3", "text 5"], "w": [{"q": 1}, {"q": 2}]}), "t", None),
    (pa.table({"_rowid": pa.array([2, 3], pa.uint64()), "w": [1, 2]}), "_rowid", None),
    (pa.table({"_rowaddr": pa.array([2**32, 2**32 + 3], pa.uint64()), "w": [1, 2]}), "_rowaddr", None),
    (pa.table({"a": [99], "w": [1]}), "a", None),
    (pa.table({"a": [2], "w": [1]}).replace_schema_metadata({"more": "yes"}), "a", None),
]


@pytest.mark.parametrize(("data", "left", "right"), OTHERS, ids=range(len(OTHERS)))
def test_columns_joined_by_a_key(tmp_path, data, left, right):
    both(make(tmp_path), lambda dataset: dataset.merge(data, left, right))


@pytest.mark.parametrize(("data", "left", "right"), OTHERS[:6], ids=range(6))
def test_fragments_one_by_one(tmp_path, data, left, right):
    def join(dataset: Any) -> None:
        merged = [fragment.merge(data, left, right) for fragment in dataset.get_fragments()]
        commit(dataset, merged)

    def expressions(dataset: Any) -> None:
        commit(dataset, [f.merge_columns({"b": "a * 2"}) for f in dataset.get_fragments()])

    def functions(dataset: Any) -> None:
        commit(dataset, [f.merge_columns(double, columns=["a"]) for f in dataset.get_fragments()])

    def streams(dataset: Any) -> None:
        commit(dataset, [f.merge_columns(pa.table({"st": range(f.count_rows())})) for f in dataset.get_fragments()])

    def commit(dataset: Any, merged: list[Any]) -> None:
        operation = library(dataset).LanceOperation.Merge([fragment for fragment, _ in merged], merged[0][1])
        done = type(dataset).commit(dataset, operation, read_version=dataset.version)
        dataset.checkout_latest()
        assert done.version == dataset.version

    uri = make(tmp_path)
    both(uri, join)
    both(uri, expressions)
    both(uri, streams)
    lancelet.dataset(uri).drop_columns(["w"])
    both(uri, functions)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    ("data", "key"),
    [
        (pa.table({"a": [2, 3], "n": pa.array([20, None], pa.int32())}), "a"),
        (pa.table({"a": [2, 2], "t": ["first", "last"]}), "a"),
        (
            pa.table({"_rowid": pa.array([2, 3], pa.uint64()), "v": pa.array([[9, 9]] * 2, pa.list_(pa.float32(), 2))}),
            "_rowid",
        ),
        (pa.table({"a": [3], "s": pa.array([{"x": 7, "y": "seven"}], STRUCT), "k": pa.array([1], pa.int32())}), "a"),
        (pa.table({"n": pa.array([None], pa.int32()), "f": [0.5]}), "n"),
        (pa.table({"a": [99], "f": [0.5]}), "a"),
    ],
    ids=range(6),
)
def test_columns_of_a_fragment_updated(tmp_path, stable, data, key):
    def change(dataset: Any) -> None:
        fragment, fields, offsets = dataset.get_fragments()[0].update_columns(data, key, with_offsets=True)
        results.append((fields, offsets))
        operation = library(dataset).LanceOperation.Update(
            updated_fragments=[fragment],
            fields_modified=fields,
            update_mode="rewrite_columns",
            updated_fragment_offsets={fragment.id: offsets},
        )
        type(dataset).commit(dataset, operation, read_version=dataset.version)
        dataset.checkout_latest()

    uri = make(tmp_path, enable_stable_row_ids=stable)
    results: list[Any] = []
    both(uri, change)
    assert results[0] == results[1]
    without = lancelet.dataset(uri).get_fragments()[1].update_columns(data, key)
    assert len(without) == 2


def test_rows_of_a_fragment_deleted_by_offset(tmp_path):
    uri = make(tmp_path)

    def change(dataset: Any) -> None:
        fragments = dataset.get_fragments()
        left = fragments[0].delete_rows(iter([3, 4, 4]))
        assert fragments[1].delete_rows(range(10)) is None
        assert left.num_deletions == 5
        operation = library(dataset).LanceOperation.Delete([left], [fragments[1].fragment_id], "by offset")
        type(dataset).commit(dataset, operation, read_version=dataset.version)
        dataset.checkout_latest()

    both(uri, change)
    fragment = lancelet.dataset(uri).get_fragments()[0]
    assert fragment.delete_rows([]).num_deletions == 5
    for wrong, kind in (([10], ValueError), ([-1], OverflowError), (["x"], TypeError)):
        with pytest.raises(kind):
            fragment.delete_rows(wrong)


def test_a_lost_file_becomes_a_fragment_again(tmp_path):
    uri = make(tmp_path, deleted=None)
    dataset = lancelet.dataset(uri)
    path = dataset.get_fragments()[1].data_files()[0].path
    expected = dataset.get_fragments()[1].to_table()
    found = lancelet.LanceFragment.create_from_file(path, dataset, 0)
    assert found.files == dataset.get_fragments()[1].metadata.files
    operation = lancelet.LanceOperation.Append([found])
    done = lancelet.LanceDataset.commit(dataset, operation, read_version=1)
    assert_identical(lance.dataset(uri).get_fragments()[-1].to_table(), expected)
    with pytest.raises(OSError, match="missing"):
        lancelet.LanceFragment.create_from_file("nothing.lance", done, 0)
    done.drop_columns(["a"])
    with pytest.raises(OSError, match="not those of the table"):
        lancelet.LanceFragment.create_from_file(path, done, 0)


# Checkpoints


def counted(calls: list[int], fail_at: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.num_rows)
        if len(calls) == fail_at:
            raise RuntimeError("power cut")
        return double(batch)

    return function


@pytest.mark.parametrize("first", ["lance", "lancelet"])
@pytest.mark.parametrize("second", ["lance", "lancelet"])
@pytest.mark.parametrize("fail_at", [1, 3, 6])
def test_a_checkpoint_is_taken_up_by_either(tmp_path, first, second, fail_at):
    uri, path = make(tmp_path), tmp_path / "checkpoint.sqlite"
    libraries = {"lance": lance, "lancelet": lancelet}
    calls: list[int] = []
    schema = pa.schema([("w", pa.int64())])

    def run(name: str) -> None:
        module = libraries[name]
        udf = module.batch_udf(schema, checkpoint_file=path)(counted(calls, fail_at))
        module.dataset(uri).add_columns(udf, batch_size=4)

    with pytest.raises(OSError, match="power cut"):
        run(first)
    assert lance.dataset(uri).version == 2
    assert path.exists()
    run(second)
    assert not path.exists()
    assert sum(calls) - calls[fail_at - 1] == len(LIVE)
    dataset = lance.dataset(uri)
    assert dataset.version == 3
    assert dataset.to_table()["w"].to_pylist() == [n * 2 for n in LIVE]
    used = {file.path for fragment in dataset.get_fragments() for file in fragment.data_files()}
    assert data_files(uri) == used


def test_a_checkpoint_of_other_columns_or_files_is_not_trusted(tmp_path):
    uri, path = make(tmp_path), tmp_path / "checkpoint.sqlite"
    calls: list[int] = []
    schema = pa.schema([("w", pa.int64())])
    with pytest.raises(InvalidChange):
        lancelet.dataset(uri).add_columns(lancelet.batch_udf(schema, path)(counted(calls, 6)), batch_size=4)
    # Another column took the id, so that the files of finished fragments are no longer right.
    lancelet.dataset(uri).add_columns({"before": "a"})
    calls.clear()
    dataset = lancelet.dataset(uri)
    dataset.add_columns(lancelet.batch_udf(schema, path)(counted(calls, 0)), batch_size=4)
    assert dataset.to_table()["w"].to_pylist() == [n * 2 for n in LIVE]
    assert_identical(lance.dataset(uri).to_table(), dataset.to_table())


def test_a_damaged_checkpoint_runs_no_code(tmp_path):
    uri, path = make(tmp_path), tmp_path / "checkpoint.sqlite"
    udf = lancelet.batch_udf(pa.schema([("w", pa.int64())]), checkpoint_file=path)(double)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO batches VALUES (0, 0, ?)", (b"cos\nsystem\n(S'false'\ntR.",))
    connection.close()
    with pytest.raises(InvalidInput, match="holds no batch"):
        lancelet.dataset(uri).add_columns(udf)


# Beside others


def beside(change: Change) -> Change:
    """Make a change while the values of the first fragment are computed."""

    def add(dataset: Any) -> None:
        done = []

        def function(batch: pa.RecordBatch) -> pa.RecordBatch:
            if not done:
                done.append(True)
                change(lance.dataset(dataset.uri))
            calls.append(batch.num_rows)
            return double(batch)

        calls: list[int] = []
        dataset.add_columns(lancelet.batch_udf(pa.schema([("w", pa.int64())]))(function))
        dataset.calls = calls

    return add


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        (lambda d: lance.write_dataset(rows(100, 105), d, mode="append"), [7, 10, 3, 5]),
        (lambda d: d.delete("a in (2, 12)"), [7, 10, 3]),
        (lambda d: d.delete("a >= 10 and a < 20"), [7, 10, 3]),
        (lambda d: d.update({"t": "'new'"}, where="a = 12"), [7, 10, 3, 1]),
        (lambda d: d.update_config({"k": "v"}), [7, 10, 3]),
        (lambda d: d.optimize.compact_files(), [7, 10, 3, 20]),
        (lambda d: d.add_columns({"other": "a"}), [7, 10, 3, 7, 10, 3]),
        (lambda d: d.create_scalar_index("k", "BTREE"), [7, 10, 3]),
    ],
    ids=["append", "delete", "fragment gone", "update", "config", "compact", "other column", "index"],
)
def test_only_what_is_new_is_filled_again(tmp_path, change, calls):
    uri = make(tmp_path)
    dataset = lancelet.dataset(uri)
    beside(change)(dataset)
    assert dataset.calls == calls
    found = lance.dataset(uri).to_table()
    assert found["w"].to_pylist() == [n * 2 for n in found["a"].to_pylist()]
    assert_identical(dataset.to_table(), found)
    live = {
        f.path
        for name in lance.dataset(uri).versions()
        for part in lance.dataset(uri, version=name["version"]).get_fragments()
        for f in part.data_files()
    }
    assert data_files(uri) == live


@pytest.mark.parametrize(
    "change",
    [
        lambda d: lance.write_dataset(rows(0, 5), d, mode="overwrite"),
        lambda d: d.drop_columns(["k"]),
        lambda d: d.add_columns({"w": "a"}),
    ],
    ids=["overwrite", "drop", "same name"],
)
def test_a_change_that_cannot_be_followed_is_a_conflict(tmp_path, change):
    uri = make(tmp_path)
    before = data_files(uri)
    with pytest.raises(OSError):
        beside(change)(lancelet.dataset(uri))
    theirs = {f.path for part in lance.dataset(uri).get_fragments() for f in part.data_files()}
    assert data_files(uri) <= before | theirs


def test_a_stream_cannot_follow_an_append(tmp_path):
    uri = make(tmp_path)

    def batches() -> Any:
        yield pa.record_batch({"w": pa.array(LIVE[:5])})
        lance.write_dataset(rows(100, 105), uri, mode="append")
        yield pa.record_batch({"w": pa.array(LIVE[5:])})

    before = data_files(uri)
    with pytest.raises(RetryableCommitConflict):
        lancelet.dataset(uri).add_columns(batches(), reader_schema=pa.schema([("w", pa.int64())]))
    assert lance.dataset(uri).schema.names == rows().column_names
    assert len(data_files(uri)) == len(before) + 1


def test_a_stream_can_follow_a_delete(tmp_path):
    uri = make(tmp_path)

    def batches() -> Any:
        yield pa.record_batch({"w": pa.array(LIVE[:5])})
        lance.dataset(uri).delete("a = 20")
        yield pa.record_batch({"w": pa.array(LIVE[5:])})

    lancelet.dataset(uri).add_columns(batches(), reader_schema=pa.schema([("w", pa.int64())]))
    found = lance.dataset(uri).to_table()
    assert found["w"].to_pylist() == found["a"].to_pylist() == [n for n in LIVE if n != 20]


def test_a_cast_beside_an_append(tmp_path, monkeypatch):
    uri = make(tmp_path)
    ours = lancelet.dataset(uri)
    lance.write_dataset(rows(100, 105), uri, mode="append")
    ours.alter_columns({"path": "k", "data_type": pa.int64()})
    ours.add_columns(pa.field("nothing", pa.int8()))
    found = lance.dataset(uri).to_table()
    assert found.schema.field("k").type == pa.int64()
    assert found["k"].to_pylist() == [n * 3 for n in found["a"].to_pylist()]


# Bad input


def refused(uri: str, change: Change, *kinds: type[Exception], match: str | None = None) -> None:
    """An error of these kinds, and nothing has changed."""
    before, version = data_files(uri), lance.dataset(uri).version
    dataset = lancelet.dataset(uri)
    with pytest.raises(kinds[0], match=match) as caught:
        change(dataset)
    assert isinstance(caught.value, kinds)
    assert dataset.version == version == lance.dataset(uri).version
    assert data_files(uri) == before


SCHEMA = pa.schema([("w", pa.int64())])
BAD_ADDITIONS: list[tuple[Any, type[Exception], str]] = [
    ({"a": "a + 1"}, OSError, "already exists"),
    ({"b": "zz + 1"}, OSError, "zz"),
    ({"b": "sum(a)"}, OSError, "sum"),
    ({"b": "a +"}, OSError, "parse"),
    ({"b": ""}, OSError, "parse"),
    ({"b": "a", "c": "b"}, OSError, "'b'"),
    ({"q.z": "a"}, OSError, "cannot contain"),
    ({"": "a"}, OSError, "name"),
    ({"_rowid": "a"}, OSError, "every table has"),
    ({1: "a"}, TypeError, "texts"),
    ({"b": 1}, TypeError, "texts"),
    ({"b": "10 / (a - 12)"}, OSError, "zero"),
    (5, TypeError, "int"),
    (pa.field("b", pa.int32(), nullable=False), OSError, "must be nullable"),
    (pa.field("a", pa.int32()), OSError, "Type conflicts"),
    ([pa.field("b", pa.int32()), pa.field("b", pa.int32())], OSError, "Duplicate"),
    (pa.field("s", pa.struct([("x", pa.int64()), ("z", pa.int32())])), OSError, "already exists"),
    ([], ValueError, "schema"),
    (pa.table({"w": LIVE[:-1]}), OSError, "ended before"),
    (pa.table({"w": [*LIVE, 1]}), OSError, "more values"),
    (pa.table({"a": LIVE}), OSError, "already exists"),
    (pa.table({"l": [[{"q": n}] for n in LIVE]}), OSError, "not as long"),
    (iter([pa.record_batch({"w": LIVE})]), ValueError, "schema"),
    (lambda batch: 1 / 0, TypeError, "ZeroDivisionError"),
    (lambda batch: None, TypeError, "NoneType"),
    (lambda batch: batch.select(["a"]), OSError, "already exists"),
    (lancelet.batch_udf()(lambda batch: 1 / 0), OSError, "ZeroDivisionError"),
    (lancelet.batch_udf(SCHEMA)(lambda batch: 1 / 0), OSError, "ZeroDivisionError"),
    (lancelet.batch_udf(SCHEMA)(lambda batch: pa.record_batch({"w": [1]})), OSError, "returned 1 rows"),
    (lancelet.batch_udf(SCHEMA)(lambda batch: pa.record_batch({"w": batch["t"]})), OSError, "does not match"),
    (lancelet.batch_udf(SCHEMA)(lambda batch: "no batch"), OSError, "expected"),
]


@pytest.mark.parametrize(("transforms", "kind", "match"), BAD_ADDITIONS, ids=range(len(BAD_ADDITIONS)))
def test_bad_additions(tmp_path, transforms, kind, match):
    refused(make(tmp_path), lambda dataset: dataset.add_columns(transforms), kind, match=match)


def test_a_function_that_fails_late_leaves_nothing(tmp_path):
    calls: list[int] = []
    udf = lancelet.batch_udf(SCHEMA)(counted(calls, 3))
    refused(make(tmp_path), lambda dataset: dataset.add_columns(udf), InvalidChange, match="power cut")
    assert len(calls) == 3


def test_bad_arguments(tmp_path):
    uri = make(tmp_path)
    refused(uri, lambda dataset: dataset.add_columns({"b": "a"}, batch_size=0), ValueError, match="batch_size")
    refused(uri, lambda dataset: dataset.add_columns(double, read_columns=["zz"]), TypeError, match="zz")
    udf = lancelet.batch_udf(SCHEMA, checkpoint_file=tmp_path / "c.sqlite")(double)
    refused(uri, lambda dataset: dataset.get_fragments()[0].merge_columns(udf), ValueError, match="checkpoint")
    refused(uri, lambda dataset: dataset.get_fragments()[0].merge_columns(pa.table({"w": [1]})), ValueError)
    refused(uri, lambda dataset: dataset.get_fragments()[0].merge_columns({"a": "a"}), ValueError)


BAD_ALTERATIONS: list[tuple[Any, type[Exception], str]] = [
    ({"path": "zz", "name": "b"}, OSError, "does not exist"),
    ({"path": "l.p", "name": "b"}, OSError, "does not exist"),
    ({"name": "b"}, ValueError, "path is required"),
    ({"path": "a"}, ValueError, "At least one"),
    ({"path": "a", "bla": 1}, ValueError, "Unknown key"),
    ("a", TypeError, "dict"),
    ({"path": "a", "nullable": "x"}, TypeError, "nullable"),
    ({"path": "a", "data_type": "int32"}, TypeError, "data_type"),
    ({"path": 1, "name": "b"}, TypeError, "path"),
    ({"path": "a", "name": "n"}, OSError, "Duplicate"),
    ({"path": "s.x", "name": "y"}, OSError, "Duplicate"),
    ({"path": "a", "name": "q.r"}, OSError, "cannot contain"),
    ({"path": "a", "name": ""}, OSError, "name"),
    ({"path": "a", "name": "_rowid"}, OSError, "every table has"),
    ({"path": "n", "nullable": False}, OSError, "contains NULL"),
    ({"path": "s.x", "nullable": False}, OSError, "contains NULL"),
    ({"path": "l.item.p", "nullable": False}, OSError, "list"),
    ({"path": "a", "data_type": pa.string()}, OSError, "Cannot cast"),
    ({"path": "s", "data_type": pa.struct([("x", pa.int32())])}, OSError, "Cannot cast"),
    ({"path": "k", "data_type": pa.int64(), "nullable": False}, OSError, "same call"),
    ({"path": "a", "data_type": pa.int8(), "name": "k"}, OSError, "Duplicate"),
]


@pytest.mark.parametrize(("change", "kind", "match"), BAD_ALTERATIONS, ids=range(len(BAD_ALTERATIONS)))
def test_bad_alterations(tmp_path, change, kind, match):
    refused(make(tmp_path), lambda dataset: dataset.alter_columns(change), kind, match=match)


def test_bad_drops(tmp_path):
    uri = make(tmp_path)
    refused(uri, lambda dataset: dataset.drop_columns(["zz"]), ValueError, match="zz")
    refused(uri, lambda dataset: dataset.drop_columns("a"), TypeError, match="list")
    refused(uri, lambda dataset: dataset.drop_columns(rows().column_names), ValueError, match="all columns")


BAD_JOINS: list[tuple[Any, type[Exception], str]] = [
    ((pa.table({"a": [1], "w": [1]}), "zz", "a"), OSError, "left side"),
    ((pa.table({"a": [1], "w": [1]}), "a", "zz"), OSError, "right side"),
    ((pa.table({"a": [1], "n": [1]}), "a"), OSError, "both sides"),
    ((pa.table({"a": pa.array([1], pa.int32()), "w": [1]}), "a"), OSError, "int32"),
    ((pa.table({"a": [1]}), "a"), OSError, "no column"),
    ((pa.table({"a": pa.array([], pa.int64()), "w": pa.array([], pa.int64())}), "a"), OSError, "none"),
    (
        (pa.table({"a": [2], "w": [1]}, schema=pa.schema([("a", pa.int64()), pa.field("w", pa.int64(), False)])), "a"),
        OSError,
        "non-nullable",
    ),
    ((pa.table({"a": [2], "w": [1]}), 3), TypeError, "text"),
]


@pytest.mark.parametrize(("arguments", "kind", "match"), BAD_JOINS, ids=range(len(BAD_JOINS)))
def test_bad_joins(tmp_path, arguments, kind, match):
    refused(make(tmp_path), lambda dataset: dataset.merge(*arguments), kind, match=match)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (pa.table({"a": [2], "q": [1]}), "does not exist"),
        (pa.table({"a": [2], "n": [1]}), "int32"),
        (pa.table({"a": [2]}), "no column"),
        (pa.table({"k": [2], "n": [1]}), "right side"),
        (pa.table({"a": [2], "s": [{"x": 1}]}), "struct"),
    ],
    ids=range(5),
)
def test_bad_updates_of_columns(tmp_path, data, match):
    uri = make(tmp_path)
    refused(uri, lambda dataset: dataset.get_fragments()[0].update_columns(data, "a"), ValueError, match=match)


@pytest.mark.filterwarnings("ignore:a Merge with a pyarrow.Schema")
def test_merges_that_would_lose_rows_or_mix_up_columns(tmp_path):
    uri = make(tmp_path)
    lance.dataset(uri).drop_columns(["a"])
    merged = [fragment.merge_columns({"b": "k"}) for fragment in lancelet.dataset(uri).get_fragments()]
    fragments, schema = [fragment for fragment, _ in merged], merged[0][1]
    renumbered = pa.schema([pa.field(name, pa.int32()) for name in ("k", "n")])

    def commit(operation: Any) -> Change:
        return lambda dataset: lancelet.LanceDataset.commit(dataset, operation, read_version=dataset.version)

    def merge(parts: list[Any], columns: Any) -> Change:
        return commit(lancelet.LanceOperation.Merge(parts, columns))

    refused(uri, merge(fragments[:-1], schema), OSError, match="reduced fragment count")
    refused(uri, merge([*fragments, fragments[0]], schema), OSError, match="twice")
    refused(uri, merge(fragments, renumbered), OSError, match="remaps field id")
    refused(
        uri,
        commit(lancelet.LanceOperation.Project(pa.schema([("x", pa.string()), ("t", pa.string())]))),
        OSError,
        match="remaps field id",
    )
    fragments[0].physical_rows = 5
    refused(uri, merge(fragments, schema), OSError, match="row count")


@pytest.mark.parametrize("column", ["new", "k"])
def test_files_replaced(tmp_path, column):
    """A file made as a new column takes the place of a column that is there."""

    def change(dataset: Any) -> None:
        number = next(field.id() for field in dataset.lance_schema.fields() if field.name() == column)
        groups = []
        for fragment in dataset.get_fragments():
            file = fragment.merge_columns({"other": "cast(k + 100 as int)"})[0].files[-1]
            file.fields = [number]
            groups.append(library(dataset).LanceOperation.DataReplacementGroup(fragment.fragment_id, file))
        operation = library(dataset).LanceOperation.DataReplacement(groups)
        type(dataset).commit(dataset, operation, read_version=dataset.version)
        dataset.checkout_latest()

    uri = make(tmp_path)
    both(uri, lambda dataset: dataset.add_columns({"new": "cast(k as int)"}))
    both(uri, change)
    found = lancelet.dataset(uri).to_table()
    if column == "new":
        assert found["new"].to_pylist() == [k + 100 for k in found["k"].to_pylist()]


def test_legacy_tables_say_what_is_missing(tmp_path):
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(pa.table({"a": [1, 2]}), uri, data_storage_version="legacy")
    both(uri, lambda dataset: dataset.add_columns({"b": "a"}))
    refused(uri, lambda dataset: dataset.add_columns(pa.field("n", pa.int32())), NotImplementedError, OSError)
    both(uri, lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}))
    both(uri, lambda dataset: dataset.alter_columns({"path": "a", "name": "c"}))


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_parts_of_structs_need_newer_files(tmp_path, version):
    uri = make(tmp_path, data_storage_version=version)
    refused(uri, lambda d: d.add_columns(pa.table({"s": [{"z": n} for n in LIVE]})), OSError, match="2.2")
    refused(uri, lambda d: d.add_columns(pa.field("s", pa.struct([("z", pa.int32())]))), OSError, match="2.2")


def test_blobs_and_json(tmp_path):
    """Only we add blobs: pylance writes them as plain structs, which it cannot read."""
    uri = make(tmp_path)
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    texts = pa.field("json", pa.json_())
    values = [bytes([n]) * n for n in LIVE], [f'{{"n":{n}}}' for n in LIVE]
    lancelet.dataset(uri).add_columns(pa.table([pa.array(values[0], blob.type)], schema=pa.schema([blob])))
    both(uri, lambda d: d.add_columns(pa.table([pa.array(values[1], texts.type)], schema=pa.schema([texts]))))
    for module in (lance, lancelet):
        found = module.dataset(uri).take_blobs("blob", indices=list(range(len(LIVE))))
        assert [file.readall() for file in found] == values[0]
        assert module.dataset(uri).to_table()["json"].to_pylist() == values[1]
    refused(uri, lambda d: d.add_columns({"b": "blob"}), OSError, match="blobs")
    refused(uri, lambda d: d.alter_columns({"path": "json", "data_type": pa.string()}), OSError, match="Cannot cast")


def test_an_empty_table(tmp_path):
    uri = str(tmp_path / "table.lance")
    lancelet.write_dataset(rows(0, 0), uri)
    dataset = lancelet.dataset(uri)
    dataset.add_columns({"b": "a * 2"})
    dataset.add_columns(pa.table({"w": pa.array([], pa.int64())}))
    dataset.add_columns(lambda batch: batch.select(["a"]).rename_columns(["u"]))
    dataset.alter_columns({"path": "b", "data_type": pa.int32()})
    assert lance.dataset(uri).schema.names == [*rows().column_names, "b", "w", "u"]
    lance.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")


@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_any_row_of_steps(tmp_path_factory, data):
    """Random changes by either library to one table, beside a plain table in memory."""
    uri = str(tmp_path_factory.mktemp("steps") / "table.lance")
    stable = data.draw(st.booleans())
    model = rows(0, 30).select(["a", "n", "t"])
    libraries = [lance, lancelet]
    lance.write_dataset(model, uri, max_rows_per_file=11, enable_stable_row_ids=stable)
    for step in range(data.draw(st.integers(1, 8))):
        dataset = data.draw(st.sampled_from(libraries)).dataset(uri)
        names = model.column_names
        kind = data.draw(st.sampled_from(["delete", "sql", "stream", "null", "drop", "rename", "cast", "append"]))
        new = f"c{step}"
        if kind == "delete":
            gone = data.draw(st.lists(st.integers(0, 40), max_size=8))
            dataset.delete(f"a in ({', '.join(map(str, [*gone, -1]))})")
            model = model.filter(pc.invert(pc.is_in(model["a"], pa.array(gone, pa.int64()))))
        elif kind == "sql":
            dataset.add_columns({new: "a * 7"})
            model = model.append_column(pa.field(new, pa.int64(), nullable=False), pc.multiply(model["a"], 7))
        elif kind == "stream" and len(model):
            values = pa.array([None if n % 4 == 0 else f"{step}-{n}" for n in range(len(model))], pa.string())
            dataset.add_columns(pa.table({new: values}))
            model = model.append_column(new, values)
        elif kind == "null":
            dataset.add_columns(pa.field(new, pa.float32()))
            model = model.append_column(new, pa.nulls(len(model), pa.float32()))
        elif kind == "drop" and len(names) > 2:
            name = data.draw(st.sampled_from(names[1:]))
            dataset.drop_columns([name])
            model = model.drop_columns([name])
        elif kind == "rename" and len(names) > 1:
            name = data.draw(st.sampled_from(names[1:]))
            dataset.alter_columns({"path": name, "name": new})
            model = model.rename_columns([new if n == name else n for n in names])
        elif kind == "cast":
            kinds = {pa.int32(): pa.int64(), pa.string(): pa.large_string(), pa.float32(): pa.float64()}
            fits = [n for n in names if model.schema.field(n).type in kinds]
            if fits:
                name = data.draw(st.sampled_from(fits))
                target = kinds[model.schema.field(name).type]
                dataset.alter_columns({"path": name, "data_type": target})
                at = names.index(name)
                model = model.set_column(at, model.schema.field(at).with_type(target), model[name].cast(target))
        elif kind == "append":
            more = pa.table(
                {
                    f.name: pa.array(range(100 + step, 103 + step), f.type)
                    if pa.types.is_integer(f.type)
                    else pa.nulls(3, f.type)
                    for f in model.schema
                },
                schema=model.schema,
            )
            data.draw(st.sampled_from(libraries)).write_dataset(more, uri, mode="append")
            model = pa.concat_tables([model, more])
        for module in libraries:
            found = module.dataset(uri).to_table()
            assert found.to_pydict() == model.to_pydict()
            assert found.schema.remove_metadata() == model.schema.remove_metadata()
        lance.dataset(uri).validate()
