"""JSON indices: an index of another kind on what is at one path of JSON documents; built and asked both ways."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lancelet
from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.index.registry import kind_named
from lancelet.indexing.create import create_index
from lancelet.indices import IndexConfig

ROWS = 400
DOCUMENTS = [
    json.dumps({"a": n % 40, "s": f"text {n % 23}", "f": n / 8, "b": n % 3 == 0, "o": {"k": n}, "7": n})
    for n in range(ROWS)
] + ['{"z":1}', "null", None, '{"a":null}', "[1,2]", '{"s":"text 3","o":[1]}']
TABLE = pa.table({"i": pa.array(range(len(DOCUMENTS))), "j": pa.array(DOCUMENTS, pa.json_())})

FILTERS = {
    "a": [
        "json_get_int(j, 'a') > 36",
        "json_get_int(j, 'a') = 3",
        "json_get_int(j, 'a') IN (1, 2, 3, 4, 99)",
        "json_get_int(j, 'a') IS NULL",
        "json_get_int(j, 'a') IS NOT NULL",
        "NOT (json_get_int(j, 'a') = 3)",
        "json_get_int(j, 'a') BETWEEN 2 AND 3",
        "json_get_int(j, 'a') > 2 AND json_get_int(j, 'a') < 5 AND i < 200",
        "json_get_int(j, 'a') = 3 OR json_get_int(j, 'a') = 5",
        "json_get_int(j, 'a') > 2.5 AND json_get_int(j, 'a') < 4",
    ],
    "s": ["json_get_string(j, 's') = 'text 3'", "json_get_string(j, 's') < 'text 12'", "json_get_string(j, 's') LIKE 'text 2%'"],
    "f": ["json_get_float(j, 'f') < 1.25", "json_get_float(j, 'f') = 3"],
    "b": ["json_get_bool(j, 'b')", "NOT json_get_bool(j, 'b')", "json_get_bool(j, 'b') IS TRUE"],
}  # fmt: skip
TARGETS = {"btree": "asfb", "bitmap": "asb", "zonemap": "asf", "bloomfilter": "as", "ngram": "s"}


def config(target: str, path: str, **more: Any) -> dict[str, Any]:
    return {"index_type": "json", "parameters": {"target_index_type": target, "path": path, **more}}


def created(dataset: Any, target: str, path: str, name: str | None = None) -> None:
    engine = lance.indices.IndexConfig if isinstance(dataset, lance.LanceDataset) else IndexConfig
    dataset.create_scalar_index("j", engine(**config(target, path)), name=name)


def written(where: Path, **more: Any) -> str:
    lance.write_dataset(TABLE, where, data_storage_version="2.2", max_rows_per_file=150, **more)
    return str(where)


def found(dataset: Any, condition: str, **more: Any) -> list[int]:
    return sorted(dataset.to_table(columns=["i"], filter=condition, **more)["i"].to_pylist())


def uses_index(uri: str, condition: str) -> bool:
    return "ScalarIndexQuery" in lancelet.dataset(uri).scanner(filter=condition).explain_plan()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("json") / "plain"
    written(where)
    return where


@pytest.fixture
def copy(plain: Path, tmp_path: Path) -> Callable[[], str]:
    def made() -> str:
        target = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(plain, target)
        return str(target)

    return made


@pytest.mark.parametrize("builder", [lance, lancelet], ids=["theirs", "ours"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.spread(0.5, each=False)
def test_answers_are_those_of_a_scan_whoever_built_it(copy: Callable[[], str], builder: Any, target: str) -> None:
    uri = copy()
    bare = lance.dataset(uri)
    for path in TARGETS[target]:
        created(builder.dataset(uri), target, path, path)
    for path in TARGETS[target]:
        for condition in FILTERS[path]:
            expected = found(bare, condition)
            assert found(lancelet.dataset(uri), condition) == expected, condition
            assert found(lance.dataset(uri), condition) == expected, condition
    assert lancelet.dataset(uri).verify(deep=True).ok


@pytest.mark.parametrize("target", ["btree", "bitmap", "zonemap", "ngram"])
def test_files_and_details_are_those_of_pylance(copy: Callable[[], str], target: str) -> None:
    uris = [copy(), copy()]
    for engine, uri in zip((lance, lancelet), uris, strict=True):
        created(engine.dataset(uri), target, "$.s")
    theirs, ours = (lance.dataset(uri).describe_indices()[0] for uri in uris)
    assert (ours.index_type, ours.type_url, ours.num_rows_indexed) == (
        theirs.index_type,
        theirs.type_url,
        theirs.num_rows_indexed,
    )
    (described,) = lancelet.dataset(uris[1]).describe_indices()
    assert (described.index_type, described.details["path"]) == ("Json", "$.s")
    assert theirs.details["path"] == ours.details["path"] == "$.s"
    folders = [next(Path(uri, "_indices").iterdir()) for uri in uris]
    assert sorted(file.name for file in folders[0].iterdir()) == sorted(file.name for file in folders[1].iterdir())
    for file in folders[0].iterdir():
        left, right = (LanceFileReader(str(folder / file.name)).read_all().to_table() for folder in folders)
        assert (right.schema, right.num_rows) == (left.schema, left.num_rows)
        if target in ("btree", "zonemap"):
            assert right.sort_by(left.column_names[1]) == left.sort_by(left.column_names[1])


def test_an_index_is_asked_where_its_values_are_those_of_the_function(copy: Callable[[], str]) -> None:
    uri = copy()
    created(lancelet.dataset(uri), "btree", "$.a", "a")
    created(lancelet.dataset(uri), "btree", "$.o.k", "k")
    created(lancelet.dataset(uri), "btree", '$["7"]', "7")
    created(lancelet.dataset(uri), "btree", "$.o[0]", "deep")
    for asked in (
        "json_get_int(j, 'a') = 3",
        "json_get_int(json_get(j, 'o'), 'k') < 9",
        "i > 5 AND json_get_int(j, 'a') = 3",
    ):
        assert uses_index(uri, asked)
    for scanned in (
        "json_get_float(j, 'a') = 3",  # of another type
        "json_get_string(j, 'a') = '3'",
        "json_get_int(j, '$.a') = 3",  # a key, and no path
        "json_extract(j, '$.a') = '3'",  # text
        "json_get_int(j, 'a') + 1 = 4",
        "json_get_int(json_get(j, 'o'), 'a') = 3",
        "json_get_int(j, '7') = 3",  # may be an element of an array
        "json_get(j, 'a') IS NULL",
    ):
        assert not uses_index(uri, scanned), scanned
    bare = lancelet.dataset(uri)
    for condition in (
        "json_get_int(json_get(j, 'o'), 'k') < 9",
        "json_get_float(j, 'a') = 3",
        "json_get_int(j, '$.a') = 3",
    ):
        assert found(bare, condition) == found(bare, condition, use_scalar_index=False)


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("target", ["btree", "bitmap", "zonemap", "ngram", "bloomfilter"])
@pytest.mark.parametrize("builder", [lance, lancelet], ids=["theirs", "ours"])
def test_it_is_extended_compacted_and_dropped(copy: Callable[[], str], builder: Any, target: str) -> None:
    uri = copy()
    path = "s" if target == "ngram" else "a"
    created(builder.dataset(uri), target, path)
    conditions = FILTERS[path]

    def check() -> None:
        ours = lancelet.dataset(uri)
        for condition in conditions:
            assert found(ours, condition) == found(ours, condition, use_scalar_index=False), condition

    if builder is lance and target == "bloomfilter":
        # Its files do not tell the type of its values: they are left alone.
        assert not uses_index(uri, conditions[1])
        return
    lancelet.write_dataset(TABLE.slice(0, 90), uri, mode="append")
    check()
    lancelet.dataset(uri).optimize.optimize_indices()
    assert lancelet.dataset(uri).stats.index_stats("j_idx")["num_unindexed_rows"] == 0
    check()
    lancelet.dataset(uri).delete("i % 7 = 2")
    lancelet.dataset(uri).optimize.compact_files()
    check()
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=10_000)
    lancelet.dataset(uri).optimize.optimize_indices()
    check()
    assert found(lance.dataset(uri), conditions[1]) == found(lancelet.dataset(uri), conditions[1])
    lancelet.dataset(uri).drop_index("j_idx")
    assert lancelet.dataset(uri).describe_indices() == []
    check()


def test_stable_row_ids_go_with_targets_that_name_rows_by_them(tmp_path: Path) -> None:
    uri = written(tmp_path / "t", enable_stable_row_ids=True)
    with pytest.raises(NotImplementedError):
        created(lance.dataset(uri), "btree", "a")
    for target in ("btree", "zonemap"):
        with pytest.raises(NotSupported, match="stable row ids"):
            created(lancelet.dataset(uri), target, "a")
    created(lance.dataset(uri), "bitmap", "a", "theirs")
    created(lancelet.dataset(uri), "bitmap", "s", "ours")
    lancelet.dataset(uri).update({"i": "i + 1000"}, where="i % 5 = 1")
    lancelet.dataset(uri).optimize.compact_files()
    ours = lancelet.dataset(uri)
    for condition in (*FILTERS["a"], *FILTERS["s"]):
        assert found(ours, condition) == found(ours, condition, use_scalar_index=False)


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"target_index_type": "btree"}, InvalidInput, "needs a 'path'"),
        ({"path": "$.a"}, InvalidInput, "needs 'target_index_type'"),
        ({"target_index_type": "nope", "path": "$.a"}, InvalidInput, "not over 'nope'"),
        ({"target_index_type": "inverted", "path": "$.a"}, NotSupported, "INVERTED index on the JSON column"),
        ({"target_index_type": "btree", "path": "$..a"}, InvalidInput, "is not a JSON path"),
        ({"target_index_type": "btree", "path": "$.o"}, InvalidInput, "an object; an index is on single values"),
        ({"target_index_type": "ngram", "path": "$.a"}, InvalidType, "must be a string"),
        ({"target_index_type": "btree", "path": "$.a", "other": 1}, InvalidInput, "not an option of JSON"),
        ({"target_index_type": "btree", "path": "$.mixed"}, InvalidInput, "must be of one type"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    copy: Callable[[], str], parameters: dict[str, str], error: type[Exception], words: str
) -> None:
    dataset = lancelet.dataset(copy())
    if "mixed" in parameters.get("path", ""):
        dataset = lancelet.write_dataset(
            pa.table({"j": pa.array(['{"mixed":1}', '{"mixed":"x"}'], pa.json_())}), dataset.uri + "_mixed"
        )
    before = dataset.version
    with pytest.raises(error, match=words) as caught:
        dataset.create_scalar_index("j", IndexConfig("json", parameters))
    assert "\n" not in str(caught.value)
    assert lancelet.dataset(dataset.uri).version == before


def test_it_is_on_json_alone(copy: Callable[[], str]) -> None:
    dataset = lancelet.dataset(copy())
    with pytest.raises(InvalidType, match="a JSON index is on a column of JSON"):
        dataset.create_scalar_index("i", IndexConfig(**config("btree", "$.a")))
    with pytest.raises(InvalidType, match="holds JSON or blobs"):
        dataset.create_scalar_index("j", "BTREE")


def test_the_kind_alone_builds_over_the_target_of_its_options(copy: Callable[[], str], tmp_path: Path) -> None:
    """As engines do, which look a kind up by its name."""
    options = config("bitmap", "$.a")["parameters"]
    uri = copy()
    create_index(lancelet.dataset(uri).table, "j", kind_named("JSON"), options=options)
    ours = lancelet.dataset(uri)
    for condition in FILTERS["a"]:
        assert found(ours, condition) == found(ours, condition, use_scalar_index=False)
    assert uses_index(uri, FILTERS["a"][1])
    stable = lancelet.dataset(written(tmp_path / "stable", enable_stable_row_ids=True))
    with pytest.raises(NotSupported, match="stable row ids"):
        create_index(stable.table, "j", kind_named("JSON"), options=options)
