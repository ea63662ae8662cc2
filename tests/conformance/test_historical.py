"""Tables written by releases of years past, where their folder is at hand.

What each holds is written down beside the tables; it is what today's pylance
reads, and pylance is asked again here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from conformance.agree import agree
from lancelet.format.proto import table_pb2
from lancelet.testing import assert_identical

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures" / "historical"

pytestmark = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason="the historical tables (../shared/fixtures/historical) are not on this machine"
)


@dataclass(frozen=True, slots=True)
class Old:
    """A historical table and what must be read from it."""

    path: str
    version: int
    rows: int
    columns: tuple[str, ...]
    fragments: int


TABLES = (
    Old("v0.7.5/with_deletions", 2, 90, ("x",), 1),
    Old("v0.8.0/migrated_from_v0.7.5", 3, 92, ("x",), 2),
    Old("v0.10.5/corrupt_schema", 6, 4, ("x", "y", "b", "c"), 2),
    Old("v0.13.0/string_encoding.lance", 1, 3, ("numbers", "strings", "bins", "more_numbers"), 1),
    Old("v0.15.0/v1_with_files.lance", 1, 3, ("x",), 1),
    Old("v0.15.0/v2_with_files.lance", 1, 3, ("x",), 1),
    Old("v0.16.0/wrong_data_version_can_fix.lance", 2, 3, ("foo",), 3),
    Old("v0.16.0/wrong_data_version_no_fix.lance", 2, 4, ("foo",), 4),
    Old("v0.20.0/old_btree_bitmap_indices.lance", 3, 4, ("bitmap", "btree"), 1),
)
REUSED_IDS = "v0.10.5/corrupt_schema"


@pytest.mark.parametrize("old", TABLES, ids=lambda old: old.path)
def test_reads_as_written_down(tmp_path: Path, old: Old) -> None:
    where = tmp_path / "t"
    shutil.copytree(FIXTURES / old.path, where, copy_function=shutil.copyfile)
    if old.path == REUSED_IDS:
        # Until a commit mends the table, pylance shows columns that are gone under the names of others.
        lance.dataset(where).update_config({"mended": "yes"})
        old = replace(old, version=old.version + 1)
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    assert ours.version == theirs.version == old.version
    assert ours.count_rows() == old.rows
    assert tuple(ours.schema.names) == old.columns
    assert len(ours.get_fragments()) == old.fragments
    agree(ours, theirs, lambda ds: ds.to_table())
    agree(ours, theirs, lambda ds: ds.to_table(with_row_id=True, with_row_address=True))
    # Not asked of pylance: its takes lose a row of the table whose fragment ids repeat.
    backwards = list(range(old.rows))[::-1]
    assert_identical(ours.take(backwards), theirs.to_table().take(backwards))
    for column in old.columns:
        whole = theirs.to_table([column])
        kept = whole.filter(whole[column].is_valid())
        assert_identical(ours.to_table([column], filter=f"{column} is not null"), kept)


@pytest.mark.parametrize("old", TABLES, ids=lambda old: old.path)
def test_every_older_version_reads(tmp_path: Path, old: Old) -> None:
    where = tmp_path / "t"
    shutil.copytree(FIXTURES / old.path, where, copy_function=shutil.copyfile)
    for number in range(1, old.version):
        theirs = _readable(where, number)
        if theirs is not None:
            assert lancelet.dataset(where, version=number).to_table().equals(theirs)


def _readable(where: Path, version: int) -> pa.Table | None:
    """What pylance reads, or None where files of that version are gone."""
    try:
        return lance.dataset(where, version=version).to_table()
    except (ValueError, OSError):
        return None


def test_old_indices_are_listed() -> None:
    ours = lancelet.dataset(FIXTURES / "v0.20.0" / "old_btree_bitmap_indices.lance")
    assert sorted(index.name for index in ours.describe_indices()) == ["bitmap_idx", "btree_idx"]


def copied(tmp_path: Path, path: str) -> Path:
    where = tmp_path / "t"
    shutil.copytree(FIXTURES / path, where, copy_function=shutil.copyfile)
    return where


def test_ids_given_twice_are_read_as_they_are_once_mended(tmp_path: Path) -> None:
    where = copied(tmp_path, REUSED_IDS)
    before = lancelet.dataset(where).to_table()
    assert before["b"].to_pylist() == [0, 4, 8, 12]
    report = lancelet.dataset(where).verify()
    assert not report.ok
    assert "the id 2" in str(report)
    lance.dataset(where).delete("false")
    dataset = lancelet.dataset(where)
    assert_identical(dataset.to_table(), before)
    assert_identical(lance.dataset(where).to_table(), before)
    assert dataset.verify(deep=True).ok


CHANGES = {
    "delete": lambda dataset: dataset.delete(f"{dataset.schema.names[0]} < 2"),
    "delete all": lambda dataset: dataset.delete("true"),
    "nothing deleted": lambda dataset: dataset.delete("false"),
    "config": lambda dataset: dataset.update_config({"a": "b"}),
    "index": lambda dataset: dataset.create_scalar_index(dataset.schema.names[0], "BTREE"),
    "rename": lambda dataset: dataset.alter_columns({"path": dataset.schema.names[0], "name": "other"}),
    "restore": lambda dataset: dataset.restore(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("old", [old for old in TABLES if "no_fix" not in old.path], ids=lambda old: old.path)
def test_changes_count_and_record_what_was_missing(tmp_path: Path, old: Old, change: str) -> None:
    """Both leave the same rows, counts and sizes behind."""
    manifests, tables = [], []
    for library in (lancelet, lance):
        where = copied(tmp_path / library.__name__, old.path)
        if old.path.startswith("v0.16.0/wrong_data_version_can_fix") and library is lance:
            library.dataset(where).update_config({"mended": "yes"})
        if old.path == REUSED_IDS and library is lance:
            library.dataset(where).update_config({"mended": "yes"})
        CHANGES[change](library.dataset(where))
        tables.append(lance.dataset(where).to_table())
        assert_identical(lancelet.dataset(where).to_table(), tables[-1])
        message = lancelet.dataset(where).table.snapshot.manifest.message
        manifests.append([_facts(record) for record in message.fragments])
        assert lancelet.dataset(where).count_rows() == lance.dataset(where).count_rows()
    assert_identical(tables[0], tables[1])
    assert manifests[0] == manifests[1]


def _facts(record: table_pb2.DataFragment) -> tuple[object, ...]:
    files = [(tuple(f.fields), f.file_size_bytes, f.file_major_version, f.file_minor_version) for f in record.files]
    return record.id, record.physical_rows, record.deletion_file.num_deleted_rows, files


@pytest.mark.parametrize("old", TABLES, ids=lambda old: old.path)
def test_repair_records_what_was_missing(tmp_path: Path, old: Old) -> None:
    where = copied(tmp_path, old.path)
    before = lancelet.dataset(where).to_table()
    if "no_fix" in old.path:
        assert "side by side" in str(lancelet.dataset(where).verify())
        return
    lancelet.dataset(where).repair(dry_run=False)
    assert_identical(lancelet.dataset(where).to_table(), before)
    assert_identical(lance.dataset(where).to_table(), before)
    report = lancelet.dataset(where).verify(deep=True)
    assert {finding.kind for finding in report.findings} <= {"orphan file", "transaction", "missing file"}


def test_a_table_said_to_be_older_than_its_files_takes_rows(tmp_path: Path) -> None:
    where = copied(tmp_path, "v0.16.0/wrong_data_version_can_fix.lance")
    dataset = lancelet.dataset(where)
    assert "file version 0.1" in str(dataset.verify())
    before = dataset.to_table()
    done = lancelet.write_dataset(before, where, mode="append")
    assert done.data_storage_version == lance.dataset(where).data_storage_version == "2.0"
    assert_identical(lance.dataset(where).to_table(), pa.concat_tables([before, before]).combine_chunks())


@pytest.mark.parametrize(
    "write",
    [
        lambda dataset, rows: lancelet.write_dataset(rows, dataset.uri, mode="append"),
        lambda dataset, rows: dataset.update({"foo": "foo + 1"}),
        lambda dataset, rows: dataset.merge_insert("foo").when_not_matched_insert_all().execute(rows),
        lambda dataset, rows: dataset.add_columns({"bar": "foo"}),
        lambda dataset, rows: dataset.optimize.compact_files(),
        lambda dataset, rows: dataset.delete("foo = 1"),
        lambda dataset, rows: dataset.update_config({"a": "b"}),
        lambda dataset, rows: dataset.restore(),
    ],
)
def test_mixed_file_versions_are_refused_with_the_way_out(tmp_path: Path, write: Callable[..., object]) -> None:
    where = copied(tmp_path, "v0.16.0/wrong_data_version_no_fix.lance")
    dataset = lancelet.dataset(where)
    before, files = dataset.to_table(), sorted((where / "data").iterdir())
    with pytest.raises(lancelet.errors.NotSupported, match=r"side by side.*mode='overwrite'"):
        write(dataset, pa.table({"foo": [50]}))
    assert sorted((where / "data").iterdir()) == files
    lancelet.write_dataset(before, where, mode="overwrite", data_storage_version="2.2")
    assert_identical(lance.dataset(where).to_table(), before)
    lancelet.write_dataset(before, where, mode="append")
    assert lancelet.dataset(where).verify().ok
