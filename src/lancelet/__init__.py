"""Lancelet: the Lance table format in Python.

>>> import lancelet
>>> dataset = lancelet.dataset("table.lance")  # doctest: +SKIP
"""

from importlib.metadata import PackageNotFoundError, version

from lancelet import errors
from lancelet.blob import BlobFile
from lancelet.dataset import LanceDataset, dataset
from lancelet.fragment import DataFile, DeletionFile, FragmentMetadata, LanceFragment
from lancelet.scanner import ColumnOrdering, LanceScanner, ScanStatistics
from lancelet.schema import LanceSchema, json_to_schema, schema_to_json
from lancelet.session import Session
from lancelet.stats import DataStatistics, FieldStatistics
from lancelet.table.manifest import BasePath as DatasetBasePath
from lancelet.transaction import Index, IndexFile, LanceOperation, Transaction

try:
    __version__ = version("lancelet")
except PackageNotFoundError:
    # Run from a source tree that is not installed.
    __version__ = "0.0.0"

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
