"""Files of version 0.1: pylance reads what lancelet writes, whatever changed the table; what cannot be kept is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import InvalidInput, NotSupported, UnfitData
from lancelet.testing import assert_identical
from unit.encoding.samples import TYPES, make

KEPT = [dtype for dtype in TYPES if "dictionary" not in str(dtype)]


def full(dtype: pa.DataType, count: int) -> pa.Array:
    """Values that 0.1 can keep: no nulls, no empty strings."""
    if pa.types.is_struct(dtype):
        return pa.StructArray.from_arrays([full(child.type, count) for child in dtype], fields=list(dtype))
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        lengths = np.arange(count) % 4
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        kind = pa.ListArray if pa.types.is_list(dtype) else pa.LargeListArray
        width = pa.int32() if pa.types.is_list(dtype) else pa.int64()
        return kind.from_arrays(pa.array(offsets, width), full(dtype.value_type, int(offsets[-1])), type=dtype)
    if dtype in (pa.string(), pa.large_string()):
        return pa.array([f"text {i} é" for i in range(count)], dtype)
    if dtype in (pa.binary(), pa.large_binary()):
        return pa.array([b"\0%d" % i for i in range(count)], dtype)
    return make(dtype, count, 0)


def assert_same(left: pa.Table, right: pa.Table) -> None:
    """The same values; pylance forgets how list items are named. NaN is like NaN."""
    assert repr(left.to_pylist()) == repr(right.to_pylist())


def copied(table: pa.Table) -> pa.Table:
    chunks = [column.combine_chunks() for column in table.columns]
    return pa.table([pa.concat_arrays([chunk, chunk.slice(0, 0)]) for chunk in chunks], schema=table.schema)


def legacy(table: pa.Table, where: Path, **options: Any) -> lancelet.LanceDataset:
    return lancelet.write_dataset(table, where, data_storage_version="legacy", **options)


@pytest.mark.parametrize("dtype", KEPT, ids=str)
@pytest.mark.spread(0.5, each=False)
def test_every_type_both_ways(tmp_path: Path, dtype: pa.DataType) -> None:
    table = pa.table({"c": full(dtype, 150), "k": range(150)})
    ours = legacy(table.slice(3, 100), tmp_path / "t", max_rows_per_group=16, max_rows_per_file=60)
    assert ours.data_storage_version == "0.1"
    assert_identical(ours.to_table(), table.slice(3, 100))
    theirs = lance.dataset(tmp_path / "t")
    assert_same(theirs.to_table(), table.slice(3, 100))
    rows = [99, 0, 57, 16]
    wanted = [table.to_pylist()[3 + row] for row in rows]
    assert repr(ours.take(rows).to_pylist()) == repr(wanted)
    if not str(dtype).startswith("fixed_size_list<item: bool"):
        # Over scattered rows of these pylance panics, also in legacy files of its own; it takes rows that follow each other.
        assert repr(theirs.take(rows).to_pylist()) == repr(wanted)
    assert theirs.to_table(["k"], filter="k > 80")["k"].to_pylist() == list(range(81, 103))
    # The other way: pylance appends to ours, and we to pylance's.
    # It gets copies: of some slices its writer takes the wrong part.
    lance.write_dataset(copied(table.slice(110, 5)), tmp_path / "t", mode="append")
    lance.write_dataset(copied(table.slice(0, 5)), tmp_path / "u", data_storage_version="legacy")
    for name, before in (("t", pa.concat_tables([table.slice(3, 100), table.slice(110, 5)])), ("u", table.slice(0, 5))):
        done = lancelet.write_dataset(table.slice(120), tmp_path / name, mode="append")
        whole = pa.concat_tables([before, table.slice(120)]).combine_chunks()
        assert_identical(done.to_table(), whole)
        assert_same(lance.dataset(tmp_path / name).to_table(), whole)
        assert done.verify(deep=True).ok


CHANGES = {
    "delete": lambda dataset: dataset.delete("a % 3 = 0"),
    "update": lambda dataset: dataset.update({"t": "'new'"}, where="a % 5 = 0"),
    "merge": lambda dataset: dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(
        pa.table({"a": [3, 500], "t": ["three", "more"], "l": [[1], [2, 2]]})
    ),
    "merge of columns": lambda dataset: dataset.merge_insert("a").when_matched_update_all().execute(
        pa.table({"a": [3, 4], "t": ["three", "four"]})
    ),
    "add": lambda dataset: dataset.add_columns({"b": "a * 2"}),
    "join": lambda dataset: dataset.merge(pa.table({"a": range(40), "w": range(40)}), "a"),
    "cast": lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}),
    "drop": lambda dataset: dataset.drop_columns(["t"]),
    "compact": lambda dataset: dataset.optimize.compact_files(),
    "index": lambda dataset: dataset.create_scalar_index("a", "BTREE"),
    "append": lambda dataset: dataset.insert(pa.table({"a": [900], "t": ["z"], "l": [[9]]})),
}  # fmt: skip


@pytest.mark.parametrize("first", CHANGES)
def test_all_changes_leave_what_pylance_leaves(tmp_path: Path, first: str) -> None:
    """A change, deletions after it, and a compaction of all; lists are not in every order the same, rows are."""
    table = pa.table({"a": range(40), "t": [f"t{i}" for i in range(40)], "l": [[i] * (i % 3) for i in range(40)]})
    contents = []
    for library in (lancelet, lance):
        where = str(tmp_path / library.__name__)
        library.write_dataset(table, where, data_storage_version="legacy", max_rows_per_file=15, max_rows_per_group=4)
        for change in (first, "delete", "compact"):
            CHANGES[change](library.dataset(where))
            found = lancelet.dataset(where).to_table()
            assert found.to_pylist() == lance.dataset(where).to_table().to_pylist()
            assert lance.dataset(where).data_storage_version == "0.1"
        assert not lancelet.dataset(where).verify(deep=True).errors
        contents.append(sorted(map(str, found.to_pylist())))
    assert contents[0] == contents[1]


def test_new_files_of_a_fragment_are_cut_like_its_first(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": range(10)}), tmp_path, data_storage_version="legacy", max_rows_per_group=3)
    lancelet.dataset(tmp_path).add_columns({"b": "a + 1"})
    reader = lancelet.dataset(tmp_path).table.reader(0)
    assert [file.reader.groups for file in reader.files] == [(3, 3, 3, 1)] * 2


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1, None]), "no place for nulls"),
        (pa.array([[1], None]), "no place for nulls"),
        (pa.array([[1, None], [2]]), "no place for nulls"),
        (pa.array([{"x": 1}, None]), "no place for nulls"),
        (pa.array([True, None]), "no place for nulls"),
        (pa.array(["a", ""]), "empty values"),
        (pa.array([[1.0, None], [2.0, 3.0]], pa.list_(pa.float32(), 2)), "no place"),
    ],
    ids=str,
)
def test_what_would_not_be_read_back_is_refused(tmp_path: Path, column: pa.Array, said: str) -> None:
    with pytest.raises(UnfitData, match=said):
        legacy(pa.table({"c": column}), tmp_path / "t")
    assert not any((tmp_path / "t").rglob("*.lance"))


@pytest.mark.parametrize(
    "dtype",
    [
        pa.map_(pa.string(), pa.int8()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.list_(pa.struct([("x", pa.int8())]), 2),
    ],
    ids=str,
)
def test_types_without_a_place_are_refused(tmp_path: Path, dtype: pa.DataType) -> None:
    with pytest.raises(NotSupported, match=r"legacy files .*data_storage_version='2.2'"):
        legacy(pa.table({"c": pa.array([], dtype)}), tmp_path / "t")


@pytest.mark.parametrize(
    ("table", "files"), [("legacy", "2.0"), ("legacy", "2.2"), ("2.0", "legacy"), ("2.2", "legacy")]
)
def test_legacy_files_and_later_ones_do_not_mix(tmp_path: Path, table: str, files: str) -> None:
    rows = pa.table({"a": [1, 2]})
    dataset = lancelet.write_dataset(rows, tmp_path / "t", data_storage_version=table)
    with pytest.raises((InvalidInput, NotSupported), match="do not mix"):
        lancelet.write_dataset(rows, tmp_path / "t", mode="append", data_storage_version=files)
    other = lance.fragment.write_fragments(rows, str(tmp_path / "u"), data_storage_version=files)
    for fragment in other:
        (tmp_path / "t" / "data" / fragment.files[0].path).write_bytes(
            (tmp_path / "u" / "data" / fragment.files[0].path).read_bytes()
        )
    fragments = [lancelet.FragmentMetadata.from_json(str(fragment.to_json()).replace("'", '"').replace("None", "null"))
                 for fragment in other]  # fmt: skip
    with pytest.raises(InvalidInput, match="cannot be in one table"):
        lancelet.LanceDataset.commit(dataset.uri, lancelet.LanceOperation.Append(fragments), read_version=1)
    with pytest.raises(InvalidInput, match=r"mode='overwrite'|cannot be"):
        dataset.optimize.compact_files(data_storage_version=files, target_rows_per_fragment=10)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.one_of(st.none(), st.text(min_size=1, max_size=6)), min_size=1, max_size=40),
    group=st.integers(1, 9),
    cuts=st.lists(st.integers(1, 40), max_size=4),
)
def test_texts_and_their_nulls_over_any_batches(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], group: int, cuts: list[int]
) -> None:
    where = tmp_path_factory.mktemp("t") / "t"
    table = pa.table({"t": pa.array(texts, pa.string()), "n": pa.array([t or "" for t in texts], pa.large_string())},
                     pa.schema([("t", pa.string()), pa.field("n", pa.large_string(), nullable=False)]))  # fmt: skip
    edges = sorted({0, len(texts), *(cut for cut in cuts if cut < len(texts))})
    batches = [table.slice(a, b - a).to_batches()[0] for a, b in zip(edges, edges[1:], strict=False)]
    legacy(pa.Table.from_batches(batches), where, max_rows_per_group=group)
    assert_identical(lancelet.dataset(where).to_table(), table)
    assert lance.dataset(where).to_table().to_pylist() == table.to_pylist()
