"""Lancelet: the Lance table format in Python.

>>> import lancelet
>>> dataset = lancelet.dataset("table.lance")  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancelet import errors
from lancelet.blob import BlobFile
from lancelet.dataset import LanceDataset, dataset
from lancelet.fragment import DataFile, DeletionFile, FragmentMetadata, LanceFragment
from lancelet.scanner import ColumnOrdering, LanceScanner, ScanStatistics
from lancelet.schema import LanceSchema, json_to_schema, schema_to_json
from lancelet.session import Session
from lancelet.stats import DataStatistics, FieldStatistics
from lancelet.table.manifest import BasePath as DatasetBasePath

if TYPE_CHECKING:
    from lancelet.transaction import Index, IndexFile, LanceOperation, Transaction

    __version__: str

__all__ = [
    "BlobFile",
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
    "ScanStatistics",
    "Session",
    "Transaction",
    "__version__",
    "dataset",
    "errors",
    "json_to_schema",
    "schema_to_json",
]

_TRANSACTION = {"Index", "IndexFile", "LanceOperation", "Transaction"}


def __getattr__(name: str) -> Any:
    """What a program that only reads rows does not need, and should not wait for."""
    if name in _TRANSACTION:
        return getattr(import_module("lancelet.transaction"), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("lancelet")
        except PackageNotFoundError:
            # Run from a source tree that is not installed.
            return "0.0.0"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
