"""Lancelet: the Lance table format in Python.

>>> import lancelet
>>> dataset = lancelet.dataset("table.lance")  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancelet import errors
from lancelet.blob import Blob, BlobArray, BlobFile, blob_array, blob_field
from lancelet.dataset import LanceDataset
from lancelet.entry import dataset
from lancelet.fragment import DataFile, DeletionFile, FragmentMetadata, LanceFragment
from lancelet.scanner import ColumnOrdering, LanceScanner, ScanStatistics
from lancelet.schema import LanceSchema, json_to_schema, schema_to_json
from lancelet.session import Session
from lancelet.stats import DataStatistics, FieldStatistics
from lancelet.store.source import bytes_read_counter, iops_counter
from lancelet.table.manifest import BasePath as DatasetBasePath

if TYPE_CHECKING:
    from lancelet.blob_column import BlobColumn
    from lancelet.checking import repair, verify
    from lancelet.file.blob_writers import (
        BlobDescriptor,
        BlobDescriptorArrayBuilder,
        DedicatedBlobWriter,
        PackedBlobWriter,
    )
    from lancelet.log import set_logger
    from lancelet.maintenance.cleanup_report import (
        CleanupCandidateFile,
        CleanupExplanation,
        CleanupReferencedBranch,
        CleanupStats,
    )
    from lancelet.merge_insert import MergeInsertBuilder
    from lancelet.namespace import connect
    from lancelet.progress import IndexProgress
    from lancelet.transaction import Index, IndexFile, LanceOperation, Transaction
    from lancelet.udf import batch_udf
    from lancelet.util import sanitize_ts
    from lancelet.write import write_dataset

    __version__: str

__all__ = [
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "BlobFile",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "ColumnOrdering",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "DedicatedBlobWriter",
    "DeletionFile",
    "FieldStatistics",
    "FragmentMetadata",
    "Index",
    "IndexFile",
    "IndexProgress",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "MergeInsertBuilder",
    "PackedBlobWriter",
    "ScanStatistics",
    "Session",
    "Transaction",
    "__version__",
    "batch_udf",
    "blob_array",
    "blob_field",
    "bytes_read_counter",
    "connect",
    "dataset",
    "errors",
    "iops_counter",
    "json_to_schema",
    "repair",
    "sanitize_ts",
    "schema_to_json",
    "set_logger",
    "verify",
    "write_dataset",
]

_LATER = {
    "IndexProgress": "lancelet.progress",
    **dict.fromkeys(("Index", "IndexFile", "LanceOperation", "Transaction"), "lancelet.transaction"),
    "MergeInsertBuilder": "lancelet.merge_insert",
    "connect": "lancelet.namespace",
    "BlobColumn": "lancelet.blob_column",
    **dict.fromkeys(
        ("BlobDescriptor", "BlobDescriptorArrayBuilder", "DedicatedBlobWriter", "PackedBlobWriter"),
        "lancelet.file.blob_writers",
    ),
    "batch_udf": "lancelet.udf",
    "sanitize_ts": "lancelet.util",
    "set_logger": "lancelet.log",
    "write_dataset": "lancelet.write",
    **dict.fromkeys(("repair", "verify"), "lancelet.checking"),
    **dict.fromkeys(
        ("CleanupCandidateFile", "CleanupExplanation", "CleanupReferencedBranch", "CleanupStats"),
        "lancelet.maintenance.cleanup_report",
    ),
}


_MODULES = frozenset(("log", "namespace", "progress", "types", "udf", "util"))


def __getattr__(name: str) -> Any:
    """What a program that only reads rows does not need, and should not wait for."""
    if name in _MODULES:
        return import_module(f"lancelet.{name}")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("lancelet")
        except PackageNotFoundError:
            # Run from a source tree that is not installed.
            return "0.0.0"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
