"""Types that Arrow does not have: bfloat16, and images as addresses, as files or as pixels.

Importing this module makes them known to pyarrow, so that columns of these types come back as such::

    extension type                        stored as                   array
    lance.bfloat16                        fixed_size_binary(2)        BFloat16Array
    lance.arrow.image_uri                 string, large_string        ImageURIArray
    lance.arrow.encoded_image             binary, large_binary        EncodedImageArray
    lance.arrow.fixed_shape_image_tensor  fixed_size_list of numbers  FixedShapeImageTensorArray

Where another library has registered a type of the same name already, that one stays.

>>> from lancelet.arrow import bfloat16_array
>>> bfloat16_array([1.1, None, 2.0]).to_pylist()
[1.1015625, None, 2]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet._naming.lazy import lazy_names
from lancelet.arrow.bfloat16 import BFloat16, BFloat16Array, BFloat16Scalar, BFloat16Type, bfloat16_array
from lancelet.arrow.casting import cast
from lancelet.arrow.images import (
    EncodedImageArray,
    EncodedImageScalar,
    EncodedImageType,
    FixedShapeImageTensorArray,
    FixedShapeImageTensorScalar,
    FixedShapeImageTensorType,
    ImageArray,
    ImageScalar,
    ImageURIArray,
    ImageURIScalar,
    ImageURIType,
)

if TYPE_CHECKING:
    from lancelet.arrow.pandas_bfloat16 import PandasBFloat16Array

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Scalar",
    "BFloat16Type",
    "EncodedImageArray",
    "EncodedImageScalar",
    "EncodedImageType",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorScalar",
    "FixedShapeImageTensorType",
    "ImageArray",
    "ImageScalar",
    "ImageURIArray",
    "ImageURIScalar",
    "ImageURIType",
    "PandasBFloat16Array",
    "bfloat16_array",
    "cast",
]

__getattr__ = lazy_names(__name__, {"lancelet.arrow.pandas_bfloat16": ("PandasBFloat16Array",)})
