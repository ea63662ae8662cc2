"""INVERTED indices that lancelet writes: pylance asks them as it asks its own, and they stay right as tables change."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from lance.dataset import Index
from lance.query import BooleanQuery, BoostQuery, FullTextOperator, MatchQuery, MultiMatchQuery, Occur, PhraseQuery

import lancelet
from lancelet.errors import InvalidInput, LanceletError
from lancelet.index.text.partition import Partition
from lancelet.index.text.spill import Runs
from text.corpus import (
    PLAIN,
    brute,
    documents,
    entries,
    lengths,
    partitions,
    stored,
    without_positions,
    write,
)

TEXTS = documents(700)
OLD = Path(__file__).parents[2].parent / "shared" / "fixtures" / "search" / "v0.27.0" / "legacy_fts_index"
FORMS: dict[str, dict[str, Any]] = {
    "format 1": {"format_version": 1},
    "format 2": {},
    "format 3": {"format_version": "v3"},
    "blocks of 256": {"block_size": 256},
}
QUERIES: dict[str, Any] = {
    "one word": "w3",
    "a rare word": "r17",
    "any of three": "w1 w20 r100",
    "all of two": MatchQuery("w1 w2", "text", operator=FullTextOperator.AND),
    "nearly": MatchQuery("w11", "text", fuzziness=1, prefix_length=1),
    "less": BoostQuery(MatchQuery("w1", "text"), MatchQuery("w0", "text"), negative_boost=0.3),
    "several columns": MultiMatchQuery("w2 w4", ["text"]),
    "not": BooleanQuery([(Occur.MUST, MatchQuery("w1", "text")), (Occur.MUST_NOT, MatchQuery("w0", "text"))]),
    "nowhere": "nowhere",
}
PHRASES: dict[str, Any] = {
    "phrase": PhraseQuery("w0 w1", "text"),
    "loose phrase": PhraseQuery("w0 w2", "text", slop=2),
}


def answers(uri: str, queries: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Rows and scores of pylance for all queries."""
    dataset = lance.dataset(uri)
    found = {}
    for name, query in queries.items():
        table = dataset.to_table(["id", "_score"], full_text_query=query)
        found[name] = dict(zip(table["id"].to_pylist(), table["_score"].to_pylist(), strict=True))
    return found


def same(found: dict[str, dict[int, float]], expected: dict[str, dict[int, float]]) -> bool:
    """Whether rows are the same, and scores but for the order in which pylance adds them up."""
    assert found.keys() == expected.keys()
    return all(found[name] == pytest.approx(expected[name], rel=1e-6) for name in found)


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_pylance_finds_the_same_rows_and_scores_as_in_its_own_index(tmp_path, form, positions):
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    write(ours, TEXTS)
    write(theirs, TEXTS).create_scalar_index("text", "INVERTED", with_position=positions, **PLAIN, **FORMS[form])
    lancelet.dataset(ours).create_scalar_index("text", "INVERTED", with_position=positions, **PLAIN, **FORMS[form])
    queries = QUERIES | (PHRASES if positions else {})
    assert same(answers(ours, queries), answers(theirs, queries))
    truth = brute(TEXTS)
    assert stored(partitions(ours)) == (truth if positions else without_positions(truth))
    assert lengths(partitions(ours)) == lengths(partitions(theirs))


def all_bytes(part: Partition) -> dict[bytes, tuple[Any, ...]]:
    """All that is stored of each token."""
    found = {}
    for token, number in part.tokens.items():
        (one,) = part.postings([number], True)
        assert one.impacts is not None
        assert one.positions is not None
        data = (one.blocks, one.impacts, one.positions)
        found[token] = (one.length, one.max_score, *(array.tobytes() for array in data))
    return found


def test_postings_impacts_and_scores_are_those_of_pylance_to_the_last_bit(tmp_path):
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    write(ours, TEXTS)
    write(theirs, TEXTS).create_scalar_index("text", "INVERTED", with_position=True)
    lancelet.dataset(ours).create_scalar_index("text", "INVERTED", with_position=True)

    (mine,), (their,) = partitions(ours), partitions(theirs)
    assert all_bytes(mine) == all_bytes(their)
    sizes = [sum(file.size for file in entries(uri)[0].files) for uri in (ours, theirs)]
    assert sizes[0] <= 1.05 * sizes[1]


OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "raw": {"base_tokenizer": "raw", "lower_case": False},
    "ngram": {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 4, "prefix_only": True},
    "german": {"language": "German", "ascii_folding": False},
    "stop words": {"custom_stop_words": ["w0", "w1"], "max_token_length": None},
    "without stop words": {"remove_stop_words": False, "stem": False, "max_token_length": 4},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_descriptions_and_statistics_are_those_of_pylance(tmp_path, options):
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (ours, theirs):
        write(uri, TEXTS[:100])
    lance.dataset(theirs).create_scalar_index("text", "FTS", **OPTIONS[options])
    dataset = lancelet.dataset(ours)
    dataset.create_scalar_index("text", "FTS", **OPTIONS[options])
    told = ("num_indexed_rows", "num_unindexed_rows", "index_type", "segments", "num_indices")
    expected = lance.dataset(theirs).stats.index_stats("text_idx")
    for found in (dataset.stats.index_stats("text_idx"), lance.dataset(ours).stats.index_stats("text_idx")):
        assert {key: found[key] for key in told} == {key: expected[key] for key in told}
    (ours_told,), (theirs_told,) = dataset.describe_indices(), lance.dataset(theirs).describe_indices()
    assert ours_told.details == theirs_told.details
    assert (ours_told.index_type, ours_told.type_url) == (theirs_told.index_type, theirs_told.type_url)
    assert entries(ours)[0].details == entries(theirs)[0].details
    assert entries(ours)[0].index_version == entries(theirs)[0].index_version
    assert dataset.verify(deep=True).findings == ()


def test_lists_and_their_items_are_documents(tmp_path):
    lists = [["a b", "c a"], ["d"], None, [], ["x", None, ""], [None], ["q", None, "r x"]] * 30
    kind = pa.list_(pa.string())
    for name, granularity in (("rows", "row"), ("items", "list_element")):
        ours, theirs = str(tmp_path / f"{name} ours"), str(tmp_path / f"{name} theirs")
        write(ours, lists, kind)
        lance.dataset(ours).delete("id = 0")
        write(theirs, lists, kind)
        dataset = lance.dataset(theirs)
        dataset.delete("id = 0")
        wanted = lance.query.DocumentGranularity(granularity)
        dataset.create_scalar_index("text", "INVERTED", with_position=True, document_granularity=wanted, **PLAIN)
        built = lancelet.dataset(ours)
        built.create_scalar_index("text", "INVERTED", with_position=True, document_granularity=granularity, **PLAIN)
        (mine,), (their,) = partitions(ours), partitions(theirs)
        for one, other in zip(
            (mine.documents.rows, mine.documents.lengths, mine.documents.items),
            (their.documents.rows, their.documents.lengths, their.documents.items),
            strict=True,
        ):
            assert (one is None and other is None) or one.tolist() == other.tolist()
        assert entries(ours)[0].details == entries(theirs)[0].details
        assert entries(ours)[0].index_version == entries(theirs)[0].index_version
        assert entries(ours)[0].fields == entries(theirs)[0].fields
        queries = {text: MatchQuery(text, "text", document_granularity=wanted) for text in ("x", "a c", "d")}
        assert same(answers(ours, queries), answers(theirs, queries))
        assert built.verify(deep=True).findings == ()


DOCUMENTS = [
    '{"a": "x y", "b": [1, 2.5, true, null, "q"], "c": {"d": "Running the dogs"}}',
    '{"a": 5}',
    None,
    "[]",
    '"text here"',
    '{"a": ["one two", {"z": "three"}]}',
] * 3
ARRAYS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "JSON": (pa.array(DOCUMENTS, pa.json_()), {}),
    "code": (
        pa.array(["def fooBar_baz2(x): return x+1", "HTTPServer is_ok", ""]),
        {"base_tokenizer": "code", "index_operators": True},
    ),
    "long lists": (pa.array([["abcd", None], None, []], pa.large_list(pa.large_string())), {"base_tokenizer": "ngram"}),
    "lists of raw texts": (pa.array([["a", None], None, [], [None]]), {"base_tokenizer": "raw"}),
    "raw items": (
        pa.array([["a", None], None, [], [None, ""]]),
        {"base_tokenizer": "raw", "document_granularity": lance.query.DocumentGranularity.LIST_ELEMENT},
    ),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_values_of_every_kind_have_the_entries_of_pylance(tmp_path, what):
    values, options = ARRAYS[what]
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for uri in (ours, theirs):
        lance.write_dataset(pa.table({"text": values}), uri, data_storage_version="2.2")
    lance.dataset(theirs).create_scalar_index("text", "INVERTED", with_position=True, **options)
    dataset = lancelet.dataset(ours)
    dataset.create_scalar_index("text", "INVERTED", with_position=True, **options)
    (mine,), (their,) = partitions(ours), partitions(theirs)
    assert all_bytes(mine) == all_bytes(their)
    assert mine.documents.rows.tolist() == their.documents.rows.tolist()
    assert mine.documents.lengths.tolist() == their.documents.lengths.tolist()
    (found,), (expected,) = entries(ours), entries(theirs)
    assert (found.name, found.details, found.index_version) == (expected.name, expected.details, expected.index_version)
    told = [source.stats.index_stats(found.name)["segments"] for source in (dataset, lance.dataset(theirs))]
    assert told[0] == told[1]
    assert dataset.verify(deep=True).findings == ()
    dataset.insert(pa.table({"text": values}))
    dataset.optimize.optimize_indices(num_indices_to_merge=1)
    assert dataset.stats.index_stats(found.name)["num_unindexed_rows"] == 0
    assert dataset.verify(deep=True).findings == ()


# Histories


def grown(uri: str, pieces: Sequence[Sequence[str | None]], **options: Any) -> lancelet.LanceDataset:
    """A table of several fragments, the first of them indexed."""
    dataset = lancelet.write_dataset(_table(pieces[0], 0), uri, **options)
    dataset.create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    first = len(pieces[0])
    for piece in pieces[1:]:
        dataset = lancelet.write_dataset(_table(piece, first), uri, mode="append")
        first += len(piece)
    return dataset


def _table(texts: Sequence[str | None], first: int) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.string()), "id": range(first, first + len(texts))})


def truth(dataset: lancelet.LanceDataset) -> Any:
    """Where each word is in the rows that are there."""
    table = dataset.to_table(with_row_id=True)
    return brute(table["text"].to_pylist(), table["_rowid"].to_pylist())


def live(dataset: lancelet.LanceDataset) -> Any:
    """What the index says of rows that are there."""
    rows = set(dataset.to_table(with_row_id=True)["_rowid"].to_pylist())
    found = stored(partitions(dataset.uri))
    kept = {token: {row: at for row, at in where.items() if row in rows} for token, where in found.items()}
    return {token: where for token, where in kept.items() if where}


PIECES = [TEXTS[:400], TEXTS[400:450], TEXTS[450:700]]


@pytest.mark.parametrize("stable", [False, True])
def test_an_optimised_index_copies_large_parts_and_merges_small_ones(tmp_path, stable):
    uri = str(tmp_path / "t")
    dataset = grown(uri, PIECES[:2], enable_stable_row_ids=stable)
    dataset.optimize.optimize_indices()
    assert len(partitions(uri)) == 2
    assert live(dataset) == truth(dataset)
    dataset = lancelet.write_dataset(_table(PIECES[2], 450), uri, mode="append")
    dataset.optimize.optimize_indices()
    assert len(partitions(uri)) == 1
    assert live(dataset) == truth(dataset)
    queries = QUERIES | PHRASES
    found = answers(uri, queries)
    lance.dataset(uri).create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    assert same(found, answers(uri, queries))
    assert dataset.verify(deep=True).findings == ()


def test_deltas_are_segments_that_can_be_merged(tmp_path):
    uri = str(tmp_path / "t")
    dataset = grown(uri, PIECES)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert len(entries(uri)) == 2
    assert live(dataset) == truth(dataset)
    found = answers(uri, QUERIES | PHRASES)
    dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert len(entries(uri)) == len(partitions(uri)) == 1
    assert live(dataset) == truth(dataset)
    assert {name: set(rows) for name, rows in answers(uri, QUERIES | PHRASES).items()} == {
        name: set(rows) for name, rows in found.items()
    }


@pytest.mark.parametrize("stable", [False, True])
def test_a_compaction_leaves_out_what_was_deleted(tmp_path, stable):
    uri = str(tmp_path / "t")
    dataset = grown(uri, PIECES, enable_stable_row_ids=stable)
    dataset.optimize.optimize_indices()
    dataset.delete("id % 3 = 1 or id between 100 and 300")
    before = {name: set(rows) for name, rows in answers(uri, QUERIES | PHRASES).items()}
    dataset.optimize.compact_files(target_rows_per_fragment=10_000)
    assert len(dataset.get_fragments()) == 1
    assert live(dataset) == truth(dataset)
    assert {name: set(rows) for name, rows in answers(uri, QUERIES | PHRASES).items()} == before
    assert dataset.stats.index_stats("text_idx")["num_unindexed_rows"] == 0
    assert dataset.verify(deep=True).findings == ()


def test_pylance_and_lancelet_take_turns(tmp_path):
    uri = str(tmp_path / "t")
    write(uri, TEXTS[:300]).create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    write(uri, TEXTS[300:320], mode="append")
    lancelet.dataset(uri).optimize.optimize_indices()
    write(uri, TEXTS[320:400], mode="append").optimize.optimize_indices()
    lancelet.dataset(uri).delete("id % 5 = 2")
    lance.dataset(uri).optimize.compact_files()
    dataset = lancelet.dataset(uri)
    assert live(dataset) == truth(dataset)
    write(uri, TEXTS[400:], mode="append")
    dataset = lancelet.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=3)
    assert live(dataset) == truth(dataset)
    assert dataset.verify(deep=True).findings == ()


def test_parts_over_fragments_merge_into_one(tmp_path):
    uri = str(tmp_path / "t")
    dataset = lancelet.dataset(write(uri, TEXTS, max_rows_per_file=100).uri)
    parts = [
        dataset.create_index_uncommitted(
            "text", "INVERTED", name="words", fragment_ids=numbers, with_position=True, **PLAIN
        )
        for numbers in ([0, 1], [2], [3, 4, 5, 6])
    ]
    merged = dataset.merge_existing_index_segments(parts)
    dataset.commit_existing_index_segments("words", "text", [merged])
    assert stored(partitions(uri)) == truth(dataset)
    found = answers(uri, QUERIES | PHRASES)
    dataset.drop_index("words")
    assert not entries(uri)
    lance.dataset(uri).create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    assert same(found, answers(uri, QUERIES | PHRASES))


def test_parts_in_one_folder_are_merged_there(tmp_path):
    """Half of them are pylance's, and pylance commits them."""
    uri = str(tmp_path / "t")
    theirs = write(uri, TEXTS, max_rows_per_file=100)
    dataset = lancelet.dataset(uri)
    shared = str(uuid4())
    options = {"with_position": True, **PLAIN}
    dataset.create_scalar_index("text", "INVERTED", "words", fragment_ids=[0, 1], index_uuid=shared, **options)
    theirs.create_scalar_index("text", "INVERTED", "words", fragment_ids=[2], index_uuid=shared, **options)
    dataset.create_scalar_index("text", "INVERTED", "words", fragment_ids=[3, 4, 5, 6], index_uuid=shared, **options)
    assert dataset.version == 1
    dataset.merge_index_metadata(shared, "INVERTED")
    dataset.merge_index_metadata(shared, "inverted")
    names = {path.name for path in (Path(uri) / "_indices" / shared).rglob("*") if path.is_file()}
    assert names == {"metadata.lance", "part_0_docs.lance", "part_0_invert.lance", "part_0_tokens.lance"}
    index = Index(shared, "words", [0], theirs.version, set(range(7)), 2)
    operation = lance.LanceOperation.CreateIndex([index], [])
    lance.LanceDataset.commit(uri, operation, read_version=theirs.version)
    dataset = lancelet.dataset(uri)
    assert stored(partitions(uri)) == truth(dataset)
    assert dataset.verify(deep=True).findings == ()
    with pytest.raises(ValueError, match="no parts"):
        dataset.merge_index_metadata(str(uuid4()), "INVERTED")
    with pytest.raises(ValueError, match="does not use merge_index_metadata"):
        dataset.merge_index_metadata(shared, "BTREE")
    with pytest.raises(NotImplementedError, match="received NGRAM"):
        dataset.merge_index_metadata(shared, "NGRAM")
    with pytest.raises(ValueError, match="UUID"):
        dataset.merge_index_metadata("x", "INVERTED")


def test_parts_without_a_word_are_merged_too(tmp_path):
    uri = str(tmp_path / "t")
    texts = [["a b"], [None], [], ["c"]]
    dataset = lancelet.dataset(write(uri, texts, pa.list_(pa.string()), max_rows_per_file=2).uri)
    shared = str(uuid4())
    for number in (0, 1):
        dataset.create_scalar_index(
            "text", "INVERTED", fragment_ids=[number], index_uuid=shared, document_granularity="list_element"
        )
    dataset.delete("id = 2")
    dataset.merge_index_metadata(shared, "INVERTED")
    empty = str(uuid4())
    dataset = lancelet.write_dataset({"text": [None, ""]}, str(tmp_path / "u"))
    dataset.create_scalar_index("text", "INVERTED", fragment_ids=[0], index_uuid=empty)
    dataset.merge_index_metadata(empty, "INVERTED")
    assert (tmp_path / "u" / "_indices" / empty / "metadata.lance").exists()


def test_segments_with_other_options_do_not_go_together(tmp_path):
    uri = str(tmp_path / "t")
    dataset = lancelet.dataset(write(uri, TEXTS[:20], max_rows_per_file=10).uri)
    parts = [
        dataset.create_index_uncommitted("text", "INVERTED", name="w", fragment_ids=[number], stem=bool(number))
        for number in (0, 1)
    ]
    with pytest.raises(InvalidInput, match="other options do not go together"):
        dataset.merge_existing_index_segments(parts)


def test_without_training_it_is_filled_later(tmp_path):
    uri = str(tmp_path / "t")
    dataset = lancelet.dataset(write(uri, TEXTS[:50]).uri)
    dataset.create_scalar_index("text", "INVERTED", train=False, custom_stop_words=["w1"], base_tokenizer="whitespace")
    assert dataset.stats.index_stats("text_idx")["num_unindexed_rows"] == 50
    dataset.optimize.optimize_indices()
    assert dataset.stats.index_stats("text_idx")["num_unindexed_rows"] == 0
    assert b"w1" not in stored(partitions(uri))
    assert b"w2" in stored(partitions(uri))


def test_a_column_without_a_word_has_an_index_without_parts(tmp_path):
    uri = str(tmp_path / "t")
    dataset = lancelet.dataset(write(uri, [None, "", "  "]).uri)
    dataset.create_scalar_index("text", "INVERTED")
    assert partitions(uri) == []
    assert [file.path for file in entries(uri)[0].files] == ["metadata.lance"]
    assert lance.dataset(uri).to_table(full_text_query="word").num_rows == 0
    assert dataset.stats.index_stats("text_idx")["segments"][0]["num_docs"] == 0


# Memory, and builds that fail


def test_what_does_not_fit_goes_to_temporary_files(tmp_path, monkeypatch):
    uri = str(tmp_path / "t")
    draw = random.Random(3)
    texts = [" ".join(f"w{draw.randrange(3000)}" for _ in range(40)) for _ in range(5000)]
    dataset = lancelet.dataset(write(uri, texts).uri)
    spilled = []
    leave = Runs.__exit__
    monkeypatch.setattr(Runs, "__exit__", lambda self, *error: (spilled.append(self.spilled), leave(self, *error))[1])
    dataset.create_scalar_index("text", "INVERTED", with_position=True, memory_limit=1, **PLAIN)
    assert spilled
    assert spilled[0] >= 2
    assert dataset.verify(deep=True).findings == ()


def test_very_many_different_words_make_several_parts(tmp_path):
    uri = str(tmp_path / "t")
    texts = [" ".join(f"word{number * 7 + place}" for place in range(9)) for number in range(12_000)]
    dataset = lancelet.dataset(write(uri, texts).uri)
    dataset.create_scalar_index("text", "INVERTED", memory_limit=1, num_workers=1, **PLAIN)
    parts = partitions(uri)
    assert len(parts) >= 2
    assert dataset.verify(deep=True).findings == ()
    assert lance.dataset(uri).to_table(full_text_query="word70").num_rows == 2
    dataset.optimize.optimize_indices(num_indices_to_merge=1)
    dataset.optimize.optimize_indices(retrain=True)
    assert len(partitions(uri)) == 1


FAILURES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "tokens": lambda patch: patch.setattr("lancelet.index.text.analyzer.Analyzer.notes", _broken),
    "head": lambda patch: patch.setattr("lancelet.index.text.build.write_head", _broken),
    "the FST": lambda patch: patch.setattr("lancelet.index.text.build.FstWriter", _broken),
}


def _broken(*given: Any, **named: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("failure", FAILURES)
def test_a_build_that_stops_leaves_nothing(tmp_path, monkeypatch, failure):
    uri = str(tmp_path / "t")
    dataset = lancelet.dataset(write(uri, TEXTS[:50]).uri)
    FAILURES[failure](monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        dataset.create_scalar_index("text", "INVERTED")
    assert not [path for path in (Path(uri) / "_indices").rglob("*") if path.is_file()]
    assert not entries(uri)


# Old layouts, deferred moves, columns inside of others


@pytest.mark.skipif(not OLD.is_dir(), reason="the old index (../shared/fixtures/search) is not on this machine")
def test_an_index_of_the_old_layout_is_extended_and_compacted(tmp_path):
    uri = str(tmp_path / "t")
    shutil.copytree(OLD, uri)
    dataset = lancelet.dataset(uri)
    dataset.insert(pa.table({"text": ["frodo went home", "a happy tail"]}))
    dataset.optimize.optimize_indices()
    assert live(dataset) == without_positions(truth(dataset))
    dataset.delete("text = 'frodo was a puppy'")
    dataset.optimize.compact_files()
    assert live(dataset) == without_positions(truth(dataset))
    found = lance.dataset(uri).to_table(full_text_query="happy")["text"].to_pylist()
    assert sorted(found) == ["a happy tail", "frodo was a happy puppy"]
    assert dataset.verify(deep=True).findings == ()


def test_rows_that_moved_while_the_index_waited_are_followed(tmp_path):
    uri = str(tmp_path / "t")
    dataset = grown(uri, PIECES)
    dataset.optimize.optimize_indices()
    dataset.delete("id % 7 = 3")
    dataset.optimize.compact_files(target_rows_per_fragment=10_000, defer_index_remap=True)
    assert dataset.verify(deep=True).findings == ()
    dataset.optimize.optimize_indices()
    assert live(dataset) == truth(dataset)
    assert dataset.verify(deep=True).findings == ()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_tables_of_every_file_version(tmp_path, version):
    uri = str(tmp_path / "t")
    table = pa.table({"doc": [{"text": text} for text in TEXTS[:100]]}, schema=_NESTED)
    dataset = lancelet.write_dataset(table, uri, data_storage_version=version)
    dataset.create_scalar_index("doc.text", "INVERTED", with_position=True, **PLAIN)
    assert stored(partitions(uri)) == brute(TEXTS[:100])
    found = lance.dataset(uri).to_table(full_text_query=MatchQuery("w1", "doc.text")).num_rows
    assert found == len(brute(TEXTS[:100])[b"w1"])


_NESTED = pa.schema([pa.field("doc", pa.struct([pa.field("text", pa.large_string())]))])


# Bad input

REFUSED: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "a tokenizer": ({"base_tokenizer": "nope"}, ValueError),
    "a language": ({"language": "Klingon"}, ValueError),
    "blocks": ({"block_size": 64}, ValueError),
    "a format": ({"format_version": 4}, ValueError),
    "a format by name": ({"format_version": "x"}, ValueError),
    "blocks in a format": ({"format_version": 2, "block_size": 256}, ValueError),
    "code in a format": ({"base_tokenizer": "code", "format_version": 2}, ValueError),
    "n-grams": ({"base_tokenizer": "ngram", "min_ngram_length": 5}, ValueError),
    "empty n-grams": ({"base_tokenizer": "ngram", "min_ngram_length": 0}, ValueError),
    "an option": ({"unknown": 4}, ValueError),
    "an option of files": ({"lance_tokenizer": "json"}, ValueError),
    "flags of code": ({"split_identifiers": True}, ValueError),
    "an analyzer": ({"analyzer": "q"}, ValueError),
    "an analyzer and a tokenizer": ({"analyzer": "code", "base_tokenizer": "simple"}, ValueError),
    "no boolean": ({"stem": "x"}, TypeError),
    "a number for a boolean": ({"prefix_only": 1}, TypeError),
    "no text": ({"base_tokenizer": None}, TypeError),
    "no number": ({"max_token_length": "7"}, TypeError),
    "a negative number": ({"max_token_length": -1}, OverflowError),
    "stop words as a text": ({"custom_stop_words": "foo"}, TypeError),
    "no memory": ({"memory_limit": 0}, ValueError),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_bad_options_are_refused_as_pylance_refuses_them(tmp_path, mistake):
    uri = str(tmp_path / "t")
    options, expected = REFUSED[mistake]
    theirs = write(uri, TEXTS[:5])
    dataset = lancelet.dataset(uri)
    for one in (theirs, dataset):
        with pytest.raises(expected):
            one.create_scalar_index("text", "INVERTED", **options)
    with pytest.raises(LanceletError, match=r"^[^\n]+$"):
        dataset.create_scalar_index("text", "INVERTED", **options)
    assert not entries(uri)


def test_columns_without_texts_are_refused(tmp_path):
    table = pa.table({"i": [1], "b": [b"x"], "large": pa.array([b"x"], pa.large_binary()), "ll": [[["a"]]]})
    dataset = lancelet.write_dataset(table, tmp_path / "t")
    for column in table.column_names:
        with pytest.raises(
            TypeError, match=f"column {column} must be string, large string or list of strings, or json"
        ):
            dataset.create_scalar_index(column, "INVERTED")
    with pytest.raises(ValueError, match="has no lists"):
        lancelet.write_dataset({"t": ["a"]}, tmp_path / "u").create_scalar_index(
            "t", "FTS", document_granularity="list_element"
        )
    with pytest.raises(TypeError, match="option of INVERTED"):
        dataset.create_scalar_index("i", "BTREE", document_granularity="list_element")


def test_an_index_config_says_the_same(tmp_path):
    uri = str(tmp_path / "t")
    dataset = lancelet.dataset(write(uri, TEXTS[:20]).uri)
    config = lancelet.indices.IndexConfig("inverted", {"with_position": True, "block_size": 256, "stem": False})
    dataset.create_scalar_index("text", config)
    (described,) = dataset.describe_indices()
    assert described.details["block_size"] == 256
    assert described.details["with_position"]
    assert described.details["stem"] is False
    assert entries(uri)[0].index_version == 3
