"""Damaged index files: an error of lancelet's own, or sound rows; never a crash, a hang or a foreign error."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from drawing import examples, seeds
from faults.damage import Damage, all_sorts, findings
from lancelet.errors import LanceletError

ROWS = 300
KINDS = {
    "numbers": ("k", "BTREE", {"zone_size": 64}),
    "texts": ("s", "BTREE", {"zone_size": 64}),
    "bitmap": ("c", "BITMAP", {}),
    "bitmap of texts": ("s", "BITMAP", {}),
    "labels": ("l", "LABEL_LIST", {}),
    "zones": ("k", "ZONEMAP", {"rows_per_zone": 30}),
    "bloom": ("c", "BLOOMFILTER", {"number_of_items": 60, "probability": 0.05}),
    "trigrams": ("s", "NGRAM", {}),
}
ENGINES = {"ours": lancelet, "pylance": lance}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """A table for each index."""
    folder = tmp_path_factory.mktemp("damage")
    numbers = range(ROWS)
    data = pa.table(
        {
            "k": pa.array([None if n % 17 == 5 else n for n in numbers], pa.int64()),
            "s": [None if n % 13 == 4 else f"row {n}" for n in numbers],
            "c": pa.array([None if n % 9 == 2 else n % 20 for n in numbers], pa.int32()),
            "l": [None if n % 11 == 3 else ["a", "b", None, "c"][: n % 5] for n in numbers],
        }
    )
    made = {}
    for engine, module in ENGINES.items():
        for kind, (column, name, options) in KINDS.items():
            where = folder / f"{engine} {kind}"
            lance.write_dataset(data, where, max_rows_per_file=200)
            module.dataset(where).create_scalar_index(column, name, **options)
            made[engine, kind] = where
    return made


def victims(table: Path) -> list[Path]:
    found = sorted((table / "_indices").rglob("*.lance"))
    assert found
    return found


def seed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "little")


def damages(victim: Path, count: int, *parts: object) -> list[Damage]:
    return all_sorts(victim.read_bytes(), count, seed(victim.name, *parts))


def report(found: list[str]) -> None:
    if found:
        pytest.fail(f"{len(found)} findings, the first ones:\n" + "\n".join(found[:5]).replace("\\n", "\n"))


@pytest.mark.parametrize(
    ("engine", "kind"),
    [("ours", kind) for kind in KINDS]
    + [
        # Bits of pylance's files of the other kinds are damaged where these are tested.
        pytest.param("pylance", kind, marks=() if kind in ("numbers", "texts", "labels") else pytest.mark.soak)
        for kind in KINDS
    ],
)
@pytest.mark.spread(0.5, each=False)
def test_damaged_files(tables: dict[tuple[str, str], Path], engine: str, kind: str) -> None:
    """Every kind takes its turn of the damages."""
    table = tables[engine, kind]
    for turn, victim in enumerate(victims(table), list(KINDS).index(kind)):
        intact = Damage(0, victim.read_bytes()[:1].hex())
        report(findings(table, victim, [intact, *damages(victim, 12, kind)[turn % 3 :: 3]]))


@pytest.mark.soak
@pytest.mark.parametrize("in_memory", [False, True], ids=["mapped", "fetched"])
@pytest.mark.parametrize("round_", seeds(0, 10))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_thousands_of_damages(
    tables: dict[tuple[str, str], Path], engine: str, kind: str, round_: int, in_memory: bool
) -> None:
    table = tables[engine, kind]
    for victim in victims(table):
        report(findings(table, victim, damages(victim, examples(4), round_), in_memory=in_memory, seconds=3600))


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_gone_or_of_another_index(
    tables: dict[tuple[str, str], Path], tmp_path: Path, kind: str
) -> None:
    """Never a scan in place of an index that cannot be read: who asks hears of it."""
    column = KINDS[kind][0]
    asked = {"k": "k = 17", "s": "contains(s, 'row 18')", "c": "c = 7", "l": "array_has(l, 'b')"}[column]
    if kind in ("texts", "bitmap of texts"):
        asked = "s = 'row 18'"
    for number, victim in enumerate(victims(tables["ours", kind])):
        where = shutil.copytree(tables["ours", kind], tmp_path / str(number))
        path = where / victim.relative_to(tables["ours", kind])
        path.unlink()
        with pytest.raises(LanceletError, match=path.name):
            lancelet.dataset(where).to_table(filter=asked)
        assert lancelet.dataset(where).to_table(filter=asked, use_scalar_index=False).num_rows > 0
        other = victims(tables["ours", "zones" if kind == "bloom" else "bloom"])[0]
        shutil.copy(other, path)
        with pytest.raises(LanceletError, match="corrupt"):
            lancelet.dataset(where).to_table(filter=asked)
        lancelet.dataset(where).optimize.optimize_indices(retrain=True)
        for engine in ENGINES.values():
            found = engine.dataset(where).to_table(filter=asked)
            assert found.num_rows == engine.dataset(where).to_table(filter=asked, use_scalar_index=False).num_rows
