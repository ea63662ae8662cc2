"""The kernel of text search: the best documents whatever the lists, and errors for bytes that are no postings."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawing import examples
from tests.text.oracle import distance

from lancelet.index.text.blocks import VARINT
from lancelet.index.text.kernel import EXCLUDED, OPTIONAL, BadPostings, TermList, near_terms, norms, search

Lists = dict[int, int]
"""Documents, and how often a term is in each."""


def plain(one: Lists) -> TermList:
    docs = np.array(sorted(one), np.uint32)
    return TermList.of_arrays(docs, np.array([one[int(doc)] for doc in docs], np.uint32))


def bounds(one: TermList, norm: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return one.exact_bounds(norm)


@st.composite
def corpora(draw: st.DrawFn) -> tuple[int, list[tuple[Lists, float, int]], int]:
    """Documents, terms with their weights and groups, and how many groups there are."""
    number = draw(st.sampled_from([1, 50, 700, 3000, 9000]))
    rng = random.Random(draw(st.integers(0, 1 << 30)))
    terms: list[tuple[Lists, float, int]] = []
    groups = draw(st.integers(1, 3))
    roles = [*range(groups), *draw(st.lists(st.integers(-2, groups - 1), max_size=4))]
    for role in roles:
        share = draw(st.sampled_from([0.002, 0.05, 0.4, 0.95]))
        docs = {doc: 1 + min(int(rng.expovariate(0.7)), 30) for doc in range(number) if rng.random() < share}
        if not docs:
            docs = {rng.randrange(number): 1}
        weight = rng.uniform(0.1, 4) * (-0.5 if role == OPTIONAL and rng.random() < 0.5 else 1)
        terms.append((docs, weight, role))
    return number, terms, groups


@given(corpus=corpora(), limit=st.sampled_from([-1, 1, 3, 10, 100]), masked=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=examples(30), deadline=None)
def test_the_best_documents_are_found(
    corpus: tuple[int, list[tuple[Lists, float, int]], int], limit: int, masked: bool, seed: int
) -> None:
    number, terms, groups = corpus
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 60, number).astype(np.uint32)
    norm = norms(lengths, float(lengths.mean()), False)
    keep = (rng.random(number) < 0.3).astype(np.uint8) if masked else None
    lists = [plain(one) for one, *_ in terms]
    asked = [
        (one, bounds(one, norm) if limit >= 0 else None, weight, role)
        for one, (_, weight, role) in zip(lists, terms, strict=True)
    ]
    docs, scores = search(asked, groups, [], norm, keep, limit)
    expected = {}
    for doc in range(number):
        if keep is not None and not keep[doc]:
            continue
        here = [(weight, one[doc], role) for one, weight, role in terms if doc in one]
        if {role for *_, role in here if role >= 0} == set(range(groups)) and all(r != EXCLUDED for *_, r in here):
            parts = [
                np.float32(w) * (np.float32(2.2) * (np.float32(f) / (np.float32(f) + norm[doc]))) for w, f, _ in here
            ]
            expected[doc] = float(sum(parts))
    best = sorted(expected.values(), reverse=True)[: None if limit < 0 else limit]
    np.testing.assert_allclose(scores, best, rtol=1e-4, atol=1e-4)
    assert len(set(docs.tolist())) == len(docs)
    np.testing.assert_allclose([expected[doc] for doc in docs.tolist()], scores, rtol=1e-4, atol=1e-4)


@given(
    number=st.sampled_from([1, 130, 2000, 9000]),
    limit=st.sampled_from([1, 10, 127, 128, 129, 1000]),
    share=st.sampled_from([0.1, 1.0]),
    seed=st.integers(0, 99),
)
@settings(max_examples=examples(30), deadline=None)
def test_of_documents_of_one_term_with_equal_scores_the_first_are_found(
    number: int, limit: int, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    norm = norms(rng.integers(1, 4, number).astype(np.uint32), 2.0, False)
    docs = np.flatnonzero(rng.random(number) <= share).astype(np.uint32)
    keep = (rng.random(number) < 0.5).astype(np.uint8) if seed % 2 else None
    if not len(docs):
        return
    freqs = rng.integers(1, 3, len(docs)).astype(np.uint32)
    one = TermList.of_arrays(docs, freqs)
    found, scores = search([(one, one.exact_bounds(norm), 1.5, 0)], 1, [], norm, keep, limit)
    f = freqs.astype(np.float32)
    every = np.float32(1.5) * (np.float32(2.2) * (f / (f + norm[docs])))
    counted = np.ones(len(docs), np.bool_) if keep is None else keep[docs] > 0
    order = np.lexsort((docs[counted], -every[counted]))[:limit]
    assert found.tolist() == docs[counted][order].tolist()
    assert scores.tolist() == every[counted][order].tolist()


@given(
    words=st.lists(st.text("abcä海🐚", min_size=0, max_size=7), max_size=30),
    text=st.text("abcä海🐚", min_size=1, max_size=6),
    edits=st.integers(0, 3),
    prefix=st.integers(0, 4),
)
@settings(max_examples=examples(80), deadline=None)
def test_words_that_are_nearly_the_same_are_found(words: list[str], text: str, edits: int, prefix: int) -> None:
    data = np.frombuffer("".join(words).encode(), np.uint8)
    offsets = np.cumsum([0, *(len(word.encode()) for word in words)]).astype(np.int64)
    expected = [
        place
        for place, word in enumerate(words)
        if len(data) and word.startswith(text[:prefix]) and distance(word, text) <= edits
    ]
    assert near_terms(data, offsets, text, edits, prefix).tolist() == expected


def test_blocks_that_are_none_are_refused() -> None:
    block = np.zeros(64, np.uint8)
    offsets = np.array([0, 64], np.int64)
    with pytest.raises(BadPostings, match="blocks of 100 documents are not known"):
        TermList.of_blocks(block, offsets, 1, 100, VARINT)
    with pytest.raises(BadPostings, match="1 blocks of 128 do not hold 300 documents"):
        TermList.of_blocks(block, offsets, 300, 128, VARINT)
    with pytest.raises(BadPostings, match="outside of their bytes"):
        TermList.of_blocks(block, np.array([0, 65], np.int64), 1, 128, VARINT)
    with pytest.raises(BadPostings, match="block 1 does not begin behind the one before it"):
        TermList.of_blocks(block, np.array([0, 32, 64], np.int64), 129, 128, VARINT)


@given(data=st.binary(min_size=1, max_size=200), length=st.integers(1, 300), size=st.sampled_from([128, 256]))
@settings(max_examples=examples(150), deadline=None)
def test_any_bytes_are_postings_or_an_error(data: bytes, length: int, size: int) -> None:
    """Whatever files hold: no crash, and no document that is not there."""
    blocks = np.frombuffer(data, np.uint8)
    count = -(-length // size)
    offsets = np.linspace(0, len(data), count + 1).astype(np.int64)
    norm = np.ones(1000, np.float32)
    try:
        one = TermList.of_blocks(blocks, offsets, length, size, VARINT, blocks, offsets)
        docs, _ = search([(one, None, 1.0, 0), (one, None, 1.0, 1)], 2, [([0, 1], [0, 1], 2)], norm, None, 10)
        assert len(docs) == 0 or int(docs.max()) < 1000
        one.impact_bounds(blocks, offsets, 5.0)
    except BadPostings:
        return
