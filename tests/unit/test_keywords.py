"""Keywords that several functions share: shown by all of them, and unknown ones are refused."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import pytest

import lancelet
from lancelet._api.scan_options import FragmentOptions, ScanOptions
from lancelet.errors import InvalidType
from lancelet.fragment import write_fragments
from lancelet.writing.keywords import FragmentKeywords, TableKeywords
from lancelet.writing.options import write_options

DATA = {"x": [1, 2, 3]}


@pytest.mark.parametrize(
    "function, keywords",
    [
        (lancelet.LanceDataset.scanner, ScanOptions),
        (lancelet.LanceDataset.to_table, ScanOptions),
        (lancelet.LanceDataset.to_batches, ScanOptions),
        (lancelet.LanceFragment.scanner, FragmentOptions),
        (lancelet.LanceFragment.to_batches, FragmentOptions),
        (lancelet.write_dataset, TableKeywords),
        (write_fragments, FragmentKeywords),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_keywords_are_shown(function: Any, keywords: Any) -> None:
    shown = inspect.signature(function).parameters
    assert keywords.__annotations__.keys() <= shown.keys()
    help_text = pydoc.render_doc(function)
    assert all(name in help_text for name in keywords.__annotations__)


def test_unknown_keywords() -> None:
    dataset = lancelet.write_dataset(DATA, "memory://keywords/t", mode="overwrite")
    fragment = dataset.get_fragments()[0]
    for call in (dataset.scanner, dataset.to_table, dataset.to_batches, fragment.scanner, fragment.to_batches):
        with pytest.raises(InvalidType, match=r"scanner\(\) got an unexpected keyword argument 'colour'"):
            call(colour="blue")
    with pytest.raises(TypeError, match="colour"):
        dataset.to_pandas(colour="blue")
    with pytest.raises(InvalidType, match=r"write_dataset\(\) got an unexpected keyword argument 'colour'"):
        lancelet.write_dataset(DATA, "memory://keywords/u", colour="blue")
    with pytest.raises(InvalidType, match=r"write_fragments\(\) got an unexpected keyword argument 'commit_message'"):
        write_fragments(DATA, "memory://keywords/u", commit_message="a version is needed for one")


def test_defaults_are_those_that_hold() -> None:
    """What the signature shows changes nothing when it is given."""
    shown = {name: one.default for name, one in inspect.signature(lancelet.write_dataset).parameters.items()}
    assert write_options(**{name: shown[name] for name in TableKeywords.__annotations__}) == write_options()
    dataset = lancelet.write_dataset(DATA, "memory://keywords/t", mode="overwrite")
    for call in (dataset.to_table, dataset.get_fragments()[0].to_table):
        given = {
            name: one.default for name, one in inspect.signature(call).parameters.items() if one.kind != one.VAR_KEYWORD
        }
        assert call(**given).equals(dataset.to_table())


def test_options_by_position() -> None:
    """Those that pylance takes by position are taken so, each once."""
    dataset = lancelet.write_dataset(DATA, "memory://keywords/t", mode="overwrite")
    by_position = (["x"], "x > 1", 1, 0, None, 2, None, 16, 4, True)
    assert dataset.to_table(*by_position)["x"].to_pylist() == [2]
    assert [batch.num_rows for batch in dataset.to_batches(*by_position[:2])] == [2]
    assert dataset.to_pandas(*by_position[:6], 16, 4, True)["x"].to_list() == [2]
    assert dataset.scanner(*by_position, dataset.get_fragments(), None, None).to_table().num_rows == 1
    fragment = dataset.get_fragments()[0]
    assert fragment.to_table(["x"], "x > 1", 1, 1, True).schema.names == ["x", "_rowid"]
    with pytest.raises(InvalidType, match="got multiple values for argument 'with_row_id'"):
        fragment.to_table(["x"], None, None, None, True, with_row_id=True)
    for call in (dataset.scanner, dataset.to_table, dataset.to_batches, dataset.to_pandas):
        with pytest.raises(InvalidType, match="got multiple values for argument 'batch_size'"):
            call(*by_position[:6], batch_size=3)
        with pytest.raises(InvalidType, match="positional arguments too many"):
            call(*by_position, None, None, None, None)
