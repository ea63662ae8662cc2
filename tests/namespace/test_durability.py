"""What a new table has on the disk when ``create_table`` returns, and what it need not have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lance
import lance.namespace
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancelet
from lancelet.namespace import DirectoryNamespace
from namespace.spaces import ROWS, child, create


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that the system was told to keep, in order."""
    found: list[Path] = []
    sync = os.fsync

    def noted(file: Any) -> None:
        number = file if isinstance(file, int) else file.fileno()
        found.append(Path(f"/proc/self/fd/{number}").readlink())
        sync(number)

    monkeypatch.setattr(os, "fsync", noted)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are read from /proc")
@pytest.mark.parametrize("names", [["t"], ["n", "t"]], ids=".".join)
def test_what_is_synced(tmp_path: Path, synced: list[Path], names: list[str]) -> None:
    space = DirectoryNamespace(root=tmp_path)
    child(space, "n")
    create(space, "before")
    synced.clear()
    create(space, *names)
    location = space.describe_table(ln.DescribeTableRequest(id=names)).location.removeprefix("file://")
    catalog = tmp_path / "__manifest"
    for table in (Path(location), catalog):
        dataset = lance.dataset(table)
        (data,) = (table / "data" / file.path for fragment in dataset.get_fragments() for file in fragment.data_files())
        manifest = next(
            n
            for n, path in enumerate(synced)
            if path.name.endswith(".tmp") and path.parts[: len(table.parts)] == table.parts
        )
        # All that the version refers to is there before the version, and the version's own name after it.
        assert {data, data.parent} <= set(synced[:manifest])
        assert table / "_versions" in synced[manifest:]
    assert {Path(location), tmp_path} <= set(synced)
    assert not [path for path in synced if "_transactions" in path.parts]
    assert len(synced) <= 11


@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_files_of_transactions_may_get_lost(tmp_path: Path, damage: str) -> None:
    """Manifests have the transactions too, for those who rebase over them."""
    for number, (module, other) in enumerate([(lancelet, lance), (lance, lancelet), (lancelet, lancelet)]):
        place = tmp_path / str(number)
        lancelet.write_dataset(pa.table({"a": range(10)}), place)
        stale = module.dataset(place)
        lancelet.write_dataset(ROWS.select(["a"]), place, mode="append")
        for path in (place / "_transactions").iterdir():
            path.unlink() if damage == "missing" else path.write_bytes(b"")
        stale.delete("a = 9")
        assert other.dataset(place).count_rows() == 12
        assert other.dataset(place).read_transaction(2) is not None
        other.dataset(place).delete("a = 1")
        assert module.dataset(place).count_rows() == 10


def test_the_catalog_has_no_files_of_transactions(tmp_path: Path) -> None:
    """But for its first version, as in pylance."""
    space = DirectoryNamespace(root=tmp_path)
    for number in range(4):
        create(space, f"t{number}")
    assert len(list((tmp_path / "__manifest" / "_transactions").iterdir())) == 1
    theirs = lance.namespace.DirectoryNamespace(root=str(tmp_path))
    create(theirs, "theirs")
    create(space, "ours")
    assert len(space.list_tables(ln.ListTablesRequest(id=[])).tables) == 6
    assert lance.dataset(tmp_path / "__manifest").read_transaction(3) is not None
    lancelet.dataset(tmp_path / "__manifest").validate()
