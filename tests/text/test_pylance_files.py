"""INVERTED indices that pylance wrote: their tokens, documents, postings and positions are what the texts say."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

import lancelet
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import read_indices
from lancelet.index.text.blocks import decode_impact
from lancelet.index.text.partition import Partition
from lancelet.index.text.segment import TextSegment
from text.corpus import PLAIN, brute, documents, lengths, partitions, stored, without_positions, write

FORMS = {
    "format 1": {"format_version": 1},
    "format 2": {"format_version": 2},
    "format 3": {"format_version": 3},
    "blocks of 256": {"block_size": 256},
}
TEXTS = documents(900)
OLD = Path(__file__).parents[2].parent / "shared" / "fixtures" / "search" / "v0.27.0" / "legacy_fts_index"


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_postings_and_positions_are_those_of_the_texts(tmp_path, form, positions):
    uri = str(tmp_path / "t")
    dataset = write(uri, TEXTS)
    dataset.create_scalar_index("text", "INVERTED", with_position=positions, **PLAIN, **FORMS[form])
    parts = partitions(uri)
    truth = brute(TEXTS)
    assert stored(parts) == (truth if positions else without_positions(truth))
    assert lengths(parts) == {row: len(text.split()) for row, text in enumerate(TEXTS) if text and text.split()}
    assert sum(part.documents.total_tokens for part in parts) == sum(len((text or "").split()) for text in TEXTS)


def test_impacts_bound_every_document_of_their_block(tmp_path):
    uri = str(tmp_path / "t")
    write(uri, TEXTS).create_scalar_index("text", "INVERTED", **PLAIN)
    (part,) = partitions(uri)
    for one in part.stream():
        docs, freqs = one.decode(len(part.documents))
        assert one.impacts is not None
        assert one.impact_offsets is not None
        for block in range(len(one.offsets) - 1):
            last, pairs = decode_impact(one.impacts[one.impact_offsets[block] : one.impact_offsets[block + 1]])
            some = slice(block * 128, (block + 1) * 128)
            assert last == docs[some][-1]
            for doc, freq in zip(docs[some], freqs[some], strict=True):
                norm = _quantized(int(part.documents.lengths[doc]))
                assert any(freq <= most and norm >= least for most, least in pairs)


def _quantized(length: int) -> int:
    if length < 8:
        return length
    shift = length.bit_length() - 4
    return (length >> shift & 7) | (shift + 1) << 3


@pytest.mark.skipif(not OLD.is_dir(), reason="the old index (../shared/fixtures/search) is not on this machine")
def test_the_layout_from_before_there_were_parts(tmp_path):
    uri = tmp_path / "old"
    shutil.copytree(OLD, uri)
    texts = ["frodo was a puppy", "frodo was a happy puppy", "frodo was a puppy with a tail"]
    parts = partitions(str(uri))
    assert stored(parts) == without_positions(brute(texts))
    assert lengths(parts) == {0: 4, 1: 5, 2: 7}
    assert parts[0].head.params.stem is False


def test_documents_of_lists_and_of_their_items(tmp_path):
    lists = [["a b", "c a"], ["d"], None, [], ["x", None, ""], [None], ["q", None, "r x"]]
    rows, items = str(tmp_path / "rows"), str(tmp_path / "items")
    write(rows, lists, pa.list_(pa.string())).create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    (part,) = partitions(rows)
    assert lengths([part]) == {0: 4, 1: 1, 4: 1, 6: 3}
    assert stored([part])[b"a"] == {0: [0, 3]}
    element = lance.query.DocumentGranularity.LIST_ELEMENT
    write(items, lists, pa.list_(pa.string())).create_scalar_index(
        "text", "INVERTED", document_granularity=element, **PLAIN
    )
    (part,) = partitions(items)
    assert part.documents.rows.tolist() == [0, 0, 1, 4, 4, 4, 5, 6, 6, 6]
    assert part.documents.items is not None
    assert part.documents.items.tolist() == [0, 1, 0, 0, 1, 2, 0, 0, 1, 2]
    assert part.documents.lengths.tolist() == [2, 2, 1, 1, 0, 0, 0, 1, 0, 2]


def test_many_parts_are_all_there(tmp_path):
    uri = str(tmp_path / "t")
    dataset = write(uri, TEXTS[:300])
    dataset.create_scalar_index("text", "INVERTED", **PLAIN)
    dataset = write(uri, TEXTS[300:], mode="append")
    dataset.optimize.optimize_indices()
    parts = partitions(uri)
    assert len(parts) == 2
    rows = [*range(300), *((1 << 32) + number for number in range(600))]
    assert stored(parts) == without_positions(brute(TEXTS, rows))


@pytest.mark.skipif(not OLD.is_dir(), reason="the old index (../shared/fixtures/search) is not on this machine")
def test_the_old_layout_is_described_as_pylance_does(tmp_path):
    uri = tmp_path / "old"
    shutil.copytree(OLD, uri)
    ours, theirs = lancelet.dataset(uri), lance.dataset(uri)
    assert ours.stats.index_stats("text_idx")["segments"] == theirs.stats.index_stats("text_idx")["segments"]
    assert ours.describe_indices()[0].details == theirs.describe_indices()[0].details
    assert ours.verify(deep=True).findings == ()


def without_sizes(uri: str) -> Partition:
    """The only part of an index whose files were changed."""
    snapshot = lancelet.dataset(uri)._snapshot
    (message,) = snapshot.manifest.indices
    message.ClearField("files")
    (entry,) = read_indices(snapshot.manifest)
    segment = TextSegment(IndexFolder(snapshot, entry), pa.string())
    (part,) = segment.partitions
    return part


@pytest.mark.parametrize("positions", [False, True])
def test_blocks_in_the_layout_from_before_there_were_parts(tmp_path, positions):
    uri = str(tmp_path / "t")
    write(uri, TEXTS).create_scalar_index("text", "INVERTED", with_position=positions, format_version=1, **PLAIN)
    (folder,) = (tmp_path / "t" / "_indices").iterdir()
    for what in ("tokens", "docs", "invert"):
        (folder / f"part_0_{what}.lance").rename(folder / f"{what}.lance")
    (folder / "metadata.lance").unlink()
    truth = brute(TEXTS)
    assert stored([without_sizes(uri)]) == (truth if positions else without_positions(truth))


def test_tokens_that_are_rows(tmp_path):
    uri = str(tmp_path / "t")
    write(uri, TEXTS).create_scalar_index("text", "INVERTED", **PLAIN)
    (part,) = partitions(uri)
    items = sorted(part.tokens.items(), key=lambda item: item[1])
    (folder,) = (tmp_path / "t" / "_indices").iterdir()
    file = folder / "part_0_tokens.lance"
    file.unlink()
    schema = pa.schema([pa.field("_token", pa.string(), False), pa.field("_token_id", pa.uint32(), False)])
    rows = pa.table([[token.decode() for token, _ in items], [number for _, number in items]], schema=schema)
    with LanceFileWriter(str(file), schema) as writer:
        writer.write_batch(rows)
    assert stored([without_sizes(uri)]) == without_positions(brute(TEXTS))
    assert without_sizes(uri).tokens.near(b"w11", 1, 1, 5) == part.tokens.near(b"w11", 1, 1, 5)
