"""Updates against pylance: the same rows, the same operation, the same lineage, the same kinds of errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from conformance.states import STATES, rows
from drawing import examples
from lancelet.errors import InvalidInput, LanceletError, NotSupported, RetryableCommitConflict, UnknownColumn
from lancelet.table.manifest.fragment import Spilled
from lancelet.testing import assert_identical

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
VERSIONS = ("2.0", "2.1", "2.2")


def table() -> pa.Table:
    return pa.table(
        {
            "a": pa.array([1, 2, 3, 4, 5, 6, 7], pa.int32()),
            "f": pa.array([1.5, 2.5, None, 4.5, 5.5, 6.5, 7.5], pa.float32()),
            "s": ["a", "b", "c", None, "e", "f", "g"],
            "n": [{"x": 1, "y": "p"}] * 6 + [None],
            "v": pa.array([[1.0, 2.0]] * 7, pa.list_(pa.float32(), 2)),
            "l": pa.array([[1], [2, 3], [], None, [5], [6], [7]]),
            "b": [True, False, None, True, True, False, None],
            "d": pa.array(range(7), pa.date32()),
        }
    )


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """The same table twice."""
    where = tmp_path / "ours", tmp_path / "theirs"
    lance.write_dataset(table(), where[0], max_rows_per_file=3)
    shutil.copytree(*where)
    return str(where[0]), str(where[1])


def operation(dataset: Any, version: int | None = None) -> dict[str, Any]:
    """What the last commit did, as far as it is not random."""
    done = dataset.read_transaction(version or dataset.version).operation
    return {
        "kind": type(done).__name__,
        "removed": sorted(done.removed_fragment_ids),
        "updated": sorted((f.id, f.num_deletions, len(f.files)) for f in done.updated_fragments),
        "new": [(f.physical_rows, [file.fields for file in f.files]) for f in done.new_fragments],
        "modified": sorted(done.fields_modified),
        "preserved": sorted(done.fields_for_preserving_frag_bitmap),
        "mode": done.update_mode,
        "offsets": done.updated_fragment_offsets,
    }


def same(ours: str, theirs: str, *, order_by: str | None = None) -> None:
    """Both tables hold the same, for both readers, and were changed in the same way."""
    mine, other = lancelet.dataset(ours), lance.dataset(theirs)
    columns = [*other.schema.names, *(LINEAGE if other.has_stable_row_ids else [])]
    expected = other.to_table(columns)
    for reader in (mine, lance.dataset(ours)):
        found = reader.to_table(columns)
        if order_by is None:
            assert_identical(found, expected)
        else:
            assert_identical(found.sort_by(order_by), expected.sort_by(order_by))
    lance.dataset(ours).validate()
    assert operation(mine) == operation(other)


UPDATES: dict[str, tuple[dict[str, str], Any]] = {
    "numbers": ({"a": "a + 1"}, "a > 2"),
    "nothing matches": ({"a": "a + 1"}, "a > 100"),
    "all rows": ({"a": "a * 2"}, None),
    "a whole fragment": ({"s": "'x'"}, "a <= 3"),
    "a pyarrow expression": ({"a": "9"}, pc.field("a") > 4),
    "by row id": ({"a": "9"}, "_rowid = 1"),
    "several columns": ({"a": "a + 100", "s": "s || 'z'"}, "a = 2"),
    "truncated": ({"a": "f * 2"}, "a = 1"),
    "a fraction for an integer": ({"a": "1.9"}, "a = 1"),
    "text as a number": ({"a": "'7'"}, "a = 1"),
    "a number as text": ({"s": "a"}, "a < 3"),
    "null": ({"s": "NULL", "v": "NULL", "n": "NULL"}, "a < 3"),
    "rounded": ({"f": "0.1"}, "a < 3"),
    "too large for a float": ({"f": "1e300"}, "a < 3"),
    "a vector": ({"v": "[3.0, 4.0]"}, "a < 3"),
    "a list": ({"l": "[3, 4]"}, "a < 3"),
    "a truth": ({"b": "a > 1"}, "a < 3"),
    "a number as a truth": ({"b": "1"}, "a < 3"),
    "a truth as a number": ({"a": "b"}, "a < 3"),
    "a date": ({"d": "'2020-01-01'"}, "a < 3"),
}


@pytest.mark.parametrize("case", UPDATES)
def test_the_same_update(pair: tuple[str, str], case: str) -> None:
    updates, where = UPDATES[case]
    ours, theirs = pair
    mine, other = lancelet.dataset(ours), lance.dataset(theirs)
    assert mine.update(updates, where) == other.update(updates, where)
    assert mine.version == other.version == 2
    same(ours, theirs)


REFUSED: dict[str, tuple[dict[Any, Any], Any, dict[str, Any]]] = {
    "no updates": ({}, None, {}),
    "unknown column": ({"zz": "1"}, None, {}),
    "another case": ({"A": "1"}, None, {}),
    "a field of a struct": ({"n.x": "1"}, None, {}),
    "a system column": ({"_rowid": "1"}, None, {}),
    "unknown in the value": ({"a": "zz"}, None, {}),
    "a row id as value": ({"a": "_rowid"}, None, {}),
    "unknown in the condition": ({"a": "1"}, "zz = 1", {}),
    "not SQL": ({"a": "1 +"}, None, {}),
    "an empty condition": ({"a": "1"}, "", {}),
    "too large": ({"a": "5000000000"}, "a = 1", {}),
    "no number": ({"a": "'x'"}, "a = 1", {}),
    "a vector of another length": ({"v": "[1.0]"}, "a = 1", {}),
    "no text": ({"a": 9}, None, {}),
    "a file version that is none": ({"a": "9"}, None, {"data_storage_version": "7"}),
    "legacy files": ({"a": "9"}, None, {"data_storage_version": "legacy"}),
    "an aggregate": ({"a": "sum(a)"}, None, {}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(pair: tuple[str, str], case: str) -> None:
    updates, where, options = REFUSED[case]
    ours, theirs = pair
    before = sorted(Path(ours).rglob("*"))
    with pytest.raises(Exception) as theirs_raised:
        lance.dataset(theirs).update(updates, where, **options)
    with pytest.raises(LanceletError) as raised:
        lancelet.dataset(ours).update(updates, where, **options)
    kind = next(base for base in type(theirs_raised.value).__mro__ if base.__module__ == "builtins")
    assert isinstance(raised.value, kind)
    assert sorted(Path(ours).rglob("*")) == before


def test_errors_in_the_middle_leave_nothing(pair: tuple[str, str]) -> None:
    ours, _ = pair
    before = sorted(Path(ours).rglob("*"))
    with pytest.raises(InvalidInput, match="divide by zero"):
        lancelet.dataset(ours).update({"a": "1 / (a - 5)"})
    assert sorted(Path(ours).rglob("*")) == before


def test_messages(pair: tuple[str, str]) -> None:
    dataset = lancelet.dataset(pair[0])
    with pytest.raises(UnknownColumn, match="'aa' is not in the schema; did you mean 'a'"):
        dataset.update({"aa": "1"})
    with pytest.raises(InvalidInput, match=r"'n.x' is a field of a struct.*merge_insert"):
        dataset.update({"n.x": "1"})
    with pytest.raises(InvalidInput, match="column 'a' cannot have the value 'x'.*cannot cast 'x'"):
        dataset.update({"a": "'x'"})
    with pytest.raises(InvalidInput, match="conflict_retries is a number of attempts, not -1"):
        dataset.update({"a": "1"}, conflict_retries=-1)


def test_expressions_see_the_row_as_it_was(tmp_path: Path) -> None:
    """pylance takes the columns one after the other, in an order of its own."""
    dataset = lancelet.write_dataset({"a": [1, 2], "b": [3, 4]}, tmp_path / "t")
    dataset.update({"a": "b", "b": "a"})
    assert dataset.to_table().to_pydict() == {"a": [3, 4], "b": [1, 2]}


def test_nulls_where_none_may_be(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    dataset = lancelet.write_dataset(pa.table({"a": [1, 2]}, schema=schema), tmp_path / "t")
    before = sorted((tmp_path / "t").rglob("*"))
    with pytest.raises(OSError, match="non-nullable"):
        dataset.update({"a": "nullif(a, 1)"})
    assert sorted((tmp_path / "t").rglob("*")) == before
    assert dataset.to_table().column("a").to_pylist() == [1, 2]


@pytest.mark.parametrize("number", range(len(STATES)), ids=list(STATES))
@pytest.mark.spread(0.5, each=False)
def test_every_state(tmp_path: Path, number: int) -> None:
    every_state(tmp_path, list(STATES)[number], VERSIONS[number % 3], number % 2 == 0)


@pytest.mark.soak
@pytest.mark.parametrize("stable", (False, True))
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", STATES)
def test_every_state_in_every_version(tmp_path: Path, state: str, version: str, stable: bool) -> None:
    every_state(tmp_path, state, version, stable)


def every_state(tmp_path: Path, state: str, version: str, stable: bool) -> None:
    STATES[state](tmp_path / "theirs", {"data_storage_version": version, "enable_stable_row_ids": stable})
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    shutil.copytree(theirs, ours)
    schema = lance.dataset(theirs).schema
    key = "k" if schema.field("k").type == pa.int64() else "x"
    changes = [{key: f"{key} + 1"}, *([{"s": "'updated'"}] if "s" in schema.names else [])]
    for change in changes:
        try:
            expected = lance.dataset(theirs).update(change, f"{key} % 3 = 1")
        except OSError as error:
            # Null structs in a file that has no place for them.
            assert "struct validity" in str(error)
            with pytest.raises(OSError, match="struct validity"):
                lancelet.dataset(ours).update(change, f"{key} % 3 = 1")
            continue
        assert lancelet.dataset(ours).update(change, f"{key} % 3 = 1") == expected
        same(ours, theirs)


def test_the_other_goes_on(pair: tuple[str, str]) -> None:
    """Updates by both in turn, in one table."""
    ours, theirs = pair
    for uri, modules in ((ours, (lancelet, lance, lancelet)), (theirs, (lance, lance, lance))):
        for step, module in enumerate(modules):
            module.dataset(uri).update({"a": f"a + {step}", "s": "s || '!'"}, f"a % 3 = {step}")
    assert_identical(lancelet.dataset(ours).to_table(), lance.dataset(theirs).to_table())
    assert_identical(lance.dataset(ours).to_table(), lance.dataset(theirs).to_table())


@pytest.mark.parametrize("version", VERSIONS)
def test_blobs_move_along(tmp_path: Path, version: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("k", pa.int64()), field])
    values = [b"x" * 10, b"", None, b"y" * 200_000]
    data = pa.table([pa.array([1, 2, 3, 4]), pa.array(values, pa.large_binary())], schema=schema)
    uri = str(tmp_path / "t")
    lance.write_dataset(data, uri, data_storage_version=version)
    lancelet.dataset(uri).update({"k": "k + 10"}, "k != 2")
    for module in (lancelet, lance):
        dataset = module.dataset(uri)
        assert dataset.to_table(["k"]).column(0).to_pylist() == [2, 11, 13, 14]
        found = dataset.take_blobs("b", indices=[0, 1, 3])
        assert [blob.readall() for blob in found] == [b"", values[0], values[3]]
    with pytest.raises(NotSupported, match="holds blobs"):
        lancelet.dataset(uri).update({"b": "NULL"})


def test_json_is_written_as_json(tmp_path: Path) -> None:
    data = pa.table({"k": [1, 2, 3], "j": pa.array(['{"a": 1}', "[2]", None], pa.json_())})
    where = tmp_path / "ours", tmp_path / "theirs"
    lance.write_dataset(data, where[0])
    shutil.copytree(*where)
    for module, uri in zip((lancelet, lance), where, strict=True):
        module.dataset(str(uri)).update({"k": "k + 1"}, "k != 2")
    expected = lance.dataset(where[1]).to_table()
    assert lance.dataset(where[0]).to_table().to_pydict() == expected.to_pydict()
    assert lancelet.dataset(where[0]).to_table().to_pydict() == expected.to_pydict()


# Others at work


def racing(uri: str, other: Callable[[], object], updates: dict[str, str], where: str, **options: Any) -> Any:
    """An update that is based on a version before the other one's change."""
    dataset = lancelet.dataset(uri)
    other()
    dataset.update(updates, where, **options)
    return dataset


@pytest.mark.parametrize("module", (lance, lancelet))
@pytest.mark.parametrize("stable", (False, True))
def test_other_rows_of_the_same_fragment(tmp_path: Path, module: Any, stable: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(table(), uri, enable_stable_row_ids=stable)

    def others() -> None:
        module.dataset(uri).delete("a = 1")
        module.dataset(uri).update({"s": "'theirs'"}, "a = 2")

    dataset = racing(uri, others, {"s": "'ours'"}, "a = 3", conflict_retries=0)
    found = {row["a"]: row["s"] for row in dataset.to_table(["a", "s"]).to_pylist()}
    assert found == {2: "theirs", 3: "ours", 4: None, 5: "e", 6: "f", 7: "g"}
    assert_identical(lance.dataset(uri).to_table(), dataset.to_table())
    assert dataset.version == 4


@pytest.mark.parametrize("module", (lance, lancelet))
def test_the_same_row(pair: tuple[str, str], module: Any) -> None:
    uri = pair[0]
    dataset = racing(uri, lambda: module.dataset(uri).update({"a": "a + 10"}, "a = 3"), {"a": "a * 2"}, "a in (3, 13)")
    assert sorted(dataset.to_table(["a"]).column(0).to_pylist()) == [1, 2, 4, 5, 6, 7, 26]
    assert dataset.version == 3


def test_no_retries(pair: tuple[str, str]) -> None:
    uri = pair[0]

    def files() -> list[str]:
        return sorted(str(path) for path in Path(uri).rglob("*"))

    dataset = lancelet.dataset(uri)
    lance.dataset(uri).update({"a": "a + 10"}, "a = 3")
    before = files()
    for options in ({"conflict_retries": 0}, {"retry_timeout": timedelta(0)}):
        with pytest.raises(RetryableCommitConflict, match="Please retry"):
            dataset.update({"a": "a * 2"}, "a = 3", **options)
        assert files() == before


def test_pylance_follows_our_update(pair: tuple[str, str]) -> None:
    uri = pair[0]
    theirs = lance.dataset(uri)
    lancelet.dataset(uri).update({"s": "'ours'"}, "a = 1")
    theirs.update({"s": "'theirs'"}, "a = 2")
    theirs.delete("a = 3")
    found = {row["a"]: row["s"] for row in lancelet.dataset(uri).to_table(["a", "s"]).to_pylist()}
    assert found == {1: "ours", 2: "theirs", 4: None, 5: "e", 6: "f", 7: "g"}


# Lineage


@pytest.mark.parametrize("limit", (10, 100_000))
@pytest.mark.parametrize("module", (lance, lancelet))
def test_spilled_lineage(tmp_path: Path, limit: int, module: Any) -> None:
    """Long sequences of row ids go into files where the table's config asks for it."""
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    dataset = lance.write_dataset(
        {"k": range(400), "x": range(400)}, theirs, max_rows_per_file=200, enable_stable_row_ids=True
    )
    dataset.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": str(limit)})
    shutil.copytree(theirs, ours)
    for uri, engines in ((ours, (lancelet, module, lancelet)), (theirs, (lance, lance, lance))):
        for step, engine in enumerate(engines):
            engine.dataset(uri).update({"x": f"x + {step}"}, f"k % {step + 3} = 1")
    columns = ["k", "x", *LINEAGE]
    expected = lance.dataset(theirs).to_table(columns)
    assert_identical(lancelet.dataset(ours).to_table(columns), expected)
    assert_identical(lance.dataset(ours).to_table(columns), expected)
    fragments = lancelet.dataset(ours).table.snapshot.manifest.fragments
    assert (fragments[len(fragments) - 1].row_ids is Spilled.COLUMN) == (limit == 10)


@settings(max_examples=examples(25))
@given(
    steps=st.lists(
        st.tuples(st.integers(2, 6), st.integers(0, 5), st.booleans(), st.integers(-3, 3)), min_size=1, max_size=5
    ),
    stable=st.booleans(),
)
def test_histories_of_updates(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bool, int]], stable: bool
) -> None:
    """Any engine, any rows: what a dict of rows says."""
    uri = str(tmp_path_factory.mktemp("t") / "t")
    model = {key: key for key in range(60)}
    lancelet.write_dataset(
        {"k": list(model), "x": list(model)}, uri, max_rows_per_file=25, enable_stable_row_ids=stable
    )
    for modulus, rest, ours, add in steps:
        dataset = (lancelet if ours else lance).dataset(uri)
        count = dataset.update({"x": f"x + {add}"}, f"k % {modulus} = {rest}")["num_rows_updated"]
        hit = [key for key in model if key % modulus == rest]
        model.update({key: model[key] + add for key in hit})
        assert count == len(hit)
    for module in (lancelet, lance):
        found = module.dataset(uri).to_table()
        assert dict(zip(*found.to_pydict().values(), strict=True)) == model
        assert found.num_rows == len(model)
    if stable:
        ids = lancelet.dataset(uri).to_table(["k", "_rowid"])
        assert ids.column(0).to_pylist() == ids.column(1).to_pylist()


def test_more_rows_than_a_batch(tmp_path: Path) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    lance.write_dataset(rows(30_000), theirs, max_rows_per_file=12_000, enable_stable_row_ids=True)
    shutil.copytree(theirs, ours)
    for module, uri in ((lancelet, ours), (lance, theirs)):
        module.dataset(uri).update({"i": "i + 1"}, "k % 2 = 0")
    same(ours, theirs)
