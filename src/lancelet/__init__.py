"""Lancelet: the Lance table format in Python.

>>> import lancelet
>>> dataset = lancelet.write_dataset({"id": [1, 2, 3]}, "memory://docs/first")
>>> dataset.to_table(filter="id > 1")["id"].to_pylist()
[2, 3]
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from lancelet import errors
from lancelet._api.entry import dataset
from lancelet._api.scanner import ColumnOrdering, LanceScanner, ScanStatistics
from lancelet._api.session import Session
from lancelet._api.stats import DataStatistics, FieldStatistics
from lancelet._naming.lazy import lazy_names
from lancelet.blob import Blob, BlobArray, blob_array, blob_field
from lancelet.dataset import LanceDataset
from lancelet.fragment import LanceFragment
from lancelet.schema import LanceSchema, json_to_schema, schema_to_json
from lancelet.store.source import bytes_read_counter, iops_counter
from lancelet.table.manifest.manifest import BasePath as DatasetBasePath

if TYPE_CHECKING:
    from lancelet._api.blob_column import BlobColumn
    from lancelet._api.blob_files import BlobFile
    from lancelet._api.checking import repair, verify
    from lancelet._api.fragment_metadata import DataFile, DeletionFile, FragmentMetadata
    from lancelet._api.merge_insert import MergeInsertBuilder
    from lancelet._api.processor import simd_info
    from lancelet._api.table_provider import FFILanceTableProvider
    from lancelet._api.tokenizing import FtsToken, tokenize
    from lancelet._api.transaction import Index, IndexFile, LanceOperation, Transaction
    from lancelet._api.write import write_dataset
    from lancelet._naming.alias import enable_as_lance
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
    from lancelet.mem_wal import (
        CompactedSsTable,
        ExecutionPlan,
        LsmPointLookupPlanner,
        LsmScanner,
        LsmVectorSearchPlanner,
        ShardingField,
        ShardingSpec,
        ShardSnapshot,
        ShardWriter,
        evaluate_sharding_spec,
    )
    from lancelet.namespace import connect
    from lancelet.progress import IndexProgress
    from lancelet.udf import batch_udf
    from lancelet.util import sanitize_ts

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
    "CompactedSsTable",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "DedicatedBlobWriter",
    "DeletionFile",
    "ExecutionPlan",
    "FFILanceTableProvider",
    "FieldStatistics",
    "FragmentMetadata",
    "FtsToken",
    "Index",
    "IndexFile",
    "IndexProgress",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LsmPointLookupPlanner",
    "LsmScanner",
    "LsmVectorSearchPlanner",
    "MergeInsertBuilder",
    "PackedBlobWriter",
    "ScanStatistics",
    "Session",
    "ShardSnapshot",
    "ShardWriter",
    "ShardingField",
    "ShardingSpec",
    "Transaction",
    "__version__",
    "batch_udf",
    "blob_array",
    "blob_field",
    "bytes_read_counter",
    "connect",
    "dataset",
    "enable_as_lance",
    "errors",
    "evaluate_sharding_spec",
    "iops_counter",
    "json_to_schema",
    "repair",
    "sanitize_ts",
    "schema_to_json",
    "set_logger",
    "simd_info",
    "tokenize",
    "verify",
    "write_dataset",
]


_MODULES: Final = (
    "arrow",
    "blob",
    "commit",
    "debug",
    "download",
    "file",
    "fragment",
    "hf",
    "indices",
    "log",
    "mem_wal",
    "namespace",
    "optimize",
    "otel",
    "progress",
    "pydantic",
    "query",
    "sampler",
    "schema",
    "spark",
    "testing",
    "torch",
    "tracing",
    "types",
    "udf",
    "util",
    "vector",
)

_later = lazy_names(
    __name__,
    {
        "lancelet._api.blob_column": ("BlobColumn",),
        "lancelet._api.blob_files": ("BlobFile",),
        "lancelet._api.checking": ("repair", "verify"),
        "lancelet._api.fragment_metadata": ("DataFile", "DeletionFile", "FragmentMetadata"),
        "lancelet._api.merge_insert": ("MergeInsertBuilder",),
        "lancelet._api.processor": ("simd_info",),
        "lancelet._api.table_provider": ("FFILanceTableProvider",),
        "lancelet._api.tokenizing": ("FtsToken", "tokenize"),
        "lancelet._api.transaction": ("Index", "IndexFile", "LanceOperation", "Transaction"),
        "lancelet._api.write": ("write_dataset",),
        "lancelet._naming.alias": ("enable_as_lance",),
        "lancelet.file.blob_writers": (
            "BlobDescriptor",
            "BlobDescriptorArrayBuilder",
            "DedicatedBlobWriter",
            "PackedBlobWriter",
        ),
        "lancelet.log": ("set_logger",),
        "lancelet.maintenance.cleanup_report": (
            "CleanupCandidateFile",
            "CleanupExplanation",
            "CleanupReferencedBranch",
            "CleanupStats",
        ),
        "lancelet.mem_wal": (
            "CompactedSsTable",
            "ExecutionPlan",
            "LsmPointLookupPlanner",
            "LsmScanner",
            "LsmVectorSearchPlanner",
            "ShardSnapshot",
            "ShardWriter",
            "ShardingField",
            "ShardingSpec",
            "evaluate_sharding_spec",
        ),
        "lancelet.namespace": ("connect",),
        "lancelet.progress": ("IndexProgress",),
        "lancelet.udf": ("batch_udf",),
        "lancelet.util": ("sanitize_ts",),
    },
    modules=_MODULES,
)


def __getattr__(name: str) -> Any:
    if name != "__version__":
        return _later(name)
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lancelet")
    except PackageNotFoundError:
        # Run from a source tree that is not installed.
        return "0.0.0"


def __dir__() -> list[str]:
    """What users may call, for editors and shells that complete names: also what was not asked for yet."""
    absent = {"torch"} if find_spec("torch") is None else set()
    return sorted({*__all__, *_MODULES} - absent)
