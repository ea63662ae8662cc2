"""Merges against pylance and against brute force: rows, statistics, operations, lineage, kinds of errors."""

from __future__ import annotations

import decimal
import itertools
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import numpy as np
import polars
import psutil
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from conformance.states import STATES
from conformance.test_update import LINEAGE, VERSIONS, operation
from drawing import examples
from lancelet.editing.merge import source as merge_source
from lancelet.editing.merge.filter import key_filter
from lancelet.editing.merge.keys import KeyIndex, plain
from lancelet.editing.merge.source import MergeSource
from lancelet.errors import InvalidInput, LanceletError, MergeRefused, NotSupported, RetryableCommitConflict, UnfitData
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.testing import assert_identical, random_array

Row = dict[str, Any]
Build = Callable[[Any], Any]
PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}


def target() -> pa.Table:
    return pa.table(
        {
            "k": pa.array([1, 2, 3, 4, None, 6, 7], pa.int64()),
            "x": pa.array([10, 20, 30, 40, 50, None, 70], pa.int64()),
            "s": ["a", "b", "c", "d", None, "f", "g"],
        }
    )


def source() -> pa.Table:
    return pa.table(
        {
            "k": pa.array([2, 9, 3, None, 8], pa.int64()),
            "x": pa.array([200, 900, None, 0, 800], pa.int64()),
            "s": ["B", "I", "C", "N", None],
        }
    )


SOURCES: dict[str, pa.Table] = {
    "whole": source(),
    "another order": source().select(["s", "k", "x"]),
    "some columns": source().select(["k", "s"]),
    "keys only": source().select(["k"]),
    "empty": source().slice(0, 0),
    "new keys twice": pa.concat_tables([source(), source().slice(1, 1), source().slice(3)]),
    "chunks": pa.concat_tables([source().slice(i, 1) for i in range(5)]),
}
CONDITION = "source.k >= 2 and target.x = 20"


def apply(
    rows: list[Row], given: list[Row], matched: str, insert: bool, others: str | None
) -> tuple[list[Row], dict[str, int]]:
    """What a merge is: the slow way."""
    kept, updated = [], []
    deleted = 0
    found = {row["k"] for row in rows}
    by_key: dict[Any, list[Row]] = {}
    for row in given:
        by_key.setdefault(row["k"], []).append(row)
    for row in rows:
        matches = by_key.get(row["k"], []) if row["k"] is not None else []
        if matches and (matched == "update" or (matched == "condition" and row["x"] == 20)):
            updated.append({**row, **matches[0]})
        elif (matches and matched == "delete") or (
            not matches and (others == "all" or (others == "some" and (row["x"] or 0) > 35))
        ):
            deleted += 1
        else:
            kept.append(row)
    new = [row for row in given if insert and (row["k"] is None or row["k"] not in found)]
    names = list(rows[0])
    inserted = [{name: row.get(name) for name in names} for row in new]
    counts = {"num_inserted_rows": len(new), "num_updated_rows": len(updated), "num_deleted_rows": deleted}
    return kept + updated + inserted, counts


def told(builder: Any, matched: str, insert: bool, others: str | None) -> Any:
    match matched:
        case "update":
            builder = builder.when_matched_update_all()
        case "condition":
            builder = builder.when_matched_update_all(CONDITION)
        case "delete":
            builder = builder.when_matched_delete()
        case "fail":
            builder = builder.when_matched_fail()
    if insert:
        builder = builder.when_not_matched_insert_all()
    if others is not None:
        builder = builder.when_not_matched_by_source_delete("x > 35" if others == "some" else None)
    return builder


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [(value is None, value or 0) if name != "s" else (value is None, value or "")
                                         for name, value in row.items()])  # fmt: skip


def pair_of(tmp_path: Path, data: pa.Table | None = None, **options: Any) -> tuple[str, str]:
    """The same table twice."""
    where = tmp_path / "ours", tmp_path / "theirs"
    lance.write_dataset(target() if data is None else data, where[0], max_rows_per_file=3, **options)
    shutil.copytree(*where)
    return str(where[0]), str(where[1])


def contents(dataset: Any) -> pa.Table:
    columns = [*dataset.schema.names, *(LINEAGE[1:] if dataset.has_stable_row_ids else [])]
    return dataset.to_table(columns)


def old_ids(dataset: Any) -> dict[int, int]:
    """The ids of rows that were there before."""
    found = dataset.to_table(["k", "_rowid"], filter="_row_created_at_version = 1")
    return dict(zip(*found.to_pydict().values(), strict=True))


CLAUSES = [
    clause
    for clause in itertools.product(
        ("keep", "update", "condition", "delete", "fail"), (False, True), (None, "all", "some")
    )
    if clause != ("keep", False, None)
]


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: "-".join(map(str, clause)))
@pytest.mark.spread(0.6, each=False)
def test_every_clause(tmp_path: Path, clause: tuple[str, bool, str | None]) -> None:
    for number, (name, given_rows) in enumerate(SOURCES.items(), CLAUSES.index(clause)):
        where, stable = tmp_path / name, number % 2 == 0
        ours, theirs = pair_of(where, enable_stable_row_ids=stable)
        mine = lancelet.dataset(ours)
        merge = told(mine.merge_insert("k"), *clause)
        if clause[0] == "fail" and name != "empty":
            before = sorted(Path(ours).rglob("*"))
            with pytest.raises(MergeRefused, match="found matching row with key values: k = 2"):
                merge.execute(given_rows)
            assert sorted(Path(ours).rglob("*")) == before
            continue
        rows, counts = apply(target().to_pylist(), given_rows.to_pylist(), *clause)
        assert merge.execute(given_rows) == counts
        for module in (lancelet, lance):
            assert in_order(module.dataset(ours).to_table().to_pylist()) == in_order(rows)
        if clause[0] == "delete" and clause[2] is not None:
            continue  # pylance fails with an internal error
        other = lance.dataset(theirs)
        assert told(other.merge_insert("k"), *clause).execute(given_rows) == counts
        assert operation(mine) == operation(other)
        # New rows come in any order, and so do their ids.
        assert in_order(contents(mine).to_pylist()) == in_order(contents(other).to_pylist())
        lance.dataset(ours).validate()
        if stable:
            assert old_ids(mine) == old_ids(other)


def test_later_clauses_replace_earlier_ones(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(target(), tmp_path / "t")
    merge = dataset.merge_insert("k").when_matched_fail().when_matched_delete().when_matched_update_all()
    assert merge.execute(source())["num_updated_rows"] == 2
    assert "when_matched=UpdateAll" in repr(merge)


@pytest.mark.parametrize("clause", ("update", "delete"))
def test_ambiguous(tmp_path: Path, clause: str) -> None:
    ours, theirs = pair_of(tmp_path)
    twice = pa.concat_tables([source(), source().slice(2, 1)])
    before = sorted(Path(ours).rglob("*"))
    for module, uri in ((lancelet, ours), (lance, theirs)):
        with pytest.raises(OSError, match=r"multiple source rows match the same target row on \(k = 3\)"):
            told(module.dataset(uri).merge_insert("k"), clause, True, None).execute(twice)
    assert sorted(Path(ours).rglob("*")) == before


def test_a_condition_can_choose_between_two(tmp_path: Path) -> None:
    ours, theirs = pair_of(tmp_path)
    two = pa.table({"k": [2, 2], "x": [5, 900], "s": ["p", "q"]})
    for module, uri in ((lancelet, ours), (lance, theirs)):
        merge = module.dataset(uri).merge_insert("k").when_matched_update_all("source.x > target.x")
        assert merge.execute(two)["num_updated_rows"] == 1
    assert_identical(lancelet.dataset(ours).to_table(), lance.dataset(theirs).to_table())


@pytest.mark.parametrize("given_rows", ("whole", "some columns"))
def test_keys_that_the_table_has_twice(tmp_path: Path, given_rows: str) -> None:
    ours, theirs = pair_of(tmp_path, pa.concat_tables([target(), target()]), enable_stable_row_ids=True)
    for module, uri in ((lancelet, ours), (lance, theirs)):
        result = told(module.dataset(uri).merge_insert("k"), "update", True, None).execute(SOURCES[given_rows])
        assert result["num_updated_rows"] == 4
    mine, other = (contents(module.dataset(uri)) for module, uri in ((lancelet, ours), (lance, theirs)))
    assert in_order(mine.to_pylist()) == in_order(other.to_pylist())
    ids = lancelet.dataset(ours).to_table(["_rowid"]).column(0).to_pylist()
    assert len(set(ids)) == len(ids) == 17


NAN = float("nan")
KEYS: dict[str, tuple[pa.Array, pa.Array]] = {
    "float": (pa.array([1.0, NAN, 0.0, 2.0]), pa.array([NAN, -0.0, 2.0])),
    "half": (pa.array([1, 2], pa.float16()), pa.array([2, 3], pa.float16())),
    "text": (pa.array(["a", "", "c", None]), pa.array(["", "z", None])),
    "long text": (pa.array(["a" * 50, "b" * 50], pa.large_string()), pa.array(["b" * 50, "z"], pa.large_string())),
    "bytes": (pa.array([b"a", b"", b"c"]), pa.array([b"", b"z"])),
    "fixed bytes": (pa.array([b"aa", b"bb"], pa.binary(2)), pa.array([b"bb", b"zz"], pa.binary(2))),
    "truth": (pa.array([True, False]), pa.array([True])),
    "byte": (pa.array([1, -2], pa.int8()), pa.array([-2, 3], pa.int8())),
    "unsigned": (pa.array([1, 2**63 + 1], pa.uint64()), pa.array([2**63 + 1, 7], pa.uint64())),
    "date": (pa.array([1, 2], pa.date32()), pa.array([2, 3], pa.date32())),
    "time": (pa.array([1, 2], pa.timestamp("us")), pa.array([2, 3], pa.timestamp("us"))),
    "decimal": (
        pa.array([decimal.Decimal("1.5"), decimal.Decimal("2.5")]),
        pa.array([decimal.Decimal("2.5"), decimal.Decimal("3.5")]),
    ),
    "dictionary": (pa.array(["a", "b"]).dictionary_encode(), pa.array(["z", "b"]).dictionary_encode()),
    "struct": (
        pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, None, {"a": None, "b": "z"}]),
        pa.array([{"a": 2, "b": "y"}, {"a": 3, "b": "y"}, None, {"a": None, "b": "z"}]),
    ),
    "list": (pa.array([[1], [2, 3], [], None]), pa.array([[2, 3], [4], None])),
    "vector": (
        pa.array([[1.0, 2.0], [2.0, 3.0]], pa.list_(pa.float32(), 2)),
        pa.array([[2.0, 3.0], [4.0, 4.0]], pa.list_(pa.float32(), 2)),
    ),
    "nothing": (pa.nulls(2), pa.nulls(1)),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type(tmp_path: Path, kind: str) -> None:
    keys, others = KEYS[kind]
    ours, theirs = pair_of(tmp_path, pa.table({"k": keys, "x": range(len(keys))}))
    given_rows = pa.table({"k": others, "x": range(100, 100 + len(others))})
    answers = [
        told(module.dataset(uri).merge_insert("k"), "update", True, None).execute(given_rows)
        for module, uri in ((lancelet, ours), (lance, theirs))
    ]
    assert answers[0] == answers[1]
    assert_identical(lancelet.dataset(ours).to_table().sort_by("x"), lance.dataset(theirs).to_table().sort_by("x"))


TYPES = [
    pa.int64(),
    pa.string(),
    pa.struct([("a", pa.int8()), ("b", pa.string())]),
    pa.list_(pa.int8()),
    pa.list_(pa.string()),
    pa.list_(pa.struct([("a", pa.int8())])),
    pa.binary(3),
    pa.decimal128(5, 2),
    pa.map_(pa.string(), pa.int8()),
]


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3), st.integers(0, 2**32), st.integers(0, 40))
def test_matching_is_equality(types: list[pa.DataType], seed: int, rows: int) -> None:
    """Pairs of rows with equal keys, found by words, against comparing every row with every other."""
    pool = [random_array(dtype, 6, seed + n, nulls="some") for n, dtype in enumerate(types)]
    rng = np.random.default_rng(seed)
    sides = [[plain(column.take(pa.array(rng.integers(0, 6, rows)))) for column in pool] for _ in range(2)]
    found = KeyIndex(sides[1]).match(sides[0])
    left, right = (list(zip(*(column.to_pylist() for column in side), strict=True)) for side in sides)
    expected = [
        (i, j)
        for i, mine in enumerate(left)
        for j, other in enumerate(right)
        if None not in mine and repr(mine) == repr(other)
    ]
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected


def test_words_that_collide_are_compared() -> None:
    """Two texts of one word would match if words alone counted."""
    index = KeyIndex([pa.array(["a", "b", "c"])])
    index._index = SimpleNamespace(find=lambda words, valid: (np.array([0, 0, 1]), np.array([0, 1, 2])))
    assert [part.tolist() for part in index.match([pa.array(["b", "c"])])] == [[0, 1], [1, 2]]


@pytest.mark.parametrize("collide", [False, True])
@pytest.mark.parametrize(
    "columns",
    [[[3, 1, 3, 2, 1, 3]], [["b", "a", "b", "", "a", "b"]], [[1, 1, 1, 2, 1, 1], ["x", "y", "x", "x", "y", "z"]]],
)
def test_the_last_row_of_each_key(columns: list[list[Any]], collide: bool) -> None:
    index = KeyIndex([pa.array(column) for column in columns])
    keys = list(zip(*columns, strict=True))
    last = sorted({key: at for at, key in enumerate(keys)}.values())
    if collide and not index._exact:
        # All keys share a word, so that the next row of a word may have another key.
        everyone = np.arange(len(keys))
        pairs = np.repeat(everyone, len(keys)), np.tile(everyone, len(keys))
        index._index = SimpleNamespace(following=np.append(everyone[1:], -1), find=lambda words, valid: pairs)
    found = index.last_of_each()
    assert found is not None
    assert found.tolist() == last
    assert KeyIndex([pa.array(column).take(pa.array(last)) for column in columns]).last_of_each() is None


def test_several_key_columns(tmp_path: Path) -> None:
    data = pa.table({"a": [1, 1, 2, None], "b": ["x", "y", "x", "x"], "v": [1, 2, 3, 4]})
    given_rows = pa.table({"b": ["y", "x", "x", "z"], "v": [20, 30, 40, 50], "a": pa.array([1, 2, None, 1])})
    ours, theirs = pair_of(tmp_path, data)
    for module, uri in ((lancelet, ours), (lance, theirs)):
        result = told(module.dataset(uri).merge_insert(["a", "b"]), "update", True, None).execute(given_rows)
        assert result == {"num_inserted_rows": 2, "num_updated_rows": 2, "num_deleted_rows": 0}
    assert_identical(lancelet.dataset(ours).to_table().sort_by("v"), lance.dataset(theirs).to_table().sort_by("v"))


# Columns in place


def nested() -> pa.Table:
    return pa.table(
        {"k": [1, 2, 3, 4], "n": [{"x": 1, "y": 1}, {"x": 2, "y": 2}, None, {"x": 4, "y": 4}], "z": [1.5] * 4}
    )


IN_PLACE: dict[str, tuple[pa.Table, pa.Table, Build]] = {
    "asked for": (target(), source().select(["k", "s"]), lambda b: b.write_mode("rewrite_columns")),
    "fields of structs": (
        nested(),
        pa.table({"k": [2, 9], "n": [{"x": 20}, {"x": 90}], "z": [2.5, 3.5]}),
        lambda b: b,
    ),
    "fields of structs and new rows": (
        nested(),
        pa.table({"k": [2, 9], "n": [{"y": 20}, {"y": 90}]}),
        lambda b: b.when_not_matched_insert_all(),
    ),
}


@pytest.mark.parametrize("stable", (False, True))
@pytest.mark.parametrize("case", IN_PLACE)
def test_columns_in_place(tmp_path: Path, case: str, stable: bool) -> None:
    data, given_rows, build = IN_PLACE[case]
    ours, theirs = pair_of(tmp_path, data, enable_stable_row_ids=stable)
    for module, uri in ((lancelet, ours), (lance, theirs)):
        build(module.dataset(uri).merge_insert("k").when_matched_update_all()).execute(given_rows)
    mine, other = lancelet.dataset(ours), lance.dataset(theirs)
    assert operation(mine) == operation(other)
    assert operation(mine)["mode"] == "rewrite_columns"
    assert_identical(contents(mine), contents(other))
    assert_identical(contents(lance.dataset(ours)), contents(other))
    lance.dataset(ours).validate()


@pytest.mark.parametrize("build", ("update", "upsert", "condition", "no index", "rows", "delete", "others"))
@pytest.mark.parametrize("stable", (False, True))
def test_an_index_on_the_key(tmp_path: Path, build: str, stable: bool) -> None:
    """With an index on the key, pylance patches columns when some are missing; so do we."""
    ours, theirs = pair_of(tmp_path, target().slice(0, 4), enable_stable_row_ids=stable)
    for module, uri in ((lancelet, ours), (lance, theirs)):
        lance.dataset(uri).create_scalar_index("k", "BTREE")
        merge = module.dataset(uri).merge_insert("k")
        merge = merge.when_matched_update_all("source.s = 'B'" if build == "condition" else None)
        merge = {
            "upsert": lambda m: m.when_not_matched_insert_all(),
            "no index": lambda m: m.use_index(False),
            "rows": lambda m: m.write_mode("rewrite_rows"),
            "delete": lambda m: m.when_matched_delete(),
            "others": lambda m: m.when_not_matched_by_source_delete(),
        }.get(build, lambda m: m)(merge)
        # With an index, pylance forgets new rows whose key is null.
        merge.execute(source().select(["k", "s"]).take([0, 1, 2, 4]))
    mine, other = lancelet.dataset(ours), lance.dataset(theirs)
    assert operation(mine) == operation(other)
    expected = contents(other).sort_by("k")
    assert_identical(contents(mine).sort_by("k"), expected)
    assert_identical(contents(lance.dataset(ours)).sort_by("k"), expected)
    # What pylance's index says about our version is right.
    for key in (2, 4, 9):
        found = lance.dataset(ours).to_table(filter=f"k = {key}").num_rows
        assert found == contents(other).to_pydict()["k"].count(key)


def test_columns_in_place_with_deleted_rows(tmp_path: Path) -> None:
    ours, theirs = pair_of(tmp_path)
    for module, uri in ((lancelet, ours), (lance, theirs)):
        lance.dataset(uri).delete("k in (1, 2)")
        merge = module.dataset(uri).merge_insert("k").when_matched_update_all().write_mode("rewrite_columns")
        assert merge.execute(source().select(["k", "x"]))["num_updated_rows"] == 1
    mine = lancelet.dataset(ours)
    assert operation(mine) == operation(lance.dataset(theirs))
    assert_identical(mine.to_table(), lance.dataset(theirs).to_table())
    # Again, over files that have been patched before.
    for module, uri in ((lance, ours), (lancelet, theirs)):
        merge = module.dataset(uri).merge_insert("k").when_matched_update_all().write_mode("rewrite_columns")
        merge.execute(pa.table({"k": [3, 4], "s": ["again", None]}))
    assert_identical(lancelet.dataset(ours).to_table(), lance.dataset(theirs).to_table())


def test_columns_in_place_of_every_kind(tmp_path: Path) -> None:
    """Vectors, lists, dictionaries, JSON and texts; more rows than one unit."""
    count = 3000
    data = pa.table(
        {
            "k": range(count),
            "v": random_array(pa.list_(pa.float32(), 4), count, 1),
            "l": random_array(pa.list_(pa.string()), count, 2, nulls="some"),
            "d": random_array(pa.string(), count, 3, pattern="low").dictionary_encode(),
            "s": random_array(pa.string(), count, 4, nulls="some"),
            "rest": random_array(pa.int64(), count, 5),
            "j": pa.array([f'{{"a": {n}}}' for n in range(count)], pa.json_()),
        }
    )
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    lance.write_dataset(data, ours, max_rows_per_file=1100)
    shutil.copytree(ours, theirs)
    order = pa.array(np.random.default_rng(0).permutation(count)[:700])
    given_rows = data.drop_columns(["rest"]).take(pa.array(range(count - 1, -1, -1))).take(order)
    given_rows = given_rows.set_column(0, "k", data["k"].take(order))
    for module, uri in ((lancelet, ours), (lance, theirs)):
        merge = module.dataset(uri).merge_insert("k").when_matched_update_all().write_mode("rewrite_columns")
        assert merge.execute(given_rows)["num_updated_rows"] == 700
    expected = lance.dataset(theirs).to_table()
    assert_identical(lancelet.dataset(ours).to_table(), expected)
    assert_identical(lance.dataset(ours).to_table(), expected)


# Tables of all kinds


@pytest.mark.parametrize("number", range(len(STATES)), ids=list(STATES))
@pytest.mark.spread(0.5, each=False)
def test_every_state(tmp_path: Path, number: int) -> None:
    every_state(tmp_path, list(STATES)[number], VERSIONS[(number + 1) % 3], number % 2 == 1)


@pytest.mark.soak
@pytest.mark.parametrize("stable", (False, True))
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", STATES)
def test_every_state_in_every_version(tmp_path: Path, state: str, version: str, stable: bool) -> None:
    every_state(tmp_path, state, version, stable)


def every_state(tmp_path: Path, state: str, version: str, stable: bool) -> None:
    """Rows of the table itself, moved by one key, merged back: whole, then without some columns."""
    STATES[state](tmp_path / "theirs", {"data_storage_version": version, "enable_stable_row_ids": stable})
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    shutil.copytree(theirs, ours)
    schema = lance.dataset(theirs).schema
    key = "k" if schema.field("k").type == pa.int64() else "x"
    shifted = lance.dataset(theirs).to_table({name: f"{name} + 3" if name == key else name for name in schema.names})
    # Copies, since pylance panics over some slices.
    shifted = shifted.cast(schema).take(pa.array(range(shifted.num_rows // 3, shifted.num_rows), pa.int64()))
    fewer = shifted.drop_columns(schema.names[-1:]) if len(schema) > 2 else shifted
    for given_rows in (shifted, fewer):
        outcomes = []
        for module, uri in ((lancelet, ours), (lance, theirs)):
            try:
                merge = told(module.dataset(uri).merge_insert(key), "update", True, None)
                outcomes.append(merge.execute(given_rows))
            except OSError as error:
                assert "struct validity" in str(error) or "Ambiguous" in str(error), error
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1]
        mine, other = lancelet.dataset(ours), lance.dataset(theirs)
        expected = contents(other).sort_by(key)
        assert_identical(contents(mine).sort_by(key), expected)
        assert_identical(contents(lance.dataset(ours)).sort_by(key), expected)
        if outcomes[0] != "refused":
            assert operation(mine) == operation(other)
            lance.dataset(ours).validate()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partial", (False, True))
def test_blobs(tmp_path: Path, version: str, partial: bool) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("k", pa.int64()), field, pa.field("x", pa.int64())])
    values = [b"x" * 10, b"", None, b"y" * 100_000]
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table([range(4), values, range(4)], schema=schema), uri, data_storage_version=version)
    given_rows = pa.table([[3, 9], [b"new", b"newer"], [7, 7]], schema=schema)
    merge = told(lancelet.dataset(uri).merge_insert("k"), "update", True, None)
    merge.execute(given_rows.select(["k", "x"]) if partial else given_rows)
    for module in (lancelet, lance):
        dataset = module.dataset(uri)
        assert dataset.to_table(["k", "x"]).to_pydict() == {"k": [0, 1, 2, 3, 9], "x": [0, 1, 2, 7, 7]}
        found = dataset.take_blobs("b", indices=[0, 1, 3] if partial else [0, 1, 3, 4])
        expected = [values[0], b"", values[3]] if partial else [values[0], b"", b"new", b"newer"]
        assert [blob.readall() for blob in found] == expected


@pytest.mark.parametrize("targets", ("names", "own and name", "all", "all but own"))
def test_base_paths(tmp_path: Path, targets: str) -> None:
    """New fragments go where they are told; files that patch old ones stay with the table."""
    where = tmp_path / "ours", tmp_path / "theirs"
    placed = []
    for module, uri in zip((lancelet, lance), map(str, where), strict=True):
        bases = [lance.DatasetBasePath(f"{uri}-{name}", name=name, id=number) for number, name in enumerate("ab", 1)]
        lance.write_dataset(target().slice(0, 4), uri, initial_bases=bases).create_scalar_index("k", "BTREE")
        for given_rows in (source().take([0, 1]), source().select(["k", "s"]).take([2, 4])):
            merge = told(module.dataset(uri).merge_insert("k"), "update", True, None)
            merge = {
                "names": lambda m, uri: m.target_bases(["b", f"{uri}-a"]),
                "own and name": lambda m, uri: m.target_bases([uri, "a"]),
                "all": lambda m, uri: m.target_all_bases(),
                "all but own": lambda m, uri: m.target_all_bases(include_primary=False),
            }[targets](merge, uri)
            merge.execute(given_rows)
        fragments = lance.dataset(uri).get_fragments()
        placed.append([[file.base_id for file in fragment.metadata.files] for fragment in fragments])
    assert placed[0] == placed[1]
    mine, other = (contents(lancelet.dataset(uri)) for uri in map(str, where))
    assert in_order(mine.to_pylist()) == in_order(other.to_pylist())


def test_references_to_blobs_are_kept(tmp_path: Path) -> None:
    """Blobs that lie elsewhere stay there when their rows move."""
    (tmp_path / "outside").write_bytes(b"outside!")
    schema = pa.schema([pa.field("k", pa.int64()), lance.blob_field("b"), pa.field("x", pa.int64())])
    blobs = lance.blob_array([b"inside", (tmp_path / "outside").as_uri(), None, b"y" * 100_000])
    data = pa.table([range(4), blobs, range(4)], schema=schema)
    lance.write_dataset(data, tmp_path / "theirs", allow_external_blob_outside_bases=True)
    shutil.copytree(tmp_path / "theirs", tmp_path / "ours")
    found = []
    for module, name in ((lancelet, "ours"), (lance, "theirs")):
        dataset = module.dataset(str(tmp_path / name))
        dataset.update({"x": "x + 1"}, "k < 2")
        dataset.merge_insert("k").when_matched_update_all().execute(pa.table({"k": [1, 3], "x": [7, 7]}))
        described = lance.dataset(tmp_path / name).to_table()
        kinds = {row["k"]: row["b"] and (row["b"]["kind"] == 3, row["b"]["blob_uri"]) for row in described.to_pylist()}
        bytes_of = [blob.readall() for blob in module.dataset(str(tmp_path / name)).take_blobs("b", indices=[1, 2, 3])]
        found.append((kinds, sorted(bytes_of)))
    assert found[0] == found[1]
    rows = pa.table([[9], lance.blob_array([(tmp_path / "outside").as_uri()]), [9]], schema=schema)
    merge = told(lancelet.dataset(tmp_path / "ours").merge_insert("k"), "update", True, None)
    with pytest.raises(OSError, match="outside"):
        merge.execute(rows)


# Primary keys


def keyed(types: dict[str, pa.DataType] | None = None) -> pa.Schema:
    types = types or {"k": pa.int64()}
    keys = [
        pa.field(name, dtype, False, PRIMARY_KEY | {f"{next(iter(PRIMARY_KEY))}:position": str(place)})
        for place, (name, dtype) in enumerate(types.items(), 1)
    ]
    return pa.schema([*keys, pa.field("x", pa.int64())])


FILTERED: dict[str, tuple[list[pa.Array], list[pa.Array]]] = {
    "int64": ([pa.array([1, 2])], [pa.array([2, 3, -4])]),
    "int32": ([pa.array([1, 2], pa.int32())], [pa.array([2, 3, -4], pa.int32())]),
    "uint32": ([pa.array([1, 2], pa.uint32())], [pa.array([2, 3, 4], pa.uint32())]),
    "text": ([pa.array(["a", "b"])], [pa.array(["b", "", "a long key of more than thirty-two bytes"])]),
    "large binary": ([pa.array([b"a", b"b"], pa.large_binary())], [pa.array([b"b", b"", b"z"], pa.large_binary())]),
    "two columns": ([pa.array([1, 2]), pa.array(["a", "b"])], [pa.array([2, 2, 3]), pa.array(["b", "c", "d"])]),
}


@pytest.mark.parametrize("case", FILTERED)
def test_the_key_filter(tmp_path: Path, case: str) -> None:
    """The keys of inserted rows, in the same bits as pylance."""
    stored, given_rows = FILTERED[case]
    names = ["k", "j"][: len(stored)]
    schema = keyed({name: column.type for name, column in zip(names, stored, strict=True)})
    ours, theirs = pair_of(tmp_path, pa.table([*stored, [0] * 2], schema=schema))
    filters = []
    for module, uri in ((lancelet, ours), (lance, theirs)):
        merge = told(module.dataset(uri).merge_insert(), "update", True, None)
        assert merge.execute(pa.table([*given_rows, [1] * 3], schema=schema))["num_inserted_rows"] == 2
        message = open_snapshot(uri).manifest.transaction
        assert message is not None
        filters.append(message.update.inserted_rows)
    assert filters[0] == filters[1]


def test_keys_without_bytes_meet_any_other() -> None:
    assert set(key_filter([0], [pa.array([1.5])]).bitmap or b"") == {255}
    assert set(key_filter([0], [pa.array([], pa.float64())]).bitmap or b"") == {0}
    assert key_filter([0], [pa.array([1, None])]) == key_filter([0], [pa.array([1])])


@pytest.mark.parametrize("build", ("update", "delete", "delete and insert", "others", "fail"))
def test_when_there_is_a_key_filter(tmp_path: Path, build: str) -> None:
    schema = keyed()
    ours, theirs = pair_of(tmp_path, pa.table([[1, 2], [1, 2]], schema=schema))
    found = []
    for module, uri in ((lancelet, ours), (lance, theirs)):
        merge = module.dataset(uri).merge_insert("k")
        merge = {
            "update": lambda m: m.when_matched_update_all(),
            "delete": lambda m: m.when_matched_delete(),
            "delete and insert": lambda m: m.when_matched_delete().when_not_matched_insert_all(),
            "others": lambda m: m.when_not_matched_by_source_delete(),
            "fail": lambda m: m.when_matched_fail().when_not_matched_insert_all(),
        }[build](merge)
        merge.execute(pa.table([[2 if build != "fail" else 5, 3], [0, 0]], schema=schema))
        message = open_snapshot(uri).manifest.transaction
        assert message is not None
        found.append(message.update.inserted_rows if message.update.HasField("inserted_rows") else None)
    assert found[0] == found[1]


@pytest.mark.parametrize("first", (lance, lancelet))
@pytest.mark.parametrize("second", (lance, lancelet))
@pytest.mark.parametrize("primary", (False, True))
def test_two_merges_insert_one_key(tmp_path: Path, first: Any, second: Any, primary: bool) -> None:
    """With a primary key the second one finds the row of the first; without, both insert theirs."""
    schema = keyed() if primary else pa.schema({"k": pa.int64(), "x": pa.int64()})
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table([[1], [1]], schema=schema), uri)
    late = second.dataset(uri)
    for dataset, x in ((first.dataset(uri), 10), (late, 20)):
        told(dataset.merge_insert("k"), "update", True, None).execute(pa.table([[7], [x]], schema=schema))
    found = sorted(row["x"] for row in lancelet.dataset(uri).to_table().to_pylist() if row["k"] == 7)
    assert found == ([20] if primary else [10, 20])


def test_a_patch_that_inserts_one_key(tmp_path: Path) -> None:
    """Columns in place with new rows: the keys count all the same."""
    schema = keyed().append(pa.field("y", pa.int64()))
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table([[1], [1], [1]], schema=schema), uri).create_scalar_index("k", "BTREE")
    some = pa.schema([schema.field(0), schema.field(1)])
    early, late = lancelet.dataset(uri), lancelet.dataset(uri)
    for dataset, x in ((early, 10), (late, 20)):
        told(dataset.merge_insert("k"), "update", True, None).execute(pa.table([[7], [x]], schema=some))
    assert sorted(lancelet.dataset(uri).to_table(["k", "x"]).to_pylist(), key=str) == [
        {"k": 1, "x": 1},
        {"k": 7, "x": 20},
    ]


def test_no_primary_key(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(target(), tmp_path / "t")
    for on in (None, []):
        with pytest.raises(InvalidInput, match="primary key"):
            dataset.merge_insert(on)


# Others at work


@pytest.mark.parametrize("module", (lance, lancelet))
def test_other_rows_of_the_same_fragment(tmp_path: Path, module: Any) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(target(), uri, enable_stable_row_ids=True)
    dataset = lancelet.dataset(uri)
    module.dataset(uri).delete("k = 1")
    module.dataset(uri).update({"s": "'theirs'"}, "k = 4")
    lance.write_dataset(pa.table({"k": [77], "x": [7], "s": ["new"]}), uri, mode="append")
    told(dataset.merge_insert("k").conflict_retries(0), "update", True, None).execute(source())
    found = {row["k"]: row["s"] for row in dataset.to_table().to_pylist() if row["k"] is not None}
    assert found == {2: "B", 3: "C", 4: "theirs", 6: "f", 7: "g", 77: "new", 9: "I", 8: None}
    assert_identical(lance.dataset(uri).to_table(), dataset.to_table())


@pytest.mark.parametrize("mode", ("rewrite_rows", "rewrite_columns"))
def test_the_same_rows(tmp_path: Path, mode: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(target(), uri)
    dataset, late = lancelet.dataset(uri), lancelet.dataset(uri)
    lance.dataset(uri).update({"x": "x + 1"}, "k = 2")
    rows = source().select(["k", "s"])

    def merge(dataset: Any) -> Any:
        return dataset.merge_insert("k").when_matched_update_all().write_mode(mode)

    assert merge(dataset).execute(rows)["num_updated_rows"] == 2
    assert {(row["k"], row["x"], row["s"]) for row in dataset.to_table(filter="k = 2").to_pylist()} == {(2, 21, "B")}
    before = sorted(Path(uri).rglob("*"))
    with pytest.raises(RetryableCommitConflict):
        merge(late).conflict_retries(0).execute(rows)
    with pytest.raises(RetryableCommitConflict):
        merge(late).retry_timeout(timedelta(0)).execute(rows)
    assert sorted(Path(uri).rglob("*")) == before


def test_a_stream_is_read_once_and_merged_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict after the stream is used up: its rows are still there."""
    uri = str(tmp_path / "t")
    lance.write_dataset(target(), uri)
    dataset = lancelet.dataset(uri)
    monkeypatch.setattr(merge_source, "IN_MEMORY", 0)

    def batches() -> Any:
        yield from source().to_batches()
        lance.dataset(uri).update({"x": "x + 1"}, "k in (2, 3)")

    merge = told(dataset.merge_insert("k"), "update", True, None)
    assert merge.execute(batches(), schema=source().schema)["num_updated_rows"] == 2
    assert dataset.version == 3
    assert sorted(str(row["s"]) for row in dataset.to_table().to_pylist()) == sorted(
        ["a", "B", "C", "d", "None", "f", "g", "I", "N", "None"]
    )


# Sources


def test_streams_go_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    texts = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a", "d"]).dictionary_encode()]
    batches = [
        pa.record_batch({"k": pa.array([0, 1]), "d": texts[0]}),
        pa.record_batch({"k": pa.array([2, 3, 4]), "d": texts[1]}),
    ]
    monkeypatch.setattr(merge_source, "_STEP_ROWS", 1)
    with MergeSource(iter(batches), batches[0].schema, in_memory=10) as held:
        assert held.is_spilled
        # The file has no name, so that nothing stays behind when the process is killed.
        assert not list((tmp_path / "temporary").iterdir())
        open_files = [str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
        assert any(str(tmp_path / "temporary") in file for file in open_files)
        assert held.num_rows == 5
        assert held.column("d").to_pylist() == ["a", "b", "c", "a", "d"]
        mask = np.array([True, False, False, True, True])
        assert [b.to_pydict() for b in held.chosen(mask)] == [{"k": [0], "d": ["a"]}, {"k": [3, 4], "d": ["a", "d"]}]
        assert held.take(np.array([4, 0, 4, 2])).to_pydict() == {"k": [4, 0, 4, 2], "d": ["d", "a", "d", "c"]}
        assert held.take(np.empty(0, np.int64)).num_rows == 0
    assert list((tmp_path / "temporary").iterdir()) == []

    def broken() -> Any:
        yield batches[0]
        yield batches[1]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        MergeSource(broken(), batches[0].schema, in_memory=0)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("form", ("reader", "dict", "rows", "pandas", "polars", "dataset", "generator", "batch"))
def test_rows_from_anywhere(tmp_path: Path, form: str) -> None:
    data = source().slice(0, 2)
    schema = None
    given_rows: Any = {
        "reader": lambda: data.to_reader(),
        "dict": lambda: data.to_pydict(),
        "rows": lambda: data.to_pylist(),
        "pandas": lambda: data.select(["k", "x"]).to_pandas(),
        "polars": lambda: polars.from_arrow(data.select(["k", "x"])),
        "dataset": lambda: lancelet.write_dataset(data, tmp_path / "source"),
        "generator": lambda: (batch for batch in data.to_batches()),
        "batch": lambda: data.to_batches()[0],
    }[form]()
    if form == "generator":
        schema = data.schema
    dataset = lancelet.write_dataset(target(), tmp_path / "t")
    result = told(dataset.merge_insert("k"), "update", True, None).execute(given_rows, schema=schema)
    assert result == {"num_inserted_rows": 1, "num_updated_rows": 1, "num_deleted_rows": 0}
    assert {2: 200, 9: 900}.items() <= dict(
        zip(*dataset.to_table(["k", "x"]).to_pydict().values(), strict=True)
    ).items()


@pytest.mark.soak
def test_memory_goes_by_the_keys(tmp_path: Path) -> None:
    """A gigabyte of source rows, as a stream, into a table: memory follows the keys."""
    width, count, step = 2048, 500_000, 5000
    schema = pa.schema([("k", pa.int64()), ("v", pa.binary(width))])

    def batches(first: int, rows: int) -> Any:
        for start in range(first, first + rows, step):
            raw = np.random.default_rng(start).bytes(width * step)
            column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), step, [None, pa.py_buffer(raw)])
            yield pa.record_batch([pa.array(range(start, start + step)), column], schema=schema)

    uri = str(tmp_path / "t")
    lancelet.write_dataset(batches(0, count // 2), uri, schema=schema)
    dataset = lancelet.dataset(uri)
    process = psutil.Process()
    peak, before = 0, process.memory_full_info().uss

    def watched() -> Any:
        nonlocal peak
        for batch in batches(count // 4, count // 2):
            yield batch
            peak = max(peak, process.memory_full_info().uss - before)

    told(dataset.merge_insert("k"), "update", True, None).execute(watched(), schema=schema)
    assert dataset.count_rows() == count * 3 // 4
    assert max(peak, process.memory_full_info().uss - before) < 400 << 20


# What is refused


def refusals() -> dict[str, tuple[Any, Build, pa.Table]]:
    def update(builder: Any) -> Any:
        return builder.when_matched_update_all()

    whole = source()
    return {
        "nothing to do": ("k", lambda b: b, whole),
        "unknown key": ("zz", update, whole),
        "a row id as key": ("_rowid", update, whole),
        "a number as key": (5, update, whole),
        "no key": (None, update, whole),
        "source without the key": ("k", update, whole.select(["s"])),
        "a column too many": ("k", update, whole.append_column("q", [range(5)])),
        "another type of key": ("k", update, whole.set_column(0, "k", whole["k"].cast(pa.int32()))),
        "another type of value": ("k", update, whole.set_column(1, "x", whole["x"].cast(pa.float64()))),
        "another case": ("k", update, whole.rename_columns(["K", "x", "s"])),
        "unknown column in the condition": ("k", lambda b: b.when_matched_update_all("source.zz > 2"), whole),
        "a column of neither side": ("k", lambda b: b.when_matched_update_all("x > 2"), whole),
        "no condition": ("k", lambda b: b.when_matched_update_all("source.x"), whole),
        "a condition that is no text": ("k", lambda b: b.when_matched_update_all(5), whole),
        "unknown column in the other condition": ("k", lambda b: b.when_not_matched_by_source_delete("zz > 2"), whole),
        "the other condition with a side": ("k", lambda b: b.when_not_matched_by_source_delete("target.x > 2"), whole),
        "an unknown mode": ("k", lambda b: update(b).write_mode("x"), whole),
        "columns, all of them": ("k", lambda b: update(b).write_mode("rewrite_columns"), whole),
        "columns and new rows": (
            "k",
            lambda b: update(b).when_not_matched_insert_all().write_mode("rewrite_columns"),
            whole.select(["k", "s"]),
        ),
        "columns, but none": ("k", lambda b: update(b).write_mode("rewrite_columns"), whole.select(["k"])),
        "columns and deletions": (
            "k",
            lambda b: b.when_matched_delete().write_mode("rewrite_columns"),
            whole.select(["k", "s"]),
        ),
        "a file version that is none": ("k", lambda b: update(b).data_storage_version("9"), whole),
        "legacy files": ("k", lambda b: update(b).data_storage_version("legacy"), whole),
        "a timeout that is none": ("k", lambda b: update(b).retry_timeout(5), whole),
        "no rows": ("k", update, 5),
    }


@pytest.mark.parametrize("case", refusals())
def test_what_is_refused(tmp_path: Path, case: str) -> None:
    on, build, rows = refusals()[case]
    ours, theirs = pair_of(tmp_path)
    before = sorted(Path(ours).rglob("*"))
    with pytest.raises(Exception) as theirs_raised:
        build(lance.dataset(theirs).merge_insert(on)).execute(rows)
    with pytest.raises(LanceletError) as raised:
        build(lancelet.dataset(ours).merge_insert(on)).execute(rows)
    kind = next(base for base in type(theirs_raised.value).__mro__ if base.__module__ == "builtins")
    assert isinstance(raised.value, kind)
    assert sorted(Path(ours).rglob("*")) == before


def test_columns_that_take_no_nulls(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("x", pa.int64(), False), pa.field("s", pa.string())])
    ours, theirs = pair_of(tmp_path, pa.table([[1, 2, 3], [10, 20, 30], ["a", "b", "c"]], schema=schema))
    partial = pa.table({"k": [2, 9], "s": ["B", "I"]})
    before = sorted(Path(ours).rglob("*"))
    for module, uri in ((lancelet, ours), (lance, theirs)):
        with pytest.raises(OSError, match="x"):
            told(module.dataset(uri).merge_insert("k"), "update", True, None).execute(partial)
        rows = pa.table({"k": [2, 9], "x": [None, 1], "s": ["B", "I"]})
        with pytest.raises(OSError, match="null"):
            told(module.dataset(uri).merge_insert("k"), "update", True, None).execute(rows)
    assert sorted(Path(ours).rglob("*")) == before
    for module, uri in ((lancelet, ours), (lance, theirs)):
        assert (
            told(module.dataset(uri).merge_insert("k"), "update", False, None).execute(partial)["num_updated_rows"] == 1
        )
    assert_identical(lancelet.dataset(ours).to_table(), lance.dataset(theirs).to_table())


def test_parts_of_structs_and_rows(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(nested(), tmp_path / "t")
    part = pa.table({"k": [2], "n": [{"x": 20}]})
    with pytest.raises(MergeRefused, match="only some fields of a struct"):
        dataset.merge_insert("k").when_matched_update_all().write_mode("rewrite_rows").execute(part)
    with pytest.raises(UnfitData, match="whole column 'n'"):
        dataset.merge_insert("n").when_matched_update_all().execute(part)
    dataset.merge_insert("k").when_matched_delete().execute(part)
    assert dataset.to_table(["k"]).column(0).to_pylist() == [1, 3, 4]
    dataset.merge_insert("k").when_not_matched_insert_all().execute(part)
    assert dataset.to_table(filter="k = 2").to_pylist() == [{"k": 2, "n": {"x": 20, "y": None}, "z": None}]


def test_parts_of_structs_in_old_files(tmp_path: Path) -> None:
    """pylance makes a table of this that it cannot read."""
    uri = str(tmp_path / "t")
    data = pa.table({"k": [1, 2], "n": [{"x": 1, "y": 1}, {"x": 2, "y": 2}]})
    lance.write_dataset(data, uri, data_storage_version="2.0")
    before = sorted(Path(uri).rglob("*"))
    with pytest.raises(NotSupported, match="version 2.0, in which a struct is in one file"):
        lancelet.dataset(uri).merge_insert("k").when_matched_update_all().execute({"k": [2], "n": [{"x": 20}]})
    assert sorted(Path(uri).rglob("*")) == before


@pytest.mark.parametrize("version", ("2.1", "2.2"))
@pytest.mark.parametrize("given_struct", ({"x": 20}, {"x": None}, None))
def test_parts_of_null_structs(tmp_path: Path, version: str, given_struct: Any) -> None:
    data = pa.table({"k": [1, 2, 3], "n": [{"x": 1, "y": 1}, None, {"x": 3, "y": None}]})
    ours, theirs = pair_of(tmp_path, data, data_storage_version=version)
    rows = pa.table({"k": [1, 2, 3], "n": pa.array([given_struct] * 3, pa.struct([("x", pa.int64())]))})
    for module, uri in ((lancelet, ours), (lance, theirs)):
        module.dataset(uri).merge_insert("k").when_matched_update_all().execute(rows)
    expected = lance.dataset(theirs).to_table()
    assert lancelet.dataset(ours).to_table().to_pylist() == expected.to_pylist()
    assert lance.dataset(ours).to_table().to_pylist() == expected.to_pylist()


def test_messages(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(target(), tmp_path / "t")
    with pytest.raises(InvalidInput, match=r"when_matched_update_all\(\) or when_not_matched_insert_all\(\)"):
        dataset.merge_insert("k").execute(source())
    with pytest.raises(MergeRefused, match=r"named source\.x or target\.x here"):
        dataset.merge_insert("k").when_matched_update_all("x > 1").execute(source())
    with pytest.raises(MergeRefused, match="nothing to skip. Use 'auto' or 'rewrite_rows'"):
        dataset.merge_insert("k").when_matched_update_all().write_mode("rewrite_columns").execute(source())
    rows = source().append_column("q", [range(5)])
    with pytest.raises(UnfitData, match=r"(?s)`q` is not in the table.*rename or cast the columns of the source"):
        dataset.merge_insert("k").when_matched_update_all().execute(rows)
    with pytest.raises(OSError, match="'b' not found"):
        dataset.merge_insert("k").when_matched_update_all().target_bases(["b"]).execute(source())
    with pytest.raises(InvalidInput, match="not -1"):
        dataset.merge_insert("k").conflict_retries(-1)


# The other ways to run


@pytest.mark.parametrize("commit", (lance, lancelet))
def test_uncommitted(tmp_path: Path, commit: Any) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(target(), uri)
    dataset = lancelet.dataset(uri)
    transaction, result = told(dataset.merge_insert("k"), "update", True, None).execute_uncommitted(source())
    assert result == {"num_inserted_rows": 3, "num_updated_rows": 2, "num_deleted_rows": 0}
    assert dataset.version == 1
    assert transaction.read_version == 1
    if commit is lancelet:
        lancelet.LanceDataset.commit(uri, transaction)
    else:
        theirs, _ = told(lance.dataset(uri).merge_insert("k"), "update", True, None).execute_uncommitted(source())
        change = lancelet.LanceOperation.Update(
            updated_fragments=theirs.operation.updated_fragments, new_fragments=theirs.operation.new_fragments
        )
        assert len(change.new_fragments) == len(transaction.operation.new_fragments)
        lance.LanceDataset.commit(uri, theirs)
    assert lancelet.dataset(uri).version == 2
    rows, _ = apply(target().to_pylist(), source().to_pylist(), "update", True, None)
    assert in_order(lance.dataset(uri).to_table().to_pylist()) == in_order(rows)


def test_plans(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lancelet.write_dataset(target(), uri)
    merge = told(dataset.merge_insert("k"), "condition", True, "some")
    theirs = told(lance.dataset(uri).merge_insert("k"), "update", True, None)
    ours = told(dataset.merge_insert("k"), "update", True, None)
    assert ours.explain_plan().splitlines()[0] == theirs.explain_plan().splitlines()[0]
    plan = merge.explain_plan(source().select(["k", "x"]).schema, verbose=True)
    assert "when_matched=UpdateIf(source.k >= 2 and target.x = 20)" in plan
    assert "Take: columns=[s]" in plan
    before = sorted(Path(uri).rglob("*"))
    analysis = ours.analyze_plan(source())
    assert "num_inserted_rows=3, num_updated_rows=2, num_deleted_rows=0" in analysis
    assert sorted(path for path in Path(uri).rglob("*") if path.is_file()) == [p for p in before if p.is_file()]
    assert dataset.version == lancelet.dataset(uri).version == 1
    with pytest.raises(InvalidInput, match="would not change"):
        dataset.merge_insert("k").explain_plan()


def test_compacted_runs_are_recorded(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(target(), tmp_path / "t")
    run = SimpleNamespace(shard_id="6f1b4f4e-8d3a-4c1e-9b51-2f1d2a3b4c5d", generation=3)
    with pytest.raises(InvalidInput, match="shard_id"):
        dataset.merge_insert("k").mark_sstables_as_compacted([SimpleNamespace(shard_id="x", generation=1)])
    merge = told(dataset.merge_insert("k").mark_sstables_as_compacted([run]), "update", True, None)
    operation = merge._clauses.sstables
    assert [(str(table.shard), table.generation) for table in operation] == [(run.shard_id, 3)]


# Any history


@settings(max_examples=examples(30))
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(CLAUSES),
            st.lists(st.integers(0, 30), unique=True, max_size=12),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    stable=st.booleans(),
)
def test_histories_of_merges(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[tuple[str, bool, str | None], list[int], bool, bool]],
    stable: bool,
) -> None:
    """Any clauses, any keys, any engine: what brute force says, and row ids that stay with their rows."""
    uri = str(tmp_path_factory.mktemp("t") / "t")
    model: list[Row] = [{"k": key, "x": key * 5, "s": str(key)} for key in range(20)]
    lancelet.write_dataset(pa.Table.from_pylist(model), uri, max_rows_per_file=7, enable_stable_row_ids=stable)
    ids = {row["k"]: row["k"] for row in model}
    schema = pa.schema({"k": pa.int64(), "x": pa.int64(), "s": pa.string()})
    for number, (clause, keys, ours, partial) in enumerate(steps):
        rows: list[Row] = [{"k": key, "x": 1000 * number + key, "s": f"{number}"} for key in keys]
        if partial:
            rows = [{"k": row["k"], "s": row["s"]} for row in rows]
        names = ["k", "s"] if partial else schema.names
        given_rows = pa.Table.from_pylist(rows, schema=pa.schema([schema.field(name) for name in names]))
        ours = ours or (clause[0] == "delete" and clause[2] is not None)
        merge = told((lancelet if ours else lance).dataset(uri).merge_insert("k"), *clause)
        if clause[0] == "fail" and {row["k"] for row in model} & set(keys):
            with pytest.raises(OSError, match="found matching row"):
                merge.execute(given_rows)
            continue
        if not model:
            break
        model, counts = apply(model, rows, *clause)
        assert merge.execute(given_rows) == counts
        ids = {row["k"]: ids.get(row["k"]) for row in model}
    for module in (lancelet, lance):
        assert in_order(module.dataset(uri).to_table().to_pylist()) == in_order(model)
    if stable and model:
        found = lancelet.dataset(uri).to_table(["k", "_rowid"]).to_pylist()
        assert len({row["_rowid"] for row in found}) == len(found)
        assert all(ids[row["k"]] in (None, row["_rowid"]) for row in found)


def test_a_merge_that_is_committed_later_still_notices_another_of_the_same_key(tmp_path):
    """What pylance's class of the operation has no place for goes along: the keys that were inserted."""
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    table = pa.table({"id": [1], "v": [1]}, schema=pa.schema([key, pa.field("v", pa.int64())]))
    dataset = lancelet.write_dataset(table, tmp_path / "t")
    new = table.set_column(0, key, [[7]])

    def merge():
        builder = lancelet.dataset(tmp_path / "t").merge_insert("id")
        return builder.when_matched_update_all().when_not_matched_insert_all().execute_uncommitted(new)[0]

    first, second = merge(), merge()
    assert first.operation.inserted_keys is not None
    lancelet.LanceDataset.commit(dataset.uri, first)
    with pytest.raises(lancelet.errors.CommitConflict):
        lancelet.LanceDataset.commit(dataset.uri, second)
