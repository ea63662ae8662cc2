"""Blobs in SQL: where they are, how long, and their bytes, beside pylance."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet

BLOBS = [None, b"", b"one", b"two" * 5000, b"three"]


@pytest.fixture(params=["2.0", "2.2"])
def table(request: pytest.FixtureRequest, sql, tmp_path) -> Any:
    place = str(tmp_path / "blobs.lance")
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("id", pa.int64()), blob, ("s", pa.struct([("x", pa.int64()), ("y", pa.string())]))])
    values = {"id": range(10), "b": BLOBS * 2, "s": [{"x": n, "y": "t"} for n in range(10)]}
    lance.write_dataset(pa.table(values, schema), place, data_storage_version=request.param, max_rows_per_file=6)
    sql(f"CREATE TABLE {{ns}}.t USING lance LOCATION '{place}'")
    return lance.dataset(place)


def test_blobs_have_a_place_a_size_and_bytes(sql, table):
    described = table.to_table(["id", "b"]).to_pylist()
    expected = [
        (row["id"], None if row["b"] is None else row["b"]["position"], None if row["b"] is None else row["b"]["size"])
        for row in described
    ]
    assert sql("SELECT id, b__blob_pos, b__blob_size FROM {ns}.t ORDER BY id") == expected
    found = sql("SELECT id, lance_blob(b) FROM {ns}.t ORDER BY id")
    assert [row[1] if row[1] is None else bytes(row[1]) for row in found] == [
        row["b"] for row in lancelet.dataset(table.uri).to_table(["b"], blob_handling="all_binary").to_pylist()
    ]
    assert sql("SELECT bytes.id, length(lance_blob(bytes.b)) FROM {ns}.t bytes WHERE id IN (3, 4) ORDER BY id") == [
        (3, 15000),
        (4, 5),
    ]
    assert sql("SELECT s.x, b__blob_size, _fragid FROM {ns}.t WHERE lance_blob(b) = X'6F6E65' AND id < 5") == [
        (2, 3, 0)
    ]
    assert sql("SELECT count(lance_blob(b)) FROM {ns}.t WHERE id >= 6") == [
        (sum(b is not None for b in (BLOBS * 2)[6:]),)
    ]
    assert len(sql("SELECT * FROM {ns}.t LIMIT 1")[0]) == 3
    assert sql("SELECT * FROM {ns}.t ORDER BY b__blob_size DESC LIMIT 1")[0][0] in (3, 8)


def test_mistakes_with_blobs(sql, refused, table):
    for call in ("lance_blob(id)", "lance_blob('b')", "lance_blob(b, b)"):
        assert "takes a column of blobs" in str(refused(f"SELECT {call} FROM {{ns}}.t"))
