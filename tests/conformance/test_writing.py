"""What lancelet writes, pylance reads, indexes, changes and compacts as if it were its own."""

from __future__ import annotations

import inspect
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import lancelet
from conformance.agree import rows_of, same_schema
from conformance.grid import FAMILIES, SIZES, Size, batches, cells, columns, write
from conftest import Bucket
from drawing import examples
from forked import forked
from lancelet._api.committing import stored_operation
from lancelet.format.file_versions import VERSIONS
from lancelet.table.commit import operations as ops
from lancelet.table.commit.transactions import transaction_message
from lancelet.testing import assert_identical

# Structs have no nulls in 2.0.
NULL_STRUCTS = tuple(version for version in VERSIONS if version >= "2.1")


def write_ours(table: pa.Table, where: Path, version: str, size: Size, **options: object) -> lancelet.LanceDataset:
    return lancelet.write_dataset(
        pa.RecordBatchReader.from_batches(table.schema, batches(table, size.batch)),
        where,
        data_storage_version=version,
        max_rows_per_file=size.file_rows,
        data_cache_bytes=size.cache_bytes,
        **options,
    )


@pytest.mark.spread(0.3)
@pytest.mark.parametrize(("family", "size", "version"), cells(FAMILIES, SIZES, VERSIONS))
def test_pylance_reads_what_we_write(tmp_path: Path, family: str, size: Size, version: str) -> None:
    table = columns(FAMILIES[family], version, size)
    ours = write_ours(table, tmp_path / "ours", version, size)
    reference = write(table, tmp_path / "theirs", version, size)
    judge = lance.dataset(tmp_path / "ours")

    assert repr(ours.lance_schema) == repr(lancelet.dataset(tmp_path / "theirs").lance_schema)
    same_schema(judge.schema, reference.schema)
    judge.validate()
    assert [f.physical_rows for f in judge.get_fragments()] == [f.physical_rows for f in reference.get_fragments()]
    whole = reference.to_table()
    assert_identical(judge.to_table(), whole)
    assert_identical(ours.to_table(), whole)
    if size.rows:
        rows = random.Random(7).choices(range(size.rows), k=9)
        assert_identical(judge.take(rows), rows_of(whole, rows))
        assert_identical(ours.take(rows), rows_of(whole, rows))


WORKED_ON = SIZES[-1]


def worked_on(family: str, version: str) -> pa.Table:
    """A column of every kind of a family, and a key."""
    wanted = "none" if family == "vectors" else "some"
    whole = columns(FAMILIES[family], version, WORKED_ON)
    kinds: dict[str, str] = {}
    for name in whole.column_names:
        kind, pattern, nulls = name.rsplit("__", 2)
        if pattern == "random" and (kind not in kinds or nulls == wanted):
            kinds[kind] = name
    table = whole.select(list(kinds.values()))
    return table.add_column(0, pa.field("id", pa.int64()), [range(len(table))])


def index_and_ask(where: Path, name: str, query: pa.Scalar) -> Any:
    """Let pylance build an index on a column, then answer with it."""
    dataset = lance.dataset(where)
    if not pa.types.is_fixed_size_list(dataset.schema.field(name).type):
        dataset.create_scalar_index(name, "BTREE")
        return sorted(lance.dataset(where).to_table(["id"], filter=f"`{name}` is null")["id"].to_pylist())
    dataset.create_index(name, "IVF_FLAT", num_partitions=2, metric="l2")
    nearest = {"column": name, "q": query.values, "k": 5, "nprobes": 2}
    return lance.dataset(where).to_table(["id"], nearest=nearest)["_distance"].to_pylist()


def compact(where: Path) -> tuple[int, int]:
    metrics = lance.dataset(where).optimize.compact_files()
    return metrics.fragments_removed, metrics.fragments_added


def work(where: Path, more: pa.Table) -> dict[str, Any]:
    """What pylance answers and does with a table of 900 rows, step by step. Some of it pylance cannot do with some types."""
    told: dict[str, Any] = {}

    def step(name: str, act: Callable[[lance.LanceDataset], Any]) -> None:
        try:
            told[name] = act(lance.dataset(where))
        except BaseException as error:
            if isinstance(error, (AssertionError, KeyboardInterrupt)):
                raise
            told[name] = type(error).__name__

    names = lance.dataset(where).schema.names[1:]
    step("filter", lambda d: d.to_table(filter="id >= 390 and id < 420"))
    step("column", lambda d: d.to_table(names[-1:], filter="id % 100 = 7"))
    step("take", lambda d: d.take([899, 0, 450]))
    for name in names:
        step(f"index {name}", lambda d, name=name: index_and_ask(where, name, more[name][0]))
    reader = pa.RecordBatchReader.from_batches(more.schema, batches(more, 1000))
    step("append", lambda d: lance.write_dataset(reader, where, mode="append").count_rows())
    step("appended", lambda d: d.to_table(filter="id > 890"))
    step("delete", lambda d: d.delete("id % 3 = 1"))
    step("left", lambda d: d.to_table())
    step("compact", lambda d: compact(where))
    step("compacted", lambda d: d.to_table())
    step("validate", lambda d: d.validate())
    return told


@pytest.mark.spread(0.4)
@pytest.mark.parametrize(("family", "size", "version"), cells(FAMILIES, [WORKED_ON], VERSIONS))
def test_pylance_works_on_every_type(tmp_path: Path, family: str, size: Size, version: str) -> None:
    """The same work on a table of ours and on one of its own: same answers, and we read what it left."""
    table = worked_on(family, version)
    more = table.slice(0, 60).set_column(0, table.field("id"), [range(900, 960)])
    write_ours(table, tmp_path / "ours", version, size)
    write(table, tmp_path / "theirs", version, size)
    ours, theirs = (work(tmp_path / name, more) for name in ("ours", "theirs"))
    for step, expected in theirs.items():
        if isinstance(expected, pa.Table):
            assert_identical(ours[step], expected)
        else:
            assert (step, ours[step]) == (step, expected)
    assert theirs["delete"] == {"num_deleted_rows": 320}
    assert theirs["validate"] is None
    dataset = lancelet.dataset(tmp_path / "ours")
    if isinstance(theirs["compacted"], pa.Table):
        assert_identical(dataset.to_table(), theirs["compacted"])
    assert dataset.delete("id < 100") == {"num_deleted_rows": 67}
    lancelet.write_dataset(more, tmp_path / "ours", mode="append")
    for name in table.column_names:
        found = lancelet.dataset(tmp_path / "ours").to_table([name])
        assert_identical(found, lance.dataset(tmp_path / "ours").to_table([name]))


BLOB = {"lance-encoding:blob": "true"}
MIXED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("vector", pa.list_(pa.float32(), 8)),
        ("tags", pa.list_(pa.struct([("name", pa.string()), ("score", pa.int32())]))),
        ("place", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("json", pa.json_()),
        pa.field("blob", pa.large_binary(), metadata=BLOB),
    ]
)


def mixed(start: int, rows: int) -> pa.Table:
    """Rows of every sort of column, with some nulls; ``id`` counts on."""
    chance = random.Random(start)

    def some(value: object) -> object:
        return None if chance.random() < 0.1 else value

    columns = {
        "id": pa.array(range(start, start + rows), pa.int64()),
        "text": pa.array([some(f"row {chance.randrange(50)}") for _ in range(rows)], pa.string()),
        "number": pa.array([some(chance.random()) for _ in range(rows)], pa.float64()),
        "vector": pa.array([[chance.random() for _ in range(8)] for _ in range(rows)], pa.list_(pa.float32(), 8)),
        "tags": pa.array(
            [some([{"name": "t", "score": n} for n in range(chance.randrange(3))]) for _ in range(rows)],
            MIXED.field("tags").type,
        ),
        "place": pa.array([some({"x": n, "y": some("here")}) for n in range(rows)], MIXED.field("place").type),
        "json": pa.ExtensionArray.from_storage(
            pa.json_(), pa.array([some(f'{{"n":{n}}}') for n in range(rows)], pa.string())
        ),
        "blob": pa.array([some(chance.randbytes(chance.randrange(60))) for _ in range(rows)], pa.large_binary()),
    }
    return pa.table(list(columns.values()), schema=MIXED)


def same_rows(where: Path) -> pa.Table:
    """What both read, which must be the same."""
    theirs, ours = lance.dataset(where), lancelet.dataset(where)
    names = [name for name in theirs.schema.names if name != "blob"]
    whole = theirs.to_table(names, with_row_id=True)
    assert_identical(ours.to_table(names, with_row_id=True), whole)
    if "blob" in theirs.schema.names and len(whole):
        rows = list(range(0, len(whole), 7))
        present = [r for r, blob in zip(rows, ours.take_blobs("blob", indices=rows), strict=True) if blob is not None]
        if present:
            mine = [blob.read() for blob in ours.take_blobs("blob", indices=present)]
            assert mine == [blob.read() for blob in theirs.take_blobs("blob", indices=present)]
    return whole


@pytest.mark.parametrize("version", NULL_STRUCTS)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_pylance_works_on_our_table(tmp_path: Path, version: str, stable: bool) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset(
        mixed(0, 700), where, data_storage_version=version, max_rows_per_file=300, enable_stable_row_ids=stable
    )
    lancelet.write_dataset(mixed(700, 300), where, mode="append")
    lancelet.dataset(where).delete("id % 7 = 3 or number > 0.9")
    before = same_rows(where)
    theirs = lance.dataset(where)
    assert theirs.has_stable_row_ids == stable
    wanted = "text = 'row 7' and id < 900"
    ids = theirs.to_table(["id"], filter=wanted)
    theirs.create_scalar_index("text", "BITMAP")
    theirs.create_scalar_index("id", "BTREE")
    assert_identical(theirs.to_table(["id"], filter=wanted), ids)

    lance.write_dataset(mixed(1000, 200), where, mode="append")
    lancelet.write_dataset(mixed(1200, 100), where, mode="append")
    lance.dataset(where).delete("id between 100 and 120")
    lancelet.dataset(where).delete("id between 1190 and 1210")
    rows = same_rows(where)
    gone = {*range(100, 121), *range(1190, 1211)}
    expected = [n for n in before["id"].to_pylist() if n not in gone] + [n for n in range(1000, 1300) if n not in gone]
    assert rows["id"].to_pylist() == expected
    found = lance.dataset(where).to_table(["id"], filter="id >= 90 and id < 130")["id"].to_pylist()
    assert sorted(found) == [n for n in expected if 90 <= n < 130]

    fragments = len(lance.dataset(where).get_fragments())
    lance.dataset(where).optimize.compact_files()
    assert len(lance.dataset(where).get_fragments()) < fragments
    assert same_rows(where)["id"].to_pylist() == expected
    lancelet.write_dataset(mixed(0, 5), where, mode="overwrite")
    assert same_rows(where)["id"].to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["commit", "delete", "insert", "restore", "migrate_manifest_paths_v2"])
def test_methods_take_what_pylance_takes(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(m.LanceDataset, name)).parameters for m in (lancelet, lance))
    # What pylance hides behind **kwargs has names here: those of write_dataset.
    hidden = set(inspect.signature(lance.write_dataset).parameters) if "kwargs" in theirs else set()
    # And what pylance had once, Ray hands over to this day.
    hidden.add("storage_options_provider")
    assert [n for n in ours if n in theirs or n not in hidden] == list(theirs)


def test_same_names_and_defaults_as_pylance() -> None:
    ours, theirs = (inspect.signature(module.write_dataset).parameters for module in (lancelet, lance))
    by_place = [[n for n, p in call.items() if p.kind is not p.KEYWORD_ONLY] for call in (ours, theirs)]
    assert by_place[0] == by_place[1]
    additions = {"allowed_prefixes", "checksums"}
    ours = {n: p for n, p in ours.items() if n not in additions}
    assert {n: p.kind for n, p in ours.items()} == {n: p.kind for n, p in theirs.items()}
    assert {n: p.default for n, p in ours.items() if n != "uri"} == {
        n: p.default for n, p in theirs.items() if n != "uri"
    }


POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
BASE = pa.table({"a": pa.array([1, 2], pa.int64()), "b": ["x", "y"], "p": pa.array([{"x": 1, "y": "a"}, None], POINT)})
STRICT = BASE.cast(BASE.schema.set(0, pa.field("a", pa.int64(), nullable=False)))
APPENDS: dict[str, tuple[pa.Table, Any]] = {
    "same": (BASE, BASE),
    "other order": (BASE, BASE.select(["p", "b", "a"])),
    "fewer columns": (BASE, BASE.select(["b"])),
    "fewer fields of a struct": (BASE, pa.table({"p": pa.array([{"x": 5}], pa.struct([("x", pa.int64())]))})),
    "fields of a struct in other order": (
        BASE,
        pa.table({"p": pa.array([{"x": 5, "y": "q"}], pa.struct([("y", pa.string()), ("x", pa.int64())]))}),
    ),
    "fewer fields of structs in lists": (
        pa.table({"l": pa.array([[{"x": 1, "y": "a"}]], pa.list_(POINT))}),
        pa.table({"l": pa.array([[{"y": "b"}], None, []], pa.list_(pa.struct([("y", pa.string())])))}),
    ),
    "views of texts": (BASE, pa.table({"b": pa.array(["view"], pa.string_view())})),
    "no rows": (BASE, BASE.slice(0, 0)),
    "nullable, no nulls": (STRICT, BASE),
    "not null into nullable": (BASE, STRICT),
    "metadata": (BASE, BASE.replace_schema_metadata({"k": "v"})),
    "unknown column": (BASE, BASE.append_column("c", [[1, 2]])),
    "unknown field": (BASE, pa.table({"p": pa.array([{"z": 5}], pa.struct([("z", pa.int64())]))})),
    "narrower": (BASE, pa.table({"a": pa.array([1], pa.int32())})),
    "wider": (BASE, pa.table({"b": pa.array(["l"], pa.large_string())})),
    "dictionary": (BASE, pa.table({"b": pa.array(["l"]).dictionary_encode()})),
    "null type": (BASE, pa.table({"b": pa.nulls(1)})),
    "other case": (BASE, pa.table({"B": ["x"]})),
    "nulls where there are none": (STRICT, pa.table({"a": pa.array([None], pa.int64())})),
    "missing, not null": (STRICT, pa.table({"b": ["z"]})),
    "name of the items": (
        pa.table({"l": pa.array([[1]], pa.list_(pa.field("item", pa.int64())))}),
        pa.table({"l": pa.array([[1]], pa.list_(pa.field("element", pa.int64())))}),
    ),
    "unit of time": (
        pa.table({"t": pa.array([1], pa.timestamp("us"))}),
        pa.table({"t": pa.array([1], pa.timestamp("ms"))}),
    ),
    "text as JSON": (mixed(0, 3).select(["json"]), pa.table({"json": ["{}"]})),
    "blobs": (mixed(0, 3).select(["blob"]), mixed(4, 5).select(["blob"])),
    "bytes as blobs": (mixed(0, 3).select(["blob"]), pa.table({"blob": pa.array([b"x"], pa.large_binary())})),
}


@pytest.mark.parametrize("case", APPENDS)
@pytest.mark.parametrize("version", NULL_STRUCTS)
def test_appends_fit_as_in_pylance(tmp_path: Path, case: str, version: str) -> None:
    base, data = APPENDS[case]
    for name in ("ours", "theirs"):
        lance.write_dataset(base, tmp_path / name, data_storage_version=version)
    try:
        expected = lance.write_dataset(data, tmp_path / "theirs", mode="append")
    except OSError:
        files = sorted(p.name for p in (tmp_path / "ours").rglob("*"))
        with pytest.raises(lancelet.errors.UnfitData) as caught:
            lancelet.write_dataset(data, tmp_path / "ours", mode="append")
        assert isinstance(caught.value, OSError)
        assert isinstance(caught.value, ValueError)
        assert sorted(p.name for p in (tmp_path / "ours").rglob("*")) == files
        return
    dataset = lancelet.write_dataset(data, tmp_path / "ours", mode="append")
    assert dataset.version == expected.version
    assert dataset.lance_schema == lancelet.dataset(tmp_path / "theirs").lance_schema
    whole = expected.to_table()
    assert_identical(lance.dataset(tmp_path / "ours").to_table(), whole)
    assert_identical(dataset.to_table(), whole)


SOURCES: dict[str, tuple[Callable[[pa.Table], Any], pa.Schema | None]] = {
    "table": (lambda t: t, None),
    "batch": (lambda t: t.to_batches()[0], None),
    "reader": (lambda t: t.to_reader(), None),
    "batches": (lambda t: t.to_batches(max_chunksize=2), BASE.schema),
    "generator": (lambda t: iter(t.to_batches(max_chunksize=2)), BASE.schema),
    "narrow batches": (
        lambda t: iter(t.set_column(0, "a", t["a"].cast(pa.int32())).to_batches()),
        BASE.schema,
    ),
    "pandas": (lambda t: t.to_pandas(), None),
    "pandas, indexed": (lambda t: pd.DataFrame({"a": [1]}, index=["q"]), None),
    "pandas, schema": (lambda t: t.to_pandas(), BASE.schema),
    "polars": (lambda t: pl.from_arrow(t.select(["a", "b"])), None),
    "dict": (lambda t: t.to_pydict(), None),
    "dicts": (lambda t: t.to_pylist(), None),
    "dicts, schema": (lambda t: t.to_pylist(), BASE.schema),
    # Arrow data keeps its own types, whatever schema is given with it.
    "table, schema": (lambda t: t, pa.schema([("a", pa.int32())])),
    "batch, schema": (lambda t: t.to_batches()[0], pa.schema([("q", pa.int32())])),
    "reader, schema": (lambda t: t.to_reader(), pa.schema([("a", pa.string())])),
    "polars, schema": (lambda t: pl.from_arrow(t.select(["a", "b"])), pa.schema([("a", pa.int32())])),
    "arrow dataset, schema": (lambda t: pa.dataset.dataset(t), pa.schema([("b", pa.large_string())])),
    "arrow dataset": (lambda t: pa.dataset.dataset(t), None),
    "arrow scanner": (lambda t: pa.dataset.dataset(t).scanner(columns=["b"]), None),
}


@pytest.mark.parametrize("case", SOURCES)
def test_rows_come_from_anywhere(tmp_path: Path, case: str) -> None:
    make, schema = SOURCES[case]
    ours = lancelet.write_dataset(make(BASE), tmp_path / "ours", schema)
    theirs = lance.write_dataset(make(BASE), tmp_path / "theirs", schema)
    same_schema(ours.schema, theirs.schema)
    assert_identical(lance.dataset(tmp_path / "ours").to_table(), theirs.to_table())


def test_rows_come_from_lance_tables(tmp_path: Path) -> None:
    first = lancelet.write_dataset(mixed(0, 50).drop(["blob"]), tmp_path / "first")
    lancelet.write_dataset(first, tmp_path / "second")
    lancelet.write_dataset(first.scanner(["text", "id"], filter="id >= 40"), tmp_path / "second", mode="append")
    copied = lance.dataset(tmp_path / "second").to_table(["id", "text"])
    kept = first.to_table(["id", "text"])
    assert_identical(copied.combine_chunks(), pa.concat_tables([kept, kept.slice(40)]).combine_chunks())


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_every_mode_makes_a_table_where_there_is_none(tmp_path: Path, mode: str) -> None:
    assert lancelet.write_dataset(BASE, tmp_path / "t", mode=mode).version == 1
    assert lance.dataset(tmp_path / "t").count_rows() == 2


def test_options_reach_the_table(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []

    class Progress:
        def begin(self, fragment: lancelet.FragmentMetadata) -> None:
            told.append(("begin", fragment.physical_rows))

        def complete(self, fragment: lancelet.FragmentMetadata) -> None:
            told.append(("complete", fragment.physical_rows))

    options: dict[str, Any] = {
        "max_rows_per_file": 4,
        "enable_v2_manifest_paths": False,
        "auto_cleanup_options": {"interval": 5, "older_than_seconds": 1213325},
        "commit_message": "first",
        "transaction_properties": {"who": "me"},
    }
    table = pa.table({"x": range(10)})
    ours = lancelet.write_dataset(table, tmp_path / "ours", progress=Progress(), **options)
    theirs = lance.write_dataset(table, tmp_path / "theirs", **options)
    judge = lance.dataset(tmp_path / "ours")
    assert told == [("begin", 0), ("complete", 4), ("begin", 0), ("complete", 4), ("begin", 0), ("complete", 2)]
    assert judge.config() == theirs.config()
    assert judge.read_transaction(1).transaction_properties == theirs.read_transaction(1).transaction_properties
    assert sorted(p.name for p in (tmp_path / "ours/_versions").glob("*.manifest")) == ["1.manifest"]
    assert lancelet.write_dataset(table, ours, mode="append").version == 2
    assert (tmp_path / "ours/_versions/2.manifest").exists()


def test_a_soft_limit_of_bytes(tmp_path: Path) -> None:
    table = pa.table({"x": [random.Random(1).randbytes(800_000)], "n": [1]})
    rows = pa.concat_tables([table] * 10)
    lancelet.write_dataset(rows.to_reader(), tmp_path / "t", max_bytes_per_file=2_000_000, max_rows_per_group=1)
    counts = [fragment.physical_rows for fragment in lance.dataset(tmp_path / "t").get_fragments()]
    assert counts == [3, 3, 3, 1]


def test_fragments_are_written_anywhere_and_committed_once(tmp_path: Path) -> None:
    where = tmp_path / "t"
    transaction = lancelet.fragment.write_fragments(mixed(0, 10), where, return_transaction=True, max_rows_per_file=6)
    assert not (where / "_versions").exists()
    dataset = lancelet.LanceDataset.commit(where, transaction)
    assert (dataset.version, dataset.count_rows()) == (1, 10)

    ours = lancelet.fragment.write_fragments(mixed(10, 5), where)
    single = lancelet.LanceFragment.create(where, mixed(15, 5))
    theirs = lance.fragment.write_fragments(mixed(20, 5), where)
    told = [
        lancelet.FragmentMetadata.from_json(json.dumps(fragment.to_json())) for fragment in (*ours, single, *theirs)
    ]
    append = lancelet.LanceOperation.Append(told)
    dataset = lancelet.LanceDataset.commit(where, append, read_version=1, commit_message="all at once")
    assert same_rows(where)["id"].to_pylist() == list(range(25))
    assert dataset.read_transaction(2).transaction_properties == {"__lance_commit_message": "all at once"}

    ours_too = [
        lance.FragmentMetadata.from_json(json.dumps(f.to_json()))
        for f in lancelet.fragment.write_fragments(mixed(25, 5), where)
    ]
    lance.LanceDataset.commit(where, lance.LanceOperation.Append(ours_too), read_version=2)
    assert same_rows(where)["id"].to_pylist() == list(range(30))

    batch = [lancelet.fragment.write_fragments(mixed(n, 1), where, return_transaction=True) for n in (30, 31)]
    result = lancelet.LanceDataset.commit_batch(where, batch)
    assert (result["dataset"].version, len(result["merged"].operation.fragments)) == (4, 2)
    assert same_rows(where)["id"].to_pylist() == list(range(32))


def test_operations_can_be_committed(tmp_path: Path) -> None:
    where = tmp_path / "t"
    operation = lancelet.LanceOperation
    dataset = lancelet.write_dataset(BASE.drop(["p"]), where, max_rows_per_file=1)

    left = dataset.get_fragments()[0].delete(pc.field("a") == 1)
    assert left is None
    delete = operation.Delete([], [0], "a = 1")
    dataset = lancelet.LanceDataset.commit(dataset, delete, read_version=1)
    assert same_rows(where)["a"].to_pylist() == [2]

    renamed = lancelet.LanceSchema.from_pyarrow(pa.schema([("z", pa.int64()), ("b", pa.string())]))
    dataset = lancelet.LanceDataset.commit(where, operation.Project(renamed), read_version=2)
    assert same_rows(where)["z"].to_pylist() == [2]

    edits = operation.UpdateConfig(
        config_updates=operation.UpdateMap({"k": "v"}),
        field_metadata_updates={0: operation.UpdateMap({"unit": "m"})},
    )
    dataset = lancelet.LanceDataset.commit(where, edits, read_version=3)
    assert lance.dataset(where).config()["k"] == "v"
    assert lance.dataset(where).schema.field("z").metadata == {b"unit": b"m"}

    dataset = lancelet.LanceDataset.commit(where, operation.Restore(1))
    assert same_rows(where)["a"].to_pylist() == [1, 2]

    lance.dataset(where).create_scalar_index("a", "BTREE")
    created = lancelet.dataset(where).read_transaction(6).operation
    dropped = operation.CreateIndex([], created.new_indices)
    lancelet.LanceDataset.commit(where, dropped, read_version=6)
    assert lance.dataset(where).describe_indices() == []
    again = operation.CreateIndex(created.new_indices, [])
    lancelet.LanceDataset.commit(where, again, read_version=7)
    assert lance.dataset(where).to_table(filter="a = 2").num_rows == 1
    assert lancelet.dataset(where).describe_indices()[0].name == "a_idx"

    detached = lancelet.LanceDataset.commit(
        where, operation.Append(lancelet.fragment.write_fragments({"a": [9]}, where)), read_version=8, detached=True
    )
    assert detached.count_rows() == 3
    assert lancelet.dataset(where).version == 8


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_operations_survive_as_values(tmp_path: Path, stable: bool) -> None:
    where = tmp_path / "t"
    table = pa.table({"a": pa.array(range(100), pa.int64()), "b": [f"x{n}" for n in range(100)]})
    lance.write_dataset(table, where, max_rows_per_file=30, enable_stable_row_ids=stable)
    theirs = lance.write_dataset(table, where, mode="append")
    theirs.delete("a < 5")
    theirs.create_scalar_index("a", "BTREE")
    theirs.update({"b": "'z'"}, where="a = 50")
    merge = theirs.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"a": pa.array([60, 1000], pa.int64()), "b": ["q", "r"]}))
    theirs.add_columns({"c": "a + 1"})
    theirs.alter_columns({"path": "c", "name": "d"})
    theirs.drop_columns(["d"])
    theirs.update_config({"k": "v"})
    theirs.optimize.compact_files()
    lance.dataset(where, version=3).restore()
    lance.write_dataset(table, where, mode="overwrite")
    ours = lancelet.dataset(where)
    seen = set()
    for version in range(1, ours.version + 1):
        stored = ours.checkout_version(version).table.snapshot.manifest.transaction
        kind = stored.WhichOneof("operation")
        value = ours.read_transaction(version)
        operation = stored_operation(value.operation)
        again = ops.Transaction(value.read_version, operation, value.uuid, value.transaction_properties)
        assert transaction_message(again) == stored
        seen.add(kind)
    kinds = "overwrite append delete create_index update merge project update_config reserve_fragments rewrite restore"
    assert seen == set(kinds.split())


def test_migration_of_manifest_names(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(BASE, tmp_path / "t", enable_v2_manifest_paths=False)
    dataset.insert(BASE)
    dataset.migrate_manifest_paths_v2()
    assert (tmp_path / "t/_versions/18446744073709551613.manifest").exists()
    assert not (tmp_path / "t/_versions/2.manifest").exists()
    dataset.insert(BASE)
    assert lance.dataset(tmp_path / "t").version == dataset.version == 3
    assert lance.dataset(tmp_path / "t").count_rows() == dataset.count_rows() == 6


def test_restore(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(BASE, tmp_path / "t")
    dataset.insert(BASE)
    dataset.delete("true")
    old = dataset.checkout_version(2)
    old.restore()
    assert (old.version, old.count_rows()) == (4, 4)
    assert lance.dataset(tmp_path / "t").count_rows() == 4


def test_old_tables(tmp_path: Path) -> None:
    table = pa.table({"a": range(10), "d": pa.array(["x", "y"] * 5).dictionary_encode()})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="0.1", max_rows_per_file=4)
    assert lancelet.dataset(tmp_path / "t").delete("a < 5") == {"num_deleted_rows": 5}
    assert same_rows(tmp_path / "t")["a"].to_pylist() == [5, 6, 7, 8, 9]
    for version in (None, "2.2"):
        with pytest.raises(lancelet.errors.NotSupported, match="mode='overwrite' and data_storage_version"):
            lancelet.write_dataset(table, tmp_path / "t", mode="append", data_storage_version=version)
    with pytest.raises(lancelet.errors.NotSupported, match="hold no dict:string"):
        lancelet.write_dataset(table, tmp_path / "t", mode="overwrite")
    lancelet.write_dataset(table, tmp_path / "t", mode="overwrite", data_storage_version="2.2")
    assert same_rows(tmp_path / "t").num_rows == 10
    assert lance.dataset(tmp_path / "t").data_storage_version == "2.2"


def test_tables_with_a_history(tmp_path: Path) -> None:
    theirs = lance.write_dataset(pa.table({"a": range(10), "b": ["x"] * 10}), tmp_path / "t")
    theirs.add_columns({"c": "a + 1"})
    theirs.drop_columns(["a"])
    theirs.alter_columns({"path": "c", "name": "q"})
    lancelet.write_dataset({"q": [7], "b": ["z"]}, tmp_path / "t", mode="append")
    assert same_rows(tmp_path / "t")["q"].to_pylist() == [*range(1, 11), 7]
    lance.dataset(tmp_path / "t").create_branch("dev")
    branch = lancelet.dataset(tmp_path / "t").checkout_version(("dev", None))
    branch.insert({"q": [8]})
    assert branch.delete("q <= 5") == {"num_deleted_rows": 5}
    judge = lance.dataset(tmp_path / "t").checkout_version(("dev", None))
    assert judge.to_table()["q"].to_pylist() == branch.to_table()["q"].to_pylist() == [6, 7, 8, 9, 10, 7, 8]
    assert lancelet.dataset(tmp_path / "t").count_rows() == 11


def test_a_delete_finds_its_rows_again(tmp_path: Path) -> None:
    table = pa.table({"a": range(100)})
    stale = lancelet.write_dataset(table, tmp_path / "t", max_rows_per_file=50)
    lance.dataset(tmp_path / "t").delete("a < 10")
    lance.dataset(tmp_path / "t").optimize.compact_files(materialize_deletions_threshold=0.0)
    assert stale.delete("a < 20") == {"num_deleted_rows": 10}
    assert lance.dataset(tmp_path / "t").to_table()["a"].to_pylist() == list(range(20, 100))


class TwoWriters(RuleBasedStateMachine):
    """lancelet and pylance change one table in turn; a list of ids is the model."""

    engines = st.sampled_from([lancelet, lance])

    @initialize(engine=engines, version=st.sampled_from(NULL_STRUCTS), stable=st.booleans(), rows=st.integers(0, 30))
    def create(self, engine: Any, version: str, stable: bool, rows: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.where = Path(self.folder.name) / "t"
        engine.write_dataset(
            mixed(0, rows), self.where, data_storage_version=version, max_rows_per_file=9, enable_stable_row_ids=stable
        )
        self.ids = list(range(rows))
        self.next, self.version = rows, 1

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def _add(self, rows: int) -> pa.Table:
        added = mixed(self.next, rows)
        self.next += rows
        self.version += 1
        return added

    @rule(engine=engines, rows=st.integers(0, 25), dropped=st.sampled_from([[], ["text"], ["tags", "json"]]))
    def append(self, engine: Any, rows: int, dropped: list[str]) -> None:
        added = self._add(rows)
        engine.write_dataset(added.drop(dropped), self.where, mode="append", max_rows_per_file=11)
        self.ids += added["id"].to_pylist()

    @rule(engine=engines, modulus=st.integers(1, 5), rest=st.integers(0, 4))
    def delete(self, engine: Any, modulus: int, rest: int) -> None:
        gone = [n for n in self.ids if n % modulus == rest]
        result = engine.dataset(self.where).delete(f"id % {modulus} = {rest}")
        assert result == {"num_deleted_rows": len(gone)}
        self.ids = [n for n in self.ids if n % modulus != rest]
        self.version += 1

    @rule(engine=engines, rows=st.integers(0, 20))
    def overwrite(self, engine: Any, rows: int) -> None:
        added = self._add(rows)
        engine.write_dataset(added, self.where, mode="overwrite", max_rows_per_file=7)
        self.ids = added["id"].to_pylist()

    @invariant()
    def both_read_the_model(self) -> None:
        if hasattr(self, "ids"):
            assert lancelet.dataset(self.where).version == lance.dataset(self.where).version == self.version
            assert same_rows(self.where)["id"].to_pylist() == self.ids
            lance.dataset(self.where).validate()


TwoWriters.TestCase.settings = settings(
    max_examples=examples(15), stateful_step_count=6, deadline=None, suppress_health_check=list(HealthCheck)
)
test_two_writers = TwoWriters.TestCase


def test_a_table_on_s3(bucket: Bucket) -> None:
    uri, options = f"{bucket.uri}/written.lance", bucket.options
    dataset = lancelet.write_dataset(mixed(0, 300), uri, storage_options=options, max_rows_per_file=120)
    lance.write_dataset(mixed(300, 50), uri, mode="append", storage_options=options)
    lancelet.write_dataset(mixed(350, 50), uri, mode="append", storage_options=options)
    dataset.checkout_latest()
    assert dataset.delete("id % 2 = 1") == {"num_deleted_rows": 200}
    theirs = lance.dataset(uri, storage_options=options)
    names = [name for name in MIXED.names if name != "blob"]
    assert_identical(dataset.to_table(names), theirs.to_table(names))
    assert dataset.to_table(["id"])["id"].to_pylist() == list(range(0, 400, 2))

    def broken() -> Any:
        yield from mixed(0, 100).to_batches()
        raise RuntimeError("no more")

    before = dataset.all_files().read_all().num_rows
    with pytest.raises(RuntimeError, match="no more"):
        lancelet.write_dataset(broken(), uri, MIXED, mode="append", storage_options=options, max_rows_per_file=40)
    assert dataset.all_files().read_all().num_rows == before


def test_a_store_that_does_not_answer(bucket: Bucket) -> None:
    silent = bucket.options | {"aws_endpoint": "http://127.0.0.1:9", "client_max_retries": "0"}
    with pytest.raises(lancelet.errors.StorageError, match="cannot access"):
        lancelet.write_dataset(BASE, f"{bucket.uri}/silent.lance", storage_options=silent)


FIRST = """
import sys
import lancelet
where, number = sys.argv[1], int(sys.argv[2])
for turn in range(3):
    lancelet.write_dataset([{"k": number, "turn": turn}], where, mode="append")
"""


def test_many_writers_begin_a_table(tmp_path: Path) -> None:
    where, writers = tmp_path / "t", 4
    running = [forked(FIRST, where, number) for number in range(writers)]
    assert [process.communicate()[1] for process in running] == [""] * writers
    found = lance.dataset(where).to_table().to_pylist()
    assert sorted((row["k"], row["turn"]) for row in found) == [(n, turn) for n in range(writers) for turn in range(3)]
    assert lance.dataset(where).version == 3 * writers


@pytest.mark.parametrize(
    "other", [BASE, BASE.select(["b", "a", "p"]), pa.table({"a": ["x"]})], ids=["same", "order", "no"]
)
def test_somebody_else_makes_the_table(tmp_path: Path, other: pa.Table) -> None:
    where = tmp_path / "t"

    def slow() -> Any:
        yield from BASE.to_batches()
        lance.write_dataset(other, where)

    if other is BASE:
        assert lancelet.write_dataset(slow(), where, BASE.schema, mode="append").version == 2
        assert lance.dataset(where).count_rows() == 4
        return
    with pytest.raises(lancelet.errors.TableExists):
        lancelet.write_dataset(slow(), where, BASE.schema, mode="append")
    assert len(list((where / "data").iterdir())) == 1
    assert lance.dataset(where).version == 1


WRITER = """
import sys
import lancelet
where, number = sys.argv[1], int(sys.argv[2])
for turn in range(5):
    lancelet.write_dataset({"k": [100 * number + turn] * 3}, where, mode="append")
    result = lancelet.dataset(where).delete(f"k = {-1 - 5 * number - turn}")
    assert result == {"num_deleted_rows": 1}, result
"""


def test_many_writers_at_once(tmp_path: Path) -> None:
    where, writers = tmp_path / "t", 4
    lancelet.write_dataset({"k": range(-100, 0)}, where)
    running = [forked(WRITER, where, number) for number in range(writers)]
    assert [process.communicate()[1] for process in running] == [""] * writers
    theirs = lance.dataset(where)
    assert theirs.version == 1 + 2 * 5 * writers
    added = [100 * number + turn for number in range(writers) for turn in range(5)]
    assert sorted(theirs.to_table()["k"].to_pylist()) == [*range(-100, -5 * writers), *sorted(added * 3)]
    assert sorted(lancelet.dataset(where).to_table()["k"].to_pylist()) == sorted(theirs.to_table()["k"].to_pylist())
