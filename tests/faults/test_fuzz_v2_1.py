"""Data files of 2.1 and 2.2 with one believable lie each; see fuzz_v2_1.py for what is changed and what may happen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

import drawing
from faults.damage import sanitizer
from lancelet.testing import random_array
from unit.encoding.made21 import make_file
from unit.encoding.test_v2_1_pages import CONSTANTS, EXAMPLES

HERE = Path(__file__).parent
WILD_CALLS = HERE.parent / "unit" / "encoding" / "wild_calls.py"
PACKED = {"lance-encoding:packed": "true"}

COLUMNS: dict[str, tuple[pa.DataType, str, dict[str, str] | None, int]] = {
    "ints": (pa.int32(), "random", None, 12),
    "small": (pa.int64(), "sorted", None, 12),
    "few": (pa.int64(), "low", None, 12),
    "runs": (pa.int32(), "runs", None, 12),
    "bools": (pa.bool_(), "random", None, 12),
    "texts": (pa.string(), "random", None, 20),
    "few_texts": (pa.string(), "low", None, 20),
    "fsst": (pa.string(), "random", {"lance-encoding:compression": "fsst"}, 60),
    "zstd": (pa.string(), "random", {"lance-encoding:compression": "zstd"}, 60),
    "lz4": (pa.float32(), "random", {"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"}, 12),
    "long": (pa.string(), "random", None, 500),
    "long_zstd": (pa.binary(), "random", {"lance-encoding:compression": "zstd"}, 900),
    "vector": (pa.list_(pa.float32(), 4), "random", None, 12),
    "wide": (pa.list_(pa.float32(), 70), "random", None, 12),
    "grid": (pa.list_(pa.list_(pa.int16(), 2), 3), "random", None, 12),
    "bits": (pa.list_(pa.bool_(), 9), "random", None, 12),
    "fixed": (pa.binary(300), "random", None, 12),
    "dict": (pa.dictionary(pa.int8(), pa.string()), "low", None, 12),
    "lists": (pa.list_(pa.int16()), "random", None, 12),
    "text_lists": (pa.list_(pa.string()), "low", None, 12),
    "long_lists": (pa.list_(pa.string()), "random", None, 600),
    "deep": (pa.list_(pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]))), "random", None, 12),
    "struct": (pa.struct([("x", pa.int64()), ("y", pa.string())]), "random", None, 12),
    "packed": (pa.struct([("x", pa.int64()), ("y", pa.int8())]), "random", PACKED, 12),
    "blob": (pa.large_binary(), "random", {"lance-encoding:blob": "true"}, 50),
    "map": (pa.map_(pa.string(), pa.int32()), "random", None, 12),
    "packed_text": (pa.struct([("x", pa.int32()), ("y", pa.string())]), "random", PACKED, 12),
    "struct_vector": (pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]), 2), "random", None, 12),
}
SINCE_2_2 = ("map", "packed_text", "struct_vector")


def _write(path: Path, array: pa.Array, version: str, metadata: dict[str, str] | None) -> None:
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    with LanceFileWriter(str(path), schema, version=version, data_cache_bytes=1) as writer:
        for start in (0, 900):
            piece = array.take(pa.array(range(start, min(start + 900, len(array)))))
            writer.write_batch(pa.record_batch([piece], schema=schema))


@pytest.fixture(scope="session")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files of every layout and codec, most of them of two pages."""
    folder = tmp_path_factory.mktemp("seeds")
    for number, (name, (kind, pattern, metadata, size)) in enumerate(COLUMNS.items()):
        for version in ("2.1", "2.2"):
            if version == "2.1" and name in SINCE_2_2:
                continue
            flat = metadata == PACKED or "blob" in name
            array = random_array(kind, 1300, number, pattern=pattern, nulls="none" if flat else "some", text_bytes=size)
            _write(folder / f"{name}-{version}", array, version, metadata)
    for name, (dtype, page, _) in CONSTANTS.items():
        (folder / f"constant {name}").write_bytes(make_file(dtype, [[page, page]]))
    for name, (dtype, pages, _) in EXAMPLES.items():
        (folder / f"example {name}").write_bytes(make_file(dtype, [[page, page] for page in pages]))
    return folder


def _findings(folder: Path, seed: int, count: int, timeout: int) -> list[str]:
    limited = "LANCELET_SANITIZED" not in os.environ
    job = {"folder": str(folder), "seed": seed, "first": 0, "count": count, "limit": limited}
    found: list[str] = []
    while job["count"] > 0:
        child = subprocess.run(
            [sys.executable, str(HERE / "fuzz_v2_1.py")], input=json.dumps(job), capture_output=True, text=True,
            env=_environment(), timeout=timeout, check=False,
        )  # fmt: skip
        lines = child.stdout.splitlines()
        found += [json.loads(line[5:]) for line in lines if line.startswith("FIND ")]
        if child.returncode == 0:
            assert lines[-1].startswith("DONE ")
            break
        died = max(int(line[5:]) for line in lines if line.startswith("NEXT "))
        found.append(f"seed {seed} number {died}: died with {child.returncode}: {child.stderr[-3000:]}")
        job["count"] -= died + 1 - job["first"]
        job["first"] = died + 1
    return found


def _environment() -> dict[str, str]:
    """With AddressSanitizer where ``make soak`` has built for it."""
    sanitized = os.environ.get("LANCELET_SANITIZED")
    return dict(os.environ) | (sanitizer(Path(sanitized).resolve()) if sanitized else {})


def _report(found: list[str]) -> None:
    if found:
        pytest.fail(f"{len(found)} findings, the first ones:\n" + "\n".join(found[:5]))


def test_intact_files_have_no_findings(seeds: Path) -> None:
    from faults.fuzz_v2_1 import problems

    for path in seeds.iterdir():
        assert problems(path.read_bytes(), 1) == [], path.name


@pytest.mark.parametrize("name", ["ints-2.1", "text_lists-2.1", "struct-2.2", "map-2.2", "struct_vector-2.2"])
def test_fields_that_are_said_to_be_something_else(seeds: Path, name: str) -> None:
    from faults.fuzz_v2_1 import TYPES, Parts, problems

    data = (seeds / name).read_bytes()
    for number in range(len(Parts(data).descriptor.schema.fields)):
        for logical_type in (*TYPES, "map", "large_list", "list.struct", "fixed_size_list:struct:2"):
            parts = Parts(data)
            parts.descriptor.schema.fields[number].logical_type = logical_type
            assert problems(parts.join(), 1) == [], (number, logical_type)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))])
def test_believable_lies(seeds: Path, seed: int) -> None:
    _report(_findings(seeds, seed, 600, 600))


@pytest.mark.soak
@pytest.mark.parametrize("seed", drawing.seeds(100, 140))
def test_thousands_of_believable_lies(seeds: Path, seed: int) -> None:
    _report(_findings(seeds, seed, drawing.examples(200), 7200))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_kernels_called_with_anything(seed: int) -> None:
    """Sizes, positions and counts that nobody would mean; under AddressSanitizer no stray byte goes unseen."""
    child = subprocess.run(
        [sys.executable, str(WILD_CALLS), str(seed * 10**6), "300"],
        capture_output=True, text=True, env=_environment(), timeout=1200, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-4000:]
