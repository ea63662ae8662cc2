"""Columns of tables that Hugging Face's ``datasets`` wrote: what their features say about them.

The library keeps its features as JSON in the metadata of the schema, under ``huggingface``::

    {"info": {"features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", ...}}}}
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa

from lancelet._naming.extras import import_extra
from lancelet.errors import InvalidInput

__all__ = ["HuggingFaceConverter"]


class HuggingFaceConverter:
    """Makes of columns what their features say.

    Parameters
    ----------
    ds_info
        The JSON under ``huggingface``, read.

    Examples
    --------
    >>> converter = HuggingFaceConverter({"info": {"features": {"label": {"_type": "ClassLabel"}}}})
    >>> converter.to_pytorch("label", pa.array([1])) is None
    True
    """

    def __init__(self, ds_info: dict[str, Any]) -> None:
        self.ds_info = ds_info

    @classmethod
    def of_schema(cls, schema: pa.Schema) -> HuggingFaceConverter | None:
        """The converter for a table, if Hugging Face's library wrote it."""
        told = (schema.metadata or {}).get(b"huggingface")
        if told is None:
            return None
        try:
            found = json.loads(told)
        except ValueError:
            raise InvalidInput(f"the schema's metadata `huggingface` is no JSON: {told[:80]!r}") from None
        return cls(found) if isinstance(found, dict) else None

    def to_pytorch(self, col: str, array: pa.Array) -> list[Any] | None:
        """Pictures of a column of pictures; None for other columns, whose values are what they are."""
        feature: Any = self.ds_info
        for key in ("info", "features", col):
            # A list in place of an object stands for a feature of many values.
            feature = feature.get(key) if isinstance(feature, dict) else None
        if not isinstance(feature, dict) or feature.get("_type") != "Image":
            return None
        image = import_extra("PIL.Image", "images", "decoding images")
        return [None if data is None else image.open(io.BytesIO(data)) for data in map(_file, array.to_pylist())]


def _file(value: Any) -> bytes | None:
    """The file of a picture: in a column of its own, or in a struct with its path."""
    found: bytes | None = value.get("bytes") if isinstance(value, dict) else value
    return found
