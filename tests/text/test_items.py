"""Texts inside of structs that are items of lists (``l.t``): indexed, searched and kept up as pylance does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import lance.query
import numpy as np
import pyarrow as pa
import pytest
from tests.text.corpus import entries
from tests.text.test_histories import items_of, theirs
from tests.text.test_matching import PLAIN, assert_same, ranked, sentences

import lancelet
import lancelet.query
from lancelet.errors import LanceletError, NotSupported, UnknownColumn
from lancelet.query import DocumentGranularity, FullTextOperator, MatchQuery, PhraseQuery

ITEM = pa.struct([pa.field("n", pa.int64()), pa.field("t", pa.string()), pa.field("u", pa.large_string())])
TYPES = {
    "l.t": pa.struct([("l", pa.list_(ITEM))]),
    "l.u": pa.struct([("l", pa.large_list(ITEM))]),
    "l.m.t": pa.struct([("l", pa.struct([("m", pa.list_(ITEM))]))]),
    "l.s.t": pa.struct([("l", pa.list_(pa.struct([("s", ITEM)])))]),
}


def rows(path: str, first: int, count: int) -> pa.Table:
    """Lists of up to three texts: some lists, some items and some texts are null."""
    draw = random.Random(first)

    def item() -> Any:
        (text,) = sentences(draw, 1, 7)
        inner = None if draw.random() < 0.1 else {"n": draw.randint(0, 9), "t": text, "u": text}
        return {"s": inner} if path == "l.s.t" else inner

    def value() -> Any:
        items = None if draw.random() < 0.1 else [item() for _ in range(draw.randint(0, 3))]
        return {"m": items} if path == "l.m.t" else items

    values = pa.array([value() for _ in range(count)], TYPES[path].field("l").type)
    return pa.table({"id": range(first, first + count), "l": values})


def queries(path: str) -> list[Any]:
    return [
        MatchQuery("w1 w2 w9", path),
        MatchQuery("w0 w3", path, operator=FullTextOperator.AND),
        PhraseQuery("w0 w1", path, slop=1),
    ]


@pytest.mark.parametrize(
    ("path", "stable"), [*((path, False) for path in TYPES), ("l.t", True)], ids=[*TYPES, "l.t by stable ids"]
)
@pytest.mark.spread(0.4, each=False)
def test_rows_are_found_as_by_pylance_through_a_life_of_both(tmp_path: Path, path: str, stable: bool) -> None:
    uri = str(tmp_path / "table")
    engines: list[Any] = [lancelet, lance]

    def check(*, is_cut: bool = True) -> None:
        for query in queries(path):
            for options in ({}, {"limit": 6}) if is_cut else ({},):
                expected = ranked(lance.dataset(uri), theirs(query), **options)
                assert_same(expected, ranked(lancelet.dataset(uri), query, **options))
        assert not lancelet.dataset(uri).verify(deep=True).errors

    engines[0].write_dataset(rows(path, 0, 120), uri, max_rows_per_file=50, enable_stable_row_ids=stable)
    check()
    engines[0].dataset(uri).create_scalar_index(path, "INVERTED", **PLAIN)
    check()
    for number, engine in enumerate([lance, lancelet]):
        engine.dataset(uri).insert(rows(path, 200 + 100 * number, 30))
        check()
        engine.dataset(uri).optimize.optimize_indices(num_indices_to_merge=number)
        check()
    lancelet.dataset(uri).delete("id % 9 = 2")
    lancelet.dataset(uri).optimize.compact_files()
    # Deleted rows that have kept their ids take the place of others in pylance.
    check(is_cut=not stable)
    told = [source.dataset(uri).describe_indices()[0] for source in engines]
    assert (told[0].name, told[0].field_names, told[0].num_rows_indexed) == (
        told[1].name,
        told[1].field_names,
        told[1].num_rows_indexed,
    )
    assert {entry.name for entry in entries(uri)} == {f"{path}_idx"}


@pytest.mark.parametrize("builder", [lance, lancelet], ids=["pylance", "lancelet"])
def test_items_are_texts_of_their_own_where_the_index_says_so(tmp_path: Path, builder: Any) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(rows("l.t", 0, 150), uri, max_rows_per_file=100)
    whole: Any = {lance: lance.query, lancelet: lancelet.query}[builder]
    options = {**PLAIN, "document_granularity": whole.DocumentGranularity.LIST_ELEMENT}
    builder.dataset(uri).create_scalar_index("l.t", "INVERTED", **options)
    lance.dataset(uri).insert(rows("l.t", 150, 50))
    lancelet.dataset(uri).delete("id % 7 = 3")
    ours, other = lancelet.dataset(uri), lance.dataset(uri)
    assert [entry.name for entry in entries(uri)] == ["l.t_list_element_idx"]
    for query in queries("l.t"):
        expected, found = items_of(other, theirs(query)), items_of(ours, query)
        assert sorted(found[0]) == sorted(expected[0])
        np.testing.assert_allclose(found[1], np.sort(expected[1])[::-1], rtol=1e-6)
    assert not ours.verify(deep=True).errors


def test_a_query_without_columns_finds_texts_in_items(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lancelet.write_dataset(rows("l.t", 0, 40), uri).create_scalar_index("l.t", "INVERTED", **PLAIN)
    assert_same(ranked(lance.dataset(uri), "w1"), ranked(lancelet.dataset(uri), "w1"))


@pytest.mark.parametrize(
    ("dtype", "path"),
    [
        (pa.list_(ITEM, 2), "l.t"),
        (pa.map_(pa.string(), pa.string()), "l.value"),
        (pa.list_(ITEM), "l.item.t"),
        (pa.list_(ITEM), "l.n"),
        (pa.list_(ITEM), "l.x"),
    ],
    ids=["a fixed size", "a map", "the item", "a number", "no such field"],
)
def test_what_pylance_refuses_is_refused_in_one_sentence(tmp_path: Path, dtype: pa.DataType, path: str) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"l": pa.nulls(3, dtype)}), uri)
    with pytest.raises((ValueError, TypeError, RuntimeError, KeyError)):
        lance.dataset(uri).create_scalar_index(path, "INVERTED")
    with pytest.raises(LanceletError):
        lancelet.dataset(uri).create_scalar_index(path, "INVERTED")
    with pytest.raises(LanceletError):
        lancelet.dataset(uri).to_table(full_text_query=MatchQuery("w", path))


def test_only_texts_are_indexed_inside_of_items(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(rows("l.t", 0, 10), tmp_path / "table")
    for kind in ("BTREE", "LABEL_LIST", "BITMAP"):
        with pytest.raises(UnknownColumn, match=r"l\.t"):
            dataset.create_scalar_index("l.t", kind)


def test_lists_inside_of_items_are_left_to_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    dtype = pa.list_(pa.struct([("t", pa.list_(pa.string()))]))
    values = pa.array([[{"t": ["q", "x"]}, {"t": ["x"]}], [{"t": ["z"]}]], dtype)
    lance.write_dataset(pa.table({"l": values}), uri).create_scalar_index("l.t", "INVERTED")
    dataset = lancelet.dataset(uri)
    (before,) = entries(uri)
    dataset.insert(pa.table({"l": values}))
    with pytest.warns(UserWarning, match="does not extend"):
        dataset.optimize.optimize_indices()
    assert entries(uri) == [before]
    for refused in (
        lambda: dataset.create_scalar_index("l.t", "INVERTED"),
        lambda: dataset.to_table(full_text_query=MatchQuery("x", "l.t")),
    ):
        with pytest.raises(NotSupported, match="inside of items of lists"):
            refused()
    assert dataset.verify(deep=True).errors == ()
    granularity = DocumentGranularity.LIST_ELEMENT
    with pytest.raises(NotSupported):
        dataset.create_scalar_index("l.t", "INVERTED", document_granularity=granularity)
