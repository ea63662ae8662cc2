"""The tokens of documents as they stand in pylance's indices: texts, lists of texts, JSON."""

from __future__ import annotations

import json

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.query import MatchQuery

import lancelet
from drawing import examples
from lancelet.errors import InvalidInput, UnfitData
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.params import JSON, Params
from text.corpus import Found, partitions, stored, write
from text.samples import LANGUAGES, SCRIPTS

TEXTS = [*SCRIPTS.values(), *LANGUAGES.values(), "", " ", None, "the", "x" * 50]
LISTS = [
    ["a b", None, "c", "", "d Reef"], None, [], [None], ["", "e"], ["", ""], ["kelp"], ["fooBar", "bazQux", " tide "],
    TEXTS,
]  # fmt: skip
DOCUMENTS = [
    {"Title": "The Running Reef", "n": 12, "f": 1.5, "b": True, "z": None, "a": ["x Y", 2, {"k": "deep Value"}]},
    {"": {"x": "kelp"}, "p": {"": "tide", "q": {"": {"r": "c"}}}, "s": ["", {"": "d"}], "e": [], "o": {}, "a.b": "dot"},
    ["top", "level", 3, [False, [None]]], "just text", 42, None, {}, [], "",
    {"big": 2**64 - 1, "bigger": 2**70, "small": -(2**63), "e": 1e300, "tiny": 1e-7, "zero": -0.0, "long": "x" * 60},
    {"é,str": "É;ü, ß", "k k": "a,number,1"},
]  # fmt: skip


def found(params: Params, texts: pa.Array) -> Found:
    """Positions of terms in documents."""
    analyzer = Analyzer(params)
    tokens = analyzer.analyze(texts)
    answer: Found = {}
    for document, term, position in zip(tokens.document, tokens.term, tokens.position, strict=True):
        answer.setdefault(analyzer.terms.text(term), {}).setdefault(int(document), []).append(int(position))
    return answer


def check(uri, dtype: pa.DataType, texts: list, **options: object) -> None:
    """An index of pylance's holds our tokens, with the options that it says it was built with."""
    table = write(uri, texts, dtype)
    table.create_scalar_index("text", "INVERTED", with_position=True, **options)
    parts = partitions(uri)
    column = lancelet.dataset(uri).to_table(columns=["text"])["text"].combine_chunks()
    assert found(parts[0].head.params, column) == stored(parts)


TOKENIZERS = [
    {},
    {"base_tokenizer": "whitespace", "language": "German", "max_token_length": None},
    {"base_tokenizer": "raw", "stem": False},
    {"base_tokenizer": "ngram", "min_ngram_length": 2},
    {"base_tokenizer": "ngram", "prefix_only": True, "max_ngram_length": 5},
    {"base_tokenizer": "code", "split_identifiers": True, "index_operators": True},
    {"base_tokenizer": "icu"},
    {"base_tokenizer": "icu/split", "stem": False},
]


@pytest.mark.parametrize("options", TOKENIZERS, ids=str)
@pytest.mark.spread(0.5, each=False)
def test_texts(tmp_path, options):
    check(str(tmp_path), pa.string(), TEXTS, **options)


@pytest.mark.parametrize("options", TOKENIZERS, ids=str)
@pytest.mark.spread(0.5, each=False)
def test_lists_of_texts_are_one_document_each(tmp_path, options):
    check(str(tmp_path), pa.list_(pa.string()), LISTS, **options)


@pytest.mark.parametrize("options", TOKENIZERS, ids=str)
def test_json_documents(tmp_path, options):
    check(str(tmp_path), pa.json_(), [*map(json.dumps, DOCUMENTS), None], **options)


@pytest.mark.soak
@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_in_every_language(tmp_path, language):
    check(str(tmp_path), pa.large_string(), TEXTS, language=language)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8).filter(str.isprintable),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b c", "é", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, min_size=1, max_size=30))
@settings(max_examples=examples(8), deadline=None)
def test_any_json_documents(tmp_path_factory, values):
    check(str(tmp_path_factory.mktemp("json")), pa.json_(), ["0", *map(json.dumps, values)])


def test_a_query_on_json_names_paths_types_and_values(tmp_path):
    table = write(str(tmp_path), [json.dumps(document) for document in DOCUMENTS], pa.json_())
    table.create_scalar_index("text", "INVERTED")
    params = Params(lance_tokenizer=JSON)
    documents = found(params, pa.array([json.dumps(document) for document in DOCUMENTS]))
    for query in (
        "Title,str,The running REEF",
        "n,number,12;b,bool,true",
        "z,null,null",
        "a,str,y;nothing,str,here",
        ",str,top",
    ):
        terms = [term for term, _ in Analyzer(params).query(query)]
        rows = table.to_table(full_text_query=MatchQuery(query, "text"), columns=["id"])["id"].to_pylist()
        assert sorted(rows) == sorted(set().union(*(documents.get(term, {}) for term in terms)))


@pytest.mark.parametrize("query", ["reef", "", "t,str", "t,str,a;", "t,text,reef", "t, str,reef"])
def test_queries_on_json_of_another_form_are_refused_as_pylance_does(tmp_path, query):
    table = write(str(tmp_path), ['{"t": "reef"}'], pa.json_())
    table.create_scalar_index("text", "INVERTED")
    with pytest.raises(ValueError, match="Invalid triple"):
        table.to_table(full_text_query=MatchQuery(query, "text"))
    with pytest.raises(InvalidInput, match=r"path,type,value|unknown type"):
        Analyzer(Params(lance_tokenizer=JSON)).query(query)


def test_a_document_that_is_no_json_is_refused():
    for document in ("{", "[" * 100_000):
        with pytest.raises(UnfitData, match="no JSON"):
            Analyzer(Params(lance_tokenizer=JSON)).analyze(pa.array([document]))


def test_queries_have_the_tokens_of_documents():
    analyzer = Analyzer(Params())
    for text in SCRIPTS.values():
        tokens = analyzer.analyze(pa.array([text]))
        terms = [analyzer.terms.text(term) for term in tokens.term]
        assert analyzer.query(text) == list(zip(terms, tokens.position.tolist(), strict=True))
        assert [term.decode() for term in terms] == [token.text for token in lance.tokenize(text)]
