"""Damaged and lying files of text indices: an error of lancelet's own, or some answer; never a crash or a foreign error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import lancelet
from drawing import SEED, examples
from faults.damage import foreign_errors
from lancelet.errors import CorruptFile, LanceletError, NotSupported
from lancelet.index.folder import IndexFolder
from lancelet.index.kind import Source
from lancelet.index.metadata import read_indices
from lancelet.index.text.fst_writer import FstWriter
from lancelet.index.text.segment import TextSegment
from text.corpus import PLAIN, documents

FORMS: dict[str, dict[str, Any]] = {
    "format 1": {"format_version": 1},
    "format 2": {},
    "blocks of 256": {"block_size": 256},
}
TEXTS = documents(160, words=20, longest=12)


def open_segment(uri: str) -> TextSegment:
    snapshot = lancelet.dataset(uri)._snapshot
    (entry,) = read_indices(snapshot.manifest)
    return TextSegment(IndexFolder(snapshot, entry), pa.string())


def read(uri: str) -> None:
    """All that is done with a segment."""
    segment = open_segment(uri)
    for part in segment.partitions:
        documents = part.documents
        for token in (b"w1", b"r7", b"none"):
            number = part.tokens.find(token)
            if number is not None:
                (one,) = part.postings([number], True)
                docs, freqs = one.decode(len(documents))
                assert (docs < len(documents)).all()
                if part.has_positions and int(freqs.sum()) < 1 << 20:
                    one.decode_positions(freqs)
        part.tokens.near(b"w11", 1, 0, 20)
    for hashes, rows in segment.entries(Source(segment)):
        assert len(hashes) == len(rows)
    assert segment.statistics()["num_docs"] >= 0


def build(uri: str, **options: Any) -> lancelet.LanceDataset:
    dataset = lancelet.write_dataset({"text": TEXTS}, uri)
    dataset.create_scalar_index("text", "INVERTED", with_position=True, **PLAIN, **options)
    return dataset


def findings(tmp_path: Path, form: str, count: int, seed: int) -> list[str]:
    uri = str(tmp_path / form)
    build(uri, **FORMS[form])
    return foreign_errors(sorted((tmp_path / form / "_indices").rglob("*.lance")), count, seed, lambda: read(uri))


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files(tmp_path: Path, form: str) -> None:
    assert not findings(tmp_path, form, 16, 1)


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMS)
def test_thousands_of_damages(tmp_path: Path, form: str) -> None:
    assert not findings(tmp_path, form, examples(300), 1000 + SEED)


# Files that are well formed, and lie


def rewrite(uri: str, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Put a changed file in the place of one, with an entry that has its size."""
    (victim,) = (Path(uri) / "_indices").rglob(name)

    table = change(LanceFileReader(str(victim)).read_all().to_table())
    victim.unlink()
    with LanceFileWriter(str(victim), table.schema) as writer:
        writer.write_batch(table)


def _fst(items: dict[bytes, int]) -> bytes:
    writer = FstWriter()
    for token in sorted(items):
        writer.add(token, items[token])
    return writer.finish()


def _set(column: str, values: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(column)
        array = pa.array(values(table[column].to_pylist()), table.schema.field(at).type)
        return table.set_column(at, table.schema.field(at), array).replace_schema_metadata(table.schema.metadata)

    return change


def _say(key: str, value: str | None) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        said = dict(table.schema.metadata)
        said.pop(key.encode(), None)
        if value is not None:
            said[key.encode()] = value.encode()
        return table.replace_schema_metadata(said)

    return change


LIES: dict[str, tuple[str, Callable[[pa.Table], pa.Table], type[Exception]]] = {
    "no parameters": ("metadata.lance", _say("params", None), CorruptFile),
    "parameters that are none": ("metadata.lance", _say("params", "[1]"), CorruptFile),
    "an unknown tokenizer": ("metadata.lance", _say("params", json.dumps({"base_tokenizer": "z"})), CorruptFile),
    "an unknown option": ("metadata.lance", _say("params", json.dumps({"sounds_like": True})), NotSupported),
    "an unknown format": ("metadata.lance", _say("format_version", "9"), NotSupported),
    "an unknown set of tokens": ("metadata.lance", _say("token_set_format", "trie"), NotSupported),
    "parts that are none": ("metadata.lance", _say("partitions", "[0,0]"), CorruptFile),
    "a part that is not there": ("metadata.lance", _say("partitions", "[0,1]"), LanceletError),
    "an unknown tail": ("part_0_invert.lance", _say("posting_tail_codec", "z"), NotSupported),
    "another tail": ("part_0_invert.lance", _say("posting_tail_codec", "fixed32_v1"), CorruptFile),
    "more documents than blocks": ("part_0_invert.lance", _set("_length", lambda x: [1 << 31] * len(x)), CorruptFile),
    "fewer documents": ("part_0_invert.lance", _set("_length", lambda x: [0] * len(x)), CorruptFile),
    "empty blocks": ("part_0_invert.lance", _set("_posting", lambda x: [[b""] * len(y) for y in x]), CorruptFile),
    "no blocks": ("part_0_invert.lance", _set("_posting", lambda x: [[]] * len(x)), CorruptFile),
    "no impacts": ("part_0_invert.lance", _set("_impacts", lambda x: [[]] * len(x)), CorruptFile),
    "no positions": ("part_0_invert.lance", _set("_compressed_position", lambda x: [b""] * len(x)), CorruptFile),
    "few documents": ("part_0_docs.lance", lambda table: table.slice(0, 3), CorruptFile),
    "more tokens than postings": (
        "part_0_tokens.lance",
        _set("_token_fst_bytes", lambda x: [_fst({f"t{n:04}".encode(): n for n in range(3000)})]),
        CorruptFile,
    ),
    "tokens beyond the postings": (
        "part_0_tokens.lance",
        _set("_token_fst_bytes", lambda x: [_fst({b"w1": 1 << 40, b"w2": 70_000})]),
        CorruptFile,
    ),
    "no FST": ("part_0_tokens.lance", _set("_token_fst_bytes", lambda x: [b"tokens"]), CorruptFile),
}


@pytest.mark.parametrize("lie", LIES)
def test_lying_files_are_named(tmp_path: Path, lie: str) -> None:
    uri = str(tmp_path / "t")
    build(uri)
    name, change, expected = LIES[lie]
    rewrite(uri, name, change)
    with pytest.raises(expected):
        _read_without_sizes(uri)


def _read_without_sizes(uri: str) -> None:
    """The entry tells the sizes that files had before."""
    snapshot = lancelet.dataset(uri)._snapshot
    (message,) = snapshot.manifest.indices
    message.ClearField("files")
    (entry,) = read_indices(snapshot.manifest)
    segment = TextSegment(IndexFolder(snapshot, entry), pa.string())
    for part in segment.partitions:
        _check(part)
    for _ in segment.entries(Source(segment)):
        pass


def _check(part: Any) -> None:
    for token in (b"w1", b"w2"):
        number = part.tokens.find(token)
        if number is not None:
            (one,) = part.postings([number], True)
            _, freqs = one.decode(len(part.documents))
            one.decode_positions(freqs)
            assert np.isfinite(one.max_score)


def test_a_damaged_index_is_built_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = build(uri)
    for file in (tmp_path / "t" / "_indices").rglob("*.lance"):
        file.write_bytes(b"damaged")
    dataset = lancelet.dataset(uri)
    dataset.optimize.optimize_indices(retrain=True)
    read(uri)
    assert dataset.verify(deep=True).findings == ()
