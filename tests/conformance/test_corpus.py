"""The acceptance corpus: our own reader finds what its JSON says, and pylance where it should."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lance
import pytest

import lancelet

sys.path.insert(0, str(Path(__file__).parents[2]))
from corpus.__main__ import check, write
from corpus.cases import cases


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write(folder)
    return folder


def test_it_says_what_is_in_it(corpus: Path) -> None:
    index = json.loads((corpus / "index.json").read_text())
    assert [case["name"] for case in index] == [case.name for case in cases()]
    assert len({case["name"] for case in index}) == len(index) > 150
    expected = json.loads((corpus / "types/2.2/float" / "expected.json").read_text())
    assert expected["1"]["rows"] == [["0.0"], ["-0.0"], [None], ["NaN"], ["Infinity"], ["1.100000023841858"]]


@pytest.mark.parametrize("library", [lancelet, lance], ids=["lancelet", "pylance"])
def test_readers_find_it(corpus: Path, library: object) -> None:
    found = {case.name: check(library, corpus, case.name) for case in cases()}
    different = {name: said for name, said in found.items() if said is not None}
    assert different == {}
