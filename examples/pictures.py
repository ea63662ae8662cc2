"""Made-up pictures with captions and embeddings, the same ones every time; sent to Spark's workers as a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

DIMENSIONS = 128
COLUMNS = "id bigint, taken timestamp, caption string, license string, likes int, image binary, embedding array<float>"
SUBJECTS = ("heron", "lighthouse", "tram", "old bicycle", "market hall", "sleeping cat", "ferry", "birch wood")
MOODS = ("at dawn", "in the rain", "under snow", "seen from above", "with long shadows", "out of focus")
LICENSES = ("cc-by", "cc0", "all rights reserved", "withdrawn")
_SHARES = (0.55, 0.3, 0.12, 0.03)
_FIRST_DAY = np.datetime64("2024-01-01T00:00:00", "us")
_YEAR_SECONDS = 366 * 24 * 3600
_HEAD = np.frombuffer(bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffdb0043"), np.uint8)
_TAIL = np.frombuffer(bytes.fromhex("ffd9"), np.uint8)
_IMAGE_BYTES = (1_000, 5_000)
"""The smallest and the largest picture."""


def pictures(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A picture for each id; for ``DataFrame.mapInArrow``."""
    for batch in batches:
        ids = batch.column(0)
        for start in range(0, len(ids), 2_000):
            yield _pictures(ids.slice(start, 2_000))


def loudness(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What a model would say of embeddings: a new column for ``LanceTable.addColumns``."""
    vectors = batch["embedding"].flatten().to_numpy().reshape(-1, DIMENSIONS)
    return pa.record_batch({"loudness": pa.array(np.abs(vectors).max(axis=1).astype(np.float32))})


def _pictures(ids: pa.Array) -> pa.RecordBatch:
    rows = len(ids)
    rng = np.random.default_rng(ids[0].as_py())
    subject, mood = rng.integers(0, len(SUBJECTS), rows), rng.integers(0, len(MOODS), rows)
    caption = pc.binary_join_element_wise("A", _chosen(SUBJECTS, subject), _chosen(MOODS, mood), " ")
    taken = _FIRST_DAY + rng.integers(0, _YEAR_SECONDS, rows) * np.timedelta64(1_000_000, "us")
    licenses = _chosen(LICENSES, rng.choice(len(LICENSES), rows, p=_SHARES))
    likes = pa.array(rng.geometric(0.002, rows), pa.int32(), mask=rng.random(rows) < 0.02)
    return pa.record_batch(
        {
            "id": ids,
            "taken": pa.array(taken, pa.timestamp("us", tz="UTC")),
            "caption": caption,
            "license": licenses,
            "likes": likes,
            "image": _images(rng, rows),
            "embedding": _embeddings(rng, subject, mood),
        }
    )


def _chosen(words: tuple[str, ...], places: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(words).take(pa.array(places))


def _images(rng: np.random.Generator, rows: int) -> pa.Array:
    """Bytes that begin and end like a JPEG, with noise between."""
    offsets = np.concatenate([[0], rng.integers(*_IMAGE_BYTES, rows).cumsum()]).astype(np.int32)
    data = np.frombuffer(rng.bytes(int(offsets[-1])), np.uint8).copy()
    data[offsets[:-1, None] + np.arange(len(_HEAD))] = _HEAD
    data[offsets[1:, None] - len(_TAIL) + np.arange(len(_TAIL))] = _TAIL
    return pa.BinaryArray.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _embeddings(rng: np.random.Generator, subject: npt.NDArray[np.int64], mood: npt.NDArray[np.int64]) -> pa.Array:
    """Pictures of one subject lie close together, those of one mood closer still; all have length 1."""
    fixed = np.random.default_rng(0)
    subjects, moods = (fixed.standard_normal((len(words), DIMENSIONS)) for words in (SUBJECTS, MOODS))
    vectors = subjects[subject] + 0.5 * moods[mood] + 0.3 * rng.standard_normal((len(subject), DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    offsets = np.arange(len(subject) + 1, dtype=np.int32) * DIMENSIONS
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(vectors.astype(np.float32).ravel()))
