"""bfloat16: the upper half of a float32, so its range with 8 bits of precision.

::

    float32   s eeeeeeee mmmmmmm|mmmmmmmmmmmmmmmm
    bfloat16  s eeeeeeee mmmmmmm                    stored as two bytes, the lower one first

Of the two nearest values the one that is even is taken; a float64 is made a float32 first. A NaN stays one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet._naming.extras import import_extra
from lancelet.arrow.registering import register
from lancelet.errors import InvalidInput, InvalidType

NAME: Final = "lance.bfloat16"
_QUIET: Final = np.uint16(0x0040)
"""Set in every NaN, so that one whose other bits are all in the lower half does not become an infinity."""

_MOST_DIGITS: Final = 9
"""As many tell every float32."""
_SHOWN: Final = 10
"""Values at each end of a column that are printed."""


def narrow(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Bits of the nearest bfloat16 of each number."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    with np.errstate(over="ignore"):
        rounded = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    found: npt.NDArray[np.uint16] = np.where(
        np.isnan(values), (bits >> np.uint32(16)).astype(np.uint16) | _QUIET, rounded
    )
    return found


def widen(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """The numbers that bits stand for, exactly."""
    found: npt.NDArray[np.float32] = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return found


class BFloat16:
    """One number.

    Examples
    --------
    >>> BFloat16(1.1)
    1.1015625
    >>> BFloat16.from_bytes(b"\\x80\\x3f").as_float()
    1.0
    >>> BFloat16(1.1) < BFloat16(2)
    True
    """

    __slots__ = ("_bits",)

    def __init__(self, value: float) -> None:
        _check_number(value)
        with np.errstate(over="ignore"):
            self._bits = int(narrow(np.array([value], np.float64).astype(np.float32))[0])

    @classmethod
    def from_bytes(cls, bytes: bytes) -> BFloat16:  # noqa: A002
        """The number of two bytes, the lower one first."""
        if len(bytes) != 2:
            raise InvalidInput(f"a bfloat16 has 2 bytes, not {len(bytes)}")
        found = cls.__new__(cls)
        found._bits = int.from_bytes(bytes, "little")
        return found

    def to_bytes(self) -> bytes:
        """The two bytes of the number, the lower one first."""
        return self._bits.to_bytes(2, "little")

    def as_float(self) -> float:
        """The same number as a float."""
        return float(widen(np.array([self._bits], np.uint16))[0])

    __float__ = as_float

    def __eq__(self, other: object) -> bool:
        return self.as_float() == other.as_float() if isinstance(other, BFloat16) else NotImplemented

    # Each of the four on its own: a NaN is neither less than a number nor not less.

    def __lt__(self, other: object) -> bool:
        return self.as_float() < other.as_float() if isinstance(other, BFloat16) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.as_float() <= other.as_float() if isinstance(other, BFloat16) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.as_float() > other.as_float() if isinstance(other, BFloat16) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.as_float() >= other.as_float() if isinstance(other, BFloat16) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.as_float())

    def __reduce__(self) -> tuple[Any, ...]:
        return BFloat16.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        value = self.as_float()
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return _shown(value)


class BFloat16Type(pa.ExtensionType):  # type: ignore[misc]
    """The type of columns of bfloat16.

    Examples
    --------
    >>> BFloat16Type().storage_type
    FixedSizeBinaryType(fixed_size_binary[2])
    """

    def __init__(self) -> None:
        super().__init__(pa.binary(2), NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BFloat16Type:
        return cls()

    def __arrow_ext_class__(self) -> type[BFloat16Array]:
        return BFloat16Array

    def __arrow_ext_scalar_class__(self) -> type[BFloat16Scalar]:
        return BFloat16Scalar

    def to_pandas_dtype(self) -> Any:
        """What pandas makes of such a column."""
        from lancelet.arrow.pandas_bfloat16 import PandasBFloat16Type

        return PandasBFloat16Type()


class BFloat16Scalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One value of a column."""

    def as_py(self, **kwargs: Any) -> BFloat16 | None:
        """The number, or None."""
        return None if self.value is None else BFloat16.from_bytes(self.value.as_py())


class BFloat16Array(pa.ExtensionArray):  # type: ignore[misc]
    """A column of bfloat16."""

    def to_numpy(self, zero_copy_only: bool = False) -> Any:
        """The numbers in numpy, of the type that the package ``ml_dtypes`` adds.

        Raises
        ------
        ValueError
            Values are null, which numpy does not have.
        """
        if self.null_count:
            raise InvalidInput("Cannot convert null values to numpy; fill or drop them first")
        return bits_of(self).view(import_extra("ml_dtypes", "bfloat16", "bfloat16 in numpy").bfloat16)

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any]) -> BFloat16Array:
        """A column of an array of the type that ``ml_dtypes`` adds to numpy."""
        if getattr(array, "dtype", None) != import_extra("ml_dtypes", "bfloat16", "bfloat16 in numpy").bfloat16:
            raise InvalidInput("Cannot convert non-bfloat16 values to BFloat16Array; bfloat16_array takes any numbers")
        if array.ndim != 1:
            raise InvalidInput(f"a column has one dimension, not {array.ndim}")
        return array_of(np.ascontiguousarray(array).view(np.uint16))

    def __str__(self) -> str:
        shown = [*map(str, self[:_SHOWN]), *(["..."] if len(self) > 2 * _SHOWN else [])]
        shown += map(str, self[max(_SHOWN, len(self) - _SHOWN) :])
        return f"[{', '.join(shown)}]"

    def __repr__(self) -> str:
        return f"<lancelet.arrow.{type(self).__name__} of {len(self)}>\n{self}"


def _shown(value: float) -> str:
    """The fewest digits that tell a number; of several the nearest, or, of two that are as near, the larger one, as Rust has it."""
    exact = Decimal(value)
    for digits in range(1, _MOST_DIGITS):
        around = (Context(digits, rounding).create_decimal(exact) for rounding in (ROUND_UP, ROUND_DOWN))
        with np.errstate(over="ignore"):
            telling = [number for number in around if np.float32(float(number)) == value]
        if telling:
            return format(min(telling, key=lambda number: abs(number - exact)), "f")
    return format(Context(_MOST_DIGITS).create_decimal(exact), "f")


def bits_of(array: pa.ExtensionArray) -> npt.NDArray[np.uint16]:
    """The stored bits of a column, without a copy; those of nulls are anything."""
    data = array.storage.buffers()[1]
    found: npt.NDArray[np.uint16] = np.frombuffer(data, np.uint16) if data is not None else np.empty(0, np.uint16)
    return found[array.offset : array.offset + len(array)]


def array_of(bits: npt.NDArray[np.uint16], missing: npt.NDArray[np.bool_] | None = None) -> BFloat16Array:
    """A column of bits, some of its values null."""
    valid = None if missing is None or not missing.any() else pa.array(~missing).buffers()[1]
    storage = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2), len(bits), [valid, pa.py_buffer(bits)])
    found: BFloat16Array = pa.ExtensionArray.from_storage(BFloat16Type(), storage)
    return found


def bfloat16_array(values: Iterable[Any]) -> BFloat16Array:
    """A column of bfloat16 of any numbers; None is null.

    Examples
    --------
    >>> bfloat16_array([1.5, None]).to_pylist()
    [1.5, None]
    """
    items = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
    numbers = np.zeros(len(items), np.float64)
    missing = np.zeros(len(items), np.bool_)
    for number, item in enumerate(items):
        if item is None:
            missing[number] = True
        else:
            _check_number(item)
            numbers[number] = item
    with np.errstate(over="ignore"):
        return array_of(narrow(numbers.astype(np.float32)), missing)


def _check_number(value: object) -> None:
    if not hasattr(value, "__float__"):
        raise InvalidType(f"a bfloat16 is made of a number, not of {value!r}")


register(BFloat16Type())
