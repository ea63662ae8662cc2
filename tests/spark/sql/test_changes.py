"""What versions did to rows: CHANGES FROM and table_changes, checked with the versions as pylance reads them."""

from __future__ import annotations

from collections import Counter

import lance
import pytest

GONE, COME = ("delete", "update_preimage"), ("insert", "update_postimage")


def counted(rows) -> Counter:
    return Counter(map(repr, rows))


def version_rows(place: str, version: int) -> Counter:
    """The rows of a version, as pylance reads them; version 0 has none."""
    if version == 0:
        return Counter()
    return counted(tuple(row.values()) for row in lance.dataset(place, version=version).to_table().to_pylist())


def apply(before: Counter, changes) -> Counter:
    """Rows after changes: what is gone was there, what has come is there now."""
    gone = counted(row[:-1] for row in changes if row[-1] in GONE)
    assert gone <= before
    return before - gone + counted(row[:-1] for row in changes if row[-1] in COME)


@pytest.fixture(params=[True, False], ids=["stable", "addresses"])
def table(request, sql, space):
    """A table with all sorts of versions, whose columns stay the same."""
    stable = str(request.param).lower()
    sql(
        "CREATE TABLE {ns}.t (id BIGINT, s STRING, v ARRAY<INT>, p STRUCT<a: INT>) "
        f"TBLPROPERTIES ('enable_stable_row_ids' = '{stable}')"
    )
    values = "concat('s', id), array(CAST(id AS INT), NULL), IF(id = 3, NULL, named_struct('a', CAST(id AS INT)))"
    sql(f"INSERT INTO {{ns}}.t SELECT /*+ COALESCE(1) */ id, {values} FROM range(8)")
    sql(f"INSERT INTO {{ns}}.t SELECT id, {values} FROM range(8, 12)")
    sql("DELETE FROM {ns}.t WHERE id IN (1, 9)")
    sql("UPDATE {ns}.t SET s = NULL WHERE id > 5")
    sql(
        "MERGE INTO {ns}.t USING (SELECT id, 'm' AS s FROM range(3, 14)) c ON t.id = c.id WHEN MATCHED AND t.id < 5 THEN DELETE "
        "WHEN MATCHED AND t.id < 8 THEN UPDATE SET s = c.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (c.id, c.s)"
    )
    sql("OPTIMIZE {ns}.t")
    sql("DELETE FROM {ns}.t WHERE id = 13")
    sql("RESTORE TABLE {ns}.t TO VERSION AS OF 3")
    sql("INSERT OVERWRITE {ns}.t SELECT id, 'o', NULL, NULL FROM range(2)")
    sql("ALTER TABLE {ns}.t SET TBLPROPERTIES ('k' = 'v')")
    return request.param


def test_changes_lead_from_version_to_version(sql, refused, space, table):
    place = space.location("t")
    newest = lance.dataset(place).version
    found = sql(
        "SELECT id, s, v, p, _change_type, _commit_version, _commit_timestamp FROM {ns}.t CHANGES FROM VERSION 1"
    )
    times = {version["version"]: version["timestamp"] for version in lance.dataset(place).versions()}
    rows = [(row[0], row[1], row[2], None if row[3] is None else row[3].asDict(), row[4], row[5]) for row in found]
    for version in range(1, newest + 1):
        made = [row[:-1] for row in rows if row[-1] == version]
        assert apply(version_rows(place, version - 1), made) == version_rows(place, version), version
    assert {row[5]: row[6] for row in found} == {v: t for v, t in times.items() if v in {row[5] for row in found}}
    kinds = {row[4] for row in rows}
    assert kinds == set(GONE) | set(COME) if table else kinds == {"insert", "delete"}
    # What is left of it all.
    net = "{ns}.t CHANGES FROM VERSION 3 EXCLUSIVE TO VERSION 6 WITH (deduplicationMode = 'netChanges')"
    if not table:
        assert "no stable row ids" in str(refused(f"SELECT * FROM {net}"))
        updates = "SELECT * FROM {ns}.t CHANGES FROM VERSION 1 WITH (computeUpdates = 'true')"
        assert "no stable row ids" in str(refused(updates))
        return
    left = sql(f"SELECT id, s, v, p, _change_type FROM {net}")
    plain = [(*row[:3], None if row[3] is None else row[3].asDict(), row[4]) for row in left]
    assert apply(version_rows(place, 3), plain) == version_rows(place, 6)
    assert len(left) == len({(row[0], row[-1]) for row in left})


def test_ranges_of_changes(spark, sql, refused, space):
    sql("CREATE TABLE {ns}.t TBLPROPERTIES ('enable_stable_row_ids' = 'true') AS SELECT 1L AS id, 'a' AS s")
    sql("INSERT INTO {ns}.t VALUES (2, 'b')")
    sql("ALTER TABLE {ns}.t RENAME COLUMN s TO name")
    sql("ALTER TABLE {ns}.t ADD COLUMN more INT")
    sql("DELETE FROM {ns}.t WHERE id = 1")
    insert, delete = ("insert",), ("delete",)

    def changed(text):
        return [row[0] for row in sql(f"SELECT _change_type FROM {text} ORDER BY _commit_version, id")]

    assert changed("{ns}.t CHANGES FROM VERSION 1") == ["insert", "insert", "delete"]
    assert changed("{ns}.t CHANGES FROM VERSION 1 EXCLUSIVE TO VERSION 5 EXCLUSIVE") == ["insert"]
    assert changed("{ns}.t CHANGES FROM VERSION 5 EXCLUSIVE") == []
    assert changed("{ns}.t CHANGES FROM TIMESTAMP '2020-01-01' TO TIMESTAMP '2100-01-01'") == [*insert * 2, *delete]
    assert changed(f"table_changes('{space}.t', current_timestamp())") == []
    moment = space.pylance("t").versions()[1]["timestamp"]
    assert changed(f"table_changes('{space}.t', '{moment}')") == ["insert", "delete"]
    assert changed(f"table_changes('{space}.t', 2, 2)") == ["insert"]
    # Columns are those of the last version; older rows are in them by what the columns were called then.
    assert sql("SELECT id, name, more FROM {ns}.t CHANGES FROM VERSION 5") == [(1, "a", None)]
    assert sql("SELECT * EXCEPT (_commit_timestamp) FROM {ns}.t CHANGES FROM VERSION 1 TO VERSION 1") == [
        (1, "a", "insert", 1)
    ]
    assert sql("SELECT count(*) FROM {ns}.t CHANGES FROM VERSION 1 WHERE id = 1") == [(2,)]
    assert spark.read.option("startingVersion", 5).changes(f"{space}.t").count() == 1
    assert "was never written" in str(refused("SELECT * FROM {ns}.t CHANGES FROM VERSION 1 TO VERSION 9"))
    assert "from an older version" in str(refused("SELECT * FROM {ns}.t CHANGES FROM VERSION 4 TO VERSION 2"))
    missing = refused("SELECT * FROM {ns}.nope CHANGES FROM VERSION 1")
    assert missing.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert "the name of a table" in str(refused(f"SELECT * FROM table_changes('{space}.t')"))
    sql("ALTER TABLE {ns}.t ALTER COLUMN more TYPE BIGINT")
    assert "another type" in str(refused("SELECT more FROM {ns}.t CHANGES FROM VERSION 5"))
    assert changed("{ns}.t CHANGES FROM VERSION 5") == ["delete"]
