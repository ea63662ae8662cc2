"""Runs into the table: in order, each once, beside other commits and other compactors; and what goes afterwards."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import UUID

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.editing.columns import alter
from lancelet.errors import CommitConflict, RetryableCommitConflict, WriterFenced
from lancelet.memwal.compaction import compact_runs, mark_compacted, pending_runs, progress_of
from lancelet.memwal.details import require_details
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import (
    KEY,
    OTHER,
    SCHEMA,
    SHARD,
    by_id,
    entries,
    keyed_table,
    manifests,
    open_writer,
    rows,
    runs,
    snapshot_of,
)

NOW = timedelta(0)


def progress(where: Path) -> dict[UUID, int]:
    return dict(require_details(open_snapshot(where)).compacted)


def texts(dataset: lancelet.LanceDataset) -> dict[int, str]:
    return {row["id"]: row["text"] for row in by_id(dataset.to_table())}


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """Two runs of a shard."""
    keyed_table(tmp_path / "t", [1, 2, 3], unsharded=True)
    with open_writer(tmp_path / "t") as writer:
        writer.put(rows([2, 5], "a "))
        writer.flush()
        writer.delete(pa.table({"id": [1, 9]}))
        writer.put(rows([5, 6], "b "))
    return tmp_path / "t"


AFTER = {2: "a 2", 3: "base 3", 5: "b 5", 6: "b 6"}


@pytest.mark.parametrize("at_once", [1 << 30, 1])
def test_runs_go_into_the_table_with_their_progress_in_the_same_commit(where: Path, at_once: int) -> None:
    table = lancelet.dataset(where).table
    before = table.snapshot.version
    done = compact_runs(table, batch_bytes=at_once)
    assert done.num_runs == 2
    assert done.snapshot.version == before + (1 if at_once > 1 else 2)
    assert texts(lancelet.dataset(where)) == AFTER
    assert progress(where) == {SHARD: 2}
    operation = lancelet.dataset(where).table.snapshot.manifest.transaction
    assert operation is not None
    assert [run.generation for run in operation.update.compacted_sstables] == [2]
    assert compact_runs(lancelet.dataset(where).table).num_runs == 0
    assert lancelet.dataset(where).version == done.snapshot.version
    assert by_id(lance.dataset(where).to_table()) == by_id(lancelet.dataset(where).to_table())


def test_what_we_and_pylance_make_of_a_run_is_the_same(tmp_path: Path) -> None:
    contents = []
    for library in (lance, lancelet):
        where = tmp_path / library.__name__
        dataset = keyed_table(where, [1, 2, 3], unsharded=True)
        with dataset.mem_wal_writer(str(SHARD)) as writer:
            writer.put(rows([2, 5], "new "))
        if library is lance:
            run = lance.dataset(runs(where)[0]).to_table().drop_columns(["_tombstone"])
            merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.mark_sstables_as_compacted([lance.CompactedSsTable(str(SHARD), 1)]).execute(run)
        else:
            assert lancelet.dataset(where).compact_mem_wal() == {
                "num_runs": 1, "num_inserted_rows": 1, "num_updated_rows": 1, "num_deleted_rows": 0
            }  # fmt: skip
        newest = open_snapshot(where)
        operation = newest.manifest.transaction
        assert operation is not None
        update = operation.update
        found = (
            by_id(lance.dataset(where).to_table()),
            progress(where),
            update.compacted_sstables,
            update.inserted_rows.SerializeToString() if update.HasField("inserted_rows") else b"",
            newest.version,
        )
        contents.append(found)
    assert contents[0] == contents[1]


def test_pylance_goes_on_after_our_compaction(where: Path) -> None:
    lancelet.dataset(where).compact_mem_wal()
    dataset = lance.dataset(where)
    found = lance.LsmScanner.from_snapshots(dataset, []).to_table()
    assert {row["id"]: row["text"] for row in by_id(found)} == AFTER
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows([2, 7], "c "))
    lancelet.dataset(where).compact_mem_wal()
    assert texts(lancelet.dataset(where)) == {**AFTER, 2: "c 2", 7: "c 7"}
    assert progress(where) == {SHARD: 3}
    assert snapshot_of(where) is not None


def test_other_commits_in_between_do_not_matter(where: Path) -> None:
    old = lancelet.dataset(where)
    lancelet.write_dataset(rows([20], "appended "), where, mode="append")
    lancelet.dataset(where).delete("id = 3")
    lancelet.dataset(where).update({"text": "'updated'"}, "id = 2")
    old.compact_mem_wal()
    assert texts(old) == {2: "a 2", 5: "b 5", 6: "b 6", 20: "appended 20"}
    assert old.version == lancelet.dataset(where).version


def test_two_compactors_do_everything_once(where: Path) -> None:
    first, second = lancelet.dataset(where), lancelet.dataset(where)
    assert second.compact_mem_wal()["num_runs"] == 2
    assert first.compact_mem_wal()["num_runs"] == 0
    assert texts(first) == AFTER


def test_progress_alone_is_a_commit_of_its_own(where: Path) -> None:
    snapshot = open_snapshot(where)
    done = mark_compacted(snapshot, SHARD, 2)
    assert progress(where) == {SHARD: 2}
    assert texts(lancelet.dataset(where)) == {1: "base 1", 2: "base 2", 3: "base 3"}
    assert pending_runs(done) == []
    with pytest.raises(CommitConflict, match="not newer"):
        mark_compacted(done, SHARD, 1)


def test_a_run_of_nothing_but_missing_keys_leaves_the_rows_alone(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1, 2])
    with open_writer(tmp_path) as writer:
        writer.delete(pa.table({"id": [8, 9]}))
    fragments = [f.fragment_id for f in lancelet.dataset(tmp_path).get_fragments()]
    dataset = lancelet.dataset(tmp_path)
    assert dataset.compact_mem_wal() == {
        "num_runs": 1, "num_inserted_rows": 0, "num_updated_rows": 0, "num_deleted_rows": 0
    }  # fmt: skip
    assert [f.fragment_id for f in dataset.get_fragments()] == fragments
    assert progress(tmp_path) == {SHARD: 1}


def test_rows_without_a_key_are_added(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset({"n": [1, 2]}, tmp_path)
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put({"n": [2]})
        writer.flush()
        writer.put({"n": [2, 3]})
    assert dataset.compact_mem_wal()["num_inserted_rows"] == 3
    assert sorted(dataset.to_table()["n"].to_pylist()) == [1, 2, 2, 2, 3]
    assert lance.dataset(tmp_path).count_rows() == 5
    assert dataset.lsm_scanner().count_rows() == 5


def test_rows_without_a_key_are_added_once_by_compactors_that_began_together(tmp_path: Path) -> None:
    """What the second one adds has a run that is in the table by then, and newer ones."""
    dataset = lancelet.write_dataset({"n": [1]}, tmp_path)
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put({"n": [2]})
        writer.flush()
        writer.put({"n": [3]})
    before = open_snapshot(tmp_path)
    both = pending_runs(before)
    commit(before, ops.Update(compacted_sstables=progress_of(both[:1])))
    with pytest.raises(RetryableCommitConflict):
        commit(before, ops.Update(compacted_sstables=progress_of(both)))
    with pytest.raises(CommitConflict):
        commit(before, ops.Update(compacted_sstables=progress_of(both[:1])))
    assert dataset.compact_mem_wal()["num_inserted_rows"] == 1


def test_columns_that_came_later_are_null_and_names_follow(where: Path) -> None:
    with_log = open_writer(where)
    with_log.put(rows([8], "c "))
    dataset = lancelet.dataset(where)
    dataset.add_columns(pa.field("more", pa.int64()))
    dataset.update({"more": "id * 2"})
    dataset.alter_columns({"path": "text", "name": "words"})
    after = {2: ("a 2", None), 3: ("base 3", 6), 5: ("b 5", None), 6: ("b 6", None)}

    def shown(table: pa.Table) -> dict[int, tuple[str, int | None]]:
        return {row["id"]: (row["words"], row["more"]) for row in by_id(table)}

    assert shown(dataset.lsm_scanner().to_table()) == after
    assert dataset.lsm_scanner().filter("words = 'b 5' and more is null").count_rows() == 1
    assert shown(dataset.lsm_scanner(strong=True).to_table()) == {**after, 8: ("c 8", None)}
    assert shown(dataset.lsm_scanner().take_keys(pa.array([5]))) == {5: ("b 5", None)}
    dataset.compact_mem_wal()
    assert shown(dataset.to_table()) == after


@pytest.mark.parametrize("change", ["type", "anew", "not null"])
def test_changes_by_others_after_which_rows_of_runs_have_no_value_are_told(
    where: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Libraries of before did not refuse them.
    monkeypatch.setattr(alter, "refuse_altered", lambda *_: None)
    dataset = lancelet.dataset(where)
    if change == "type":
        dataset.alter_columns({"path": "val", "data_type": pa.float32()})
    elif change == "anew":
        dataset.drop_columns(["val"])
        lance.dataset(where).add_columns(pa.field("val", pa.float64()))
    else:
        dataset.add_columns(pa.field("more", pa.int64()))
        dataset.update({"more": "id"})
        dataset.alter_columns({"path": "more", "nullable": False})
    dataset = lancelet.dataset(where)
    expected = "cannot be null" if change == "not null" else "'val' was given another type, or dropped and made anew"
    for act in (dataset.compact_mem_wal, dataset.lsm_scanner().to_table):
        with pytest.raises(OSError, match=expected):
            act()
    assert progress(where) == {}


def test_no_column_is_computed_that_rows_in_the_mem_wal_would_not_have(where: Path) -> None:
    computed = pa.record_batch({"more": [1, 2, 3]})
    for module in (lance, lancelet):
        for given in ({"more": "val + 1"}, pa.RecordBatchReader.from_batches(computed.schema, [computed])):
            with pytest.raises(OSError, match="cannot add a computed column"):
                module.dataset(where).add_columns(given)
    lancelet.dataset(where).add_columns({"more": "cast(null as bigint)"})


def test_a_key_that_the_table_has_twice_is_there_once_afterwards(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1, 2])
    lancelet.write_dataset(rows([2], "again "), tmp_path, mode="append")
    with open_writer(tmp_path) as writer:
        writer.put(rows([2], "new "))
    lancelet.dataset(tmp_path).compact_mem_wal()
    assert [(row["id"], row["text"]) for row in by_id(lancelet.dataset(tmp_path).to_table())] == [
        (1, "base 1"),
        (2, "new 2"),
    ]


def test_indices_find_rows_after_compaction(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(rows(list(range(50)), "base "), tmp_path)
    dataset.create_scalar_index("val", "BTREE")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put(rows(list(range(40, 60)), "new "))
    assert dataset.lsm_scanner().filter("val = 22").to_table()["text"].to_pylist() == ["new 44"]
    dataset.compact_mem_wal()
    dataset.optimize.optimize_indices()
    assert dataset.to_table(filter="val = 22")["text"].to_pylist() == ["new 44"]
    assert dataset.to_table(full_text_query="new").num_rows == 20


# What nobody needs any more


def test_runs_and_entries_go_when_they_are_in_the_table(where: Path) -> None:
    dataset = lancelet.dataset(where)
    assert dataset.cleanup_mem_wal(NOW) == {"num_runs": 0, "num_entries": 2, "num_leftovers": 0}
    dataset.compact_mem_wal()
    assert dataset.cleanup_mem_wal() == {"num_runs": 0, "num_entries": 0, "num_leftovers": 0}, (
        "readers may still be at them"
    )
    assert dataset.cleanup_mem_wal(NOW)["num_runs"] == 2
    assert runs(where) == []
    assert texts(lancelet.dataset(where)) == AFTER
    with open_writer(where) as writer:
        writer.put(rows([7], "c "))
    assert lancelet.dataset(where).lsm_scanner().count_rows() == 5
    with lance.dataset(where).mem_wal_writer(str(SHARD)) as theirs:
        theirs.put(rows([8], "d "))
    dataset.compact_mem_wal()
    assert texts(dataset) == {**AFTER, 7: "c 7", 8: "d 8"}


def test_a_writer_that_slept_through_a_cleanup_is_still_fenced(where: Path) -> None:
    sleeper = open_writer(where)
    sleeper.put(rows([7], "sleeper "))
    with open_writer(where) as writer:
        writer.put(rows([8], "writer "))
    dataset = lancelet.dataset(where)
    dataset.compact_mem_wal()
    dataset.cleanup_mem_wal(NOW)
    with pytest.raises(WriterFenced):
        sleeper.put(rows([9], "sleeper "))
    assert texts(dataset) == {**AFTER, 7: "sleeper 7", 8: "writer 8"}


def test_a_writer_goes_on_beside_a_cleanup(where: Path) -> None:
    writer = open_writer(where)
    writer.put(rows([7], "c "))
    dataset = lancelet.dataset(where)
    dataset.compact_mem_wal()
    dataset.cleanup_mem_wal(NOW)
    writer.put(rows([8], "d "))
    writer.close()
    assert {row["id"] for row in dataset.lsm_scanner().to_table().to_pylist()} == {2, 3, 5, 6, 7, 8}
    assert [run.generation for run in list(manifests(where).values())[-1].sstables] == [3]


def test_the_table_can_be_cleaned_up_and_compacted_beside_its_shards(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.optimize.compact_files()
    dataset.cleanup_old_versions(timedelta(0))
    dataset.compact_mem_wal()
    assert texts(dataset) == AFTER
    assert entries(where)


def test_shards_are_compacted_by_name(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1])
    for number, shard in enumerate((SHARD, OTHER), 5):
        with open_writer(tmp_path, shard) as writer:
            writer.put(rows([number], "new "))
    dataset = lancelet.dataset(tmp_path)
    dataset.compact_mem_wal([str(OTHER)])
    assert progress(tmp_path) == {OTHER: 1}
    dataset.compact_mem_wal()
    assert progress(tmp_path) == {OTHER: 1, SHARD: 1}
    assert sorted(texts(dataset)) == [1, 5, 6]


def test_a_table_of_an_older_schema_without_nulls(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False, KEY), *list(SCHEMA)[1:]])
    dataset = lancelet.write_dataset(rows([1], "base ", schema), tmp_path, data_storage_version="2.0")
    dataset.initialize_mem_wal()
    with open_writer(tmp_path) as writer:
        writer.put(rows([2], "new "))
    dataset.compact_mem_wal()
    assert texts(dataset) == {1: "base 1", 2: "new 2"}
