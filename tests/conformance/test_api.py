"""The same call on pylance and on lancelet: the same answer, or the same kind of error."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance.dataset
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
import lancelet.dataset
from conformance.states import STATES, append, create, rows
from lancelet.errors import LanceletError
from lancelet.testing import assert_identical

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
Call = Callable[[Any, Any], Any]


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three fragments with deleted rows, an added column, two indices, tags, a branch."""
    path = tmp_path_factory.mktemp("api") / "t"
    dataset = create(path, {"data_storage_version": "2.2"})
    dataset.delete("k % 9 = 5")
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("low", "BITMAP", name="lows")
    dataset.add_columns({"twice": "k * 2"})
    dataset.update_config({"owner": "us"})
    dataset.tags.create("one", 1)
    dataset.tags.create("another", 1)
    dataset.tags.create("two", 2)
    dataset.create_branch("dev/a", 2).delete("k > 500")
    dataset.create_branch("bb", 1)
    return path


def outcome(call: Call, module: Any, path: Path) -> Any:
    try:
        return plain(call(module, module.dataset(path)))
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return error


def plain(value: Any) -> Any:
    """Something that both libraries can be compared by."""
    if isinstance(value, pa.RecordBatchReader):
        return value.read_all()
    if hasattr(value, "fragment_id"):
        return ("fragment", value.fragment_id)
    if hasattr(value, "to_json"):
        return value.to_json()
    if type(value).__module__.startswith(("lance", "_lib")) and hasattr(value, "__dict__"):
        return {name: plain(part) for name, part in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value


def agrees(call: Call, path: Path, expected_path: Path | None = None) -> None:
    theirs = outcome(call, lance, expected_path or path)
    ours = outcome(call, lancelet, path)
    if isinstance(theirs, BaseException):
        assert isinstance(ours, BaseException), f"pylance raises {theirs!r}, lancelet gives {ours!r}"
        assert isinstance(ours, (LanceletError, TypeError)), repr(ours)
        kind = type(theirs)
        # What Rust calls invalid input is a ValueError in some calls and an OSError in others.
        accepted = (OSError, ValueError) if kind is OSError else kind
        if kind.__module__ == "builtins" and kind not in (AttributeError, RuntimeError, StopIteration):
            assert isinstance(ours, accepted), f"pylance raises {theirs!r}, lancelet {ours!r}"
        return
    if isinstance(ours, BaseException):
        raise AssertionError(f"pylance gives {theirs!r}") from ours
    if isinstance(theirs, pa.Table) and theirs.num_columns == 0:
        assert ours.shape == theirs.shape
    elif isinstance(theirs, pa.Table):
        assert_identical(ours, theirs.replace_schema_metadata(ours.schema.metadata))
    else:
        assert ours == theirs


SCANS = """
limit=-1
offset=-1
limit=0
limit=5, offset=1000
limit=5, offset=530
limit=2, offset=0
limit="a"
limit=1.5
batch_size=0
batch_readahead=0
fragment_readahead=-1
columns=[]
columns=[], with_row_id=True
columns=[], limit=3
columns=["k", "k"]
columns=["_rowid"], with_row_id=True
columns=["_rowid", "k"], with_row_id=True
columns=["_rowaddr", "_rowid", "k"], with_row_address=True
columns=["k", "_rowid"], with_row_address=True
columns=["_rowaddr", "k"], with_row_id=True, with_row_address=True
columns=["nope"]
columns="k"
columns=5
columns=[1]
columns=["K"]
columns=["p.q"]
columns=["p.x", "p.deep.y"]
columns=["p.x", "p"]
columns=["p.deep", "p.deep.z", "twice"]
columns={"a": "nope"}
columns={"a": "k +"}
columns={"id": "_rowid", "k": "k"}, with_row_id=True
columns={"n": "p.deep.z", "m": "k * 2 + 1"}, filter="i > 0"
columns={"k": "k", "k2": "k"}, filter="k2 > 1"
columns=["_row_created_at_version", "k"], limit=4
filter="nope > 1"
filter="k >"
filter="k"
filter=""
filter=5
filter={"expr_filter": "k < 4"}
filter="k < 20", limit=3, offset=2
filter="k < 20 and twice > 8", with_row_id=True
filter=pc.field("k") < 7
filter="k < 0"
filter="true", columns=[]
filter="k < 20", columns=[], limit=300
filter="k < 20", columns=[], limit=3
filter="k < 20", columns=[], offset=4
filter="k < 20", columns=[], limit=300, offset=4
order_by=["k"], columns=[], limit=5, offset=530
order_by=["nope"]
order_by=["k"], limit=3
order_by=["k"], limit=3, offset=5, filter="i > 0"
order_by=[], limit=2
order_by=[ORDER("k", ascending=False)], limit=3
order_by=[ORDER("f", ascending=False, nulls_first=True), ORDER("k")], columns=["f", "k"]
order_by=[ORDER("low"), ORDER("k", ascending=False)], columns=["k", "low"]
order_by=[5]
blob_handling="foo"
late_materialization=["k"], limit=1
late_materialization=False, filter="k > 30", columns=["s"]
late_materialization="x"
include_deleted_rows=True
include_deleted_rows=True, with_row_id=True
include_deleted_rows=True, with_row_id=True, filter="twice > 6", columns=["twice"]
include_deleted_rows=True, with_row_id=True, limit=9, offset=3
foo=1
scan_in_order=False, columns=["k"], limit=3
batch_size=7
use_stats=False, use_scalar_index=False, prefilter=True, io_buffer_size=1 << 20, limit=1
"""

TAKES = """
[1000]
[533]
[532]
[-1]
[0, -1]
[2 ** 70]
[]
[1, 1, 0]
[200, 3, 200, 532, 0]
[1.5]
["a"]
5
None
"12"
np.array([1, 2])
np.array([1, 2], dtype=np.uint8)
np.array([1.0, 2])
np.array([], dtype=np.int64)
pa.array([1, 2])
pa.array([1, None])
pa.array([], pa.int64())
pa.chunked_array([[1], [2]])
range(3)
(4, 2)
[True]
[np.int64(3)]
[1], ["k", "_rowid"]
[1, 300], ["_rowid", "s", "k"]
[5, 4], ["s", "_rowaddr", "k"]
[1, 2], ["_rowid"]
[1], []
[1], ["p.x"]
[1, 0], ["p.deep.y", "k", "p.x"]
[1], ["p.x", "p"]
[1], ["k", "k"]
[1, 300], {"a": "k * 2", "r": "_rowid"}
[], {"a": "k * 2"}
[1], {"a": "nope"}
[1], ["nope"]
[0, 1], ["twice", "v"]
"""

OTHER = """
ds.count_rows()
ds.count_rows("k > 5")
ds.count_rows(pc.field("k") > 5)
ds.count_rows(filter="k > 5", foo=1)
ds.head(3)
ds.head(0)
ds.head(-1)
ds.head(3, offset=2, columns=["k"])
ds.head(1000, columns=["k"])
ds.slice(3, 6)
ds.slice(3, 6, columns=["k"])
ds.slice(6, 3)
ds.slice(-3, 6)
ds.slice(530, 900)
ds.slice(600, 900)
ds.sample(0)
ds.sample(1000)
ds.sample(-1)
ds.sample(533, columns=["k"], randomize_order=False)
ds.sample(5, with_row_id=True)
ds._take_rows([0, 1, 3])
ds._take_rows([3, 5, 1, 3], columns=["k"])
ds.scanner(["k"]).count_rows()
ds.scanner(["k"], filter="k < 5").count_rows()
ds.scanner(limit=5).count_rows()
ds.scanner(offset=5).count_rows()
ds.scanner(include_deleted_rows=True, with_row_id=True).count_rows()
ds.scanner(["k", "p.x"], with_row_id=True).projected_schema
ds.scanner({"a": "k + 1"}).projected_schema
ds.scanner(["k"]).dataset_schema
ds.scanner(["k"]).head(4)
ds.scanner(["k"]).to_reader()
ds.scanner([]).to_reader().read_all().num_rows
ds.scanner(["k"], filter="k > 590").to_table()
ds.scanner().take([1])
ds.scanner(fragments=ds.get_fragments()[1:]).to_table()
ds.scanner(fragments=[]).to_table()
ds.scanner(fragments=[ds.get_fragment(1)] * 2, columns=["k"]).to_table()
ds.scanner(fragments=[ds.get_fragment(2), ds.get_fragment(0)], filter="k % 2 = 0").to_table()
ds.scanner(fragments=[1]).to_table()
ds.scanner(strict_batch_size=True, batch_size_bytes=10).to_table()
ds.scanner(strict_batch_size=True, batch_size=100, columns=["k"]).to_reader()
[b.num_rows for b in ds.scanner(["k"], strict_batch_size=True, batch_size=100).to_batches()]
module.LanceScanner.from_dataset(ds)
module.LanceScanner.from_fragment(None)
module.LanceScanner.from_batches([])
ds.schema
ds.lance_schema.to_pyarrow()
[(f.name(), f.id(), [c.id() for c in f.children()]) for f in ds.lance_schema.fields()]
ds.lance_schema.field("p.deep.y").id()
ds.lance_schema.field("nope")
ds.lance_schema.field_case_insensitive("P.DEEP.Y").id()
ds.schema_metadata
ds.metadata
ds.config()
ds.data_storage_version
ds.has_stable_row_ids
ds.has_index
ds.max_field_id
ds.base_paths()
ds.uri
ds.version
ds.latest_version
ds.versions()
ds.get_version()
ds.version_refs()
ds.fragment_ids() == {0, 1, 2}
list(ds.fragment_ids())
str(ds.fragment_ids())
len(ds)
ds.list_indices()
ds.stats.dataset_stats()
ds.stats.dataset_stats(max_rows_per_group=100)
ds.stats.data_stats().fields
ds.stats.index_stats("nope")
ds.index_statistics("nope")
ds.validate()
ds.partition_expression
ds.initial_storage_options
ds.latest_storage_options()
ds.get_fragments()
ds.get_fragment(2)
ds.get_fragment(99)
ds.get_fragments(filter=pc.field("k") > 1)
ds.tags.list()
ds.tags.list_ordered()
ds.tags.list_ordered("asc")
ds.tags.list_ordered("desc")
ds.tags.list_ordered("foo")
ds.tags.get_version("one")
ds.tags.get_version("nope")
ds.branches.list()
ds.branches.list_ordered()
ds.branches.list_ordered("asc")
ds.checkout_version(1).version
ds.checkout_version(2).count_rows()
ds.checkout_version("one").version
ds.checkout_version(99)
ds.checkout_version("nope")
ds.checkout_version(("nope", 1))
ds.checkout_version(("nope", None))
ds.checkout_version(("dev/a", None)).to_table()
ds.checkout_version(("dev/a", None)).versions()
ds.checkout_version(("dev/a", None)).uri
ds.checkout_version(("dev/a", None)).latest_version
ds.checkout_version(("dev/a", None)).tags.list()
ds.checkout_version(("dev/a", None)).checkout_version("two").version
ds.checkout_version(("dev/a", None)).checkout_version((None, 1)).version
ds.checkout_version(("dev/a", None)).checkout_version(1).version
ds.checkout_version(("main", 2)).version
ds.checkout_version(1.5)
ds.checkout_version(None)
ds.checkout_version(-1)
ds.checkout_latest()
ds.to_pandas(limit=3).to_json(default_handler=str)
ds.to_pandas(["k", "p.x"], "k > 590", with_row_id=True).to_json(default_handler=str)
ds.to_pandas(limit=3, types_mapper=None, blob_mode="descriptions").to_json(default_handler=str)
ds.to_pandas(blob_mode="x")
[b.num_rows > 0 for b in ds.to_batches(["k"], batch_size=1000)][0]
sorted(r["path"] for r in ds.all_files().read_all().to_pylist())
ds.all_files().schema
ds.tracked_files().schema
key(ds.tracked_files().read_all().to_pylist())
key(ds.tracked_files(min_version=4).read_all().to_pylist())
ds.delta()
ds.delta(begin_version=2)
ds.delta(compared_against=1).get_inserted_rows()
ds.delta(begin_version=1, end_version=2).get_updated_rows()
module.dataset(None)
module.dataset(ds.uri, version=99)
module.dataset(ds.uri, version="nope")
module.dataset(ds.uri, version="one").version
module.dataset(ds.uri, version=1, asof="2001-01-01").version
module.dataset(ds.uri, asof=5)
module.dataset(ds.uri + "/nothing")
module.dataset(ds.uri, default_scan_options={"with_row_id": True}).schema
module.dataset(ds.uri, default_scan_options={"with_row_id": True}).head(3)
module.dataset(ds.uri, default_scan_options={"with_row_id": True}).to_table(["k"], with_row_id=False)
module.dataset(ds.uri, default_scan_options={"columns": ["k"], "batch_size": 10}).head(3)
module.dataset(ds.uri, default_scan_options={"foo": True}).head(1)
module.dataset(ds.uri, session=module.dataset(ds.uri).session()).count_rows()
module.dataset(ds.uri, block_size=4096, index_cache_size=7, metadata_cache_size_bytes=1 << 20).count_rows()
module.dataset(ds.uri).session().is_same_as(ds.session())
ds.checkout_version(1).session().is_same_as(ds.session())
ds == module.dataset(ds.uri)
module.schema_to_json(ds.schema)
module.json_to_schema(module.schema_to_json(ds.schema))
module.schema_to_json(pa.schema([pa.field("m", pa.map_(pa.string(), pa.int8()))]))
"""

FRAGMENTS = """
f.fragment_id
f.physical_rows
f.num_deletions
f.metadata.num_rows
f.metadata.to_json()
module.FragmentMetadata.from_json(json.dumps(f.metadata.to_json())).to_json()
f.data_files()[0].fields
str(f.data_files()[1].path)
f.deletion_file()
repr(f)
repr(f.metadata.deletion_file)
f.metadata.deletion_file.path(1)
f.schema
f.physical_schema
f.partition_expression
f.count_rows()
f.count_rows("k > 250")
f.count_rows(pc.field("k") > 250)
f.count_rows("nope > 1")
f.to_table()
f.to_table(with_row_id=True, with_row_address=True)
f.to_table(["k"], "k > 250", 2)
f.to_table(columns=["k"], include_deleted_rows=True, with_row_id=True)
f.to_table(columns=["k", "f"], order_by=[ORDER("k", ascending=False)], limit=4)
f.to_table(foo=1)
f.head(2)
f.head(0)
f.scanner(columns=["k"]).count_rows()
f.scanner(columns=["k"], offset=170).to_table()
f.scanner(foo=1)
[b.num_rows for b in f.to_batches(columns=["k"], batch_size=1000)]
f.to_pandas(limit=2).to_json(default_handler=str)
f.take([0, 5, 177])
f.take([178])
f.take([1000])
f.take([-1])
f.take([])
f.take([2], columns=["p", "k"])
f.take([2], columns={"a": "k"})
f.open_session().take([0, 1])
f.open_session(columns=["k"], with_row_address=True).take([1, 3])
f.open_session(columns=["k"]).take([1000])
f.validate()
"""


def key(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(row) for row in rows)


def compiled(text: str) -> Call:
    code = compile(text, "<case>", "eval")

    def call(module: Any, ds: Any) -> Any:
        tools = {"np": np, "pa": pa, "pc": pc, "json": json, "key": key, "ORDER": _module(module).ColumnOrdering}
        return eval(code, {**tools, "module": module, "ds": ds, "f": ds.get_fragment(1)})

    return call


def _module(module: Any) -> Any:
    # The attribute ``dataset`` of both packages is the function; the module has to be found by name.
    import sys

    return sys.modules[f"{module.__name__}.dataset"]


def cases(block: str) -> list[str]:
    return block.strip().splitlines()


@pytest.mark.parametrize("case", cases(SCANS))
def test_scans(where: Path, case: str) -> None:
    agrees(compiled(f"ds.to_table({case})"), where)


@pytest.mark.parametrize("case", cases(TAKES))
def test_takes(where: Path, case: str) -> None:
    agrees(compiled(f"ds.take({case})"), where)


@pytest.mark.parametrize("case", cases(OTHER))
def test_other_calls(where: Path, case: str) -> None:
    agrees(compiled(case), where)


@pytest.mark.parametrize("case", cases(FRAGMENTS))
def test_fragments(where: Path, case: str) -> None:
    agrees(compiled(case), where)


STABLE = """
ds.to_table(["k", "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"])
ds._take_rows([0, 3, 1])
ds._take_rows([610, 15, 16], columns=["k", "_rowid", "_rowaddr"])
ds._take_rows([10 ** 9])
ds.has_stable_row_ids
f.metadata.to_json()
module.FragmentMetadata.from_json(json.dumps(f.metadata.to_json())).to_json()
ds.delta(compared_against=1).get_inserted_rows()
ds.delta(compared_against=1).get_updated_rows()
ds.delta(compared_against=1).get_deleted_row_ids()
ds.delta(begin_version=2, end_version=3).get_updated_rows()
[type(t.operation).__name__ for t in ds.delta(compared_against=1).list_transactions()]
ds.delta(compared_against=99).list_transactions()
"""


@pytest.fixture(scope="module")
def stable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stable") / "t"
    options = {"data_storage_version": "2.2", "enable_stable_row_ids": True}
    dataset = create(path, options)
    dataset.update({"s": "'new'"}, where="k % 11 = 4")
    append(path, rows(20, 600), options)
    lance.dataset(path).delete("k = 1 or k = 605 or k = 15")
    return path


@pytest.mark.parametrize("case", cases(STABLE))
def test_stable_row_ids(stable: Path, case: str) -> None:
    agrees(compiled(case), stable)


@pytest.mark.parametrize("name", sorted(STATES))
def test_histories(tmp_path: Path, name: str) -> None:
    """Versions, fragments, statistics and transactions of every state a table can be in."""
    path = tmp_path / "t"
    STATES[name](path, {"data_storage_version": "2.1"})
    for text in (
        "ds.versions()",
        "ds.stats.dataset_stats()",
        "ds.stats.data_stats().fields",
        "ds.max_field_id",
        "[f.metadata for f in ds.get_fragments()]",
        "[repr(f) for f in ds.get_fragments()]",
        "[f.to_table(with_row_id=True).num_rows for f in ds.get_fragments()]",
        "{k: (b.id, b.name, b.is_dataset_root, b.path) for k, b in ds.base_paths().items()}",
        "ds.config()",
        "ds.schema_metadata",
        "ds.list_indices()",
        "ds.lance_schema.to_pyarrow()",
        "key(ds.tracked_files().read_all().to_pylist())",
    ):
        agrees(lambda module, ds, text=text: eval(text, {"ds": ds, "key": key}), path)
    _same_transactions(path)


def _same_transactions(path: Path) -> None:
    ours, theirs = lancelet.dataset(path).get_transactions(50), lance.dataset(path).get_transactions(50)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if other is None:
            assert mine is None
            continue
        assert mine is not None
        assert (mine.read_version, mine.uuid) == (other.read_version, other.uuid)
        assert mine.transaction_properties == other.transaction_properties
        assert _facts(mine.operation) == _facts(other.operation)


def _facts(operation: Any) -> Any:
    return {"kind": type(operation).__name__, **_parts(operation)}


def _parts(value: Any) -> dict[str, Any]:
    """What a program for pylance sees of a value: its fields."""
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else vars(value)
    return {name: _fact(getattr(value, name)) for name in names if name != "stored"}


def _fact(value: Any) -> Any:
    if hasattr(value, "to_pyarrow"):
        return value.to_pyarrow()
    if hasattr(value, "is_dataset_root"):
        return value.id, value.name, value.is_dataset_root, value.path
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, (list, tuple)):
        return [_fact(part) for part in value]
    if isinstance(value, dict):
        return {key: _fact(part) for key, part in value.items()}
    if hasattr(value, "__dict__"):
        return _parts(value)
    return value


def test_only_what_is_not_there_yet_is_refused_by_name(where: Path) -> None:
    ours = lancelet.dataset(where)
    for method, arguments in {
        "filter": ["x"],
        "sort_by": ["x"],
        "join": ["x", "k"],
        "join_asof": ["x", "k", "k", 1],
        "replace_schema": ["x"],
    }.items():
        with pytest.raises(lancelet.errors.NotSupported):
            getattr(ours, method)(*arguments)
    with pytest.raises(lancelet.errors.InvalidType, match="namespace"):
        lancelet.dataset(namespace_client=object(), table_id=["t"])


def test_the_reading_half_of_pylance_is_there() -> None:
    """Every public attribute that does not write, by name and argument names."""
    import inspect

    for kind in ("LanceDataset", "LanceFragment", "LanceScanner", "BlobFile"):
        ours, theirs = getattr(lancelet, kind), getattr(lance, kind)
        missing = {name for name in vars(theirs) if not name.startswith("_")} - set(dir(ours)) - WRITES
        assert not missing, f"{kind} has no {sorted(missing)}"
        for name in vars(theirs):
            if name.startswith("_") or name in WRITES or name in LOOSE or not callable(getattr(theirs, name)):
                continue
            expected = list(inspect.signature(getattr(theirs, name)).parameters)
            actual = inspect.signature(getattr(ours, name)).parameters
            if any(p.kind is p.VAR_KEYWORD for p in actual.values()):
                named = [p.name for p in actual.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]
                assert named == expected[: len(named)], f"{kind}.{name}"
            else:
                assert list(actual) == expected, f"{kind}.{name}"
    opening = list(inspect.signature(lance.dataset).parameters)
    assert list(inspect.signature(lancelet.dataset).parameters) == [*opening, "allowed_prefixes", "verify_checksums"]


WRITES = {
    "add_bases", "add_columns", "alter_columns", "cleanup_old_versions", "commit", "commit_batch",
    "commit_existing_index_segments", "create_branch", "create_index", "create_index_uncommitted",
    "create_scalar_index", "deep_clone", "delete", "delete_config_keys", "drop", "drop_columns", "drop_index",
    "explain_cleanup_old_versions", "from_pydantic_model", "initialize_mem_wal", "insert", "mem_wal_writer", "merge",
    "merge_existing_index_segments", "merge_index_metadata", "merge_insert", "migrate_manifest_paths_v2",
    "new_file_session", "optimize", "replace_field_metadata", "replace_schema_metadata", "restore", "shallow_clone",
    "truncate_table", "update", "update_config", "update_field_metadata", "update_metadata", "update_schema_metadata",
    "create", "create_from_file", "delete_rows", "merge_columns", "update_columns",
    # Of indices and services that come later.
    "centroids", "get_ivf_model", "mem_wal_index_details", "prewarm_index", "remap_row_addrs",
    "storage_options_accessor",
}  # fmt: skip
LOOSE = {
    "filter",
    "sort_by",
    "join",
    "join_asof",
    "sql",
    "replace_schema",
    "from_batches",
    "from_dataset",
    "from_fragment",
}
