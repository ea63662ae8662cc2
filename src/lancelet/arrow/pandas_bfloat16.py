"""Columns of bfloat16 in pandas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pandas import DataFrame, Index, Series, isna
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype

from lancelet.arrow.bfloat16 import NAME, BFloat16, BFloat16Array, BFloat16Type, bfloat16_array

if TYPE_CHECKING:
    from typing_extensions import Self


@register_extension_dtype
class PandasBFloat16Type(ExtensionDtype):  # type: ignore[misc]
    """The type of such columns in pandas."""

    name = NAME
    type: Any = BFloat16
    na_value = None

    @classmethod
    def construct_from_string(cls, string: str) -> Self:
        """The type of its name."""
        if string != cls.name:
            raise TypeError(f"Cannot construct a '{cls.__name__}' from '{string}'")
        return cls()

    @classmethod
    def construct_array_type(cls) -> type[PandasBFloat16Array]:
        """The arrays of this type."""
        return PandasBFloat16Array

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> PandasBFloat16Array:
        if isinstance(array, pa.ChunkedArray):
            chunks = [chunk.storage for chunk in array.chunks]
            storage = pa.chunked_array(chunks, pa.binary(2)).combine_chunks()
            array = pa.ExtensionArray.from_storage(BFloat16Type(), storage)
        return PandasBFloat16Array(array)


class PandasBFloat16Array(ExtensionArray):  # type: ignore[misc]
    """A column of bfloat16 in pandas; values that are missing are None.

    Parameters
    ----------
    data
        Numbers and None, or a :class:`~lancelet.arrow.BFloat16Array`.
    """

    dtype = PandasBFloat16Type()

    def __init__(self, data: Any) -> None:
        self.data = data if isinstance(data, pa.ExtensionArray) else bfloat16_array(data)

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> Self:
        return cls(scalars.data if isinstance(scalars, cls) else scalars)

    @classmethod
    def _from_factorized(cls, values: Any, original: Any) -> Self:
        return cls(values)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[PandasBFloat16Array]) -> Self:
        storage = pa.concat_arrays([part.data.storage for part in to_concat])
        return cls(pa.ExtensionArray.from_storage(BFloat16Type(), storage))

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any]) -> Self:
        """A column of an array of the type that ``ml_dtypes`` adds to numpy."""
        return cls(BFloat16Array.from_numpy(array))

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, np.integer)):
            return self.data[int(item)].as_py()
        if isinstance(item, slice):
            return type(self)(self.data[item])
        chosen = np.asarray(item)
        return self.take(np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen)

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (Series, Index, DataFrame)):
            return NotImplemented
        if isinstance(other, Iterable) and not isinstance(other, (str, bytes)):
            values = list(other)
        else:
            values = [other] * len(self)
        if len(values) != len(self):
            raise ValueError(f"Lengths must match to compare: {len(self)} and {len(values)}")
        return np.array([_same(left, right) for left, right in zip(self, values, strict=True)], np.bool_)

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:  # noqa: A002
        return self.data

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self.data.nbytes)

    def isna(self) -> npt.NDArray[np.bool_]:
        """Which values are missing."""
        found: npt.NDArray[np.bool_] = self.data.is_null().to_numpy(zero_copy_only=False)
        return found

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Self:
        """Values by their places; with ``allow_fill`` a place of -1 is a missing value."""
        places = np.asarray(indices, np.int64)
        if allow_fill and (places < -1).any():
            raise ValueError("a place is -1, or that of a value")
        absent = places == -1 if allow_fill else np.zeros(len(places), np.bool_)
        wanted = pa.array(np.where(places < 0, places + (0 if allow_fill else len(self)), places), mask=absent)
        found = pa.ExtensionArray.from_storage(BFloat16Type(), self.data.storage.take(wanted))
        if not absent.any() or isna(fill_value):
            return type(self)(found)
        return type(self)([fill_value if gone else value for gone, value in zip(absent, found, strict=True)])

    def copy(self) -> Self:
        """The same column: its values do not change."""
        return type(self)(self.data)

    def to_numpy(self, *args: Any, **kwargs: Any) -> Any:
        """The numbers in numpy, of the type that ``ml_dtypes`` adds; with a ``dtype``, of that one."""
        if "dtype" in kwargs or args:
            return super().to_numpy(*args, **kwargs)
        return self.data.to_numpy()


def _same(left: BFloat16 | None, right: object) -> bool:
    """Whether a value is a number of this or another type, or both are missing."""
    if left is not None and isinstance(right, (Real, np.number)):
        return bool(left.as_float() == right)
    return left == right
