"""Damaged and lying files of vector indices: an error of lancelet's own, or rows of the table, each once.

Bits are flipped, numbers replaced and files cut; then files are written whose parts are all sound, but say what cannot be.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import lancelet
from drawing import examples, seeds
from faults.damage import Damage, findings
from faults.test_index_damage import damages, report
from lancelet.errors import CorruptFile, LanceletError, NotSupported
from lancelet.format.proto.vector_index_pb2 import IVF, Tensor
from vector.brute import vector_array

ROWS = 300
DIMENSION = 16
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_RQ": {"num_bits": 3},
    "IVF_HNSW_FLAT": {"ef_construction": 40},
    "IVF_HNSW_SQ": {"ef_construction": 40},
    "IVF_HNSW_PQ": {"num_sub_vectors": 4, "num_bits": 4, "ef_construction": 40},
}
QUICK = (("ours", "IVF_PQ"), ("ours", "IVF_HNSW_SQ"), ("pylance", "IVF_RQ"))
ENGINES = {"ours": lancelet, "pylance": lance}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """A table for each index, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("vectors")
    vectors = vector_array(np.random.default_rng(3).normal(size=(ROWS, DIMENSION)) * 3, "float32")
    data = pa.table({"k": range(ROWS), "v": vectors})

    def made(engine: str, kind: str) -> Path:
        where = folder / f"{engine} {kind}"
        if not where.exists():
            lance.write_dataset(data, where, max_rows_per_file=200)
            ENGINES[engine].dataset(where).create_index("v", kind, num_partitions=2, **KINDS[kind])
        return where

    return made


def victims(table: Path) -> list[Path]:
    found = sorted((table / "_indices").rglob("*.idx"))
    assert [path.name for path in found] == ["auxiliary.idx", "index.idx"]
    return found


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        pytest.param(engine, kind, marks=() if (engine, kind) in QUICK else pytest.mark.soak)
        for engine in ENGINES
        for kind in KINDS
    ],
)
def test_damaged_files(tables: Callable[[str, str], Path], engine: str, kind: str) -> None:
    """Every kind takes its turn of the damages."""
    table = tables(engine, kind)
    for turn, victim in enumerate(victims(table), list(KINDS).index(kind)):
        intact = Damage(0, victim.read_bytes()[:1].hex())
        report(findings(table, victim, [intact, *damages(victim, 8, kind)[turn % 2 :: 2]]))


@pytest.mark.soak
@pytest.mark.parametrize("in_memory", [False, True], ids=["mapped", "fetched"])
@pytest.mark.parametrize("round_", seeds(0, 10))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_thousands_of_damages(
    tables: Callable[[str, str], Path], engine: str, kind: str, round_: int, in_memory: bool
) -> None:
    table = tables(engine, kind)
    for victim in victims(table):
        report(findings(table, victim, damages(victim, examples(4), round_), in_memory=in_memory, seconds=3600))


@dataclass
class Parts:
    """What is in a file, to be changed."""

    rows: pa.Table
    metadata: dict[str, str]
    buffers: list[bytes]

    def say(self, key: str, **changes: Any) -> None:
        """Other values in a JSON of the metadata."""
        text = self.metadata[key]
        inner = json.loads(json.loads(text)[0] if text.startswith("[") else text)
        inner |= changes
        self.metadata[key] = json.dumps([json.dumps(inner)]) if text.startswith("[") else json.dumps(inner)

    def partitions(self, change: Callable[[IVF], object]) -> None:
        message = IVF.FromString(self.buffers[int(self.metadata["lance:ivf"]) - 1])
        change(message)
        self.buffers[int(self.metadata["lance:ivf"]) - 1] = message.SerializeToString()

    def put(self, column: str, values: Any, dtype: pa.DataType | None = None) -> None:
        place = self.rows.schema.get_field_index(column)
        array = pa.array(values, dtype or self.rows.schema.field(column).type)
        self.rows = self.rows.set_column(place, column, array)

    def graphs(self, **changes: Any) -> None:
        """Other values in what is told of each graph."""
        texts = json.loads(self.metadata["lance:hnsw"])
        self.metadata["lance:hnsw"] = json.dumps([json.dumps({**json.loads(text), **changes}) for text in texts])


def rewrite(path: Path, change: Callable[[Parts], object]) -> None:
    reader = LanceFileReader(str(path))
    about = reader.metadata()
    metadata = {key.decode(): value.decode() for key, value in about.schema.metadata.items()}
    buffers = [reader.read_global_buffer(number) for number in range(1, len(about.global_buffers))]
    rows = reader.read_all().to_table().replace_schema_metadata(None)
    parts = Parts(rows, metadata, buffers)
    change(parts)
    path.unlink()
    with LanceFileWriter(str(path), parts.rows.schema, version="2.1") as writer:
        for buffer in parts.buffers:
            writer.add_global_buffer(buffer)
        for key, value in parts.metadata.items():
            writer.add_schema_metadata(key, value)
        if len(parts.rows):
            writer.write_batch(parts.rows)


def tensor(*shape: int) -> bytes:
    return Tensor(data_type=2, shape=shape, data=np.zeros(shape, np.float32).tobytes()).SerializeToString()


def second_longer(message: IVF) -> None:
    message.lengths[1] += 1


def lost(message: IVF) -> None:
    del message.offsets[-1], message.lengths[-1]


def overlapping(message: IVF) -> None:
    message.offsets[1] = 0


def narrow(message: IVF) -> None:
    message.centroids_tensor.CopyFrom(Tensor.FromString(tensor(2, DIMENSION - 1)))


def without_numbers(message: IVF) -> None:
    values = np.full((2, DIMENSION), np.nan, np.float32)
    message.centroids_tensor.data = values.tobytes()


def first_twice(parts: Parts) -> None:
    rows = parts.rows["_rowid"].to_pylist()
    parts.put("_rowid", [*rows[:1], *rows[:1], *rows[2:]])


def elsewhere(row: int) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        parts.put("_rowid", [row, *parts.rows["_rowid"].to_pylist()[1:]])

    return change


def filled(column: str, value: float) -> Callable[[Parts], None]:
    return lambda parts: parts.put(column, [value] * len(parts.rows))


def neighbours(value: int) -> Callable[[Parts], None]:
    return lambda parts: parts.put("__neighbors", [[value]] * len(parts.rows))


STORAGE, INDEX = "auxiliary.idx", "index.idx"
LIES: dict[str, tuple[str, str, Callable[[Parts], object], str]] = {
    "a metric of its own": ("IVF_FLAT", INDEX, lambda parts: parts.say("lance:index", distance_type="l3"), "l3"),
    "another metric than the entry": (
        "IVF_FLAT",
        INDEX,
        lambda parts: parts.say("lance:index", distance_type="cosine"),
        "cosine",
    ),
    "an unknown type": ("IVF_FLAT", INDEX, lambda parts: parts.say("lance:index", type="IVF_X"), "IVF_X"),
    "another type": ("IVF_FLAT", INDEX, lambda parts: parts.say("lance:index", type="IVF_PQ"), "sub-vectors"),
    "no JSON": ("IVF_FLAT", INDEX, lambda parts: parts.metadata.update({"lance:index": "{"}), "JSON"),
    "a buffer that is not there": (
        "IVF_SQ",
        STORAGE,
        lambda parts: parts.metadata.update({"lance:ivf": "7"}),
        "buffer",
    ),
    "no partitions": ("IVF_SQ", STORAGE, lambda parts: parts.buffers.__setitem__(0, b""), "partitions"),
    "rows beyond the end": ("IVF_SQ", STORAGE, lambda parts: parts.partitions(second_longer), "partition 1 has"),
    "fewer partitions": ("IVF_SQ", STORAGE, lambda parts: parts.partitions(lost), "partitions"),
    "partitions that overlap": ("IVF_SQ", STORAGE, lambda parts: parts.partitions(overlapping), "partition"),
    "short centroids": ("IVF_SQ", INDEX, lambda parts: parts.partitions(narrow), "centroids"),
    "centroids without numbers": ("IVF_SQ", INDEX, lambda parts: parts.partitions(without_numbers), "finite"),
    "another dimension": ("IVF_FLAT", STORAGE, lambda parts: parts.say("storage_metadata", dim=15), "15"),
    "a row twice": ("IVF_FLAT", STORAGE, first_twice, "ascending|twice"),
    "a row beyond its fragment": ("IVF_FLAT", STORAGE, elsewhere(ROWS + 7), "row 307"),
    "bounds without numbers": (
        "IVF_SQ",
        STORAGE,
        lambda parts: parts.say("storage_metadata", bounds={"start": float("nan"), "end": 1.0}),
        "nan",
    ),
    "bounds of texts": (
        "IVF_SQ",
        STORAGE,
        lambda parts: parts.say("storage_metadata", bounds={"start": "x"}),
        "bounds",
    ),
    "a short codebook": ("IVF_PQ", STORAGE, lambda parts: parts.buffers.__setitem__(1, tensor(256, 12)), "codebook"),
    "a codebook that lies": (
        "IVF_PQ",
        STORAGE,
        lambda parts: parts.buffers.__setitem__(1, tensor(256, 16).replace(b"\x80\x02", b"\x80\x04", 1)),
        "numbers",
    ),
    "more sub-vectors": ("IVF_PQ", STORAGE, lambda parts: parts.say("storage_metadata", num_sub_vectors=8), "uint8"),
    "negative sub-vectors": ("IVF_PQ", STORAGE, lambda parts: parts.say("storage_metadata", num_sub_vectors=-4), "-4"),
    "bits of half a byte": ("IVF_PQ", STORAGE, lambda parts: parts.say("storage_metadata", nbits=4), "codebook"),
    "a position of no number": (
        "IVF_PQ",
        STORAGE,
        lambda parts: parts.say("storage_metadata", codebook_position=2**70),
        "buffer",
    ),
    "factors without numbers": ("IVF_RQ", STORAGE, filled("__scale_factors", float("nan")), "finite"),
    "extra factors without numbers": ("IVF_RQ", STORAGE, filled("__add_factors_ex", float("nan")), "finite"),
    "another number of bits": ("IVF_RQ", STORAGE, lambda parts: parts.say("storage_metadata", num_bits=5), "uint8"),
    "signs that are too few": (
        "IVF_RQ",
        STORAGE,
        lambda parts: parts.say("storage_metadata", fast_rotation_signs=[1, 2]),
        "signs",
    ),
    "neighbours that are not there": ("IVF_HNSW_FLAT", INDEX, neighbours(ROWS), "neighbour"),
    "an entry that is not there": ("IVF_HNSW_FLAT", INDEX, lambda parts: parts.graphs(entry_point=ROWS), "entry"),
    "levels beyond the end": ("IVF_HNSW_FLAT", INDEX, lambda parts: parts.graphs(level_offsets=[0, 2**62]), "levels"),
    "levels that go back": ("IVF_HNSW_FLAT", INDEX, lambda parts: parts.graphs(level_offsets=[0, 5, 2]), "levels"),
    "a vector id twice": (
        "IVF_HNSW_SQ",
        INDEX,
        lambda parts: parts.put("__vector_id", [0] * len(parts.rows)),
        "level",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies(tmp_path: Path, lie: str) -> None:
    """What cannot be is said by name; the error tells which file it is about."""
    kind, file, change, told = LIES[lie]
    vectors = vector_array(np.random.default_rng(3).normal(size=(ROWS, DIMENSION)), "float32")
    dataset = lancelet.write_dataset(pa.table({"k": range(ROWS), "v": vectors}), tmp_path)
    given = {"ivf_centroids": np.random.default_rng(4).normal(size=(2, DIMENSION)).astype(np.float32)}
    part = dataset.create_index_uncommitted(
        "v", kind, name="near", num_partitions=2, fragment_ids=[0], **given, **KINDS[kind]
    )
    for name in (STORAGE, INDEX):
        rewrite(tmp_path / "_indices" / part.uuid / name, change if name == file else lambda parts: None)
    dataset.commit_existing_index_segments("near", "v", [replace(part, files=None)])
    asked = {"column": "v", "q": np.ones(DIMENSION, np.float32), "k": ROWS, "nprobes": 2}
    with pytest.raises(LanceletError, match=told) as caught:
        lancelet.dataset(tmp_path).to_table(["_distance"], nearest=asked)
    assert isinstance(caught.value, (CorruptFile, NotSupported))
    assert part.uuid in str(caught.value)
    assert lancelet.dataset(tmp_path).to_table(nearest={**asked, "use_index": False}).num_rows == ROWS


def test_what_is_written_anew_without_a_lie_is_asked(tmp_path: Path) -> None:
    """The tests above fail by their lies alone."""
    vectors = vector_array(np.random.default_rng(3).normal(size=(ROWS, DIMENSION)), "float32")
    dataset = lancelet.write_dataset(pa.table({"k": range(ROWS), "v": vectors}), tmp_path)
    asked = {"column": "v", "q": np.ones(DIMENSION, np.float32), "k": ROWS, "nprobes": 2}
    for kind in KINDS:
        part = dataset.create_index_uncommitted("v", kind, num_partitions=2, fragment_ids=[0], **KINDS[kind])
        for name in (STORAGE, INDEX):
            rewrite(tmp_path / "_indices" / part.uuid / name, lambda parts: None)
        dataset.commit_existing_index_segments(kind, "v", [replace(part, files=None)])
        found = lancelet.dataset(tmp_path).to_table(["k", "_distance"], nearest=asked, fast_search=True)
        assert sorted(found["k"].to_pylist()) == list(range(ROWS)), kind
        dataset.drop_index(kind)


def swapped(column: str) -> Callable[[Parts], None]:
    """The first two values of a column change places."""

    def change(parts: Parts) -> None:
        values = parts.rows[column].to_pylist()
        parts.put(column, [values[1], values[0], *values[2:]])

    return change


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_HNSW_FLAT"])
@pytest.mark.parametrize("column", ["_rowid", "flat"])
def test_a_deep_check_finds_vectors_of_other_rows(tmp_path: Path, kind: str, column: str) -> None:
    vectors = vector_array(np.random.default_rng(3).normal(size=(ROWS, DIMENSION)), "float32")
    dataset = lancelet.write_dataset(pa.table({"k": range(ROWS), "v": vectors}), tmp_path)
    part = dataset.create_index_uncommitted("v", kind, num_partitions=2, fragment_ids=[0], **KINDS[kind])
    rewrite(tmp_path / "_indices" / part.uuid / STORAGE, swapped(column))
    dataset.commit_existing_index_segments("near", "v", [replace(part, files=None)])
    (finding,) = lancelet.dataset(tmp_path).verify(deep=True).findings
    assert "has other values for 2 row(s)" in str(finding)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_deep_check_finds_sound_indices_sound(tmp_path: Path, engine: str) -> None:
    values = np.random.default_rng(3).normal(size=(ROWS, DIMENSION))
    values[7, 2], values[9] = np.nan, 0.0
    vectors = vector_array(values, "float32", np.arange(ROWS) % 50 == 3)
    ENGINES[engine].write_dataset(pa.table({"k": range(ROWS), "v": vectors}), tmp_path, max_rows_per_file=200)
    for kind, options in KINDS.items():
        for metric in ("l2", "cosine", "dot"):
            dataset = ENGINES[engine].dataset(tmp_path)
            dataset.create_index("v", kind, name="near", metric=metric, num_partitions=2, replace=True, **options)
            report = lancelet.dataset(tmp_path).verify(deep=True)
            assert report.ok, (kind, metric, report)
