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
