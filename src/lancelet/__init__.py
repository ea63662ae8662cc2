"""Lancelet: the Lance table format in Python.

>>> import lancelet
>>> dataset = lancelet.dataset("table.lance")  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancelet import errors
from lancelet.blob import BlobFile
from lancelet.dataset import LanceDataset
from lancelet.entry import dataset
from lancelet.fragment import DataFile, DeletionFile, FragmentMetadata, LanceFragment
from lancelet.scanner import ColumnOrdering, LanceScanner, ScanStatistics
from lancelet.schema import LanceSchema, json_to_schema, schema_to_json
from lancelet.session import Session
from lancelet.stats import DataStatistics, FieldStatistics
from lancelet.table.manifest import BasePath as DatasetBasePath

if TYPE_CHECKING:
    from lancelet.maintenance.cleanup_report import (
        CleanupCandidateFile,
        CleanupExplanation,
        CleanupReferencedBranch,
        CleanupStats,
    )
    from lancelet.merge_insert import MergeInsertBuilder
    from lancelet.transaction import Index, IndexFile, LanceOperation, Transaction
    from lancelet.udf import batch_udf
    from lancelet.write import write_dataset

    __version__: str

__all__ = [
    "BlobFile",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "ColumnOrdering",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "DeletionFile",
    "FieldStatistics",
    "FragmentMetadata",
    "Index",
    "IndexFile",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "MergeInsertBuilder",
    "ScanStatistics",
    "Session",
    "Transaction",
    "__version__",
    "batch_udf",
    "dataset",
    "errors",
    "json_to_schema",
    "schema_to_json",
    "write_dataset",
]

_LATER = {
    **dict.fromkeys(("Index", "IndexFile", "LanceOperation", "Transaction"), "lancelet.transaction"),
    "MergeInsertBuilder": "lancelet.merge_insert",
    "batch_udf": "lancelet.udf",
    "write_dataset": "lancelet.write",
    **dict.fromkeys(
        ("CleanupCandidateFile", "CleanupExplanation", "CleanupReferencedBranch", "CleanupStats"),
        "lancelet.maintenance.cleanup_report",
    ),
}


def __getattr__(name: str) -> Any:
    """What a program that only reads rows does not need, and should not wait for."""
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
