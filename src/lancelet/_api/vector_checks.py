"""Whether a vector index finds the vectors that it was built of."""

from __future__ import annotations

from typing import Any

import numpy as np

from lancelet.errors import InvalidInput, InvalidType, UnknownColumn
from lancelet.format.extensions import storage_of
from lancelet.format.system_columns import ROW_ID
from lancelet.index.vector.files import element_of


def validate_vector_index(
    dataset: Any,
    column: str,
    refine_factor: int = 5,
    sample_size: int | None = None,
    pass_threshold: float = 1.0,
) -> None:
    """Look for vectors of the table, each of which should find itself, or one like it.

    Parameters
    ----------
    dataset
        A table.
    column
        Its vectors.
    refine_factor
        As for ``nearest``.
    sample_size
        How many vectors, by chance; all by default.
    pass_threshold
        The share that has to be found; a smaller one is an error.

    Examples
    --------
    >>> import lancelet
    >>> import pyarrow as pa
    >>> vectors = np.random.default_rng(1).standard_normal((100, 4), np.float32)
    >>> column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 4)
    >>> table = lancelet.write_dataset({"vector": column}, "memory://docs/validate_vector_index")
    >>> table = table.create_index("vector", "IVF_FLAT", num_partitions=2)
    >>> validate_vector_index(table, "vector")
    """
    if column not in dataset.schema.names:
        raise UnknownColumn(column, dataset.schema.names)
    dtype, _, several = element_of(dataset.schema.field(column).type)
    if several:
        raise InvalidType(f"column {column!r} has several vectors in a row; a search for one of them says nothing")
    rows = dataset.to_table(columns=[column]) if sample_size is None else dataset.sample(sample_size, [column])
    passed = total = 0
    for chunk in rows[column].chunks:
        for value in storage_of(chunk):
            if not value.is_valid:
                continue
            vector = np.asarray(value.values.to_numpy(zero_copy_only=False), dtype)
            if dtype.kind == "f" and not np.isfinite(vector).all():
                continue
            total += 1
            passed += _finds_itself(dataset, column, vector, refine_factor)
    if passed < pass_threshold * total or pass_threshold > 1:
        raise InvalidInput(f"Vector index failed sanity check, only {passed}/{total} passed")


def _finds_itself(dataset: Any, column: str, vector: np.ndarray[Any, Any], refine_factor: int) -> bool:
    nearest = {"column": column, "q": vector, "k": 1, "refine_factor": refine_factor}
    found = dataset.to_table(columns=[column, "_distance"], nearest=nearest, with_row_id=True)
    if not len(found[ROW_ID]):
        return False
    other = np.asarray(storage_of(found[column].combine_chunks())[0].values.to_numpy(zero_copy_only=False))
    return bool(np.array_equal(other, vector)) or abs(found["_distance"][0].as_py()) < 1e-6
