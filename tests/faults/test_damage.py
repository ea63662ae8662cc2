"""Damaged bytes give a lancelet error or another value; never a crash, a hang, a wild allocation or a foreign error."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawing import examples, seeds
from faults.damage import Damage, findings, flips, patches, truncations

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
SOME = ["k", "s_random", "l_low"]
"""Deletions hide rows of all columns alike."""


def _victim(table: Path, kind: str) -> Path:
    """The newest manifest, the data file or the deletion file."""
    if kind == "manifest":
        return min((table / "_versions").glob("*.manifest"))
    folder = {"data": "data", "deletion": "_deletions"}[kind]
    return next(path for path in (table / folder).iterdir() if path.is_file())


def _report(found: list[str]) -> None:
    if found:
        pytest.fail(f"{len(found)} findings, the first ones:\n" + "\n".join(found[:5]).replace("\\n", "\n"))


def test_the_child_reads_the_intact_table(tables: dict[str, Path]) -> None:
    """Where nothing is damaged even an error of lancelet's own is a finding, so that silence means something."""
    for table in tables.values():
        victim = _victim(table, "data")
        _report(findings(table, victim, [Damage(0, victim.read_bytes()[:1].hex())]))


@pytest.mark.parametrize("kind", ["data", "manifest", "deletion"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.spread(0.5, each=False)
def test_flipped_bits_lying_numbers_and_truncated_files(tables: dict[str, Path], version: str, kind: str) -> None:
    """Manifests and deletions are the same in every version, which share out where files end."""
    victim = _victim(tables[version], kind)
    data = victim.read_bytes()
    turn = VERSIONS.index(version)
    most, many = (12, 8) if kind == "data" else (6, 5)
    every = flips(data, most, turn) + patches(data, many, turn) + truncations(data, 5, 3)[turn :: len(VERSIONS)]
    _report(findings(tables[version], victim, every, columns=SOME if kind == "deletion" else None))


def test_damaged_bitmap_deletions(tables: dict[str, Path]) -> None:
    victim = _victim(tables["bitmap"], "deletion")
    assert victim.suffix == ".bin"
    data = victim.read_bytes()
    _report(findings(tables["bitmap"], victim, flips(data, 60, 4) + patches(data, 20, 5) + truncations(data, 15, 6)))


def test_damaged_head_of_every_deletion_file(tables: dict[str, Path]) -> None:
    """Roaring keeps its counts at the front, Arrow its magic."""
    for name in ("bitmap", "2.2"):
        victim = _victim(tables[name], "deletion")
        data = victim.read_bytes()
        every = [Damage(at, bytes([data[at] ^ bit]).hex()) for at in range(min(24, len(data))) for bit in (1, 0x80)]
        _report(findings(tables[name], victim, every, columns=["k"]))


def test_damage_behind_an_object_store(tables: dict[str, Path]) -> None:
    """The other way in: ranges fetched from a store instead of a mapped file."""
    for turn, version in enumerate(VERSIONS):
        victim = _victim(tables[version], "data")
        data = victim.read_bytes()
        every = flips(data, 6, 7) + patches(data, 4, 8) + truncations(data, 2, 9)[turn :: len(VERSIONS)]
        _report(findings(tables[version], victim, every, in_memory=True))


@pytest.mark.soak
@pytest.mark.parametrize("in_memory", [False, True], ids=["mapped", "fetched"])
@pytest.mark.parametrize("round_", seeds(0, 25))
@pytest.mark.parametrize("kind", ["data", "manifest", "deletion"])
@pytest.mark.parametrize("version", VERSIONS)
def test_thousands_of_damages(tables: dict[str, Path], version: str, kind: str, round_: int, in_memory: bool) -> None:
    victim = _victim(tables[version], kind)
    data = victim.read_bytes()
    every = flips(data, examples(5), 1000 + round_) + patches(data, examples(2), 2000 + round_)
    every += truncations(data, examples(1), 3000 + round_)
    _report(findings(tables[version], victim, every, in_memory=in_memory, seconds=3600))
