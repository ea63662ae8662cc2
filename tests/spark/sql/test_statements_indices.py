"""Indices in SQL: built by tasks, and read by pylance."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet


@pytest.fixture
def table(sql, space):
    path = str(space.root.parent / "made.lance")
    vectors = pa.FixedSizeListArray.from_arrays(np.random.default_rng(0).standard_normal(600 * 8, np.float32), 8)
    texts = [f"word{number % 7} common" for number in range(600)]
    rows = pa.table({"id": range(600), "n": pa.array(range(600)), "s": texts, "v": vectors})
    lancelet.write_dataset(rows, path, max_rows_per_file=300)
    sql(f"CREATE TABLE {{ns}}.t USING lance LOCATION '{path}'")
    return lambda: lance.dataset(path)


def test_indices_are_made_shown_extended_and_dropped(sql, refused, table):
    assert sql("ALTER TABLE {ns}.t CREATE INDEX by_id USING btree (id)") == [(2, "by_id")]
    assert sql("ALTER TABLE {ns}.t CREATE INDEX zones USING zonemap (n) WITH (rows_per_zone = 64)") == [(2, "zones")]
    words = "base_tokenizer = 'simple', language = 'English', with_position = false"
    assert sql(f"alter table {{ns}}.t create index words using fts (s) with ({words})") == [(2, "words")]
    assert sql("CREATE INDEX vecs ON TABLE {ns}.t USING ivf_flat (v) OPTIONS ('numPartitions' = '2')") == [(2, "vecs")]
    assert sorted(index.name for index in table().describe_indices()) == ["by_id", "vecs", "words", "zones"]
    assert table().to_table(filter="id = 77", columns=["id"]).to_pylist() == [{"id": 77}]
    found = table().to_table(full_text_query="word3", columns=["id"]).num_rows
    assert found == sum(number % 7 == 3 for number in range(600))
    rows = table().to_table(limit=10)
    lancelet.write_dataset(rows.set_column(0, "id", pa.array(range(600, 610))), table().uri, mode="append")
    shown = {row[0]: row[1:] for row in sql("SHOW INDEXES FROM {ns}.t")}
    assert shown["by_id"][:7] == (["id"], "btree", 2, 600, 1, 10, 1)
    assert sql("ALTER TABLE {ns}.t REFRESH INDEX by_id") == [(1, 1, "by_id")]
    version = table().version
    assert sql("ALTER TABLE {ns}.t REFRESH INDEX by_id WITH (num_segments = 2)") == [(0, 0, "by_id")]
    assert table().version == version
    assert sql("ALTER TABLE {ns}.t OPTIMIZE INDEX by_id WITH (num_indices_to_merge = 2)") == [("by_id", 3, 2, 1)]
    assert {row[0] for row in sql("ALTER TABLE {ns}.t OPTIMIZE INDEX")} == set(shown)
    assert {row[6] for row in sql("SHOW INDEX IN {ns}.t")} == {0}
    assert table().to_table(filter="id = 605", columns=["n"]).to_pylist() == [{"n": 5}]
    assert sql("SELECT count(*) FROM {ns}.t.indices WHERE name = 'by_id'") == [(1,)]
    assert sql("DROP INDEX vecs ON {ns}.t") == [("vecs", "dropped")]
    assert sql("ALTER TABLE {ns}.t DROP INDEX WORDS") == [("words", "dropped")]
    assert sorted(index.name for index in table().describe_indices()) == ["by_id", "zones"]


def test_mistakes_with_indices(sql, refused, table):
    for statement, words in (
        ("CREATE INDEX i USING nope (id)", "nope"),
        ("CREATE INDEX i USING btree (nope)", "nope"),
        ("CREATE INDEX i USING btree (id, n)", "one column"),
        ("CREATE INDEX i USING ivf_pq (v) WITH (distance_type = 'nope')", "nope"),
        ("CREATE INDEX i USING ivf_flat (id)", "id"),
        ("CREATE INDEX i USING btree (id) WITH (num_segments = 0)", "num_segments"),
        ("DROP INDEX i", "there is no index i"),
        ("OPTIMIZE INDEX i", "there is no index i"),
        ("REFRESH INDEX i", "there is no index i"),
    ):
        assert words in str(refused(f"ALTER TABLE {{ns}}.t {statement}")).lower(), statement
    assert table().version == 1
    sql("ALTER TABLE {ns}.t CREATE INDEX i USING btree (id) WITH (train = false)")
    assert "no option nope" in str(refused("ALTER TABLE {ns}.t OPTIMIZE INDEX i WITH (nope = 1)"))
    assert sql("ALTER TABLE {ns}.t CREATE INDEX IF NOT EXISTS i USING btree (id)") == [(0, "i")]
    assert sql("ALTER TABLE {ns}.t DROP INDEX IF EXISTS j") == [("j", "not found")]
    assert sql("ALTER TABLE {ns}.t REFRESH INDEX i") == [(2, 1, "i")]
    assert refused("ALTER TABLE {ns}.t CREATE INDEX i (id)").getCondition() == "PARSE_SYNTAX_ERROR"
    assert refused("ALTER TABLE {ns}.nope DROP INDEX i").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_an_index_of_geometries(sql, space):
    pytest.importorskip("shapely", reason="geometries are computed by shapely, of the extra lancelet[geo]")
    path = str(space.root.parent / "geo.lance")
    xy = pa.struct([pa.field(name, pa.float64(), False) for name in "xy"])
    geometry = pa.field("p", xy, metadata={"ARROW:extension:name": "geoarrow.point"})
    points = pa.array([{"x": n % 20, "y": n // 20} for n in range(100)], xy)
    schema = pa.schema([pa.field("id", pa.int64()), geometry])
    lancelet.write_dataset(pa.table([range(100), points], schema), path, max_rows_per_file=50)
    sql(f"CREATE TABLE {{ns}}.geo USING lance LOCATION '{path}'")
    assert sql("ALTER TABLE {ns}.geo CREATE INDEX i USING rtree (p) WITH (page_size = 16)") == [(2, "i")]
    assert sql("SHOW INDEXES IN {ns}.geo")[0][:3] == ("i", ["p"], "rtree")
    near = "st_intersects(p, st_geomfromtext('POLYGON ((2 1, 2 3, 9 3, 9 1, 2 1))'))"
    expected = [n for n in range(100) if 2 <= n % 20 <= 9 and 1 <= n // 20 <= 3]
    assert lance.dataset(path).to_table(["id"], filter=near)["id"].to_pylist() == expected
    assert [row[0] for row in sql(f"SELECT id FROM {{ns}}.geo WITH ('filter' = \"{near}\")")] == expected


@pytest.mark.soak
@pytest.mark.parametrize(
    ("method", "column", "options"),
    [
        ("bitmap", "n", {}),
        ("bloomfilter", "id", {"number_of_items": "100", "probability": "0.01"}),
        ("ngram", "s", {}),
        ("label_list", "l", {}),
        ("inverted", "s", {"base_tokenizer": "simple", "language": "English"}),
        ("ivf_flat", "v", {"num_partitions": "2", "distance_type": "euclidean"}),
        ("ivf_pq", "v", {"numPartitions": "2", "numSubVectors": "4", "maxIters": "5", "sampleRate": "64", "distanceType": "cosine"}),
        ("ivf_sq", "v", {"num_partitions": "2", "num_bits": "8"}),
        ("ivf_rq", "v", {"num_partitions": "2"}),
        ("ivf_hnsw_pq", "v", {"num_partitions": "2", "num_sub_vectors": "4", "m": "8", "ef_construction": "50"}),
        ("ivf_hnsw_sq", "v", {"numPartitions": "2"}),
    ],
)  # fmt: skip
def test_every_method(sql, table, method, column, options):
    if column == "l":
        lancelet.dataset(table().uri).add_columns({"l": "make_array(n % 7, n % 5)"})
    said = ", ".join(f"{name} = '{value}'" for name, value in options.items())
    assert sql(f"ALTER TABLE {{ns}}.t CREATE INDEX i USING {method} ({column}) WITH ({said})") == [(2, "i")]
    (shown,) = sql("SHOW INDEXES IN {ns}.t")
    assert (*shown[:2], shown[2].replace("labellist", "label_list")) == ("i", [column], method)
    (index,) = table().describe_indices()
    assert (index.name, index.field_names) == ("i", [column])
    found = {
        "n": "n = 77",
        "id": "id = 77",
        "s": "s = 'word3 common'",
        "l": "array_has(l, 3)",
    }.get(column)
    if found is not None:
        plain = table().to_table(filter=found, columns=["id"], use_scalar_index=False)
        assert table().to_table(filter=found, columns=["id"]).sort_by("id") == plain.sort_by("id")
        assert sql(f"SELECT count(*) FROM {{ns}}.t WITH ('filter' = \"{found}\")") == [(plain.num_rows,)]
    else:
        query = table().take([5], ["v"])["v"][0].values.to_numpy()
        near = table().to_table(["id"], nearest={"column": "v", "q": query, "k": 5, "nprobes": 2, "refine_factor": 20})
        assert 5 in near["id"].to_pylist()
