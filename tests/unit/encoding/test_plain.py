"""Arrays made without a look for pandas are those that pyarrow makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancelet.encoding.plain import masked_array, sequence_array


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], pa.int64()),
        ([], pa.list_(pa.string())),
        ([3, -1], pa.int8()),
        ([2**64 - 1, 0], pa.uint64()),
        ([-(2**63), 2**63 - 1], pa.int64()),
        ([1, None], pa.int32()),
        ([True, False], pa.bool_()),
        (["", "käse", "x" * 300], pa.string()),
        (["a", None], pa.string()),
        (["a"], pa.large_string()),
        ([1.5, 2], pa.float64()),
        ([b"\xff"], pa.binary()),
    ],
)
def test_sequences_become_what_pyarrow_makes_of_them(values: list[object], kind: pa.DataType) -> None:
    made = sequence_array(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))
    assert sequence_array(tuple(values), kind).equals(made)


@pytest.mark.parametrize("values", [[300], [-129], [True, 1]])
def test_what_does_not_fit_is_left_to_pyarrow(values: list[object]) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        pa.array(values, pa.int8())
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        sequence_array(values, pa.int8())


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float64, np.bool_])
def test_some_numbers_are_missing(dtype: type) -> None:
    values, missing = np.arange(20).astype(dtype), np.arange(20) % 3 == 0
    made = masked_array(values, missing)
    made.validate(full=True)
    assert made.equals(pa.array(values, mask=missing))
