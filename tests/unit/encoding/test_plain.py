"""Plain arrays and scalars between numpy, Python and Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancelet.encoding.plain import arrow_scalar, list_offsets

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@given(st.integers(-(2**65), 2**65) | st.integers(-300, 300), st.sampled_from(INTEGERS))
def test_integers_are_those_of_pyarrow_or_its_errors(value: int, kind: pa.DataType) -> None:
    try:
        expected = pa.scalar(value, kind)
    except (pa.ArrowInvalid, OverflowError) as error:
        with pytest.raises(type(error)):
            arrow_scalar(value, kind)
        return
    assert arrow_scalar(value, kind).equals(expected)


@given(st.floats() | st.text() | st.booleans() | st.none() | st.binary())
def test_other_values_are_those_of_pyarrow(value: object) -> None:
    kind = pa.scalar(value).type
    made = arrow_scalar(value, kind)
    assert made.type == kind
    assert made.equals(pa.scalar(value, kind)) or (isinstance(value, float) and np.isnan(value))
    assert str(made) == str(pa.scalar(value, kind))


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.large_list(pa.int8())])
def test_offsets_of_lists_and_of_none(kind: pa.DataType) -> None:
    lists = pa.array([[1], [2, 3], []], kind)
    assert list_offsets(lists).tolist() == [0, 1, 3, 3]
    assert list_offsets(lists.slice(1, 1)).tolist() == [1, 3]
    bare = pa.Array.from_buffers(kind, 0, [None, None], children=[pa.nulls(0, pa.int8())])
    assert list_offsets(bare).tolist() == [0]
    assert list_offsets(bare).dtype == lists.offsets.to_numpy().dtype
