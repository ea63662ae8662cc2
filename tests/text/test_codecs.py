"""What is packed is what was given: FSTs, posting blocks, positions, impacts, runs."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.index.text.blocks import (
    FIXED32,
    VARINT,
    decode_impact,
    decode_many,
    decode_many_positions,
    decode_positions,
    decode_postings,
)
from lancelet.index.text.fst import Fst
from lancelet.index.text.fst_writer import FstWriter
from lancelet.index.text.packing import Merger, RunMaker, hash_texts, make_run_of_postings, pack_postings

TOKENS = st.one_of(
    st.text(min_size=0, max_size=12).map(str.encode),
    st.text("abé海", max_size=6).map(str.encode),
    st.binary(max_size=4),
)
SHAPES = [(128, FIXED32), (128, VARINT), (256, VARINT), (256, FIXED32)]


def fst_of(items: dict[bytes, int]) -> Fst:
    writer = FstWriter()
    for token in sorted(items):
        writer.add(token, items[token])
    return Fst(writer.finish())


@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(TOKENS, st.integers(0, 1 << 40), max_size=200), st.lists(TOKENS, max_size=5))
def test_an_fst_knows_its_tokens_and_no_others(items, others):
    fst = fst_of(items)
    assert fst.is_intact
    assert len(fst) == len(items)
    assert list(fst.walk()) == sorted(items.items())
    for token in [*items, *others]:
        assert fst.find(token) == items.get(token)
    data, offsets, numbers = fst.arrays()
    found = [data[start:stop].tobytes() for start, stop in zip(offsets[:-1], offsets[1:], strict=True)]
    assert dict(zip(found, numbers.tolist(), strict=True)) == items
    for prefix in others:
        assert list(fst.walk(prefix)) == sorted(item for item in items.items() if item[0].startswith(prefix))


def distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for place, left in enumerate(one):
        below = [place + 1]
        for at, right in enumerate(other):
            below.append(min(below[at] + 1, row[at + 1] + 1, row[at] + (left != right)))
        row = below
    return row[-1]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sets(st.text("ab海é", max_size=7), max_size=80),
    st.text("ab海é", max_size=7),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 10),
)
def test_near_tokens_are_those_within_the_distance(words, wanted, edits, prefix, limit):
    fst = fst_of({word.encode(): number for number, word in enumerate(sorted(words))})
    expected = [
        word.encode()
        for word in sorted(words, key=str.encode)
        if distance(wanted, word) <= edits and word.startswith(wanted[:prefix])
    ]
    assert [token for token, _ in fst.near(wanted, edits, prefix, 1000)] == expected
    assert [token for token, _ in fst.near(wanted, edits, prefix, limit)] == expected[:limit]


def test_tokens_come_in_order_and_once():
    writer = FstWriter()
    writer.add(b"b", 1)
    for token in (b"b", b"a", b""):
        with pytest.raises(ValueError, match="do not ascend"):
            writer.add(token, 2)


@st.composite
def postings(draw):
    """Documents, frequencies, positions in them, and lengths of all documents."""
    count = draw(st.sampled_from([0, 1, 2, 127, 128, 129, 255, 256, 257, 700, 4200]))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    steps = random.integers(1, draw(st.sampled_from([2, 5, 1000])), count)
    docs = (np.cumsum(steps) - draw(st.integers(0, 1))).astype(np.uint32)
    freqs = random.integers(1, draw(st.sampled_from([2, 4, 60])), count).astype(np.uint32)
    if count and draw(st.booleans()):
        freqs[random.integers(0, count)] = 400
    positions = [np.sort(random.integers(0, 5000, freq)).astype(np.uint32) for freq in freqs]
    lengths = random.integers(1, 2000, int(docs[-1]) + 1 if count else 1).astype(np.uint32)
    return docs, freqs, np.concatenate(positions or [np.empty(0, np.uint32)]), lengths


@settings(max_examples=examples(60), deadline=None)
@given(postings(), st.sampled_from(SHAPES), st.booleans())
def test_packed_postings_are_what_was_packed(given_postings, shape, with_positions):
    docs, freqs, positions, lengths = given_postings
    block, tail = shape
    where = positions if with_positions else None
    data, offsets, impacts, places, stream, starts = pack_postings(docs, freqs, where, lengths, block, tail)
    found = decode_postings(data, offsets, len(docs), block, tail, len(lengths))
    assert [array.tolist() for array in found] == [docs.tolist(), freqs.tolist()]
    if with_positions:
        assert stream is not None
        assert starts is not None
        assert decode_positions(stream, starts, freqs, block).tolist() == positions.tolist()
    blocks = -(-len(docs) // block)
    assert len(places) - 1 == blocks + -(-blocks // 32)
    for number in range(blocks):
        last, pairs = decode_impact(impacts[places[number] : places[number + 1]])
        some = slice(number * block, (number + 1) * block)
        assert last == docs[some][-1]
        assert pairs == sorted(pairs)
        assert len({norm for _, norm in pairs}) == len(pairs)
        assert max(freqs[some]) == pairs[-1][0]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=40), max_size=4), st.data())
def test_runs_of_batches_become_the_postings_of_all(batches, data):
    """Batches of documents of tokens: what comes out is where each token is."""
    block, tail = data.draw(st.sampled_from(SHAPES))
    joined = data.draw(st.booleans())
    runs, lengths, truth = [], [], {}
    maker = RunMaker()
    for batch in batches:
        tokens = [(number, term, place) for number, doc in enumerate(batch) for place, term in enumerate(doc)]
        notes = np.array(tokens, np.uint32).reshape(-1, 3)
        *run, kept, sizes = maker.make(notes, None, True, 31)
        assert kept.tolist() == [number for number, doc in enumerate(batch) if doc]
        base = sum(map(len, lengths))
        runs.append((*run, base))
        lengths.append(sizes)
        for number, at in enumerate(kept.tolist()):
            for place, term in enumerate(batch[at]):
                truth.setdefault(term, {}).setdefault(base + number, []).append(place)
    all_lengths = np.concatenate([*lengths, np.empty(0, np.uint32)])
    if joined:
        merger = Merger(runs, np.empty(0, np.uint32), 128, 0, True)
        runs = []
        while (piece := merger.joined(50)) is not None:
            runs.append((*piece, 0))
    merger = Merger(runs, all_lengths, block, tail, True)
    found = {}
    while (rows := merger.rows(100)) is not None:
        terms, counts, _, lists, offsets, blocks, _, _, _, streams, stream, place_lists, places = rows
        starts, docs, freqs = decode_many(
            blocks, offsets, lists.astype(np.int64), counts, block, tail, len(all_lengths)
        )
        where = decode_many_positions(stream, streams, places, place_lists.astype(np.int64), starts, freqs, block)
        each = np.split(where, np.cumsum(freqs)[:-1])
        for at, term in enumerate(terms.tolist()):
            mine = range(int(starts[at]), int(starts[at + 1]))
            found[term] = {int(docs[place]): each[place].tolist() for place in mine}
    assert found == truth


def test_texts_have_different_numbers():
    words = sorted({f"w{number}" for number in range(5000)} | {"", "\0", "\0\0"})
    data = np.frombuffer("".join(words).encode(), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(word.encode()) for word in words])]).astype(np.int64)
    assert len(set(hash_texts(data, offsets).tolist())) == len(words)


# Bytes that are anything


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(st.text("abc海", max_size=6).map(str.encode), st.integers(0, 99), min_size=1), st.data())
def test_a_damaged_fst_is_an_error_or_an_answer(items, data):
    damaged = bytearray(fst_of(items).data)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        fst = Fst(bytes(damaged))
        for token in items:
            fst.find(token)
        fst.near("abca", 2, 1, 20)
        for _, _ in zip(range(1000), fst.walk(), strict=False):
            pass
        if len(fst) < 1000:
            fst.arrays()
    except ValueError:
        pass


@settings(max_examples=examples(60), deadline=None)
@given(postings(), st.sampled_from(SHAPES), st.data())
def test_damaged_blocks_are_an_error_or_documents_that_there_are(given_postings, shape, data):
    docs, freqs, positions, lengths = given_postings
    block, tail = shape
    blocks, offsets, impacts, _, stream, starts = pack_postings(docs, freqs, positions, lengths, block, tail)
    assert stream is not None
    assert starts is not None
    for array in (blocks, impacts, stream, offsets, starts):
        if len(array) and data.draw(st.booleans()):
            array[data.draw(st.integers(0, len(array) - 1))] = data.draw(st.integers(0, 255))
    try:
        found, often = decode_postings(blocks, offsets, len(docs), block, tail, len(lengths))
        assert (np.diff(found.astype(np.int64)) > 0).all()
        assert (found < len(lengths)).all()
        if int(often.sum()) < 1 << 20:
            decode_positions(stream, starts, often, block)
    except ValueError:
        pass
    with suppress(ValueError):
        decode_impact(impacts[:50])


def test_a_run_has_only_the_tokens_that_became_terms():
    notes = np.array([[0, 2, 0], [1, 0, 0], [1, 1, 1], [3, 0, 4]], np.uint32)
    numbers = np.array([3, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
    terms, counts, lasts, offsets, data, kept, sizes = RunMaker().make(notes, numbers, True, 4)
    assert (terms.tolist(), counts.tolist(), lasts.tolist()) == ([3], [2], [1])
    assert (kept.tolist(), sizes.tolist()) == ([1, 3], [1, 1])
    assert (offsets.tolist(), data.tolist()) == ([0, 4], [1, 0, 3, 4])
    *_, kept, sizes = RunMaker().make(notes, numbers, True, 4, 5)
    assert (kept.tolist(), sizes.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 0, 1, 0])


def test_postings_that_do_not_fit_together_are_refused():
    numbers = np.arange(3, dtype=np.uint32)
    maker = RunMaker()
    with pytest.raises(ValueError, match="a position are needed"):
        maker.make(numbers.reshape(1, 3)[:, :2].copy(), None, False, 5)
    for refused in ([[1, 0, 0], [0, 0, 0]], [[0, 5, 0]]):
        with pytest.raises(ValueError, match="documents do not ascend, or terms are not known"):
            maker.make(np.array(refused, np.uint32), None, False, 5)
    with pytest.raises(ValueError, match="terms are not known"):
        maker.make(np.array([[0, 1, 0]], np.uint32), np.array([0, 5], np.uint32), False, 5)
    with pytest.raises(ValueError, match="terms are not known"):
        maker.make(np.array([[2, 0, 0]], np.uint32), None, False, 1, 2)
    with pytest.raises(ValueError, match="positions do not ascend"):
        maker.make(np.array([[0, 0, 3], [0, 0, 1]], np.uint32), None, True, 1)
    with pytest.raises(ValueError, match="documents do not ascend"):
        make_run_of_postings(numbers[:1], np.array([0, 2]), numbers[:0:-1].copy(), np.ones(2, np.uint32), None)
    with pytest.raises(ValueError, match="documents do not ascend"):
        make_run_of_postings(numbers[:2], np.array([0, 9, 3]), numbers, np.ones(3, np.uint32), None)


def test_a_batch_that_was_refused_leaves_nothing_behind():
    refused = np.array([[0, 0, 3], [1, 1, 3], [1, 1, 1]], np.uint32)
    notes = np.array([[0, 1, 0]], np.uint32)
    maker = RunMaker()
    with pytest.raises(ValueError, match="positions do not ascend"):
        maker.make(refused, None, True, 2)
    for after, fresh in zip(maker.make(notes, None, True, 2), RunMaker().make(notes, None, True, 2), strict=True):
        assert after.tolist() == fresh.tolist()
