"""Column names in another case than the table's: found and refused where pylance finds and refuses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
from lancelet.errors import LanceletError, UnknownColumn

TABLE = pa.table(
    {
        "a": [1, 2, 3],
        "Name": ["x", "y", "z"],
        "s": [{"Xx": i, "y": {"Deep": i}, "d.Ot": i * 2} for i in range(3)],
        "with sp": [7, 8, 9],
        "A+B": [50, 51, 52],
        "NuLL": [4, 5, 6],
    }
)
TWINS = pa.table({"a": [1, 2, 3], "A": [10, 20, 30], "Bb": [1, 2, 3], "bB": [6, 5, 4]})
NESTED_TWINS = pa.table({"s": [{"x": i, "X": i * 10} for i in range(3)]})
TABLES = {"one": TABLE, "twins": TWINS, "nested twins": NESTED_TWINS}
Ask = Callable[[Any], Any]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("case")
    for name, table in TABLES.items():
        lance.write_dataset(table, path / name)
    return path


def answer(dataset: Any, ask: Ask) -> Any:
    """What comes back, or that the question is refused; pylance refuses some with a panic."""
    try:
        found = ask(dataset)
    except (LanceletError, ValueError, OSError, TypeError, RuntimeError, KeyError):
        return "refused"
    except BaseException as error:
        assert type(error).__name__ == "PanicException"
        return "refused"
    return found.to_pydict() if isinstance(found, pa.Table) else found


def both(path: Path, ask: Ask) -> Any:
    ours = answer(lancelet.dataset(path), ask)
    assert ours == answer(lance.dataset(path), ask)
    return ours


SPELLINGS: list[Any] = [
    *(["A"], ["name"], ["NAME"], ["Name"], ["S"], ["`A`"], ["With Sp"], ["a+b"], ["a", "A"], ["_ROWID"]),
    *(["s.xx"], ["S.Xx"], ["S.XX"], ["s.Y"], ["S.y.Deep"], ["S.y.deep"], ["s.Xx", "S.Xx"], ["`S`.`Xx`"], ["S.nope"]),
    *(["s.`d.Ot`"], ["S.`d.Ot`"], ["s.`d.ot`"], ["bb"], ["BB"], ["bB"], ["S.x"], ["S.X"], ["s.x", "s.X"]),
    *({"q": "A"}, {"q": "NAME"}, {"q": "`A`"}, {"q": "A + 1"}, {"q": "S"}, {"q": "s.XX"}, {"q": "S.Xx"}, {"A": "a"}),
    *({"q": "WITH SP"}, {"q": "`WITH SP`"}, {"q": "a+b"}, {"q": "_ROWID"}, {"q": "bb"}, {"q": "BB + 0"}),
    *({"q": "S.`d.Ot`"}, {"q": "S.`d.ot`"}, {"q": "s['XX']"}, {"q": "S['Xx']"}, {"q": "S.X"}, {"q": "S.x"}),
]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("columns", SPELLINGS, ids=str)
def test_projections(root: Path, table: str, columns: Any) -> None:
    both(root / table, lambda ds: ds.to_table(columns))
    both(root / table, lambda ds: ds.get_fragments()[0].to_table(columns))
    both(root / table, lambda ds: ds.scanner(columns).projected_schema)


def test_a_whole_text_that_is_a_name(root: Path) -> None:
    """As in pylance a column comes before what the text would mean in SQL."""
    assert both(root / "one", lambda ds: ds.to_table({"q": "null", "r": "A+b"})) == {"q": [4, 5, 6], "r": [50, 51, 52]}


@pytest.mark.parametrize("columns", [["A"], ["NAME"], ["S.Xx"], ["S.XX"], ["s.XX"], {"q": "A"}, ["s.Xx"]], ids=str)
def test_single_rows(root: Path, columns: Any) -> None:
    both(root / "one", lambda ds: ds.take([2, 0], columns))
    both(root / "one", lambda ds: ds._take_rows([1], columns))


FILTERS: list[Any] = [
    *("A > 1", "NAME = 'y'", "`A` > 1", "`NAME` = 'y'", "S.Xx = 1", "s.XX = 1", "S.y.Deep = 1", "`S`.`Xx` = 1"),
    *("S.`xx` = 1", "S['Xx'] = 1", "s['XX'] = 1", "_ROWID = 1", "_RowOffset = 1", "`With Sp` = 7", "Filter ID = 3"),
    *("bb = 1", "BB = 6", "bB = 6", "A = 10", "`A` = 10", "S.X = 10", "S.x = 1"),
    *(pc.field("A") > 1, pc.field("NAME") == "y", pc.field("S", "Xx") > 0, pc.field("s", "XX") > 0),
]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("condition", FILTERS, ids=str)
def test_filters(root: Path, table: str, condition: Any) -> None:
    both(root / table, lambda ds: ds.to_table(filter=condition))
    both(root / table, lambda ds: ds.count_rows(filter=condition))


def test_order(root: Path) -> None:
    for name in ("A", "NAME", "S.Xx", "nope"):
        assert both(root / "one", lambda ds, name=name: ds.to_table(order_by=[name])) == "refused"


def changed(tmp_path: Path, table: pa.Table, change: Ask) -> Any:
    """What a change leaves behind, made by both on a table of its own; equal, or refused by both."""
    results = []
    for module in (lancelet, lance):
        path = tmp_path / f"{module.__name__}{len(list(tmp_path.iterdir()))}"
        dataset = module.write_dataset(table, path)
        before = dataset.version
        outcome = answer(dataset, change)
        if outcome == "refused":
            assert lance.dataset(path).version == before
        results.append((outcome == "refused", lance.dataset(path).to_table().to_pydict()))
    assert results[0] == results[1]
    return results[0]


def test_updates(tmp_path: Path) -> None:
    for updates in (
        {"A": "5"},
        {"a": "A + 1"},
        {"a": "a+b"},
        {"a": "null"},
        {"NAME": "'q'"},
        {"s.XX": "5"},
        {"S": "s"},
    ):
        changed(tmp_path, TABLE, lambda ds, updates=updates: ds.update(updates))
    for where in ("A = 1", "`A` = 1", "S.Xx = 1", "s.XX = 1"):
        changed(tmp_path, TABLE, lambda ds, where=where: ds.update({"a": "9"}, where=where))


def test_deletes(tmp_path: Path) -> None:
    for where in ("A > 1", "NAME = 'x'", "S.Xx = 1", "S.XX = 1", "s.XX = 1"):
        changed(tmp_path, TABLE, lambda ds, where=where: ds.delete(where))
    changed(tmp_path, TWINS, lambda ds: ds.delete("bb = 2"))


def test_columns_added_and_dropped(tmp_path: Path) -> None:
    for expression in ("A + 1", "a+b", "NULL", "S.Xx", "s.XX", "`A`"):
        changed(tmp_path, TABLE, lambda ds, text=expression: ds.add_columns({"n": text}))
    for name in ("A", "S.XX", "s.XX", "`A`", "NAME"):
        changed(tmp_path, TABLE, lambda ds, name=name: ds.drop_columns([name]))
        changed(tmp_path, TABLE, lambda ds, name=name: ds.alter_columns({"path": name, "name": "zz"}))
    changed(tmp_path, TABLE, lambda ds: ds.add_columns({"A": "a + 1"}))


@pytest.mark.parametrize(
    "columns", [["s.Xx"], ["S.Xx"], ["s"], ["S"], ["a"], ["a", "a"], ["s.Xx", "s.Xx"], ["_rowid", "s.y"]]
)
def test_columns_that_functions_read(tmp_path: Path, columns: list[str]) -> None:
    seen: list[pa.Schema] = []

    def fill(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch.schema)
        return pa.record_batch({"n": [1] * batch.num_rows})

    for module in (lancelet, lance):
        dataset = module.write_dataset(TABLE, tmp_path / module.__name__)
        function = module.batch_udf(output_schema=pa.schema({"n": pa.int64()}))(fill)
        seen.append(answer(dataset, lambda ds, made=function: ds.add_columns(made, read_columns=columns)))
    half = len(seen) // 2
    assert seen[:half] == seen[half:]


MERGE_CONDITIONS = [
    *("source.A > 0", "SOURCE.a > 1", "Source.A > target.A", "source.NAME = 'n'", "source.`A` > 0", "source.S.Xx >= 0"),
    *("source.s.Xx >= 0", "source.s.XX >= 0", "target.S.Xx >= 1", "target.S.xx >= 1", "A > 0", "source.nope > 0"),
]


@pytest.mark.parametrize("condition", MERGE_CONDITIONS)
def test_conditions_of_merges(tmp_path: Path, condition: str) -> None:
    source = TABLE.slice(0, 2).set_column(1, "Name", pa.array(["n", "m"]))
    changed(tmp_path, TABLE, lambda ds: ds.merge_insert("a").when_matched_update_all(condition).execute(source))


def test_merges(tmp_path: Path) -> None:
    source = TABLE.slice(0, 1).set_column(1, "Name", pa.array(["n"]))
    for on in ("A", "NAME", "Name"):
        changed(tmp_path, TABLE, lambda ds, on=on: ds.merge_insert(on).when_matched_update_all().execute(source))
    other = source.rename_columns(["A", *source.column_names[1:]])
    for on in ("A", "a"):
        changed(tmp_path, TABLE, lambda ds, on=on: ds.merge_insert(on).when_matched_update_all().execute(other))
    for where in ("A > 2", "S.Xx = 2", "S.XX = 2", "`A` > 2"):
        changed(
            tmp_path,
            TABLE,
            lambda ds, where=where: ds.merge_insert("a").when_not_matched_by_source_delete(where).execute(source),
        )
    twin = pa.table({"a": [7], "A": [70], "Bb": [1], "bB": [5]})
    for on in ("bb", "BB", "bB", "Bb", "A"):
        changed(tmp_path, TWINS, lambda ds, on=on: ds.merge_insert(on).when_matched_update_all().execute(twin))
    for condition in ("source.bb = 1", "source.bb = 5", "source.A = 70"):
        changed(
            tmp_path,
            TWINS,
            lambda ds, text=condition: ds.merge_insert("bB").when_matched_update_all(text).execute(twin),
        )


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("one", name) for name in ("A", "NAME", "`NAME`", "S.Xx", "S.XX", "s.XX", "S.Y.DEEP", "s.`d.ot`", "nope")),
        *(("twins", name) for name in ("a", "A", "bb", "BB", "bB")),
        *(("nested twins", name) for name in ("S.X", "S.x", "`s`.`X`")),
    ],
)
def test_indexed_columns(tmp_path: Path, table: str, column: str) -> None:
    def indexed(dataset: Any) -> Any:
        dataset.create_scalar_index(column, "BTREE")
        return [(index.name, index.field_names) for index in dataset.describe_indices()]

    made = [
        answer(module.write_dataset(TABLES[table], tmp_path / module.__name__), indexed) for module in (lancelet, lance)
    ]
    assert made[0] == made[1]
    assert (made[0] == "refused") == (column == "nope")


def test_fields_of_the_schema(root: Path) -> None:
    for table in TABLES:
        for name in ("A", "bb", "S.XX", "s.`d.ot`", "S.X", "nope", "s.nope"):
            fields = [
                (None if found is None else (found.name(), found.id()))
                for found in (
                    module.dataset(root / table).lance_schema.field_case_insensitive(name)
                    for module in (lancelet, lance)
                )
            ]
            assert fields[0] == fields[1]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("NAME", "Name"), ("s.d.Ot", "s.`d.Ot`"), ("s.`d.ot`", "s.`d.Ot`"), ("s.`tick`", "s.`ti``ck`"), ("S.xx", "s.Xx")],
)
def test_suggestions_can_be_taken_as_they_are(tmp_path: Path, asked: str, meant: str) -> None:
    table = pa.table({"Name": ["x"], "s": [{"Xx": 1, "d.Ot": 2, "ti`ck": 3}]})
    dataset = lancelet.write_dataset(table, tmp_path / "t")
    with pytest.raises(UnknownColumn, match="did you mean") as caught:
        dataset.to_table([asked])
    assert f"did you mean '{meant}'?" in str(caught.value)
    assert dataset.to_table([meant]).num_rows == 1


def test_suggestions_for_filters(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(pa.table({"s": [{"Xx": 1, "d.Ot": 2, "ti`ck": 3}]}), tmp_path / "t")
    for asked, meant in (("s.`d.ot`", "s.`d.Ot`"), ("s.`tick`", "s.`ti``ck`"), ("s.xx", "s.Xx")):
        with pytest.raises(UnknownColumn, match="did you mean") as caught:
            dataset.to_table(filter=f"{asked} > 0")
        assert f"did you mean '{meant}'?" in str(caught.value)
        assert dataset.count_rows(filter=f"{meant} > 0") == 1
