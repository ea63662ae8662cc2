"""Filters answered by indices: the same rows as a scan, whatever the table went through."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
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
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.execution.candidates import Bounds, answered, candidate_fragments, find_candidates
from lancelet.execution.index_match import AllOf, AnyOf, Constant, Lookup, Opposite, shape_of
from lancelet.execution.plan import ScanPlan, plan_filter, plan_outputs
from lancelet.execution.scan import Scan
from lancelet.execution.units import Chosen, cut
from lancelet.expressions.evaluate import mask
from lancelet.expressions.expr import Column
from lancelet.index.questions import Answer, Between, HasItems, Holds, IsIn, Missing, StartsWith
from lancelet.index.row_set import RowSet

KINDS = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")
COLUMNS = ("k", "i", "c", "f", "b")


def rows(start: int, count: int) -> pa.Table:
    """Nulls, NaN and both zeros; ``k`` is unique."""
    numbers = range(start, start + count)
    floats = [
        None if n % 17 == 0 else float("nan") if n % 13 == 0 else [0.0, -0.0][n % 2] if n % 5 == 0 else n / 10 - 20
        for n in numbers
    ]
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "i": pa.array([None if n % 11 == 0 else n % 40 for n in numbers], pa.int32()),
            "c": pa.array([None if n % 9 == 0 else "" if n % 8 == 0 else f"c{n % 7}é" for n in numbers]),
            "f": pa.array(floats),
            "b": pa.array([None if n % 7 == 0 else n % 3 == 0 for n in numbers]),
            "j": pa.array([n % 5 for n in numbers], pa.int64()),
            "s": pa.array([None if n % 6 == 0 else {"a": None if n % 4 == 0 else n % 10} for n in numbers]),
            "l": pa.array([None if n % 6 == 0 else [n % 3, n % 5][: n % 3] for n in numbers]),
        }
    )


FILTERS = (
    "k = 5",
    "k > 100 AND k < 200",
    "k >= 100 AND k <= 100",
    "k > 200 AND k < 100",
    "i = 5",
    "i != 5",
    "i IN (1, 2, 3, 99)",
    "i NOT IN (1, 2, 3)",
    "i IN (1, NULL)",
    "i NOT IN (1, NULL)",
    "i = NULL",
    "i IS NULL",
    "i IS NOT NULL",
    "NOT (i IN (1, 2)) AND c = 'c3é'",
    "c = 'c1é' OR i = 7",
    "c = 'c1é' OR j = 3",
    "c = 'c1é' AND j = 3",
    "c LIKE 'c%'",
    "c LIKE 'c3%é'",
    "c LIKE 'c_é'",
    "starts_with(c, 'c2')",
    "c = ''",
    "c > 'c3'",
    "f = 0.0",
    "f != -0.0",
    "f > 2.0",
    "f <= 2.0",
    "f < -0.0",
    "f >= -0.0",
    "f > 0.0",
    "f IN (0.0, 1.1)",
    "f BETWEEN -1 AND 1",
    "isnan(f)",
    "b",
    "NOT b",
    "b IS TRUE",
    "b IS NOT TRUE",
    "b IS NOT FALSE",
    "b = false OR i < 3",
    "(c = 'c1é') IS NOT TRUE",
    "(c = 'c1é' AND i > 3) IS FALSE",
    "NOT (k > 100 OR i < 5)",
    "NOT (i > 5 AND NOT (c = 'c1é' OR f IS NULL))",
    "k IN (3, 150, 290, 400) AND j = 0",
    "k % 7 = 3 AND i > 30",
    "j <> 0 AND 10 / j > 2 AND i = 5",
    "true",
    "false",
)


def brute(dataset: lancelet.LanceDataset, text: str, everything: pa.Table | None = None) -> list[int]:
    """Row ids of the rows for which a filter is true."""
    if everything is None:
        everything = dataset.to_table(with_row_id=True, with_row_address=True)
    condition = plan_filter(dataset._snapshot.manifest.schema, text)
    assert condition is not None
    return everything.filter(mask(condition, everything))["_rowid"].to_pylist()


def asks(dataset: lancelet.LanceDataset, text: str) -> bool:
    condition = plan_filter(dataset._snapshot.manifest.schema, text)
    assert condition is not None
    return find_candidates(dataset.table, condition) is not None


def check(where: Path, filters: tuple[str, ...] = FILTERS) -> lancelet.LanceDataset:
    """Every filter gives the rows that a scan would, also counted, cut and in pylance."""
    dataset = lancelet.dataset(where)
    theirs = lance.dataset(str(where))
    everything = dataset.to_table(with_row_id=True, with_row_address=True)
    for number, text in enumerate(filters):
        wanted = brute(dataset, text, everything)
        assert dataset.to_table(filter=text, columns=["k", "_rowid"])["_rowid"].to_pylist() == wanted, text
        if number % 2 == dataset.version % 2:
            assert dataset.count_rows(text) == len(wanted), text
        if number % 4 == dataset.version % 4:
            cut = dataset.to_table(filter=text, columns=["_rowid"], offset=3, limit=7)["_rowid"].to_pylist()
            assert cut == wanted[3:10], text
            # pylance divides before it looks whether it may.
            assert "10 / j" in text or theirs.count_rows(text) == len(wanted), text
    return dataset


# The algebra


@st.composite
def three_valued(draw: st.DrawFn) -> Any:
    return draw(st.sampled_from([True, False, None]))


SIZES = {0: 3, 4: 1, 7: 5}
ADDRESSES = [number << 32 | row for number, size in SIZES.items() for row in range(size)]


def row_set(numbers: list[int]) -> RowSet:
    return RowSet.of(np.array(sorted(numbers), np.uint64))


@st.composite
def leaves(draw: st.DrawFn) -> tuple[list[bool | None], Bounds]:
    """Truth of a condition for every row, and what an index tells about it that covers some fragments."""
    truth = draw(st.lists(three_valued(), min_size=len(ADDRESSES), max_size=len(ADDRESSES)))
    covered = draw(st.sets(st.sampled_from(list(SIZES))))
    exact, known, negated = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    inside = [(a, t) for a, t in zip(ADDRESSES, truth, strict=True) if a >> 32 in covered]
    yes = {a for a, t in inside if t is True}
    if not exact and inside:
        yes |= draw(st.sets(st.sampled_from([a for a, _ in inside])))
    nulls = row_set([a for a, t in inside if t is None]) if known else None
    counts = {number: SIZES[number] for number in covered}
    found = answered(Answer(row_set(list(yes)), exact, nulls), negated=negated, loose=False, rows=counts)
    beyond = RowSet.whole(set(SIZES) - covered)
    asked = [None if t is None else t is not negated for t in truth]
    return asked, Bounds(found.sure, found.maybe | beyond)


def conjunction(values: tuple[bool | None, bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def disjunction(values: tuple[bool | None, bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


@st.composite
def combined(draw: st.DrawFn) -> tuple[list[bool | None], Bounds]:
    truth, bounds = draw(leaves())
    for _ in range(draw(st.integers(0, 4))):
        other, more = draw(leaves())
        match draw(st.integers(0, 2)):
            case 0:
                truth = [conjunction(pair) for pair in zip(truth, other, strict=True)]
                bounds &= more
            case 1:
                truth = [disjunction(pair) for pair in zip(truth, other, strict=True)]
                bounds |= more
            case _:
                truth = [value is not True for value in truth]
                bounds = bounds.opposite(SIZES)
    return truth, bounds


@given(combined())
@settings(max_examples=examples(400), deadline=None)
def test_what_is_sure_is_true_and_what_is_true_may_be(drawn: tuple[list[bool | None], Bounds]) -> None:
    truth, bounds = drawn
    for address, value in zip(ADDRESSES, truth, strict=True):
        if address in bounds.sure:
            assert value is True
            assert address in bounds.maybe
        if value is True:
            assert address in bounds.maybe


# Filters as questions

SCHEMA = pa.schema(
    [("i", pa.int64()), ("f", pa.float64()), ("c", pa.string()), ("b", pa.bool_()), ("l", pa.list_(pa.int64()))]
)


def shaped(text: str, columns: str = "ifcbl") -> Any:
    from lancelet.expressions.sql import parse_filter

    return shape_of(parse_filter(text, SCHEMA), lambda column, _: column.path[0] in columns)


def asked(text: str) -> Any:
    (found,) = shaped(text).asked
    return found.question


def test_ranges_of_one_column_become_one() -> None:
    shape = shaped("i > 2 AND i <= 9")
    assert shape.asked[0].question == Between(pa.scalar(2), pa.scalar(9), False, True)
    assert not shape.negated
    assert shaped("NOT (i <= 2 OR i > 9)").asked[0].question == shape.asked[0].question
    assert shaped("i > 9 AND i < 2") == Constant(False)
    assert shaped("i >= 2 AND i < 2") == Constant(False)
    both = shaped("i > 2 AND f < 9")
    assert isinstance(both, AllOf)
    assert len(both.parts) == 2
    assert both.complete


def test_what_no_index_knows_is_left_out() -> None:
    part = shaped("i = 3 AND f > 1", "i")
    assert isinstance(part, AllOf)
    assert not part.complete
    assert shaped("i = 3 OR f > 1", "i") is None
    assert shaped("NOT (i = 3 AND f > 1)", "i") is None
    assert shaped("i + 1 = 3") is None
    assert shaped("i = i") is None
    assert isinstance(shaped("i = 3 OR f > 1"), AnyOf)


def test_not_is_pushed_down() -> None:
    assert shaped("NOT (i > 5)").asked == shaped("i <= 5").asked
    assert shaped("NOT b").asked[0].question.values.to_pylist() == [False]
    negated = shaped("i != 5")
    assert negated.negated
    assert negated.asked[0].question.values.to_pylist() == [5]
    assert not shaped("NOT (i != 5)").negated
    assert isinstance(shaped("(i = 5) IS NOT TRUE"), Opposite)
    assert isinstance(shaped("(i = 5) IS TRUE"), Lookup)
    assert shaped("(i = 5) IS FALSE").negated


def test_questions_of_texts_and_lists() -> None:
    assert asked("c LIKE 'ab%'") == StartsWith("ab")
    assert asked("c LIKE 'ab'").values.to_pylist() == ["ab"]
    assert asked(r"c LIKE 'a\%b%'") == StartsWith("a%b")
    found = shaped("c LIKE 'ab%cd_e'").asked
    assert [one.question for one in found] == [StartsWith("ab"), Holds(("ab", "cd", "e"), exact=False)]
    assert all(one.loose for one in found)
    assert asked("contains(c, 'xyz')") == Holds(("xyz",), exact=True)
    assert asked("starts_with(c, 'xyz')") == StartsWith("xyz")
    has = asked("array_has_all(l, [1, 2])")
    assert isinstance(has, HasItems)
    assert has.every
    assert has.items.to_pylist() == [1, 2]
    assert asked("array_has(l, 7)").items.to_pylist() == [7]
    for text in ("c LIKE '%'", "c ILIKE 'ab%'", "array_has_any(l, [1, NULL])", "starts_with(c, '')", r"c LIKE 'a\b%'"):
        assert shaped(text) is None, text


def test_items_are_put_into_the_type_of_their_lists() -> None:
    """A filter widens narrow lists to meet its literals; an index is asked in the lists' own type."""
    from lancelet.expressions.sql import parse_filter

    schema = pa.schema([("l", pa.list_(pa.int16())), ("f", pa.list_(pa.float32()))])

    def shape(text: str) -> Any:
        return shape_of(parse_filter(text, schema), lambda *_: True)

    for text, items in (("array_has(l, 5)", [5]), ("array_has_any(l, [5, 6])", [5, 6])):
        found = shape(text).asked[0].question.items
        assert (found.type, found.to_pylist()) == (pa.int16(), items)
    for text in ("array_has(l, 70000)", "array_has(l, 2.0)", "array_has(f, 0.1)", "array_has_any(l, [5, 70000])"):
        assert shape(text) is None, text


def test_nulls_and_nan_are_not_asked_for() -> None:
    assert shaped("i = NULL") == Constant(False)
    assert shaped("NOT (i = NULL)") == Constant(False)
    assert shaped("i NOT IN (1, NULL)") == Constant(False)
    assert asked("i IN (1, NULL)").values.to_pylist() == [1]
    assert asked("i IS NOT NULL") == Missing()
    assert shaped("f > CAST('NaN' AS DOUBLE)") is None
    assert shaped("f IN (1.0, CAST('NaN' AS DOUBLE))") is None


# Tables


def new_table(where: Path, kind: str, *, stable: bool) -> None:
    dataset = lance.write_dataset(rows(0, 300), str(where), max_rows_per_file=60, enable_stable_row_ids=stable)
    for column in COLUMNS:
        if column != "b" or kind != "BLOOMFILTER":
            dataset.create_scalar_index(column, kind)


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_through_its_life(tmp_path: Path, kind: str, stable: bool) -> None:
    where = tmp_path / "t"
    new_table(where, kind, stable=stable)
    dataset = check(where)
    assert asks(dataset, "k = 5")
    theirs = lance.write_dataset(rows(300, 50), str(where), mode="append")
    theirs.delete("k % 10 = 3")
    check(where)
    theirs.update({"i": "i + 1"}, where="k % 20 = 5")
    check(where)
    theirs = lance.dataset(str(where))
    theirs.optimize.compact_files(target_rows_per_fragment=130, defer_index_remap=not stable)
    check(where)
    lance.write_dataset(rows(350, 30), str(where), mode="append").delete("k % 10 = 7")
    theirs = lance.dataset(str(where))
    theirs.optimize.compact_files(target_rows_per_fragment=100_000, defer_index_remap=not stable)
    check(where)
    lance.dataset(str(where)).optimize.optimize_indices()
    dataset = check(where)
    assert asks(dataset, "k = 5")


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_our_own_changes(tmp_path: Path, stable: bool) -> None:
    where = tmp_path / "t"
    new_table(where, "BTREE", stable=stable)
    for column, kind in (("i", "BITMAP"), ("c", "BITMAP"), ("k", "ZONEMAP")):
        lance.dataset(str(where)).create_scalar_index(column, kind, name=f"{column}_too")
    dataset = lancelet.write_dataset(rows(300, 50), where, mode="append")
    gone, changed = len(brute(dataset, "i = 3")), len(brute(dataset, "i = 4 OR k = 301"))
    assert dataset.delete("i = 3")["num_deleted_rows"] == gone
    assert dataset.update({"c": "'c0é'"}, where="i = 4 OR k = 301")["num_rows_updated"] == changed
    check(where)
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(rows(340, 20))
    dataset = check(where)
    dataset.optimize.compact_files(target_rows_per_fragment=150)
    check(where)


def test_several_segments_and_several_indices(tmp_path: Path) -> None:
    """Each fragment is answered by what covers it; the best index goes first."""
    where = tmp_path / "t"
    dataset = lance.write_dataset(rows(0, 100), str(where), max_rows_per_file=50)
    dataset.create_scalar_index("i", "ZONEMAP", name="zones")
    dataset.create_scalar_index("i", "BTREE", name="tree")
    dataset = lance.write_dataset(rows(100, 50), str(where), mode="append")
    dataset.optimize.optimize_indices(num_indices_to_merge=0, index_names=["zones"])
    lance.write_dataset(rows(150, 50), str(where), mode="append")
    lance.dataset(str(where)).optimize.optimize_indices(num_indices_to_merge=0, index_names=["tree"])
    lance.write_dataset(rows(200, 50), str(where), mode="append")
    ours = check(where, tuple(text for text in FILTERS if "i" in text))
    plan = ours.scanner(filter="i = 5").explain_plan().splitlines()
    assert [line.strip() for line in plan[-2:]] == [
        "ScalarIndexQuery: BTREE tree: i = 5, fragments=4 of 5, segments=2",
        "ScalarIndexQuery: ZONEMAP zones: i = 5, fragments=3 of 5, segments=2",
    ]
    condition = plan_filter(ours._snapshot.manifest.schema, "i = 39")
    assert condition is not None
    found = candidate_fragments(ours.table, condition)
    assert found == {0: 1, 1: 1, 2: 1, 3: 2, 4: None}
    assert candidate_fragments(ours.table, condition, [1, 4]) == {1: 1, 4: None}
    unknown = plan_filter(ours._snapshot.manifest.schema, "j = 1")
    assert unknown is not None
    assert candidate_fragments(ours.table, unknown) == dict.fromkeys(range(5))


def test_nested_columns(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = lance.write_dataset(rows(0, 200), str(where), max_rows_per_file=70)
    dataset.create_scalar_index("s.a", "BTREE")
    ours = check(
        where, ("s.a = 3", "s.a IS NULL", "s.a != 3", "s.a IS NOT NULL AND s.a < 4", "s IS NULL", "s.a IN (1, 2)")
    )
    assert asks(ours, "s.a = 3")
    assert not asks(ours, "s IS NULL")


def test_lists_and_text_search(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = lance.write_dataset(rows(0, 200), str(where), max_rows_per_file=70)
    dataset.create_scalar_index("l", "LABEL_LIST")
    dataset.create_scalar_index("c", "NGRAM")
    lance.write_dataset(rows(200, 40), str(where), mode="append")
    filters = (
        "array_has(l, 2)",
        "NOT array_has(l, 2)",
        "array_has_any(l, [1, 4])",
        "array_has_all(l, [1, 1])",
        "NOT array_has_all(l, [0, 2]) AND j = 2",
        "array_has(l, 2) OR c = 'c1é'",
        "l IS NULL",
        "contains(c, 'c1é')",
        "contains(c, 'c1')",
        "NOT contains(c, 'c1é')",
        "c LIKE '%1é%'",
    )
    ours = check(where, filters)
    assert asks(ours, "array_has(l, 2)")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Indices of several kinds, deletions, an update and rows that no index knows."""
    where = tmp_path_factory.mktemp("mixed") / "t"
    dataset = lance.write_dataset(rows(0, 240), str(where), max_rows_per_file=80)
    for column, kind in zip(COLUMNS, ("BTREE", "BITMAP", "BTREE", "BTREE", "BITMAP"), strict=True):
        dataset.create_scalar_index(column, kind)
    dataset = lance.write_dataset(rows(240, 60), str(where), mode="append")
    dataset.delete("k % 9 = 4")
    dataset.update({"c": "'c3é'"}, where="k % 31 = 2")
    return where


CONDITIONS = st.sampled_from(
    [text for text in FILTERS if "10 / j" not in text and "(" not in text.replace("IN (", "")]
    + ["j = 2", "k % 3 = 1", "_rowid < 40", "_rowaddr >= 4294967300", "s.a = 3"]
)


@st.composite
def nests(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(CONDITIONS)
    parts = draw(st.lists(nests(depth=depth - 1), min_size=2, max_size=3))
    joined = draw(st.sampled_from([" AND ", " OR "])).join(f"({part})" for part in parts)
    return draw(st.sampled_from(["{}", "NOT ({})", "({}) IS NOT TRUE", "({}) IS FALSE"])).format(joined)


@given(nests())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_drawn_nests_give_the_rows_of_a_scan(mixed: Path, text: str) -> None:
    dataset = lancelet.dataset(mixed)
    wanted = brute(dataset, text)
    assert dataset.to_table(filter=text, columns=["_rowid"])["_rowid"].to_pylist() == wanted
    assert dataset.count_rows(text) == len(wanted)


# Options of a scan


def test_options(mixed: Path) -> None:
    dataset = lancelet.dataset(mixed)
    text = "i IN (5, 6) AND k > 20"
    plain = {"use_scalar_index": False}
    for options in (
        {"order_by": ["k"]},
        {"columns": {"x": "k * 2", "y": "_rowoffset"}},
        {"columns": ["_rowoffset", "i"], "with_row_address": True},
        {"batch_size": 3},
        {"late_materialization": False},
        {"limit": 2, "offset": 1, "order_by": ["c"]},
        {"with_row_id": True, "include_deleted_rows": True},
        {"fragments": dataset.get_fragments()[1:3]},
        {"scan_in_order": False},
    ):
        got, wanted = (dataset.scanner(filter=text, **options, **more).to_table() for more in ({}, plain))
        assert got.to_pydict() == wanted.to_pydict() or "nan" in str(got["f"]), options
        batches = list(dataset.scanner(filter=text, **options).to_batches())
        assert sum(batch.num_rows for batch in batches) == wanted.num_rows
    for fragment in dataset.get_fragments():
        assert (
            fragment.to_table(filter=text).num_rows == fragment.to_table(filter=text, use_scalar_index=False).num_rows
        )
        assert fragment.count_rows(text) == fragment.to_table(filter=text).num_rows


def test_only_what_is_indexed(mixed: Path) -> None:
    ours, theirs = lancelet.dataset(mixed), lance.dataset(str(mixed))
    for text in ("i = 5", "i = 5 AND j = 2", "j = 2", "i > 3 OR k < 100", "i != 3"):
        got = ours.to_table(filter=text, fast_search=True)["k"].to_pylist()
        assert sorted(got) == sorted(theirs.to_table(filter=text, fast_search=True)["k"].to_pylist()), text
    assert len(ours.to_table(filter="k > 0", fast_search=True)) < ours.count_rows("k > 0")


def test_sure_rows_are_not_read_again(mixed: Path) -> None:
    """Only what is left of the filter is tested."""
    dataset = lancelet.dataset(mixed)
    condition = plan_filter(dataset._snapshot.manifest.schema, "i = 5 AND j = 0")
    assert condition is not None
    found = find_candidates(dataset.table, condition)
    assert found is not None
    assert str(found.recheck(0)) == "j = 0"
    assert str(found.recheck(3)) == "i = 5 AND j = 0"
    exact = plan_filter(dataset._snapshot.manifest.schema, "i = 5")
    assert exact is not None
    found = find_candidates(dataset.table, exact)
    assert found is not None
    assert found.recheck(0) is None


@pytest.mark.parametrize("step", [1 << 17, 5000])
@pytest.mark.parametrize(
    ("offsets", "most"),
    [
        (np.concatenate([np.arange(start, start + 8192) for start in (0, 40_000, 48_192, 500_000)]), 4 * 8192),
        (np.arange(0, 1_000_000, 5000), 1_000_000),
        (np.concatenate([np.arange(3000), np.arange(100_000, 900_000, 9000)]), 900_000),
        (np.arange(100), 100),
    ],
    ids=["zones", "few", "one stretch and few", "one stretch"],
)
def test_units_leave_out_what_is_between_stretches(offsets: Any, most: int, step: int) -> None:
    """Every candidate is in one unit, in order; where they come in long stretches, nothing else is read."""
    sure = offsets % 3 == 0
    found, marks, read = [], [], 0
    for rows, places in cut(Chosen(offsets, sure), step):
        found.append(places.offsets + rows.start)
        marks.append(places.sure)
        read += len(rows)
        assert len(rows) <= step or len(places) <= 1024
    assert np.array_equal(np.concatenate(found), offsets)
    assert np.array_equal(np.concatenate(marks), sure)
    assert read <= most


@pytest.mark.parametrize(("text", "rest"), [("i != 3 AND k = 7", ["i != 3"]), ("i != 3 AND k < 60", [])])
def test_what_costs_less_than_testing_is_asked(mixed: Path, text: str, rest: list[str]) -> None:
    """With one row left it is tested; with some the other index is asked too, and nothing is left to test."""
    dataset = lancelet.dataset(mixed)
    condition = plan_filter(dataset._snapshot.manifest.schema, text)
    assert condition is not None
    found = find_candidates(dataset.table, condition, [0, 1, 2])
    assert found is not None
    assert [str(part) for part in found.rest] == rest
    assert found.is_decided == (not rest)


def test_few_rows_end_the_asking(mixed: Path) -> None:
    dataset = lancelet.dataset(mixed)
    condition = plan_filter(dataset._snapshot.manifest.schema, "i != 3 AND k = 7")
    assert condition is not None
    found = find_candidates(dataset.table, condition, [0, 1, 2])
    assert found is not None
    assert [str(part) for part in found.rest] == ["i != 3"]
    assert found.bounds.maybe.numbers().tolist() == [7]


def test_plans_are_explained(mixed: Path) -> None:
    dataset = lancelet.dataset(mixed)
    text = "(i = 5 OR NOT (c > 'c3')) AND j = 2 AND k > 3 AND k <= 200"
    scanner = dataset.scanner(filter=text, columns=["f"])
    lines = scanner.explain_plan().splitlines()
    assert lines[:3] == [
        "Project: f",
        "  ReadPassing: columns=[f]",
        "    Filter: (i = 5 OR NOT (c > 'c3')) AND j = 2 AND k > 3 AND k <= 200",
    ]
    assert lines[4:] == [
        "        IndexSearch: tested on rows: j = 2",
        "          Or:",
        "            ScalarIndexQuery: BITMAP i_idx: i = 5, fragments=3 of 5",
        "            ScalarIndexQuery: BTREE c_idx: NOT (c > 'c3'), fragments=3 of 5",
        "          ScalarIndexQuery: BTREE k_idx: k > 3 AND k <= 200, fragments=3 of 5",
    ]
    verbose = scanner.explain_plan(verbose=True).splitlines()
    assert verbose[-1].endswith("k > 3 AND k <= 200, fragments=[0, 1, 2]")
    ran = scanner.analyze_plan().splitlines()
    assert ran[0].startswith("Analyze: rows=")
    assert "candidates=" in ran[5]
    assert "whole fragments" in ran[5]
    assert ran[-1].endswith(", rows=197")
    assert "ScalarIndexQuery" not in dataset.scanner(filter=text, use_scalar_index=False).explain_plan()
    assert dataset.scanner(filter="_rowid = 5").explain_plan().splitlines()[-1].strip() == "RowQuery: _rowid = 5"


def test_costs_are_told(mixed: Path) -> None:
    seen: list[Any] = []
    dataset = lancelet.dataset(mixed)
    for _ in range(2):
        dataset.scanner(filter="i = 5", scan_stats_callback=seen.append).to_table()
    first, second = seen
    assert (first.indices_loaded, first.index_cache_misses, first.index_cache_hits) == (1, 1, 0)
    assert (second.indices_loaded, second.index_cache_misses, second.index_cache_hits) == (0, 0, 1)
    assert first.parts_loaded > 0
    assert dataset.session().index_cache_size_bytes() > 0


def test_versions_share_open_segments(mixed: Path) -> None:
    dataset = lancelet.dataset(mixed)
    dataset.count_rows("k = 5")
    opened = len(dataset.session().files.indices)
    older = dataset.checkout_version(dataset.version - 1)
    older.count_rows("k = 5")
    assert len(older.session().files.indices) == opened


def test_a_broken_index_is_told(tmp_path: Path) -> None:
    """Never a silent fallback to a scan."""
    where = tmp_path / "t"
    lance.write_dataset(rows(0, 50), str(where)).create_scalar_index("k", "BTREE")
    for file in (where / "_indices").glob("*/page_lookup.lance"):
        file.write_bytes(file.read_bytes()[:-40] + bytes(40))
    dataset = lancelet.dataset(where)
    with pytest.raises(CorruptFile):
        dataset.to_table(filter="k = 3")
    assert dataset.to_table(filter="k = 3", use_scalar_index=False).num_rows == 1


def test_an_index_of_another_table_is_told(tmp_path: Path) -> None:
    """Rows beyond the end of a fragment cannot come from this table."""
    where, other = tmp_path / "t", tmp_path / "o"
    lance.write_dataset(rows(0, 50), str(where)).create_scalar_index("k", "BTREE")
    lance.write_dataset(rows(0, 80), str(other)).create_scalar_index("k", "BTREE")
    for target, source in itertools.product((where / "_indices").glob("*"), (other / "_indices").glob("*")):
        for file in source.iterdir():
            shutil.copy(file, target / file.name)
    sizes = {file.name: file.stat().st_size for file in (where / "_indices").glob("*/*")}
    assert sizes
    with pytest.raises(CorruptFile):
        lancelet.dataset(where).to_table(filter="k = 70")


def test_unknown_kinds_are_left_alone(tmp_path: Path) -> None:
    where = tmp_path / "t"
    words = pa.table({"k": range(60), "w": [f"some words {n}" for n in range(60)]})
    lance.write_dataset(words, str(where)).create_scalar_index("w", "INVERTED")
    dataset = check(where, ("k = 3", "w = 'some words 4'", "contains(w, 'words 5')"))
    assert not asks(dataset, "w = 'some words 4'")


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_a_part_of_a_scan_asks_for_its_own_rows(tmp_path: Path, stable: bool) -> None:
    """What an engine's task reads: pieces of fragments, of which one may come several times."""
    where = tmp_path / "t"
    new_table(where, "BITMAP", stable=stable)
    dataset = lancelet.dataset(where)
    dataset.delete("k % 4 = 1")
    pieces = ((0, (0, 20)), (0, (30, 55)), (2, (5, 60)), (4, (0, 3)))
    schema = dataset._snapshot.manifest.schema
    for text in ("i IN (5, 6, 7)", "i != 6 AND j = 2", "_rowid IN (3, 4, 40, 130, 140, 8589934597)", "j = 1"):
        plan = ScanPlan(
            schema,
            plan_outputs(schema, ["k", "_rowaddr"]),
            plan_filter(schema, text),
            fragment_ids=tuple(number for number, _ in pieces),
            row_ranges=tuple(span for _, span in pieces),
        )
        wanted = [
            row
            for number, (first, last) in pieces
            for row in dataset.to_table(filter=text, columns=["_rowaddr"], use_scalar_index=False)[
                "_rowaddr"
            ].to_pylist()
            if row >> 32 == number and first <= row & 0xFFFFFFFF < last
        ]
        assert Scan(dataset.table, plan).to_table()["_rowaddr"].to_pylist() == wanted, text
        assert Scan(dataset.table, plan).count() == len(wanted)
        assert Scan(dataset.table, replace(plan, offset=2, limit=3)).to_table()["_rowaddr"].to_pylist() == wanted[2:5]


def test_wide_ranges_are_left_to_the_scan(tmp_path: Path) -> None:
    """Reading most of an index takes longer than reading the column."""
    where = tmp_path / "t"
    numbers = np.random.default_rng(1).permutation(200_000)
    lance.write_dataset(pa.table({"k": numbers}), str(where)).create_scalar_index("k", "BTREE")
    dataset = lancelet.dataset(where)
    assert asks(dataset, "k < 1000")
    assert not asks(dataset, "k > 1000")
    assert asks(dataset, "k > 1000 AND k < 2000")
    assert asks(dataset, "k != 1000")
    assert dataset.count_rows("k > 1000") == 198_999
    assert dataset.count_rows("k != 1000") == 199_999
    assert sorted(dataset.to_table(filter="k < 50000 AND k > 49990")["k"].to_pylist()) == list(range(49_991, 50_000))


def test_dense_and_scattered_candidates(tmp_path: Path) -> None:
    """Units go around the candidates, however they lie."""
    where = tmp_path / "t"
    numbers = np.arange(300_000)
    kind = np.where((numbers > 150_000) & (numbers < 170_000) | (numbers % 997 == 0), 1, numbers % 50 + 2)
    lance.write_dataset(pa.table({"k": numbers, "c": kind}), str(where)).create_scalar_index("c", "BITMAP")
    dataset = lancelet.dataset(where)
    dataset.delete("k IN (0, 160000, 299100) OR (k > 155000 AND k < 155100)")
    for text in ("c = 1", "c = 7", "c = 1 AND k % 2 = 0", "c IN (1, 2) AND k > 100000"):
        wanted = dataset.to_table(filter=text, columns=["k"], use_scalar_index=False)["k"]
        assert asks(dataset, text)
        assert dataset.to_table(filter=text, columns=["k"])["k"].equals(wanted), text
        assert dataset.count_rows(text) == len(wanted)
        cut = dataset.to_table(filter=text, columns=["k"], offset=1500, limit=300)["k"]
        assert cut.to_pylist() == wanted.slice(1500, 300).to_pylist()


def test_a_remote_table(tmp_path: Path) -> None:
    uri = f"memory://planning/{tmp_path.name}"
    lancelet.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    dataset = lancelet.dataset(uri)
    dataset.create_scalar_index("k", "BTREE")
    seen: list[Any] = []
    found = dataset.scanner(filter="k = 150", columns=["k"], scan_stats_callback=seen.append).to_table()
    assert found["k"].to_pylist() == [150]
    assert seen[0].requests > 0
    assert seen[0].indices_loaded == 1


# Changes find their rows through indices


@pytest.fixture
def large(tmp_path: Path) -> Callable[[], lancelet.LanceDataset]:
    where = tmp_path / "t"
    numbers = np.arange(20_000)
    data = pa.table({"k": numbers, "t": numbers.astype(str), "v": numbers % 100})
    dataset = lance.write_dataset(data, str(where), max_rows_per_file=5_000)
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("t", "BTREE")
    return lambda: lancelet.dataset(where)


@pytest.mark.parametrize("key", ["k", "t"])
def test_merges_look_up_their_keys(large: Callable[[], lancelet.LanceDataset], key: str) -> None:
    dataset = large()
    source = pa.table({"k": [7, 12_345, 20_001], "t": ["7", "12345", "20001"], "v": [1000, 1001, 1002]})
    before = len(dataset.session().files.indices)
    result = dataset.merge_insert(key).when_matched_update_all().when_not_matched_insert_all().execute(source)
    assert (result["num_updated_rows"], result["num_inserted_rows"]) == (2, 1)
    assert len(dataset.session().files.indices) == before + 1
    assert dataset.to_table(filter="v >= 1000")["k"].to_pylist() == [7, 12_345, 20_001]
    assert dataset.count_rows() == 20_001
    again = dataset.merge_insert(key).when_matched_update_all().when_not_matched_insert_all().execute(source)
    assert (again["num_updated_rows"], again["num_inserted_rows"]) == (3, 0)


def test_deletes_and_updates_look_up_their_rows(large: Callable[[], lancelet.LanceDataset]) -> None:
    dataset = large()
    assert dataset.delete("k IN (5, 6000, 99999)")["num_deleted_rows"] == 2
    assert dataset.update({"v": "-1"}, where="k = 7000 OR t = '19999'")["num_rows_updated"] == 2
    assert dataset.to_table(filter="v = -1")["k"].to_pylist() == [7000, 19999]
    assert dataset.count_rows("k >= 0") == 19_998
    assert len(dataset.session().files.indices) == 2


def test_a_column_object_is_what_lookups_are_about() -> None:
    shape = shaped("i = 1")
    assert shape.column == Column(("i",), pa.int64())
    assert isinstance(shape.asked[0].question, IsIn)


def test_fragments_that_are_not_there_are_refused(mixed: Path) -> None:
    dataset = lancelet.dataset(mixed)
    schema = dataset._snapshot.manifest.schema
    for text in ("i = 5", "true", "i != 5", "_rowid < 100"):
        plan = ScanPlan(schema, plan_outputs(schema, ["k"]), plan_filter(schema, text), fragment_ids=(0, 99))
        with pytest.raises(InvalidInput, match="99"):
            Scan(dataset.table, plan).to_table()
        with pytest.raises(InvalidInput, match="99"):
            Scan(dataset.table, plan).count()
    twice = ScanPlan(schema, plan_outputs(schema, ["k"]), plan_filter(schema, "i = 5"), fragment_ids=(0, 0))
    assert Scan(dataset.table, twice).count() == Scan(dataset.table, twice).to_table().num_rows == 4
