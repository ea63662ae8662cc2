"""Indices over dictionary columns: values are compared without their dictionaries, and stored with them.

The files keep the column's own type, so that an index type of 8 bits bounds how many different values a segment has.
"""

from __future__ import annotations

import pyarrow as pa

from lancelet.errors import InvalidInput

_WIDE_BITS = 32


def plain_values(values: pa.Array) -> pa.Array:
    """Values without a dictionary around them."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


class StoredForm:
    """Gives values the type that a file has for them."""

    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        self._seen: pa.Array | None = None

    def of(self, values: pa.Array) -> pa.Array:
        """Plain values in the type of the file."""
        if values.type == self.dtype:
            return values
        if not pa.types.is_dictionary(self.dtype):
            return values.cast(self.dtype)
        encoded = values.dictionary_encode()
        index, distinct = self.dtype.index_type, encoded.dictionary.cast(self.dtype.value_type)
        if index.bit_width < _WIDE_BITS:
            self._count(distinct, index)
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(index), distinct)

    def _count(self, distinct: pa.Array, index: pa.DataType) -> None:
        self._seen = distinct if self._seen is None else pa.concat_arrays([self._seen, distinct]).unique()
        most = 1 << (index.bit_width - pa.types.is_signed_integer(index))
        if len(self._seen) > most:
            raise InvalidInput(
                f"the column is {self.dtype}, and has more than the {most} different values that {index} can number in "
                "one index file; alter the column to a wider index type, or to the type of its values"
            )
