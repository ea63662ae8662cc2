"""Hypothesis strategies: nested types, and tables full of them.

The shape is drawn by hypothesis, which shrinks it; the values come from a
drawn seed, because drawing thousands of values one by one would take the time
that many more tables deserve.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from hypothesis import strategies as st

from lancelet.testing.arrays import PATTERNS, random_array

__all__ = ["leaf_types", "nested_types", "tables"]

_LEAVES = (
    pa.int8(),
    pa.uint16(),
    pa.int32(),
    pa.int64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.decimal128(20, 3),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.binary(5),
    pa.list_(pa.float32(), 3),
    pa.list_(pa.int8(), 70),
    pa.list_(pa.bool_(), 9),
)


def leaf_types() -> st.SearchStrategy[pa.DataType]:
    """Types that own one column of a file."""
    return st.sampled_from(_LEAVES)


def nested_types(*, maps: bool = True, max_leaves: int = 5) -> st.SearchStrategy[pa.DataType]:
    """Lists, structs and maps of each other, down to leaves.

    Parameters
    ----------
    maps
        Whether maps may occur (file versions from 2.2 on hold them).
    """

    def grow(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        names = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True)
        structs = names.flatmap(
            lambda chosen: st.tuples(*[inner for _ in chosen]).map(
                lambda types: pa.struct(list(zip(chosen, types, strict=True)))
            )
        )
        choices = [inner.map(pa.list_), inner.map(pa.large_list), structs]
        if maps:
            keys = st.sampled_from([pa.string(), pa.int32(), pa.date32()])
            choices.append(st.tuples(keys, inner).map(lambda pair: pa.map_(*pair)))
        return st.one_of(choices)

    return st.recursive(leaf_types(), grow, max_leaves=max_leaves)


@st.composite
def tables(
    draw: Callable[[st.SearchStrategy[object]], object],
    *,
    max_columns: int = 3,
    max_rows: int = 3000,
    maps: bool = True,
    null_structs: bool = True,
) -> pa.Table:
    """Tables of nested columns, any pattern of values, any share of nulls."""
    names = [f"c{number}" for number in range(draw(st.integers(1, max_columns)))]  # type: ignore[call-overload]
    rows = draw(st.one_of(st.integers(1, 40), st.integers(1, max_rows)))
    columns = [
        random_array(
            draw(nested_types(maps=maps)),
            rows,  # type: ignore[arg-type]
            draw(st.integers(0, 2**32 - 1)),  # type: ignore[arg-type]
            pattern=draw(st.sampled_from(PATTERNS)),  # type: ignore[arg-type]
            nulls=draw(st.sampled_from(["none", "some", "some", "all"])),  # type: ignore[arg-type]
            null_structs=null_structs,
            text_bytes=draw(st.sampled_from([4, 12, 60, 400])),  # type: ignore[arg-type]
        )
        for _ in names
    ]
    return pa.table(columns, names)
