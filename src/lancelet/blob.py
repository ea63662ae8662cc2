"""Blobs under pylance's names: columns of them, files to read them, writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet._naming.lazy import lazy_names
from lancelet.execution.costs import BLOB_BUFFER_BYTES as DEFAULT_BLOB_BUFFER_SIZE
from lancelet.format.blob_types import Blob, BlobArray, BlobType, blob_array, blob_field

if TYPE_CHECKING:
    from lancelet._api.blob_column import BlobColumn, BlobIterator
    from lancelet._api.blob_files import BlobFile
    from lancelet.file.blob_writers import (
        BlobDescriptor,
        BlobDescriptorArrayBuilder,
        DedicatedBlobWriter,
        PackedBlobWriter,
    )

__all__ = [
    "DEFAULT_BLOB_BUFFER_SIZE",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "BlobFile",
    "BlobIterator",
    "BlobType",
    "DedicatedBlobWriter",
    "PackedBlobWriter",
    "blob_array",
    "blob_field",
]


__getattr__ = lazy_names(
    __name__,
    {
        "lancelet._api.blob_column": ("BlobColumn", "BlobIterator"),
        "lancelet._api.blob_files": ("BlobFile",),
        "lancelet.file.blob_writers": (
            "BlobDescriptor",
            "BlobDescriptorArrayBuilder",
            "DedicatedBlobWriter",
            "PackedBlobWriter",
        ),
    },
)
