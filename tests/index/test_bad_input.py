"""Indices that cannot be: an error of the kind that pylance raises, a sentence that helps, and nothing left behind."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import LanceletError

ROWS = 8
COUNT = pa.array(range(ROWS), pa.int64())
Dataset = Any
Act = Callable[[Dataset], object]


def each(value: Callable[[int], Any], dtype: pa.DataType | None = None) -> pa.Array:
    """A value for every row, except for some that are null."""
    return pa.array([None if n % 3 == 1 else value(n) for n in range(ROWS)], dtype)


COLUMNS: dict[str, pa.Array] = {
    "k": COUNT,
    "text": each(str),
    "labels": each(lambda n: [str(n)]),
    "lists": each(lambda n: [[n]]),
    "vector": each(lambda n: [float(n), 1.0], pa.list_(pa.float32(), 2)),
    "struct": each(lambda n: {"a": n, "b c": n, "d.e": n, "f`g": n, "l": [n]}),
    "structs": each(lambda n: [{"x": n}]),
    "map": each(lambda n: [("a", n)], pa.map_(pa.string(), pa.int64())),
    "dictionary": each(lambda n: "ab"[n % 2]).dictionary_encode(),
    "half": each(float, pa.float16()),
    "money": each(lambda n: n, pa.decimal128(9, 2)),
    "lasting": each(lambda n: n, pa.duration("us")),
    "fixed": each(lambda n: b"ab%d" % n, pa.binary(3)),
    "nothing": pa.nulls(ROWS),
    "json": each(lambda n: f'{{"a": {n}}}', pa.json_()),
    "with space": COUNT,
    "with`tick": COUNT,
}
KINDS = ("BTREE", "BITMAP", "LABEL_LIST", "ZONEMAP", "BLOOMFILTER", "NGRAM")


def table() -> pa.Table:
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([*(pa.field(name, column.type) for name, column in COLUMNS.items()), blob])
    return pa.table([*COLUMNS.values(), each(lambda n: b"blob", pa.large_binary())], schema=schema)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("bad") / "t"
    lance.write_dataset(table(), where, data_storage_version="2.2", max_rows_per_file=5)
    return where


@pytest.fixture
def where(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "t")


def below(where: Path) -> dict[str, bytes]:
    return {str(path.relative_to(where)): path.read_bytes() for path in where.rglob("*") if path.is_file()}


def failure(act: Act, dataset: Dataset) -> BaseException | None:
    try:
        act(dataset)
    except Exception as error:
        return error
    except BaseException as error:
        if "Panic" not in type(error).__name__:
            raise
        return error
    return None


def refused(where: Path, act: Act) -> LanceletError:
    """Our error; the table and its files are as they were."""
    before = below(where)
    with pytest.raises(LanceletError) as caught:
        act(lancelet.dataset(where))
    assert below(where) == before
    assert len(str(caught.value)) > 20
    return caught.value


def quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


# Types

OURS_ALONE = {(kind, column) for kind in KINDS for column in ("json", "blob")}
"""Filters never ask an index about these, so we build none; pylance does, for some kinds."""


@pytest.mark.parametrize("kind", KINDS)
def test_types(where: Path, tmp_path: Path, kind: str) -> None:
    """Each kind takes and refuses the columns that pylance's does."""
    for column in table().schema.names:
        act: Act = lambda dataset, column=column: dataset.create_scalar_index(quoted(column), kind)  # noqa: E731
        theirs = failure(act, lance.dataset(shutil.copytree(where, tmp_path / f"theirs {column}")))
        if theirs is None and (kind, column) not in OURS_ALONE:
            ours = shutil.copytree(where, tmp_path / f"ours {column}")
            act(lancelet.dataset(ours))
            names = [index.name for index in lance.dataset(tmp_path / f"theirs {column}").describe_indices()]
            assert [index.name for index in lancelet.dataset(ours).describe_indices()] == names
            continue
        if column == "with`tick" and kind not in ("LABEL_LIST", "NGRAM"):
            # pylance finds the column, then loses it.
            act(lancelet.dataset(shutil.copytree(where, tmp_path / "ours alone")))
            continue
        if column == "dictionary" and kind in ("BTREE", "BITMAP"):
            # pylance refuses it under this name, and builds it by an IndexConfig.
            act(lancelet.dataset(shutil.copytree(where, tmp_path / "ours by name")))
            continue
        error = refused(where, act)
        assert column in str(error), (kind, column)
        if isinstance(theirs, Exception):
            builtin = next(cls for cls in type(theirs).__mro__ if cls.__module__ == "builtins")
            assert isinstance(error, builtin), (kind, column)


@pytest.mark.filterwarnings("ignore:.*stay as they are:UserWarning")
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("kind", ["ZONEMAP", "BTREE", "BITMAP"])
@pytest.mark.filterwarnings("ignore:.*lancelet does not extend:UserWarning")
@pytest.mark.spread(0.5, each=False)
def test_indices_of_pylance_on_odd_columns_are_left_alone(tmp_path: Path, kind: str, stable: bool) -> None:
    """JSON and blobs: our upkeep does not touch what our filters never ask."""
    names = [name for name in table().schema.names if name not in ("map", "with`tick")]
    data = table().select(names)
    built = []
    for column in ("json", "blob", "dictionary", "struct", "vector", "nothing"):
        where = tmp_path / column
        lance.write_dataset(data, where, data_storage_version="2.1", max_rows_per_file=3, enable_stable_row_ids=stable)
        act: Act = lambda dataset, column=column: dataset.create_scalar_index(column, kind)  # noqa: E731
        if failure(act, lance.dataset(where)) is not None:
            continue
        built.append(column)
        lance.write_dataset(data, where, mode="append")
        for upkeep in (
            lambda dataset: dataset.optimize.optimize_indices(),
            lambda dataset: dataset.delete("k = 3"),
            lambda dataset: dataset.optimize.compact_files(),
            lambda dataset: dataset.optimize.optimize_indices(),
            lambda dataset, column=column: dataset.stats.index_stats(f"{column}_idx"),
        ):
            upkeep(lancelet.dataset(where))
            for engine, text in itertools.product((lance, lancelet), (f"{column} is null", f"{column} is not null")):
                if engine is lance and column == "nothing":
                    # Its zone maps do not count these rows as null.
                    continue
                dataset = engine.dataset(where)
                found = dataset.to_table(["k"], filter=text)["k"].to_pylist()
                truth = dataset.to_table(["k"], filter=text, use_scalar_index=False)["k"].to_pylist()
                assert sorted(found) == sorted(truth), (engine, column, text)
    assert "json" in built


# Columns


@pytest.mark.parametrize(
    "column",
    ["zz", "struct.zz", "structs.x", "map.key", "", None, 3, "_rowid", "_rowaddr", "_rowoffset", "struct.`d.e", "`k"],
)
def test_columns_that_are_not_there(where: Path, tmp_path: Path, column: Any) -> None:
    def act(dataset: Dataset) -> None:
        dataset.create_scalar_index(column, "BTREE")

    theirs = failure(act, lance.dataset(where))
    error = refused(where, act)
    assert isinstance(theirs, (KeyError, TypeError))
    assert isinstance(error, KeyError if isinstance(theirs, KeyError) else TypeError)


@pytest.mark.parametrize("column", ["structs.item.x", "labels.item"])
def test_fields_inside_lists(where: Path, column: str) -> None:
    """pylance begins to build, then fails."""
    assert failure(lambda dataset: dataset.create_scalar_index(column, "BTREE"), lance.dataset(where)) is not None
    error = refused(where, lambda dataset: dataset.create_scalar_index(column, "BTREE"))
    assert "through a list" in str(error)


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        ("struct.a", "struct.a = 5"),
        ("struct.b c", "struct.`b c` = 5"),
        ("struct.`d.e`", "struct.`d.e` = 5"),
        ("struct.`f``g`", "struct.a = 5"),
        ("`with space`", "`with space` = 5"),
        ("with space", "`with space` = 5"),
    ],
)
def test_paths_and_names(where: Path, tmp_path: Path, column: str, condition: str) -> None:
    """Fields inside structs, names with dots, blanks and backticks."""
    theirs = shutil.copytree(where, tmp_path / "theirs")
    described = []
    for engine, place in ((lance, theirs), (lancelet, where)):
        engine.dataset(place).create_scalar_index(column, "BTREE")
        described.append([(index.name, index.field_names) for index in engine.dataset(place).describe_indices()])
    assert described[0] == described[1]
    for engine, place in itertools.product((lance, lancelet), (theirs, where)):
        assert engine.dataset(place).to_table(["k"], filter=condition)["k"].to_pylist() == [5]


def test_a_list_inside_a_struct(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.create_scalar_index("struct.l", "LABEL_LIST")
    assert "ScalarIndexQuery" in dataset.scanner(["k"], filter="array_has(struct.l, 6)").explain_plan()
    for engine in (lance, lancelet):
        assert engine.dataset(where).to_table(["k"], filter="array_has(struct.l, 6)")["k"].to_pylist() == [6]


def test_several_columns(where: Path) -> None:
    for columns in (["k", "text"], ("k", "text")):
        error = refused(where, lambda dataset, columns=columns: dataset.create_scalar_index(columns, "BTREE"))
        assert isinstance(error, NotImplementedError)
    refused(where, lambda dataset: dataset.create_scalar_index([], "BTREE"))
    lancelet.dataset(where).create_scalar_index(["k"], "BTREE")


# Names


def test_a_name_that_is_taken(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.create_scalar_index("k", "BTREE")
    error = refused(where, lambda dataset: dataset.create_scalar_index("k", "BTREE", replace=False))
    assert isinstance(error, RuntimeError)
    assert "'k_idx' already exists" in str(error)
    error = refused(where, lambda dataset: dataset.create_scalar_index("text", "BTREE", "k_idx"))
    assert isinstance(error, RuntimeError)
    assert "different fields" in str(error)
    error = refused(where, lambda dataset: dataset.create_index("k", "BTREE"))
    assert "already exists" in str(error)


def test_names_that_mean_something_else(where: Path) -> None:
    """Under the first of these pylance leaves a table that it cannot read."""
    for name in ("__lance_frag_reuse", "__lance_mem_wal"):
        for act in (
            lambda dataset, name=name: dataset.create_scalar_index("k", "BTREE", name),
            lambda dataset, name=name: dataset.create_index_uncommitted("k", "BTREE", name, fragment_ids=[0]),
        ):
            assert isinstance(refused(where, act), RuntimeError)
    part = lancelet.dataset(where).create_index_uncommitted("k", "BTREE", fragment_ids=[0])
    refused(where, lambda dataset: dataset.commit_existing_index_segments("__lance_frag_reuse", "k", [part]))
    error = refused(where, lambda dataset: dataset.create_scalar_index("k", "BTREE", 7))
    assert isinstance(error, TypeError)


@pytest.mark.parametrize("name", ["", "../../x", "né `x`.y", "a" * 300])
def test_any_other_name_is_fine(where: Path, name: str) -> None:
    lancelet.dataset(where).create_scalar_index("k", "BTREE", name)
    for engine in (lance, lancelet):
        dataset = engine.dataset(where)
        assert [index.name for index in dataset.describe_indices()] == [name]
        assert dataset.to_table(["k"], filter="k = 6")["k"].to_pylist() == [6]
    lancelet.dataset(where).drop_index(name)
    assert lance.dataset(where).describe_indices() == []


def test_names_that_are_not_there(where: Path) -> None:
    lancelet.dataset(where).create_scalar_index("k", "BTREE")
    assert isinstance(refused(where, lambda dataset: dataset.drop_index("zz")), RuntimeError)
    assert isinstance(refused(where, lambda dataset: dataset.drop_index(None)), TypeError)
    assert isinstance(refused(where, lambda dataset: dataset.prewarm_index("zz")), RuntimeError)
    assert isinstance(refused(where, lambda dataset: dataset.stats.index_stats("zz")), KeyError)


# Kinds and options


def test_kinds_that_are_not_there(where: Path) -> None:
    for kind in ("FOO", "", "IVF_PQ", "FM"):
        error = refused(where, lambda dataset, kind=kind: dataset.create_scalar_index("text", kind))
        assert isinstance(error, NotImplementedError)
    for kind in (None, 5, ["BTREE"]):
        refused(where, lambda dataset, kind=kind: dataset.create_scalar_index("k", kind))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {"foo": 1}) for kind in KINDS),
        ("ZONEMAP", {"rows_per_zone": 0}),
        ("ZONEMAP", {"rows_per_zone": -1}),
        ("ZONEMAP", {"rows_per_zone": "many"}),
        ("ZONEMAP", {"rows_per_zone": 1.5}),
        ("BLOOMFILTER", {"number_of_items": 0}),
        ("BLOOMFILTER", {"probability": 0.0}),
        ("BLOOMFILTER", {"probability": 2.0}),
        ("BLOOMFILTER", {"probability": float("nan")}),
        ("BLOOMFILTER", {"probability": "small"}),
        ("BTREE", {"zone_size": 0}),
        ("BTREE", {"zone_size": "large"}),
        ("BTREE", {"document_granularity": "word"}),
    ],
    ids=str,
)
def test_options(where: Path, kind: str, options: dict[str, Any]) -> None:
    """pylance takes no notice of most of these; an option that does nothing helps nobody."""
    column = {"LABEL_LIST": "labels", "NGRAM": "text"}.get(kind, "k")
    error = refused(where, lambda dataset: dataset.create_scalar_index(column, kind, **options))
    assert isinstance(error, ValueError)
    assert next(iter(options)) in str(error)


# Folders and fragments


def test_the_folder_of_another_index(where: Path) -> None:
    """It would lose its files, whether the new index is built or not."""
    taken = str(uuid4())
    dataset = lancelet.dataset(where)
    dataset.create_scalar_index("k", "BTREE", index_uuid=taken)
    for act in (
        lambda dataset: dataset.create_scalar_index("text", "BTREE", index_uuid=taken),
        lambda dataset: dataset.create_scalar_index("k", "BTREE", index_uuid=taken.upper()),
        lambda dataset: dataset.create_index_uncommitted("k", "BITMAP", "b", fragment_ids=[0], index_uuid=taken),
    ):
        assert taken in str(refused(where, act))
    assert dataset.to_table(["k"], filter="k = 3")["k"].to_pylist() == [3]
    for odd in ("nonsense", "", "../..", 5):
        error = refused(where, lambda dataset, odd=odd: dataset.create_scalar_index("k", "BTREE", index_uuid=odd))
        assert isinstance(error, ValueError if isinstance(odd, str) else TypeError)


def test_fragments(where: Path) -> None:
    assert isinstance(refused(where, lambda d: d.create_scalar_index("k", "BTREE", fragment_ids=[0])), ValueError)
    for fragments, kind in (
        (None, ValueError),
        ([7], ValueError),
        ([-1], ValueError),
        ("0", TypeError),
        ([0.5], TypeError),
    ):
        error = refused(
            where, lambda d, fragments=fragments: d.create_index_uncommitted("k", "BTREE", fragment_ids=fragments)
        )
        assert isinstance(error, kind), fragments


def test_parts_of_an_index_that_is_there_need_to_be_told_so(where: Path) -> None:
    """As pylance does it, with all of its arguments."""
    lancelet.dataset(where).create_scalar_index("k", "BTREE")
    told: dict[str, Any] = {"train": True, "metric": "cosine", "num_partitions": 3, "filter_nan": False}
    for library in (lance, lancelet):
        dataset = library.dataset(where)
        with pytest.raises(RuntimeError, match="'k_idx' already exists"):
            dataset.create_index_uncommitted("k", "BTREE", fragment_ids=[0])
        part = dataset.create_index_uncommitted("k", "BTREE", replace=True, fragment_ids=[0, 1], **told)
        assert (part.name, set(part.fragment_ids)) == ("k_idx", {0, 1})
        empty = dataset.create_index_uncommitted("k", "BTREE", "other", fragment_ids=[0], train=False)
        assert set(empty.fragment_ids) == set()


def test_segments(where: Path) -> None:
    dataset = lancelet.dataset(where)
    whole, again = (dataset.create_index_uncommitted("k", "BTREE", fragment_ids=[0, 1]) for _ in range(2))
    other = dataset.create_index_uncommitted("text", "BTREE", fragment_ids=[1])
    half = dataset.create_index_uncommitted("k", "BITMAP", fragment_ids=[0])
    acts: list[tuple[Act, type[Exception]]] = [
        (lambda d: d.commit_existing_index_segments("x", "k", []), ValueError),
        (lambda d: d.commit_existing_index_segments("x", "k", [whole, again]), ValueError),
        (lambda d: d.commit_existing_index_segments("x", "text", [whole]), ValueError),
        (lambda d: d.commit_existing_index_segments("x", "zz", [whole]), KeyError),
        (lambda d: d.commit_existing_index_segments("x", "k", [3]), TypeError),
        (lambda d: d.merge_existing_index_segments([]), ValueError),
        (lambda d: d.merge_existing_index_segments([half, other]), ValueError),
        (lambda d: d.merge_existing_index_segments([None]), TypeError),
    ]
    for act, kind in acts:
        assert isinstance(refused(where, act), kind)
    dataset.commit_existing_index_segments("x", "k", [whole])
    error = refused(where, lambda d: d.commit_existing_index_segments("x", "k", [half]))
    assert "orphan" in str(error)


def test_numbers_of_segments(where: Path) -> None:
    lancelet.dataset(where).create_scalar_index("k", "BTREE")
    error = refused(where, lambda dataset: dataset.optimize.optimize_indices(num_indices_to_merge=-1))
    assert isinstance(error, OverflowError)
    error = refused(where, lambda dataset: dataset.optimize.optimize_indices(num_indices_to_merge="all"))
    assert isinstance(error, TypeError)
    before = below(where)
    lancelet.dataset(where).optimize.optimize_indices(index_names=["zz"])
    lancelet.dataset(where).optimize.optimize_indices()
    assert below(where) == before


# Tables with nothing in them


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_rows(tmp_path: Path, kind: str) -> None:
    column = {"LABEL_LIST": "labels", "NGRAM": "text"}.get(kind, "k")
    names = ["k", "text", "labels"]
    data = table().select(names)
    for engine, keeper in itertools.product((lance, lancelet), repeat=2):
        where = tmp_path / f"{engine.__name__} {keeper.__name__}"
        engine.write_dataset(data.slice(0, 0), where)
        engine.dataset(where).create_scalar_index(column, kind)
        assert lancelet.dataset(where).to_table(filter="k = 3").num_rows == 0
        lancelet.write_dataset(data, where, mode="append")
        keeper.dataset(where).optimize.optimize_indices()
        for reader, text in itertools.product((lance, lancelet), ("k = 3", "contains(text, '6')", f"{column} is null")):
            found = reader.dataset(where).to_table(["k"], filter=text)["k"].to_pylist()
            assert found == reader.dataset(where).to_table(["k"], filter=text, use_scalar_index=False)["k"].to_pylist()


def test_a_table_whose_rows_are_all_deleted(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.create_scalar_index("k", "BTREE")
    dataset.delete("true")
    dataset.create_scalar_index("text", "BITMAP")
    dataset.optimize.optimize_indices()
    for engine in (lance, lancelet):
        assert engine.dataset(where).to_table(["k"], filter="k = 3 or text = '3'").num_rows == 0


def test_a_column_that_goes_takes_its_index_along(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("text", "BTREE")
    dataset.drop_columns(["text"])
    assert [index.name for index in dataset.describe_indices()] == ["k_idx"]
    dataset.optimize.optimize_indices()
    dataset.add_columns({"text": "cast(k as string)"})
    assert lance.dataset(where).to_table(["k"], filter="text = '3' and k = 3")["k"].to_pylist() == [3]
