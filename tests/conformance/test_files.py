"""Single data files, read without their table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.file
import pyarrow as pa
import pytest

import lancelet.file
from conformance.states import create
from conformance.test_blobs import marked
from lancelet.errors import LanceletError
from lancelet.testing import assert_identical


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tmp_path_factory.mktemp("files") / "t"
    create(table, {"data_storage_version": request.param}, 300, 300)
    return next((table / "data").glob("*.lance"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda reader: reader.read_all(),
        lambda reader: reader.read_all(batch_size=7),
        lambda reader: reader.read_range(20, 100),
        lambda reader: reader.read_range(3, 0),
        lambda reader: reader.take_rows([0, 5, 6, 299]),
        lambda reader: reader.take_rows([]),
    ],
)
@pytest.mark.parametrize("columns", [None, ["s", "k"], ["p.x"]])
def test_rows(path: Path, ask: Any, columns: list[str] | None) -> None:
    ours, theirs = (
        lancelet.file.LanceFileReader(path, columns=columns),
        lance.file.LanceFileReader(path, columns=columns),
    )
    assert_identical(ask(ours).to_table(), ask(theirs).to_table())


def test_what_a_file_says_of_itself(path: Path) -> None:
    ours, theirs = lancelet.file.LanceFileReader(path), lance.file.LanceFileReader(path)
    assert ours.num_rows() == theirs.num_rows() == 300
    mine, other = ours.metadata(), theirs.metadata()
    for name in (
        "schema",
        "num_rows",
        "num_data_bytes",
        "num_column_metadata_bytes",
        "num_global_buffer_bytes",
        "major_version",
        "minor_version",
    ):
        assert getattr(mine, name) == getattr(other, name), name
    assert ours.read_global_buffer(0) == theirs.read_global_buffer(0)
    shown = [(c.num_pages, c.size_bytes) for c in ours.file_statistics().columns]
    assert shown == [(c.num_pages, c.size_bytes) for c in theirs.file_statistics().columns]


@pytest.mark.parametrize(
    "ask",
    [
        lambda reader: reader.take_rows([1, 0]),
        lambda reader: reader.take_rows([1, 1]),
        lambda reader: reader.take_rows([300]),
        lambda reader: reader.read_range(0, 301),
        lambda reader: reader.read_all(batch_size=0).to_table(),
        lambda reader: reader.read_global_buffer(9),
    ],
)
def test_refusals(path: Path, ask: Any) -> None:
    with pytest.raises(LanceletError):
        ask(lancelet.file.LanceFileReader(path))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Not found"):
        lancelet.file.LanceFileReader(tmp_path / "none.lance")


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_are_read_whole(tmp_path: Path, version: str) -> None:
    marked(tmp_path / "t", version)
    for file in (tmp_path / "t" / "data").glob("*.lance"):
        ours, theirs = lancelet.file.LanceFileReader(file), lance.file.LanceFileReader(file)
        assert ours.read_all().to_table().to_pydict() == theirs.read_all().to_table().to_pydict()
    assert isinstance(ours.read_all().to_batches(), pa.RecordBatchReader)
