"""The public names of pylance are here, and are called in the same way."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

MODULES = (
    "",
    "bitmap",
    "blob",
    "commit",
    "dataset",
    "file",
    "fragment",
    "log",
    "optimize",
    "progress",
    "pydantic",
    "schema",
    "types",
    "udf",
    "util",
)

# What is not there, and why.
NO_INDICES = "building and searching indices is not supported yet"
NO_MEM_WAL = "the MemWAL is not supported yet"
NO_SQL = "queries in SQL are left to engines"
INNER = "a piece of pylance's binding that only pylance calls"
BORROWED = "a name of another module that happens to be imported there"
MISSING = {
    **dict.fromkeys(
        (
            "DocumentGranularity",
            "FtsToken",
            "FullTextQuery",
            "HNSW",
            "IndexSegment",
            "KMeans",
            "LanceDataset.centroids",
            "LanceDataset.get_ivf_model",
            "LanceDataset.merge_index_metadata",
            "MinHashQuery",
            "VectorIndexReader",
            "VectorSearchQuery",
            "simd_info",
            "tokenize",
            "validate_vector_index",
        ),
        NO_INDICES,
    ),
    **dict.fromkeys(
        (
            "CompactedSsTable",
            "ExecutionPlan",
            "LanceDataset.initialize_mem_wal",
            "LanceDataset.mem_wal_index_details",
            "LanceDataset.mem_wal_writer",
            "LsmPointLookupPlanner",
            "LsmScanner",
            "LsmVectorSearchPlanner",
            "ShardSnapshot",
            "ShardWriter",
            "ShardingField",
            "ShardingSpec",
            "evaluate_sharding_spec",
        ),
        NO_MEM_WAL,
    ),
    **dict.fromkeys(("FFILanceTableProvider", "SqlQuery", "SqlQueryBuilder"), NO_SQL),
    **dict.fromkeys(
        (
            "MergeInsertBuilder.analyze_plan_batches",
            "MergeInsertBuilder.execute_batches",
            "MergeInsertBuilder.execute_uncommitted_batches",
            "LanceBlobFile",
            "PySearchFilter",
            "model_to_dict",
            "normalize_transform",
            "serialize_row_addrs",
        ),
        INNER,
    ),
    **dict.fromkeys(("dataset.td_to_micros", "fragment.Session"), BORROWED),
}

GIVEN = "users get it from a method and do not make it themselves"
STRICT = "unknown options are refused rather than ignored"
OTHER = {
    **dict.fromkeys(
        ("LanceDataset.create_index", "LanceDataset.create_index_uncommitted", "LanceDataset.create_scalar_index"),
        "options of vector and full-text indices, which are not supported yet",
    ),
    **dict.fromkeys(
        (
            "BlobDescriptor",
            "Branches",
            "CleanupCandidateFile",
            "CleanupExplanation",
            "CleanupReferencedBranch",
            "CleanupStats",
            "CompactionMetrics",
            "CompactionPlan",
            "CompactionTask",
            "DatasetDelta",
            "DedicatedBlobWriter",
            "FragmentSession",
            "IOStats",
            "LanceBufferDescriptor",
            "LanceColumnMetadata",
            "LanceFileMetadata",
            "LanceFileStatistics",
            "LanceFragment",
            "LanceScanner",
            "LanceSchema",
            "LancePageMetadata",
            "LanceStats",
            "PackedBlobWriter",
            "RewriteResult",
            "RowDatasetVersionMeta",
            "RowIdMeta",
            "ScanStatistics",
            "Tags",
        ),
        GIVEN,
    ),
    **dict.fromkeys(("LanceDataset.deep_clone", "LanceDataset.shallow_clone"), STRICT),
    "DatasetBasePath": "a base path that has no id yet has the id 0, as in the files",
    "DeletionFile": "base_id has a default: most deletion files have none",
    "set_logger": "the logger and its file have the name of this library",
}


def _modules(name: str) -> tuple[Any, Any]:
    path = f".{name}" if name else ""
    return importlib.import_module(f"lance{path}"), importlib.import_module(f"lancelet{path}")


def _public(thing: Any) -> list[str]:
    return [name for name in sorted(dir(thing)) if not name.startswith("_")]


def _names() -> Iterator[tuple[str, str]]:
    """Module and name of every class and function that pylance defines."""
    for module in MODULES:
        theirs = importlib.import_module(f"lance.{module}" if module else "lance")
        for name in _public(theirs):
            value = getattr(theirs, name)
            origin = getattr(value, "__module__", None) or "builtins"
            if callable(value) and origin.partition(".")[0] in ("lance", "builtins", "_lib"):
                yield module, name


def _shared() -> Iterator[tuple[str, Any, Any]]:
    """Every class, function and method that both have, under its name; once each."""
    seen = set()
    for module, name in _names():
        theirs, ours = (getattr(library, name, None) for library in _modules(module))
        if ours is None or id(theirs) in seen:
            continue
        seen.add(id(theirs))
        yield name, theirs, ours
        for method in _public(theirs) if inspect.isclass(theirs) else ():
            if callable(getattr(theirs, method)) and hasattr(ours, method):
                yield f"{name}.{method}", getattr(theirs, method), getattr(ours, method)


def _has(kind: type, member: str) -> bool:
    return hasattr(kind, member) or member in getattr(kind, "__annotations__", {})


def _absent() -> Iterator[tuple[str, str]]:
    """Module and name of what only pylance has."""
    for module, name in _names():
        theirs, ours = (getattr(library, name, None) for library in _modules(module))
        if ours is None:
            yield module, name
        elif inspect.isclass(theirs):
            for member in _public(theirs):
                value = inspect.getattr_static(theirs, member)
                if (callable(value) or isinstance(value, property)) and not _has(ours, member):
                    yield module, f"{name}.{member}"


def _parameters(call: Any) -> list[inspect.Parameter] | None:
    try:
        found = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return None
    return [one for one in found if one.name != "self" and not one.name.startswith("_")]


def _differences(theirs: Any, ours: Any) -> list[str]:
    """What a call that pylance takes would stumble over."""
    wanted, given = _parameters(theirs), _parameters(ours)
    if wanted is None or given is None:
        return []
    known = {one.name: one for one in given}
    flaws = [f"has no {one.name}" for one in wanted if one.name not in known]
    for one in wanted:
        mine = known.get(one.name)
        if mine is not None and (mine.kind, mine.default) != (one.kind, one.default):
            flaws.append(
                f"{one.name} is {mine.kind.name} with {mine.default!r}, not {one.kind.name} with {one.default!r}"
            )
    places = [one.name for one in given if one.kind is one.POSITIONAL_OR_KEYWORD]
    theirs_in_place = [one.name for one in wanted if one.kind is one.POSITIONAL_OR_KEYWORD]
    if places != theirs_in_place:
        flaws.append(f"takes {places} by position, not {theirs_in_place}")
    return flaws


def test_names() -> None:
    absent = set(_absent())
    assert {(module, name) for module, name in absent if not {name, f"{module}.{name}"} & MISSING.keys()} == set()
    known = {name for _, name in absent} | {f"{module}.{name}" for module, name in absent}
    assert MISSING.keys() - known == set(), "these are there now"


SHARED = {title: (theirs, ours) for title, theirs, ours in _shared()}


@pytest.mark.parametrize("title", sorted(SHARED))
def test_signatures(title: str) -> None:
    found = _differences(*SHARED[title])
    assert bool(found) == (title in OTHER), found
