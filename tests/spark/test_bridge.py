"""The bridge: the same answers as without it, from less that is read."""

from __future__ import annotations

import datetime as dt
import io
import subprocess
import sys
from contextlib import redirect_stdout
from decimal import Decimal
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest

import lancelet
from lancelet.spark.predicates import from_json

ROOT = Path(__file__).parents[2]
N = 120
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def rows() -> pa.Table:
    """Values that compare in awkward ways, and nulls at every level."""
    some = [None if i % 7 == 0 else i for i in range(N)]

    def of(make, kind: pa.DataType) -> pa.Array:
        return pa.array([None if v is None else make(v) for v in some], kind)

    floats = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 0.1, 1.5]
    return pa.table(
        {
            "id": pa.array(range(N)),
            "i": of(lambda v: v % 11 - 5, pa.int32()),
            "b": of(lambda v: v % 2 == 0, pa.bool_()),
            "u": of(lambda v: v % 200, pa.uint8()),
            "u64": of(lambda v: 2**63 + v, pa.uint64()),
            "f": of(lambda v: floats[v % 7], pa.float32()),
            "d": of(lambda v: floats[v % 7], pa.float64()),
            "s": of(lambda v: ["", "a", "ab", "abc%", "Ä", "_b", "z" * 30][v % 7], pa.string()),
            "ls": of(lambda v: f"t{v % 5}", pa.large_string()),
            "bin": of(lambda v: bytes([v % 3, 255]), pa.binary()),
            "day": of(lambda v: dt.date(2020, 1, 1) + dt.timedelta(days=v), pa.date32()),
            "tz": of(
                lambda v: dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(hours=v),
                pa.timestamp("us", "Asia/Tokyo"),
            ),
            "ntz": of(lambda v: dt.datetime(2020, 1, 1) + dt.timedelta(hours=v), pa.timestamp("ms")),
            "ns": of(lambda v: 10**18 + v * 1500, pa.timestamp("ns")),
            "dec": of(lambda v: Decimal(v) / 4, pa.decimal128(12, 3)),
            "st": pa.array(
                [None if i % 5 == 0 else {"x": None if i % 3 == 0 else i, "y": {"z": f"z{i % 4}"}} for i in range(N)],
                pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))]),
            ),
            "v": pa.array([None if i % 9 == 0 else [i, 1.0] for i in range(N)], pa.list_(pa.float32(), 2)),
        }
    )


FILTERS = [
    "i > 2",
    "i = 2 or i is null",
    "i in (1, 3, 99)",
    "i not in (1, 3)",
    "i not in (1, null)",
    "i <=> null",
    "i <=> 4",
    "not (i > 2 and d < 1)",
    "i <> 3",
    "b",
    "not b",
    "b is null or b = false",
    "u < 3",
    "u >= 199",
    "u > -1",
    "u64 = 9223372036854775815",
    "u64 < 9223372036854775820",
    "f > 0.1",
    "f = float('nan')",
    "f >= float('nan')",
    "d > 1",
    "d = double('nan')",
    "d < double('inf')",
    "d = 0",
    "d in (0.1, double('nan'))",
    "not (d > 1)",
    "s like 'a%'",
    "s like '%b'",
    "s like '%b%'",
    "s like 'a_c%'",
    "s = ''",
    "s > 'a' and s <= 'Ä'",
    "s like 'abc\\\\%'",
    "not s like 'a%'",
    "ls in ('t1', 't2')",
    "bin = x'01ff'",
    "day >= date'2020-02-01'",
    "tz > timestamp'2020-01-03 00:00:00'",
    "ntz = timestamp_ntz'2020-01-01 05:00:00'",
    "ns = timestamp_ntz'2001-09-09 01:46:40.000001'",
    "ns > timestamp_ntz'2001-09-09 01:46:40.000002'",
    "dec = 1.25",
    "dec between 2 and 3.5",
    "st.x > 50",
    "st.y.z = 'z1'",
    "st.x is null",
    "st is null",
    "v is not null",
    "v[0] > 100",
    "i + 1 > 3",
    "id % 2 = 0 and i > 0",
    "i > 0 or length(s) = 2",
    "i > 0 and (d > 0.5 or s like 'a%') and not id in (1, 2)",
    "true",
    "1 = 0",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("bridge") / "t.lance")
    ds = lancelet.write_dataset(rows(), uri, max_rows_per_file=50)
    ds.delete("id % 13 = 5")
    return uri


def answers(frame: object, filters: list[str]) -> dict[str, list[int]]:
    """The ids that pass each filter, in one query of many scans."""
    parts = [frame.filter(text).selectExpr(f"{number} as n", "id") for number, text in enumerate(filters)]
    found: dict[str, list[int]] = {text: [] for text in filters}
    for row in reduce(lambda left, right: left.union(right), parts).collect():
        found[filters[row.n]].append(row.id)
    return {text: sorted(ids) for text, ids in found.items()}


@pytest.fixture(scope="module")
def truth(spark, table) -> dict[str, list[int]]:
    """Spark's own answers, over rows that it holds in memory."""
    held = spark.createDataFrame(spark.read.format("lance_plain").load(table).toArrow())
    columns = [f"({text}) as f{number}" for number, text in enumerate(FILTERS)]
    tested = held.selectExpr("id", *columns).sort("id").collect()
    return {text: [row.id for row in tested if row[f"f{number}"]] for number, text in enumerate(FILTERS)}


@pytest.mark.parametrize(
    ("mode", "filters"),
    [
        pytest.param("bridge", FILTERS, id="bridge"),
        pytest.param("pushdown", FILTERS[::7], id="pushdown"),
        pytest.param("neither", FILTERS[3::9], id="neither"),
        pytest.param("pushdown", FILTERS, id="pushdown-all", marks=pytest.mark.soak),
        pytest.param("neither", FILTERS, id="neither-all", marks=pytest.mark.soak),
    ],
)
def test_filters_give_what_spark_gives(spark, table, truth, mode, filters):
    spark.conf.set(PUSHDOWN, str(mode == "pushdown").lower())
    try:
        found = answers(spark.read.format("lance" if mode == "bridge" else "lance_plain").load(table), filters)
    finally:
        spark.conf.set(PUSHDOWN, "false")
    wrong = {text: (found[text], truth[text]) for text in filters if found[text] != truth[text]}
    assert not wrong


def test_a_schema_of_the_user_hides_nothing(spark, table):
    """Nanoseconds are cut on the way to Spark, whatever schema the user gives."""
    spark.conf.set(PUSHDOWN, "true")
    try:
        for name in ("lance", "lance_plain"):
            frame = spark.read.format(name).schema("id bigint, ns timestamp_ntz").load(table)
            assert frame.filter("ns = timestamp_ntz'2001-09-09 01:46:40.000001'").count() == 1
    finally:
        spark.conf.set(PUSHDOWN, "false")


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_a_data_frame_is_used_more_than_once(spark, source, table, pushdown):
    """Spark keeps the plan of a Python source; a filter must not stick to it."""
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        frame = spark.read.format(source).load(table)
        live = lancelet.dataset(table).count_rows()
        few = lancelet.dataset(table).count_rows("id < 10")
        assert frame.filter("id < 10").count() == few
        assert frame.selectExpr("count(id)").collect()[0][0] == live
        assert frame.filter("id < 10").union(frame).selectExpr("count(id)").collect()[0][0] == live + few
    finally:
        spark.conf.set(PUSHDOWN, "false")


def plan(frame: object) -> str:
    """What Spark shows of a plan; this works over Spark Connect too."""
    shown = io.StringIO()
    with redirect_stdout(shown):
        frame.explain(extended=True)
    return shown.getvalue()


def test_what_is_pushed(spark, table):
    frame = spark.read.format("lance").load(table)
    shown = plan(frame.filter("i > 0 and (d > 0.5 or s like 'a%') and not id in (1, 2)").select("ls"))
    assert "lance columns=[ls]" in shown
    for part in ("i > 0", "(d > 0.5) OR (s LIKE 'a%'", "NOT (id IN (1, 2))"):
        assert part in shown
    assert "+- *(1) Filter" not in shown, "what is pushed is not checked again"
    left = plan(frame.filter("length(s) = 2 and ns > timestamp_ntz'2001-09-09 01:46:40'").select("id"))
    assert "Filter" in left.split("== Physical Plan ==")[1]


def test_columns_inside_structs(spark, table):
    frame = spark.read.format("lance").load(table).select("st.y.z").filter("z = 'z1'")
    assert "ReadSchema" in plan(frame) or "st#" in plan(frame)
    read = frame.collect()
    assert {row.z for row in read} == {"z1"}
    assert "RelationV2[st#" in plan(frame).split("== Optimized Logical Plan ==")[1]


def test_counts_and_limits(spark, table):
    frame = spark.read.format("lance").load(table)
    live = lancelet.dataset(table).count_rows()
    assert frame.count() == live
    assert "LocalTableScan" in plan(frame.groupBy().count())
    assert frame.selectExpr("count(*) as a", "count(1) as b").collect()[0].asDict() == {"a": live, "b": live}
    assert frame.selectExpr("count(i)").collect()[0][0] == lancelet.dataset(table).count_rows("i is not null")
    assert frame.filter("i > 2").count() == lancelet.dataset(table).count_rows("i > 2")
    assert frame.filter("length(s) = 2").count() == lancelet.dataset(table).count_rows("length(s) = 2")
    assert "limit=4" in plan(frame.filter("i > 2").limit(4))
    assert len(frame.filter("i > 2").limit(4).collect()) == 4
    assert frame.groupBy("b").count().count() == 3
    limited = spark.read.format("lance").option("limit", 10).load(table)
    assert limited.count() == 10
    assert limited.filter("id > 3").count() == len(
        [i for i in lancelet.dataset(table).to_table(limit=10)["id"].to_pylist() if i > 3]
    )
    filtered = spark.read.format("lance").option("filter", "i > 2").load(table)
    assert filtered.count() == lancelet.dataset(table).count_rows("i > 2")


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_counts_that_indices_answer(spark, uri, stable):
    """An index answers some of these alone; nulls, deleted rows and rows that it has not seen do not mislead it."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("i", pa.int32()), ("w", pa.string())])
    data = rows().select(["id", "i"]).append_column("w", rows()["ls"].cast(pa.string())).cast(schema)
    ds = lancelet.write_dataset(
        data.slice(0, 90), uri, schema=schema, max_rows_per_file=40, enable_stable_row_ids=stable
    )
    ds.create_scalar_index("i", "BTREE")
    ds.create_scalar_index("w", "BITMAP")
    ds.delete("id % 13 = 5")
    lancelet.write_dataset(data.slice(90), uri, mode="append")
    asked = [
        "true",
        "i = 3",
        "i <> 3",
        "i > 2",
        "i is null",
        "i is not null",
        "w = 't1'",
        "w is null",
        "w in ('t1', 't4')",
    ]
    asked += ["not (i > 2)", "i > 2 and w = 't1'", "i > 2 or w = 't1'", "i = 3 and id > 50", "i > 2 and length(w) = 2"]
    bridge, plain = (spark.read.format(name).load(uri) for name in ("lance", "lance_plain"))
    parts = [bridge.filter(text).selectExpr(f"{at} as n", "count(*) as c") for at, text in enumerate(asked)]
    counted = reduce(lambda left, right: left.union(right), parts).collect()
    truth = plain.selectExpr(*(f"count_if({text})" for text in asked)).collect()[0]
    assert {asked[row.n]: row.c for row in counted} == dict(zip(asked, truth, strict=True))
    wholes = ("count(*)", "count(id)", "count(i)", "count(1)")
    assert bridge.selectExpr(*wholes).collect() == plain.selectExpr(*wholes).collect()
    assert bridge.selectExpr("count(id)").collect()[0][0] == lancelet.dataset(uri).count_rows()


def test_small_tables_are_broadcast(spark, table):
    frame = spark.read.format("lance").load(table).select("id", "s")
    joined = frame.join(spark.range(10**7), "id")
    assert "BroadcastHashJoin" in plan(joined)


def test_row_ids_are_found_by_condition(spark, table):
    frame = spark.read.format("lance").option("rowId", "true").load(table)
    wanted = [3, 60, (1 << 32) + 1]
    found = frame.filter(frame["_rowid"].isin(wanted)).select("id", "_rowid").collect()
    assert sorted(row["_rowid"] for row in found) == [3, (1 << 32) + 1], "row 60 of the first fragment is not there"


def test_the_jar_belongs_to_its_sources():
    done = subprocess.run(
        [sys.executable, ROOT / "jvm" / "build.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_conditions_from_another_version_are_refused():
    schema = lancelet.write_dataset({"a": [1]}, "memory://bridge/other").table.snapshot.manifest.schema
    for text in ('["xor", ["true"], ["false"]]', '["=", ["col", "a"], ["lit", "money", "3"]]'):
        with pytest.raises(ValueError, match="jar is of another version"):
            from_json(text, schema)
