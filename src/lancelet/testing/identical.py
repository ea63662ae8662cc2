"""Equality of Arrow data as a table format must keep it.

Stricter than ``Table.equals`` where that hides differences (-0.0 and 0.0, the
payload of a NaN, field nullability and metadata), and blind to what carries no
meaning: chunk borders, array offsets, the bytes beneath a null, the items of a
null list, the order of a dictionary's values.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancelet.runtime import compute as pc

__all__ = ["assert_identical", "difference"]

_BITS = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}


def assert_identical(actual: pa.Table, expected: pa.Table) -> None:
    """Fail, naming every column that differs and where, unless both tables hold the same.

    Examples
    --------
    >>> import pyarrow as pa
    >>> assert_identical(pa.table({"x": [1, None]}), pa.table({"x": [1, None]}))
    """
    if not actual.schema.equals(expected.schema, check_metadata=True):
        raise AssertionError(f"schemas differ\n--- actual\n{actual.schema}\n--- expected\n{expected.schema}")
    if actual.num_rows != expected.num_rows:
        raise AssertionError(f"{actual.num_rows} rows instead of {expected.num_rows}")
    actual.validate(full=True)
    found = []
    for number, name in enumerate(expected.column_names):
        text = difference(_whole(actual.column(number)), _whole(expected.column(number)), name)
        if text is not None:
            found.append(text)
    if found:
        raise AssertionError(f"{len(found)} of {expected.num_columns} columns differ:\n" + "\n".join(found))


def difference(actual: pa.Array, expected: pa.Array, path: str = "value") -> str | None:
    """Where two arrays first differ, in words, or None.

    Examples
    --------
    >>> import pyarrow as pa
    >>> difference(pa.array([0.0, 1.0]), pa.array([-0.0, 1.0]), "x")
    'x: row 0 is 0.0 instead of -0.0'
    """
    if actual.type != expected.type:
        return f"{path}: type {actual.type} instead of {expected.type}"
    if pa.types.is_dictionary(expected.type):
        return difference(actual.dictionary_decode(), expected.dictionary_decode(), path)
    if len(actual) != len(expected):
        return f"{path}: {len(actual)} values instead of {len(expected)}"
    if not actual.is_null().equals(expected.is_null()):
        row = _first(pc.not_equal(actual.is_null(), expected.is_null()))
        return f"{path}: row {row} is {_show(actual[row])} instead of {_show(expected[row])}"
    if actual.null_count != expected.null_count:
        return f"{path}: null_count {actual.null_count} instead of {expected.null_count}"
    return _values(actual, expected, path)


def _values(actual: Any, expected: Any, path: str) -> str | None:
    """Compare arrays of one type whose nulls are known to agree."""
    kind = expected.type
    if isinstance(kind, pa.BaseExtensionType):
        return difference(actual.storage, expected.storage, path)
    if pa.types.is_struct(kind):
        pairs = zip(kind, actual.flatten(), expected.flatten(), strict=True)
        return next((text for field, a, e in pairs if (text := difference(a, e, f"{path}.{field.name}"))), None)
    if pa.types.is_map(kind):
        plain = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return _values(actual.cast(plain), expected.cast(plain), path)
    if pa.types.is_fixed_size_list(kind):
        return difference(actual.flatten(), expected.flatten(), f"{path}[]")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.list_value_length(actual), pc.list_value_length(expected)
        if not lengths[0].equals(lengths[1]):
            row = _first(pc.fill_null(pc.not_equal(*lengths), False))
            return f"{path}: row {row} is {_show(actual[row])} instead of {_show(expected[row])}"
        return difference(actual.flatten(), expected.flatten(), f"{path}[]")
    bits = _BITS.get(kind)
    left, right = (actual, expected) if bits is None else (actual.view(bits), expected.view(bits))
    if left.equals(right):
        return None
    row = next(row for row in range(len(left)) if not left[row].equals(right[row]))
    return f"{path}: row {row} is {_show(actual[row])} instead of {_show(expected[row])}"


def _whole(column: pa.ChunkedArray) -> pa.Array:
    decoded = _decoded(column.type)
    chunks = column.chunks if decoded == column.type else [chunk.cast(decoded) for chunk in column.chunks]
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], decoded)


def _decoded(kind: pa.DataType) -> pa.DataType:
    """The type with every dictionary replaced by its values: chunks may not share one dictionary."""
    types = pa.types
    if types.is_dictionary(kind):
        return kind.value_type
    if types.is_struct(kind):
        return pa.struct([field.with_type(_decoded(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_decoded(kind.value_type)))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_decoded(kind.value_type)))
    return kind


def _first(mask: pa.BooleanArray) -> int:
    return int(pc.index(mask, True).as_py())


def _show(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 120 else text[:117] + "..."
