"""Texts cut by the base tokenizer jieba: pylance's tokens and positions, with the dictionary that it reads."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import CorruptFile, InvalidInput, MissingFile, MissingPackage, NotSupported
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import read_indices
from lancelet.index.text import chinese
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.params import Params
from lancelet.index.text.segment import TextSegment
from lancelet.query import MatchQuery, PhraseQuery

pytestmark = pytest.mark.skipif(
    find_spec("jieba") is None, reason="the package jieba, of the extra lancelet[jieba], has the numbers of the model"
)
WORDS = {
    "我": 328841, "我们": 31400, "我们的": 30, "中国": 20604, "科学": 4000, "学院": 3000, "科学院": 1500, "中国科学院": 300,
    "南京": 2000, "京市": 3, "南京市": 1500, "市长": 900, "长江": 2200, "大桥": 700, "长江大桥": 100, "江": 500, "T恤": 80, "在": 99999,
}  # fmt: skip
PLAIN: dict[str, Any] = {"stem": False, "remove_stop_words": False, "ascii_folding": False, "max_token_length": None}
TEXTS = [
    "我们在中国科学院，他们在南京市长江大桥",
    "T恤 100%100% a-b 3.14 Kelp\r\n\t，。",
    "南京市长 𠀀# 龘靐 我们的",
    "",
    None,
    "长江",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of language models with one dictionary."""
    folder = tmp_path / "models"
    (folder / "jieba" / "default").mkdir(parents=True)
    lines = "".join(f"{word} {often} n\n" for word, often in WORDS.items())
    (folder / "jieba" / "default" / "dict.txt").write_text(lines, "utf-8")
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(folder))
    return folder


def tokens_of(uri: str) -> dict[int, list[tuple[int, bytes]]]:
    """Positions and tokens of rows, as an index has them."""
    snapshot = lancelet.dataset(uri)._snapshot
    (entry,) = read_indices(snapshot.manifest)
    found: dict[int, list[tuple[int, bytes]]] = {}
    for part in TextSegment(IndexFolder(snapshot, entry), pa.string()).partitions:
        for token, number in part.tokens.items():
            (one,) = part.postings([number], True)
            docs, freqs = one.decode(len(part.documents))
            places = iter(one.decode_positions(freqs).tolist())
            for doc, often in zip(docs.tolist(), freqs.tolist(), strict=True):
                found.setdefault(int(part.documents.rows[doc]), []).extend((next(places), token) for _ in range(often))
    return {row: sorted(some) for row, some in found.items()}


def both(folder: Path, texts: pa.Array, **options: Any) -> list[dict[int, list[tuple[int, bytes]]]]:
    """What pylance's index of texts has, and ours."""
    found = []
    for number, library in enumerate((lance, lancelet)):
        uri = str(folder / f"table {number}")
        dataset = library.write_dataset(pa.table({"text": texts}), uri, mode="overwrite")
        dataset.create_scalar_index(
            "text", "INVERTED", base_tokenizer="jieba/default", with_position=True, **{**PLAIN, **options}
        )
        found.append(tokens_of(uri))
    return found


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("options", [{}, {"max_token_length": 7, "lower_case": False}], ids=str)
def test_tokens_and_positions_are_pylances(tmp_path: Path, options: dict[str, Any]) -> None:
    theirs, ours = both(tmp_path, pa.array(TEXTS), **options)
    assert theirs == ours
    assert len(ours) == 4


CHARACTERS = st.sampled_from(
    [
        *"我们中国科学院南京市长江大桥在T恤aZ09+#&._%- \n，é龘",
        "\r\n",
        "\u3400",
        "\u9fff",
        "\uf900",
        "\U00020000",
        "\U00030000",
    ]
)


@given(st.lists(st.lists(CHARACTERS, max_size=14).map("".join), min_size=30, max_size=60))
@settings(max_examples=examples(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_cut_as_pylance_cuts_it(home: Path, tmp_path: Path, texts: list[str]) -> None:
    theirs, ours = both(tmp_path, pa.array(texts, pa.string()))
    assert theirs == ours


@pytest.mark.usefixtures("home")
def test_lists_of_texts_are_cut_as_pylance_cuts_them(tmp_path: Path) -> None:
    lists = pa.array([["我们", "在中国"], [None, "", "长江"], [], None], pa.list_(pa.string()))
    theirs, ours = both(tmp_path, lists)
    assert theirs == ours


@pytest.mark.usefixtures("home")
def test_searches_find_what_pylance_finds(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    theirs = lance.write_dataset(pa.table({"text": TEXTS}), uri)
    theirs.create_scalar_index("text", "INVERTED", base_tokenizer="jieba/default", with_position=True, **PLAIN)
    ours = lancelet.dataset(uri)
    for asked in ("长江", "我们在", "科学院 T恤", "他们"):
        found = ours.to_table(["_rowid", "_score"], full_text_query=MatchQuery(asked, "text"))
        expected = theirs.to_table(["_rowid", "_score"], full_text_query=lance.query.MatchQuery(asked, "text"))
        assert found.num_rows
        assert found["_rowid"].to_pylist() == expected["_rowid"].to_pylist()
        assert found["_score"].to_pylist() == pytest.approx(expected["_score"].to_pylist(), rel=1e-6)
    phrase = ours.to_table(["_rowid"], full_text_query=PhraseQuery("他们在", "text"))
    assert phrase["_rowid"].to_pylist() == [0]


def test_the_dictionary_is_where_pylance_looks_for_it(home: Path) -> None:
    folder = home / "jieba" / "mine"
    with pytest.raises(MissingFile, match=r"mine.*'jieba/mine' is read from there"):
        Analyzer(Params(base_tokenizer="jieba/mine"))
    folder.mkdir()
    with pytest.raises(MissingFile, match="dictionary of the base tokenizer jieba"):
        Analyzer(Params(base_tokenizer="jieba/mine"))
    (folder / "words.txt").write_text("海藻 10\n海 5\n", "utf-8")
    (folder / "config.json").write_text(json.dumps({"main": "words.txt"}), "utf-8")
    analyzer = Analyzer(Params(base_tokenizer="jieba/mine", stem=False, remove_stop_words=False))
    assert analyzer.query("海藻海") == [("海藻".encode(), 0), ("海".encode(), 2)]


def test_without_a_dictionary_of_ones_own_the_packages_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(tmp_path))
    words = chinese.open_dictionary("jieba").words
    assert words["中国"]
    assert words["中国科"] == 0


def test_bad_dictionaries_and_names_are_told_in_one_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "jieba" / "default"
    for config, error, text in (
        ("{", CorruptFile, "is no JSON"),
        ("[]", CorruptFile, "is no object"),
        ('{"users": ["more.txt"]}', NotSupported, "'users', which are not read here"),
    ):
        (folder / "config.json").write_text(config, "utf-8")
        with pytest.raises(error, match=text):
            Analyzer(Params(base_tokenizer="jieba"))
    (folder / "config.json").unlink()
    for words, text in (("海藻 many", "no list of words"), ("", "has no words")):
        (folder / "dict.txt").write_text(words, "utf-8")
        chinese._read_words.cache_clear()
        with pytest.raises(CorruptFile, match=text):
            Analyzer(Params(base_tokenizer="jieba/default"))
    with pytest.raises(InvalidInput, match="'jieba/' goes before the name of a dictionary"):
        Analyzer(Params(base_tokenizer="jieba/../default"))
    monkeypatch.setattr(chinese.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"pip install 'lancelet\[jieba\]'"):
        Analyzer(Params(base_tokenizer="jieba"))
