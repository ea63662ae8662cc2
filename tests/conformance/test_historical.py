"""Tables written by releases of years past, where their folder is at hand.

What each holds is written down beside the tables; it is what today's pylance
reads, and pylance is asked again here.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from conformance.agree import agree
from lancelet.testing import assert_identical

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures" / "historical"

pytestmark = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason="the historical tables (../shared/fixtures/historical) are not on this machine"
)


@dataclass(frozen=True, slots=True)
class Old:
    """A historical table and what must be read from it."""

    path: str
    version: int
    rows: int
    columns: tuple[str, ...]
    fragments: int


TABLES = (
    Old("v0.7.5/with_deletions", 2, 90, ("x",), 1),
    Old("v0.8.0/migrated_from_v0.7.5", 3, 92, ("x",), 2),
    Old("v0.10.5/corrupt_schema", 6, 4, ("x", "y", "b", "c"), 2),
    Old("v0.13.0/string_encoding.lance", 1, 3, ("numbers", "strings", "bins", "more_numbers"), 1),
    Old("v0.15.0/v1_with_files.lance", 1, 3, ("x",), 1),
    Old("v0.15.0/v2_with_files.lance", 1, 3, ("x",), 1),
    Old("v0.16.0/wrong_data_version_can_fix.lance", 2, 3, ("foo",), 3),
    Old("v0.16.0/wrong_data_version_no_fix.lance", 2, 4, ("foo",), 4),
    Old("v0.20.0/old_btree_bitmap_indices.lance", 3, 4, ("bitmap", "btree"), 1),
)


@pytest.mark.parametrize("old", TABLES, ids=lambda old: old.path)
def test_reads_as_written_down(tmp_path: Path, old: Old) -> None:
    where = tmp_path / "t"
    shutil.copytree(FIXTURES / old.path, where, copy_function=shutil.copyfile)
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    assert ours.version == theirs.version == old.version
    assert ours.count_rows() == old.rows
    assert tuple(ours.schema.names) == old.columns
    assert len(ours.get_fragments()) == old.fragments
    agree(ours, theirs, lambda ds: ds.to_table())
    agree(ours, theirs, lambda ds: ds.to_table(with_row_id=True, with_row_address=True))
    # Not asked of pylance: its takes lose a row of the table whose fragment ids repeat.
    backwards = list(range(old.rows))[::-1]
    assert_identical(ours.take(backwards), theirs.to_table().take(backwards))
    for column in old.columns:
        whole = theirs.to_table([column])
        kept = whole.filter(whole[column].is_valid())
        assert_identical(ours.to_table([column], filter=f"{column} is not null"), kept)


@pytest.mark.parametrize("old", TABLES, ids=lambda old: old.path)
def test_every_older_version_reads(tmp_path: Path, old: Old) -> None:
    where = tmp_path / "t"
    shutil.copytree(FIXTURES / old.path, where, copy_function=shutil.copyfile)
    for number in range(1, old.version):
        theirs = _readable(where, number)
        if theirs is not None:
            assert lancelet.dataset(where, version=number).to_table().equals(theirs)


def _readable(where: Path, version: int) -> pa.Table | None:
    """What pylance reads, or None where files of that version are gone."""
    try:
        return lance.dataset(where, version=version).to_table()
    except (ValueError, OSError):
        return None


def test_old_indices_are_listed() -> None:
    ours = lancelet.dataset(FIXTURES / "v0.20.0" / "old_btree_bitmap_indices.lance")
    assert sorted(index.name for index in ours.describe_indices()) == ["bitmap_idx", "btree_idx"]
