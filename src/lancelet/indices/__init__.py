"""Indices: how a dataset describes them, the models of vector indices, and building them step by step."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from lancelet._api.index_descriptions import (
    IndexConfig,
    IndexDescription,
    IndexInformation,
    IndexSegment,
    IndexSegmentDescription,
    SupportedDistributedIndices,
)
from lancelet._naming.lazy import lazy_names

if TYPE_CHECKING:
    from lancelet.indices.builder import IndicesBuilder
    from lancelet.indices.ivf import IvfModel
    from lancelet.indices.pq import PqModel

__all__ = [
    "IndexConfig",
    "IndexDescription",
    "IndexFileVersion",
    "IndexInformation",
    "IndexSegment",
    "IndexSegmentDescription",
    "IndicesBuilder",
    "IvfModel",
    "PqModel",
    "SupportedDistributedIndices",
]


class IndexFileVersion(str, Enum):
    """Layouts of the files of a vector index."""

    LEGACY = "Legacy"
    V3 = "V3"


__getattr__ = lazy_names(
    __name__,
    {
        "lancelet.indices.builder": ("IndicesBuilder",),
        "lancelet.indices.ivf": ("IvfModel",),
        "lancelet.indices.pq": ("PqModel",),
    },
    modules=("builder", "ivf", "pq"),
)
