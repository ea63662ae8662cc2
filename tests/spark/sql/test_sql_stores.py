"""A catalog in an object store: tables by name, and by path with the options of the store."""

from __future__ import annotations

import lance

from spark.sql.conftest import add_catalog


def test_a_catalog_in_a_bucket(spark, sql, bucket):
    store = {f"storage.{name}": value for name, value in bucket.options.items()}
    lake = add_catalog(spark, f"{bucket.uri}/lake", **store)
    sql(f"CREATE NAMESPACE {lake}.db")
    vectors = "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')"
    sql(f"CREATE TABLE {lake}.db.t (id BIGINT NOT NULL, v ARRAY<FLOAT>) {vectors}")
    sql(f"INSERT INTO {lake}.db.t SELECT id, array(float(id), 0f) FROM range(6)")
    sql(f"UPDATE {lake}.db.t SET v = array(9f, 9f) WHERE id = 2")
    sql(f"DELETE FROM {lake}.db.t WHERE id = 3")
    sql(f"CREATE TABLE {lake}.db.copy AS SELECT * FROM {lake}.db.t VERSION AS OF 2")
    sql(f"OPTIMIZE {lake}.db.t WITH (materialize_deletions_threshold = 0)")
    assert sql(f"SELECT id FROM {lake}.db.t WHERE v[0] = 9 OR id > 3 ORDER BY id") == [(2,), (4,), (5,)]
    assert sql(f"SELECT count(*) FROM {lake}.db.copy") == [(6,)]
    (place,) = (row[1] for row in sql(f"DESCRIBE EXTENDED {lake}.db.t") if row[0] == "Location")
    theirs = lance.dataset(place, storage_options=bucket.options)
    assert sorted(theirs.to_table()["id"].to_pylist()) == [0, 1, 2, 4, 5]
    assert sql(f"SELECT id FROM VECTOR_SEARCH('{lake}.db.t', array(8, 8), 1)") == [(2,)]
    spark.read.format("lance").options(**store).load(place).createOrReplaceTempView("in_a_bucket")
    near = "APPROX NEAREST 1 BY DISTANCE vector_l2_distance(q.at, t.v)"
    for table in ("in_a_bucket", f"{lake}.db.t"):
        found = f"SELECT t.id FROM VALUES (array(4f, 0f)) AS q(at) JOIN {table} t {near}"
        assert "nearest(" in sql(f"EXPLAIN {found}")[0][0]
        assert sql(found) == [(4,)]
    sql(f"DROP TABLE {lake}.db.copy PURGE")
    assert [row[1] for row in sql(f"SHOW TABLES IN {lake}.db")] == ["t"]
