"""Names, states of shards and entries of the log: those of pylance are read, and ours are theirs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancelet.errors import CorruptFile, InvalidInput, MissingFile
from lancelet.memwal.names import bits, entry_path, manifest_path, number_of, run_generation, shard_of
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, SsTable, encode_manifest, list_shards
from lancelet.memwal.wal_entry import decode_entry, encode_entry, encode_sentinel, entry_schema
from lancelet.store import open_store
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import OTHER, SHARD, entries, keyed_table, manifests, rows


@given(st.integers(0, 2**64 - 1))
def test_names_give_their_numbers_back(number: int) -> None:
    assert number_of(f"{bits(number)}.arrow", ".arrow") == number


def test_other_names_have_no_number() -> None:
    assert bits(5) == "101" + "0" * 61
    for name in ("version_hint.json", "1.arrow", "2" * 64 + ".arrow", bits(1)):
        assert number_of(name, ".arrow") is None
    assert run_generation("372b93c9_gen_12") == 12
    assert run_generation("372b93c9_gen_x") is None
    with pytest.raises(InvalidInput, match="shard_id"):
        shard_of("x")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard with two writers of pylance, the first of whom was fenced."""
    where = tmp_path_factory.mktemp("written") / "t"
    dataset = keyed_table(where, [1, 2, 3])
    first = dataset.mem_wal_writer(str(SHARD))
    first.put(rows([2, 5], "first "))
    second = dataset.mem_wal_writer(str(SHARD))
    second.put(rows([6], "second "))
    second.delete(pa.table({"id": [1]}))
    with pytest.raises(OSError, match="epoch"):
        first.put(rows([7]))
    second.close()
    return where


def test_states_of_pylance_are_read_and_written_alike(written: Path) -> None:
    states = ShardStates.of(open_store(written), SHARD)
    assert list_shards(open_store(written)) == [SHARD]
    for version, message in manifests(written).items():
        read = states.read(version)
        assert encode_manifest(read) == message.SerializeToString()
        assert (read.shard, read.version, read.epoch) == (SHARD, version, message.writer_epoch)
    latest = states.latest()
    assert latest is not None
    assert latest.version == max(manifests(written))
    assert [run.generation for run in latest.sstables] == [1]
    assert latest.sstables[0].physical_rows == 4


def test_entries_of_pylance_are_read_and_written_alike(written: Path) -> None:
    schema = entry_schema(open_snapshot(written).manifest.schema)
    folder = open_store(written).child(f"_mem_wal/{SHARD}")
    kinds = []
    for position, content in entries(written).items():
        entry = decode_entry(folder.read_all(entry_path(position)), position, "")
        kinds.append((entry.position, entry.epoch, entry.is_sentinel))
        if entry.is_sentinel:
            ours = pa.ipc.open_stream(encode_sentinel(entry.epoch)).schema
            assert ours.equals(content.schema, check_metadata=True)
        else:
            again = decode_entry(encode_entry(schema, entry.batches, entry.epoch, 1), position, "")
            found = pa.Table.from_batches(again.batches)
            assert found.equals(content.replace_schema_metadata(found.schema.metadata))
            assert found.schema.equals(content.schema, check_metadata=True)
    assert kinds == [(1, 1, False), (2, 2, True), (3, 2, False), (4, 2, False)]


def test_the_newest_state_is_found_with_any_hint(tmp_path: Path) -> None:
    states = ShardStates.of(open_store(tmp_path), SHARD)
    assert states.latest() is None
    for version in range(1, 6):
        assert states.write(ShardManifest(SHARD, version, epoch=version))
    hint = tmp_path / "_mem_wal" / str(SHARD) / "manifest" / "version_hint.json"
    assert json.loads(hint.read_bytes()) == {"version": 5}
    for text in ('{"version":2}', '{"version":9}', "nonsense", '{"version":null}', '{"v":1}'):
        hint.write_text(text)
        assert states.latest() == ShardManifest(SHARD, 5, epoch=5), text
    hint.unlink()
    assert states.latest() == ShardManifest(SHARD, 5, epoch=5)


def test_a_state_is_written_once(tmp_path: Path) -> None:
    states = ShardStates.of(open_store(tmp_path), SHARD)
    assert states.write(ShardManifest(SHARD, 1, epoch=1))
    assert not states.write(ShardManifest(SHARD, 1, epoch=2))
    assert states.write(ShardManifest(SHARD, 1, epoch=1)), "the same again is what a repeated request is"
    changed = states.update(lambda newest: replace(newest, sealed=True))
    assert (changed.version, changed.sealed, changed.epoch) == (2, True, 1)


def test_states_that_cannot_be_are_refused(tmp_path: Path) -> None:
    states = ShardStates.of(open_store(tmp_path), SHARD)
    with pytest.raises(MissingFile):
        states.read(1)
    states.store.put(manifest_path(1), encode_manifest(ShardManifest(SHARD, 2)))
    with pytest.raises(CorruptFile, match="its name says 1"):
        states.read(1)
    states.store.put(manifest_path(1), encode_manifest(ShardManifest(OTHER, 1)))
    with pytest.raises(CorruptFile, match="lies in the folder of"):
        states.read(1)
    states.store.put(manifest_path(1), encode_manifest(ShardManifest(SHARD, 1, sstables=(SsTable(1, "../up"),))))
    with pytest.raises(CorruptFile, match="no folder"):
        states.read(1)
    states.store.put(manifest_path(1), b"\xff\xff")
    with pytest.raises(CorruptFile, match="shard manifest"):
        states.read(1)
    with pytest.raises(InvalidInput, match="order of their generations"):
        ShardManifest(SHARD, 1, sstables=(SsTable(2, "a"), SsTable(1, "b")))


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "other"])
def test_a_damaged_entry_says_which_it_is_and_what_to_do(written: Path, damage: str) -> None:
    data = open_store(written).read_all(f"_mem_wal/{SHARD}/{entry_path(1)}")
    wrong = {
        "cut": data[: len(data) // 2],
        "empty": b"",
        "flipped": data[:8] + bytes(byte ^ 0xFF for byte in data[8:200]) + data[200:],
        "other": b"not a stream of batches at all",
    }[damage]
    with pytest.raises(CorruptFile, match=r"entry 1 of the log .* rows of this entry are lost .* Put the copy back"):
        decode_entry(wrong, 1, "place")
