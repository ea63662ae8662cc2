"""Nearest rows by plain arithmetic with doubles, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

METRICS = {"float16": ("l2", "cosine", "dot"), "float32": ("l2", "cosine", "dot"), "float64": ("l2", "cosine", "dot")}
TYPES = [(element, metric) for element, metrics in METRICS.items() for metric in metrics] + [("uint8", "hamming")]


def vector_array(values: npt.NDArray[Any], element: str, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Vectors as a column has them."""
    flat = pa.array(np.ascontiguousarray(values.astype(element)).ravel())
    array = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return array if nulls is None else pa.FixedSizeListArray.from_arrays(flat, values.shape[1], mask=pa.array(nulls))


def odd_vectors(rng: np.random.Generator, rows: int, d: int, element: str, *, copies: bool = True) -> pa.Array:
    """Vectors with nulls, and where there are such numbers no numbers and infinite ones; ``copies``: also equal vectors."""
    if element == "uint8":
        values: npt.NDArray[Any] = rng.integers(0, 256, (rows, d))
    else:
        values = rng.normal(size=(rows, d))
        values[rng.random(rows) < 0.03, 1] = np.nan
        values[rng.random(rows) < 0.03, 0] = np.inf
    if copies:
        values[rng.random(rows) < 0.05] = 0
        again = rng.random(rows) < 0.1
        values[again] = values[rng.integers(0, rows, again.sum())]
    return vector_array(values, element, rng.random(rows) < 0.05)


def distances(vectors: pa.Array | pa.ChunkedArray, query: npt.NDArray[Any], metric: str) -> npt.NDArray[np.float64]:
    """The distance of each row; NaN for those that are not near anything."""
    array = vectors.combine_chunks() if isinstance(vectors, pa.ChunkedArray) else vectors
    array = pa.concat_arrays([array])
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    d = array.type.list_size
    values = array.values.to_numpy(zero_copy_only=False).reshape(-1, d)[array.offset : array.offset + len(array)]
    if metric == "hamming":
        found = np.unpackbits(values ^ query.astype(np.uint8)[None], axis=1).sum(axis=1).astype(np.float64)
    else:
        v, q = values.astype(np.float64), query.astype(values.dtype).astype(np.float64)
        with np.errstate(all="ignore"):
            if metric == "l2":
                found = ((v - q) ** 2).sum(axis=1)
            elif metric == "dot":
                found = 1 - v @ q
            else:
                found = 1 - (v @ q) / np.linalg.norm(v, axis=1) / np.linalg.norm(q)
    found[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found


def check_nearest(
    result: pa.Table, rows: npt.NDArray[np.uint64], exact: npt.NDArray[np.float64], k: int, tolerance: float = 3e-6
) -> None:
    """That a result (``_rowid``, ``_distance``) has the ``k`` nearest of some rows, in order.

    Rows whose distances differ by less than rounding may change places.
    """
    marks, ids = result["_distance"].to_numpy(), result["_rowid"].to_numpy()
    real = ~np.isnan(exact)
    rows, exact = rows[real], exact[real]
    assert len(ids) == len(set(ids.tolist())) == min(k, len(rows))
    of_row = dict(zip(rows.tolist(), exact.tolist(), strict=True))
    with np.errstate(over="ignore"):
        expected = np.sort(exact)[: len(ids)].astype(np.float32)
        own = np.array([of_row[row] for row in ids.tolist()]).astype(np.float32)
    np.testing.assert_allclose(marks, own, rtol=tolerance, atol=tolerance * 10)
    np.testing.assert_allclose(marks, expected, rtol=tolerance, atol=tolerance * 10)
    order = list(zip(marks.tolist(), ids.tolist(), strict=True))
    assert order == sorted(order)
