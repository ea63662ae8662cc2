"""MINHASHLSH indices: texts that are nearly the same, found as pylance finds them, on its files and on ours."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lancelet
from lancelet.errors import CorruptFile, InvalidInput, InvalidType
from lancelet.index.minhash.params import MinHashParams
from lancelet.index.text.analyzer import Analyzer
from lancelet.indices import IndexConfig
from lancelet.query import MinHashQuery

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi".split()  # noqa: SIM905


def texts(rows: int = 240, seed: int = 3) -> list[str | None]:
    draw = random.Random(seed)
    bases = [[draw.choice(WORDS) for _ in range(20)] for _ in range(30)]
    found: list[str | None] = []
    for row in range(rows):
        words = list(bases[row % 30])
        words[draw.randrange(20)] = draw.choice(WORDS)
        found.append(None if row % 17 == 5 else " ".join(words))
    return [*found[:-3], "", "short", "Zwei Wörter"]


TEXTS = texts()
TABLE = pa.table({"i": pa.array(range(len(TEXTS))), "s": pa.array(TEXTS)})
ASKED = [text for text in TEXTS[1:4] if text] + ["short", "zwei worter", "nothing like it at all", ""]
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"limit": 3},
    {"limit": 100},
    {"limit": 5, "filter": "i > 100", "prefilter": True},
    {"limit": 5, "filter": "i > 100"},
    {"limit": 4, "offset": 2},
    {"limit": 20, "fast_search": True},
)


def same_answers(uri: str) -> None:
    theirs, ours = lance.dataset(uri), lancelet.dataset(uri)
    for text in ASKED:
        for options in OPTIONS:
            expected = theirs.to_table(nearest=lance.query.MinHashQuery(text, "s"), with_row_id=True, **options)
            got = ours.to_table(nearest=MinHashQuery(text, "s"), with_row_id=True, **options)
            assert got == expected, (text, options)


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "ids"])
@pytest.mark.parametrize("builder", [lance, lancelet], ids=["theirs", "ours"])
def test_texts_that_are_nearly_the_same_are_found_as_by_pylance(tmp_path: Path, builder: Any, stable: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(TABLE, uri, data_storage_version="2.2", max_rows_per_file=90, enable_stable_row_ids=stable)
    builder.dataset(uri).create_scalar_index("s", "MINHASHLSH")
    same_answers(uri)
    lance.write_dataset(TABLE.slice(0, 50), uri, mode="append")
    lancelet.dataset(uri).delete("i % 10 = 3")
    same_answers(uri)
    ours, theirs = lancelet.dataset(uri), lance.dataset(uri)
    assert ours.describe_indices()[0].details == theirs.describe_indices()[0].details
    assert ours.stats.index_stats("s_idx")["indices"] == theirs.stats.index_stats("s_idx")["indices"]
    ours.optimize.optimize_indices()
    assert lancelet.dataset(uri).stats.index_stats("s_idx")["num_unindexed_rows"] == 0
    same_answers(uri)
    lancelet.dataset(uri).optimize.compact_files()
    same_answers(uri)
    assert lancelet.dataset(uri).verify(deep=True).ok
    lancelet.dataset(uri).drop_index("s_idx")
    assert lancelet.dataset(uri).describe_indices() == []


def test_files_are_those_of_pylance(tmp_path: Path) -> None:
    tables = []
    for engine in (lance, lancelet):
        uri = str(tmp_path / engine.__name__)
        lance.write_dataset(TABLE, uri, data_storage_version="2.2")
        engine.dataset(uri).create_scalar_index("s", "MINHASHLSH")
        (folder,) = Path(uri, "_indices").iterdir()
        readers = [LanceFileReader(str(folder / name)) for name in ("bands.lance", "signatures.lance")]
        tables.append([reader.read_all().to_table() for reader in readers])
    for theirs, ours in zip(*tables, strict=True):
        assert ours.equals(theirs)
        assert ours.schema.metadata.keys() == theirs.schema.metadata.keys()


def test_a_distance_is_the_share_of_the_signature_that_differs(tmp_path: Path) -> None:
    """By brute force: every text with an equal band, and no other."""
    uri = str(tmp_path / "t")
    ours = lancelet.write_dataset(TABLE, uri)
    ours.create_scalar_index("s", IndexConfig("minhashlsh", {"num_hashes": 32, "num_bands": 8, "shingle_size": 2}))
    params = MinHashParams(32, 8, 2)
    places, signatures = params.sign(Analyzer(params.tokenizer), TABLE["s"].combine_chunks())
    rows = places.tolist()
    for row in (1, 2, 60):
        wanted = signatures[rows.index(row)]
        alike = (signatures.reshape(-1, 8, 4) == wanted.reshape(8, 4)).all(axis=2).any(axis=1)
        distances = 1 - (signatures == wanted).mean(axis=1)
        expected = sorted((np.float32(distances[at]), rows[at]) for at in np.flatnonzero(alike))
        found = ours.to_table(nearest=MinHashQuery(str(TEXTS[row]), "s"), limit=1000)
        assert list(zip(found["_distance"].to_pylist(), found["i"].to_pylist(), strict=True)) == expected


def test_mistakes_are_refused_in_one_sentence(tmp_path: Path) -> None:
    ours = lancelet.write_dataset(TABLE, tmp_path / "t")
    for column in ("s", "i", "nope"):
        with pytest.raises(InvalidInput, match="there is no MINHASHLSH index on column"):
            ours.to_table(nearest=MinHashQuery("a", column))
    with pytest.raises(InvalidType, match="is on texts"):
        ours.create_scalar_index("i", "MINHASHLSH")
    with pytest.raises(InvalidInput, match="cannot be put into"):
        ours.create_scalar_index("s", "MINHASHLSH", num_hashes=7, num_bands=4)
    with pytest.raises(InvalidInput, match="not an option"):
        ours.create_scalar_index("s", "MINHASHLSH", nope=1)


def test_files_that_lie_are_refused(tmp_path: Path) -> None:
    ours = lancelet.write_dataset(TABLE, tmp_path / "t", data_storage_version="2.0")
    ours.create_scalar_index("s", "MINHASHLSH")
    file = next((tmp_path / "t" / "_indices").glob("*/bands.lance"))
    file.write_bytes(file.read_bytes().replace(b"minhash_lsh_page_rows", b"minhash_lsh_page_rowz"))
    with pytest.raises(CorruptFile, match="page_rows"):
        lancelet.dataset(ours.uri).to_table(nearest=MinHashQuery("a b c", "s"))


def test_an_fm_index_is_known_kept_and_refused_by_name(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    theirs = lance.write_dataset(TABLE, uri, data_storage_version="2.2")
    theirs.create_scalar_index("s", lance.indices.IndexConfig(index_type="fm", parameters={}), name="parts")
    ours = lancelet.dataset(uri)
    with pytest.raises(NotImplementedError, match="FM indices are not supported yet"):
        ours.create_scalar_index("s", IndexConfig("FM", {}))
    ours.insert(TABLE.slice(0, 10))
    ours.create_scalar_index("i", "BTREE")
    assert {index.name: index.index_type for index in ours.describe_indices()} == {"i_idx": "BTree", "parts": "Fm"}
    asked = "contains(s, 'beta gamma')"
    assert ours.count_rows(asked) == lance.dataset(uri).count_rows(asked)
