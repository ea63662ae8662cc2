"""Terms and their numbers, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.index.text.terms import Terms


@given(st.lists(st.binary(max_size=20), max_size=300))
@settings(max_examples=examples(60), deadline=None)
def test_terms_have_numbers_in_the_order_in_which_they_came(words):
    terms, expected = Terms(), {}
    for word in words:
        assert terms.intern(word) == expected.setdefault(word, len(expected))
    assert len(terms) == len(expected)
    assert terms.text_bytes == sum(map(len, expected))
    assert [terms.text(number) for number in range(len(terms))] == list(expected)
    assert all(terms.find(word) == number and word in terms for word, number in expected.items())
    assert terms.find(b"a word of more than twenty bytes") is None
    assert [terms.text(number) for number in terms.sorted()] == sorted(expected)


def test_many_terms_are_found_again_after_the_table_grew():
    words = [f"{number}".encode() * (number % 40) for number in range(50_000)]
    terms = Terms()
    numbers = [terms.intern(word) for word in words]
    assert [terms.find(word) for word in words] == numbers
    assert [terms.text(number) for number in numbers] == words
    assert terms.nbytes > terms.text_bytes


@pytest.mark.parametrize("alike", [2, 16, 17, 500])
def test_terms_that_begin_alike_are_sorted_by_all_of_their_bytes(alike):
    random = np.random.default_rng(alike)
    ends = {random.integers(0, 3, int(random.integers(0, 9))).astype(np.uint8).tobytes() for _ in range(alike)}
    words = [b"lagoons"[:size] + end for size in (0, 6, 7) for end in ends] + [
        b"of a long name" * 9 + end for end in ends
    ]
    terms = Terms()
    for word in random.permutation(np.array(sorted(set(words)), object)):
        terms.intern(word)
    assert [terms.text(number) for number in terms.sorted()] == sorted(set(words))


def test_terms_of_one_set_are_taken_into_another():
    first, second = Terms(), Terms()
    for word in (b"kelp", b"", b"reef"):
        first.intern(word)
    for word in (b"tide", b"reef"):
        second.intern(word)
    assert second.intern_all(*first.arrays()).tolist() == [2, 3, 1]
    assert [second.text(number) for number in range(4)] == [b"tide", b"reef", b"kelp", b""]


def test_offsets_that_lie_and_numbers_that_nobody_has_are_refused():
    terms = Terms()
    for offsets in ([0, 5], [3, 1], [-1, 2], []):
        with pytest.raises(ValueError, match="offsets"):
            terms.intern_all(np.zeros(4, np.uint8), np.array(offsets, np.int64))
    for number in (0, -1):
        with pytest.raises(IndexError, match="0 terms"):
            terms.text(number)
