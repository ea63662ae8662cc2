"""Columns of images: where they are, their files, or their pixels.

::

    ImageURIArray ── read_uris() ──> EncodedImageArray ── to_tensor() ──> FixedShapeImageTensorArray
    addresses                        PNG, JPEG, ...    <── to_encoded() ── pixels, images of one shape
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlparse

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs

from lancelet._naming.extras import import_extra
from lancelet.arrow.registering import register
from lancelet.errors import InvalidInput, InvalidType, UnfitData

_PILLOW: Final = partial(import_extra, "PIL.Image", "images")
_TEXTS: Final = (pa.string(), pa.large_string())
_BYTES: Final = (pa.binary(), pa.large_binary())

Decoder = Callable[[pa.Array], "npt.NDArray[Any] | pa.Array"]
Encoder = Callable[["npt.NDArray[Any]"], bytes]
A = TypeVar("A", bound="ImageArray")


class ImageScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One image of a column."""

    def as_py(self, **kwargs: Any) -> Any:
        """What is stored for the image: its address, its file, or its pixels."""
        return None if self.value is None else self.value.as_py()


class ImageURIScalar(ImageScalar):
    """The address of an image."""


class EncodedImageScalar(ImageScalar):
    """The file of an image."""


class FixedShapeImageTensorScalar(ImageScalar):
    """The pixels of an image."""


class ImageURIType(pa.ExtensionType):  # type: ignore[misc]
    """The type of columns of addresses of images."""

    def __init__(self, storage_type: pa.DataType = pa.string()) -> None:  # noqa: B008
        if storage_type not in _TEXTS:
            raise InvalidInput(f"storage_type must be a string type, not {storage_type}")
        super().__init__(storage_type, "lance.arrow.image_uri")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ImageURIType:
        return cls(storage_type)

    def __arrow_ext_class__(self) -> type[ImageURIArray]:
        return ImageURIArray

    def __arrow_ext_scalar_class__(self) -> type[ImageURIScalar]:
        return ImageURIScalar


class EncodedImageType(pa.ExtensionType):  # type: ignore[misc]
    """The type of columns of image files."""

    def __init__(self, storage_type: pa.DataType = pa.binary()) -> None:  # noqa: B008
        if storage_type not in _BYTES:
            raise InvalidInput(f"storage_type must be a binary type, not {storage_type}")
        super().__init__(storage_type, "lance.arrow.encoded_image")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> EncodedImageType:
        return cls(storage_type)

    def __arrow_ext_class__(self) -> type[EncodedImageArray]:
        return EncodedImageArray

    def __arrow_ext_scalar_class__(self) -> type[EncodedImageScalar]:
        return EncodedImageScalar


class FixedShapeImageTensorType(pa.ExtensionType):  # type: ignore[misc]
    """The type of columns of pixels: images of one shape (height, width, channels).

    Examples
    --------
    >>> FixedShapeImageTensorType(pa.uint8(), (2, 3, 3)).storage_type.list_size
    18
    """

    def __init__(self, arrow_type: pa.DataType, shape: Iterable[int]) -> None:
        self.arrow_type = arrow_type
        self.shape = tuple(shape)
        super().__init__(
            pa.list_(arrow_type, int(np.prod(self.shape, dtype=np.int64))), "lance.arrow.fixed_shape_image_tensor"
        )

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps({"shape": list(self.shape)}).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> FixedShapeImageTensorType:
        return cls(storage_type.value_type, json.loads(serialized)["shape"])

    def __arrow_ext_class__(self) -> type[FixedShapeImageTensorArray]:
        return FixedShapeImageTensorArray

    def __arrow_ext_scalar_class__(self) -> type[FixedShapeImageTensorScalar]:
        return FixedShapeImageTensorScalar

    def __eq__(self, other: object) -> bool:
        # pyarrow looks at the storage only, and images of 2 by 3 pixels are stored as those of 3 by 2.
        return super().__eq__(other) and getattr(other, "shape", None) == self.shape

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.arrow_type, self.shape))

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedShapeImageTensorType, (self.arrow_type, self.shape)


class ImageArray(pa.ExtensionArray):  # type: ignore[misc]
    """A column of images, in one of three forms."""

    @classmethod
    def from_array(cls, images: Any) -> ImageArray:
        """A column of images of whatever they are: addresses, files, or pixels.

        Examples
        --------
        >>> type(ImageArray.from_array(pa.array(["file:///kelp.png"]))).__name__
        'ImageURIArray'
        >>> type(ImageArray.from_array(pa.array([b"..."]))).__name__
        'EncodedImageArray'
        """
        if isinstance(images, ImageArray):
            return images
        if isinstance(images, pa.ChunkedArray):
            images = images.combine_chunks()
        if isinstance(images, pa.FixedShapeTensorArray):
            kind = FixedShapeImageTensorType(images.type.value_type, images.type.shape)
            return _array(FixedShapeImageTensorArray, kind, images.storage)
        if isinstance(images, pa.Array) and images.type in _BYTES:
            return _array(EncodedImageArray, EncodedImageType(images.type), images)
        return ImageURIArray.from_uris(images)

    def __repr__(self) -> str:
        return f"<lancelet.arrow.{type(self).__name__} of {len(self)}, {self.type.storage_type}>"


class ImageURIArray(ImageArray):
    """Addresses of images."""

    @classmethod
    def from_uris(cls, uris: pa.Array | Iterable[str | Path | None]) -> ImageURIArray:
        """A column of addresses: paths, or URIs of any store that pyarrow knows.

        Examples
        --------
        >>> ImageURIArray.from_uris(["file:///kelp.png", None]).to_pylist()
        ['file:///kelp.png', None]
        """
        if isinstance(uris, pa.Array) and uris.type in _TEXTS:
            return _array(ImageURIArray, ImageURIType(uris.type), uris)
        if isinstance(uris, (str, bytes)):
            raise InvalidType(f"a column is made of a list of addresses, not of one: {uris!r}")
        items = [item.as_py() if isinstance(item, pa.Scalar) else item for item in uris]
        wrong = next((item for item in items if not isinstance(item, (str, Path, type(None)))), None)
        if wrong is not None:
            raise InvalidType(f"an address is a text or a path, not of type {type(wrong).__name__}")
        texts = pa.array([None if item is None else str(item) for item in items], pa.string())
        return _array(ImageURIArray, ImageURIType(), texts)

    def read_uris(self, storage_type: pa.DataType = pa.binary()) -> EncodedImageArray:  # noqa: B008
        """The files at these addresses.

        Parameters
        ----------
        storage_type
            ``pa.large_binary()`` for more than 2 GiB.

        Raises
        ------
        FileNotFoundError
            There is no file at an address.
        """
        kind = EncodedImageType(storage_type)
        files = [None if uri is None else _read(uri) for uri in self.storage.to_pylist()]
        return _array(EncodedImageArray, kind, pa.array(files, storage_type))


class EncodedImageArray(ImageArray):
    """Files of images."""

    def to_tensor(self, decoder: Decoder | None = None) -> FixedShapeImageTensorArray:
        """The pixels of the images, which all have the same shape.

        Parameters
        ----------
        decoder
            Makes one array of numbers (images, height, width, channels), or a column of tensors, of a column of
            files. Without one Pillow does.
        """
        if self.null_count:
            raise UnfitData(f"{self.null_count} of {len(self)} images are null and have no pixels; drop them first")
        if not len(self):
            raise UnfitData("a column without images has no shape of pixels")
        pixels = (decoder or _decode)(self.storage)
        if isinstance(pixels, pa.Array):
            return _tensors(pixels)
        return _tensors(pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(pixels)))


class FixedShapeImageTensorArray(ImageArray):
    """Pixels of images of one shape."""

    def to_numpy(self) -> npt.NDArray[Any]:
        """The pixels: images, height, width, channels."""
        if self.null_count:
            raise UnfitData(f"{self.null_count} of {len(self)} images are null and have no pixels; drop them first")
        found: npt.NDArray[Any] = self.storage.flatten().to_numpy().reshape(len(self), *self.type.shape)
        return found

    def to_encoded(
        self,
        encoder: Encoder | None = None,
        storage_type: pa.DataType = pa.binary(),  # noqa: B008
    ) -> EncodedImageArray:
        """The images as files.

        Parameters
        ----------
        encoder
            Makes a file of the pixels of one image. Without one Pillow makes a PNG.
        storage_type
            ``pa.large_binary()`` for more than 2 GiB.
        """
        kind = EncodedImageType(storage_type)
        files = [(encoder or _encode)(image) for image in self.to_numpy()]
        return _array(EncodedImageArray, kind, pa.array(files, storage_type))


def _array(_: type[A], kind: pa.ExtensionType, storage: pa.Array) -> A:
    """An array of the class that a type has."""
    found: A = pa.ExtensionArray.from_storage(kind, storage)
    return found


def _tensors(pixels: pa.Array) -> FixedShapeImageTensorArray:
    kind = FixedShapeImageTensorType(pixels.type.value_type, pixels.type.shape)
    return _array(FixedShapeImageTensorArray, kind, pixels.storage)


def _read(uri: str) -> bytes:
    if urlparse(uri).scheme:
        store, path = pa.fs.FileSystem.from_uri(uri)
    else:
        store, path = pa.fs.LocalFileSystem(), str(Path(uri).absolute())
    with store.open_input_stream(path) as stream:
        data: bytes = stream.read()
    return data


def _decode(files: pa.Array) -> npt.NDArray[Any]:
    """The pixels of files by Pillow."""
    image = _PILLOW("decoding images")
    try:
        pixels = [np.asarray(image.open(io.BytesIO(data.as_buffer()))) for data in files]
    except image.UnidentifiedImageError:
        raise UnfitData("a value of the column is no image that Pillow knows") from None
    shapes = {found.shape for found in pixels}
    if len(shapes) > 1:
        raise UnfitData(f"images of one column of pixels have one shape, not {sorted(shapes)}; resize them first")
    return np.stack(pixels)


def _encode(pixels: npt.NDArray[Any]) -> bytes:
    """An image as a PNG by Pillow."""
    target = io.BytesIO()
    _PILLOW("encoding images").fromarray(pixels).save(target, format="PNG")
    return target.getvalue()


for _kind in (ImageURIType(), EncodedImageType(), FixedShapeImageTensorType(pa.uint8(), (1, 1, 1))):
    register(_kind)
