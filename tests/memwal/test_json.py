"""JSON through logs and runs, which have it as files do. pylance takes it only like that, and shows it so until it is compacted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.encoding.jsonb import encode_jsonb
from lancelet.errors import NotSupported, UnfitData
from memwal.samples import KEY, OTHER, SHARD, entries, open_writer, runs, snapshot_of

ID = pa.field("id", pa.int64(), nullable=False, metadata=KEY)
SCHEMA = pa.schema([ID, pa.field("j", pa.json_())])
STORED = {"ARROW:extension:name": "lance.json", "ARROW:extension:metadata": ""}
TEXTS = ['{"a":[1,2.5,null]}', None, '"text"', '{"deep":{"er":true}}']


def rows(first: int, texts: list[str | None] = TEXTS) -> pa.Table:
    return pa.table({"id": range(first, first + len(texts)), "j": pa.array(texts, pa.json_())}, SCHEMA)


def stored(first: int) -> pa.RecordBatch:
    """The same as pylance's writers take them."""
    schema = pa.schema([ID, pa.field("j", pa.large_binary(), metadata=STORED)])
    return pa.record_batch([pa.array(range(first, first + len(TEXTS))), encode_jsonb(pa.array(TEXTS))], schema=schema)


def values(table: pa.Table) -> dict[int, Any]:
    pairs = zip(table["id"].to_pylist(), table["j"].to_pylist(), strict=True)
    return {number: None if text is None else json.loads(text) for number, text in pairs}


@pytest.fixture
def where(tmp_path: Path) -> Path:
    lance.write_dataset(rows(0), tmp_path / "t").initialize_mem_wal(unsharded=True)
    return tmp_path / "t"


EXPECTED = {number: values(rows(0))[number % 4] for number in range(10)}


def test_json_is_read_at_every_stage(where: Path) -> None:
    dataset = lancelet.dataset(where)
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows(4))
        writer.put(pa.RecordBatchReader.from_batches(stored(0).schema, [stored(8).slice(0, 2)]))
        assert values(writer.lsm_scanner().to_table()) == EXPECTED
        assert values(dataset.lsm_scanner(strong=True).to_table()) == EXPECTED
        assert dataset.lsm_scanner(strong=True).filter("json_exists(j, '$.deep')").count_rows() == 2
        writer.delete({"id": [9]})
    left = {number: value for number, value in EXPECTED.items() if number != 9}
    assert values(dataset.lsm_scanner().to_table()) == left
    assert values(dataset.lsm_scanner().take_keys(pa.array([6, 9]))) == {6: "text"}
    dataset.compact_mem_wal()
    assert values(dataset.to_table()) == left
    assert values(lance.dataset(where).to_table()) == left


def test_logs_and_runs_are_those_of_pylance(where: Path) -> None:
    with lance.dataset(where).mem_wal_writer(str(OTHER)) as theirs:
        theirs.put(stored(2))
    with open_writer(where, SHARD) as ours:
        ours.put(rows(2))
    (mine,), (its,) = entries(where, SHARD).values(), entries(where, OTHER).values()
    assert mine.schema.equals(its.schema, check_metadata=True)
    assert mine == its
    (our_run,), (their_run,) = runs(where, SHARD), runs(where, OTHER)
    assert lance.dataset(our_run).lance_schema == lance.dataset(their_run).lance_schema
    assert lance.dataset(our_run).to_table() == lance.dataset(their_run).to_table()
    scans = [
        lance.LsmScanner.from_snapshots(lance.dataset(where), [snapshot_of(where, shard)]).to_table().sort_by("id")
        for shard in (SHARD, OTHER)
    ]
    assert scans[0] == scans[1]


def test_we_read_and_compact_what_pylance_wrote_and_pylance_what_we_wrote(where: Path) -> None:
    with lance.dataset(where).mem_wal_writer(str(SHARD)) as theirs:
        theirs.put(stored(4))
    dataset = lancelet.dataset(where)
    whole = {number: EXPECTED[number % 4] for number in range(8)}
    assert values(dataset.lsm_scanner().to_table()) == whole
    dataset.compact_mem_wal()
    assert values(lance.dataset(where).to_table()) == whole
    with open_writer(where) as ours:
        ours.put(rows(8))
    (run,) = [run for run in runs(where) if run.name.endswith("_gen_2")]
    merge = lance.dataset(where).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge = merge.mark_sstables_as_compacted([lance.CompactedSsTable(str(SHARD), 2)])
    merge.execute(lance.dataset(run).to_table(columns=["id", "j"]))
    whole |= {number: EXPECTED[number % 4] for number in range(8, 12)}
    assert values(dataset.lsm_scanner().to_table()) == whole


def test_what_is_no_json_leaves_no_trace(where: Path) -> None:
    with open_writer(where) as writer:
        with pytest.raises(UnfitData, match="value 1 is not JSON"):
            writer.put(rows(4, ["{}", "{"]))
        damaged = stored(4).set_column(1, stored(4).schema.field(1), pa.array([b"no"] * 4, pa.large_binary()))
        with pytest.raises(UnfitData, match="column 'j' is not JSON as it is stored"):
            writer.put(damaged)
    assert entries(where) == {}


def test_json_inside_of_columns(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("j", pa.json_()), pa.field("n", pa.int64())])
    schema = pa.schema([ID, pa.field("s", inner)])

    def nested(numbers: list[int]) -> pa.Table:
        texts = pa.array([f'{{"n":{number}}}' for number in numbers], pa.json_())
        mask = pa.array([number % 3 == 0 for number in numbers])
        parts = pa.StructArray.from_arrays([texts, pa.array(numbers)], fields=list(inner), mask=mask)
        return pa.table([pa.array(numbers), parts], schema)

    dataset = lancelet.write_dataset(nested([1, 2]), tmp_path / "structs")
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put(nested([2, 3, 4]))
        assert dataset.lsm_scanner(strong=True).to_table().sort_by("id") == dataset_of(nested([1, 2, 3, 4]), tmp_path)
    dataset.compact_mem_wal()
    assert dataset.to_table().sort_by("id") == dataset_of(nested([1, 2, 3, 4]), tmp_path)
    texts = pa.array(["{}"], pa.json_())
    lists = pa.table({"l": pa.ListArray.from_arrays([0, 1], texts)})
    dataset = lancelet.write_dataset(lists, tmp_path / "lists")
    dataset.initialize_mem_wal(unsharded=True)
    with pytest.raises(NotSupported, match="column 'l' of .* holds blobs, or JSON in lists or maps"):
        dataset.writer()


def dataset_of(table: pa.Table, folder: Path) -> pa.Table:
    """The rows as a table shows them."""
    return lancelet.write_dataset(table, folder / "whole", mode="overwrite").to_table()


def test_an_index_of_json_finds_rows_of_all_levels(where: Path) -> None:
    dataset = lancelet.dataset(where)
    dataset.create_scalar_index("j", "INVERTED", name="by_text")
    with dataset.writer() as writer:
        writer.put(rows(4))
        found = dataset.lsm_scanner(strong=True).full_text_search("deep.er,bool,true", ["j"]).to_table()
        assert sorted(found["id"].to_pylist()) == [3, 7]
    found = dataset.lsm_scanner().full_text_search("deep.er,bool,true", ["j"]).to_table()
    assert sorted(found["id"].to_pylist()) == [3, 7]
