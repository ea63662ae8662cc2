"""Requests that cannot be carried out: the code that the specification has for it, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancelet
from lancelet.namespace import DirectoryNamespace
from namespace.spaces import BODY, MODES, ROWS, WITH_CATALOG, both, child, create, folders, stream, tables

Call = Callable[[Any], object]


def insert(names: list[str], data: bytes = BODY, **request: Any) -> Call:
    return lambda space: space.insert_into_table(ln.InsertIntoTableRequest(id=names, **request), data)


def asked(method: str, kind: str, **request: Any) -> Call:
    return lambda space: getattr(space, method)(getattr(ln, kind).from_dict(request))


BOTH: dict[str, tuple[int, Call]] = {
    # code, what is done in a namespace with the tables t, n.t and d (declared)
    "namespace of an unknown parent": (1, lambda s: child(s, "no", "x")),
    "unknown namespace described": (1, asked("describe_namespace", "DescribeNamespaceRequest", id=["no"])),
    "unknown namespace": (1, asked("namespace_exists", "NamespaceExistsRequest", id=["n", "no"])),
    "unknown namespace dropped": (1, asked("drop_namespace", "DropNamespaceRequest", id=["no"])),
    "register below an unknown namespace": (
        1,
        asked("register_table", "RegisterTableRequest", id=["no", "x"], location="x"),
    ),
    "namespace twice": (2, lambda s: child(s, "n")),
    "root made": (2, lambda s: child(s)),
    "namespace with the name of a table": (2, lambda s: child(s, "t")),
    "namespace with a table": (3, asked("drop_namespace", "DropNamespaceRequest", id=["n"])),
    "unknown table": (4, asked("describe_table", "DescribeTableRequest", id=["no"])),
    "table of an unknown namespace": (4, asked("describe_table", "DescribeTableRequest", id=["no", "no"])),
    "table asked for": (4, asked("table_exists", "TableExistsRequest", id=["n", "no"])),
    "table dropped": (4, asked("drop_table", "DropTableRequest", id=["no"])),
    "table deregistered": (4, asked("deregister_table", "DeregisterTableRequest", id=["n", "no"])),
    "rows of an unknown table": (4, asked("count_table_rows", "CountTableRowsRequest", id=["no"])),
    "rows for an unknown table": (4, insert(["no"])),
    "versions of an unknown table": (4, asked("list_table_versions", "ListTableVersionsRequest", id=["no"])),
    "table twice": (5, lambda s: create(s, "t")),
    "table twice below": (5, lambda s: create(s, "n", "t")),
    "table declared twice": (5, asked("declare_table", "DeclareTableRequest", id=["d"])),
    "table declared that is there": (5, asked("declare_table", "DeclareTableRequest", id=["n", "t"])),
    "table registered that is there": (5, asked("register_table", "RegisterTableRequest", id=["t"], location="x")),
    "table with the name of a namespace": (5, lambda s: create(s, "n")),
    "unknown index": (
        6,
        asked("describe_table_index_stats", "DescribeTableIndexStatsRequest", id=["t"], index_name="x"),
    ),
    "unknown index dropped": (6, asked("drop_table_index", "DropTableIndexRequest", id=["t"], index_name="x")),
    "index twice": (
        7,
        asked("create_table_index", "CreateTableIndexRequest", id=["t"], column="a", index_type="BTREE", name="i"),
    ),
    "unknown tag": (8, asked("get_table_tag_version", "GetTableTagVersionRequest", id=["t"], tag="x")),
    "unknown tag moved": (8, asked("update_table_tag", "UpdateTableTagRequest", id=["t"], tag="x", version=1)),
    "unknown tag deleted": (8, asked("delete_table_tag", "DeleteTableTagRequest", id=["t"], tag="x")),
    "tag twice": (9, asked("create_table_tag", "CreateTableTagRequest", id=["t"], tag="one", version=1)),
    "unknown transaction": (10, asked("describe_transaction", "DescribeTransactionRequest", id=["t", "no"])),
    "rows of an unknown version": (11, asked("count_table_rows", "CountTableRowsRequest", id=["t"], version=9)),
    "query of an unknown version": (11, asked("query_table", "QueryTableRequest", id=["t"], k=1, vector={}, version=9)),
    "tag of an unknown version": (11, asked("create_table_tag", "CreateTableTagRequest", id=["t"], tag="x", version=9)),
    "index of an unknown column": (
        12,
        asked("create_table_index", "CreateTableIndexRequest", id=["t"], column="no", index_type="BTREE", name="x"),
    ),
    "root dropped": (13, asked("drop_namespace", "DropNamespaceRequest", id=[])),
    "no table": (13, asked("describe_table", "DescribeTableRequest", id=[])),
    "table without an id": (13, lambda s: create(s)),
    "unknown mode of a table": (13, lambda s: create(s, "t", mode="twice")),
    "unknown mode of an insert": (13, insert(["t"], mode="twice")),
    "absolute location": (13, asked("register_table", "RegisterTableRequest", id=["x"], location="/x")),
    "location outside": (13, asked("register_table", "RegisterTableRequest", id=["x"], location="a/../../x")),
    "location with a scheme": (13, asked("register_table", "RegisterTableRequest", id=["x"], location="s3://b/x")),
    "no body": (13, lambda s: s.create_table(ln.CreateTableRequest(id=["x"]), b"")),
    "insert without a body": (13, insert(["t"], b"")),
    "insert of no stream": (13, insert(["t"], b"hello")),
    "declared elsewhere": (13, asked("declare_table", "DeclareTableRequest", id=["x"], location="y")),
    "delete of nothing": (13, asked("delete_from_table", "DeleteFromTableRequest", id=["t"], predicate="")),
    "update of nothing": (13, asked("update_table", "UpdateTableRequest", id=["t"], updates=[])),
    "bad expression": (13, asked("update_table", "UpdateTableRequest", id=["t"], updates=[["s", "((("]])),
    "merge by nothing": (
        13,
        lambda s: s.merge_insert_into_table(ln.MergeInsertIntoTableRequest(id=["t"]), BODY),
    ),
    "merge that does nothing": (
        13,
        lambda s: s.merge_insert_into_table(ln.MergeInsertIntoTableRequest(id=["t"], on=["a"]), BODY),
    ),
    "bad name of a tag": (13, asked("create_table_tag", "CreateTableTagRequest", id=["t"], tag="a b", version=1)),
    "transaction without a table": (13, asked("describe_transaction", "DescribeTransactionRequest", id=["x"])),
    "unknown kind of index": (
        13,
        asked("create_table_index", "CreateTableIndexRequest", id=["t"], column="a", index_type="FOO", name="x"),
    ),
    "unknown branch deleted": (22, asked("delete_table_branch", "DeleteTableBranchRequest", id=["t"], name="x")),
    "branch twice": (23, asked("create_table_branch", "CreateTableBranchRequest", id=["t"], name="side")),
}
OURS: dict[str, tuple[int, Call]] = {
    # What pylance does not check, or tells otherwise.
    "altered transaction": (
        0,
        asked(
            "alter_transaction",
            "AlterTransactionRequest",
            id=["t", "1"],
            actions=[{"setStatusAction": {"status": "Canceled"}}],
        ),
    ),
    "vector search in a column of numbers": (
        13,
        asked("query_table", "QueryTableRequest", id=["t"], k=1, vector={"single_vector": [1.0]}, vector_column="a"),
    ),
    "table of an unknown namespace": (1, lambda s: create(s, "no", "x")),
    "declared in an unknown namespace": (1, asked("declare_table", "DeclareTableRequest", id=["no", "x"])),
    "rename into an unknown namespace": (
        1,
        asked("rename_table", "RenameTableRequest", id=["t"], new_table_name="x", new_namespace_id=["no"]),
    ),
    "tables of an unknown namespace": (1, lambda s: tables(s, "no")),
    "namespaces of an unknown namespace": (1, asked("list_namespaces", "ListNamespacesRequest", id=["no"])),
    "rename of an unknown table": (4, asked("rename_table", "RenameTableRequest", id=["no"], new_table_name="x")),
    "rows of a declared table": (4, asked("count_table_rows", "CountTableRowsRequest", id=["d"])),
    "rename to a name that is taken": (5, asked("rename_table", "RenameTableRequest", id=["t"], new_table_name="d")),
    "rename to a namespace": (5, asked("rename_table", "RenameTableRequest", id=["t"], new_table_name="n")),
    "unknown version described": (
        11,
        asked("describe_table", "DescribeTableRequest", id=["t"], version=9, load_detailed_metadata=True),
    ),
    "unknown version exists": (11, asked("table_exists", "TableExistsRequest", id=["t"], version=9)),
    "unknown version restored": (11, asked("restore_table", "RestoreTableRequest", id=["t"], version=9)),
    "unknown column counted": (12, asked("count_table_rows", "CountTableRowsRequest", id=["t"], predicate="no = 1")),
    "unknown column updated": (12, asked("update_table", "UpdateTableRequest", id=["t"], updates=[["no", "1"]])),
    "unknown column dropped": (
        12,
        asked("alter_table_drop_columns", "AlterTableDropColumnsRequest", id=["t"], columns=["no"]),
    ),
    "filter that does not parse": (13, asked("count_table_rows", "CountTableRowsRequest", id=["t"], predicate="a >")),
    "no stream": (13, lambda s: s.create_table(ln.CreateTableRequest(id=["x"]), b"hello")),
    "half a stream": (13, lambda s: s.create_table(ln.CreateTableRequest(id=["x"]), BODY[:-60])),
    "unknown mode of a namespace": (13, lambda s: child(s, "n", mode="twice")),
    "unknown behaviour": (13, asked("drop_namespace", "DropNamespaceRequest", id=["n"], behavior="maybe")),
    "empty location": (13, asked("register_table", "RegisterTableRequest", id=["x"], location="")),
    "newest version deleted": (
        13,
        asked(
            "batch_delete_table_versions",
            "BatchDeleteTableVersionsRequest",
            id=["t"],
            ranges=[{"start_version": 0, "end_version": -1}],
        ),
    ),
    "version that is there": (
        14,
        asked("create_table_version", "CreateTableVersionRequest", id=["t"], version=1, manifest_path="_versions/x"),
    ),
    "rows of another schema": (20, insert(["t"], stream(pa.table({"zz": [1]})))),
    "rows of an unknown branch": (22, asked("count_table_rows", "CountTableRowsRequest", id=["t"], branch="no")),
    "rows for an unknown branch": (22, insert(["t"], branch="no")),
    "branch of an unknown one": (
        22,
        asked("create_table_branch", "CreateTableBranchRequest", id=["t"], name="x", from_branch="no"),
    ),
}


@pytest.fixture(scope="module", params=["compatible", "manifest"])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    spaces = both(tmp_path_factory.mktemp("errors"), request.param)
    child(spaces.ours, "n")
    create(spaces.ours, "t")
    create(spaces.ours, "n", "t")
    spaces.ours.declare_table(ln.DeclareTableRequest(id=["d"]))
    where = spaces.ours.describe_table(ln.DescribeTableRequest(id=["t"])).location
    dataset = lance.dataset(where)
    dataset.create_scalar_index("a", "BTREE", name="i")
    dataset.tags.create("one", 1)
    dataset.create_branch("side")
    Path(where.removeprefix("file://"), "_versions", "x").write_bytes(b"no manifest")
    # pylance sees that there is a catalog by now when it is first asked for something in it.
    spaces.theirs.describe_table(ln.DescribeTableRequest(id=["n", "t"]))
    return spaces


def state(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", [*BOTH, *(f"{name} (ours)" for name in OURS)])
def test_codes(prepared: Any, case: str) -> None:
    code, call = OURS[case.removesuffix(" (ours)")] if case.endswith(" (ours)") else BOTH[case]
    before = state(prepared.root)
    with pytest.raises(ln.LanceNamespaceError) as caught:
        call(prepared.ours)
    assert caught.value.code == code, caught.value
    assert state(prepared.root) == before
    assert not [path for path in prepared.root.iterdir() if not any(path.rglob("*"))]
    if case in BOTH:
        with pytest.raises(ln.LanceNamespaceError) as theirs:
            call(prepared.theirs)
        assert theirs.value.code == code, theirs.value


BAD_NAMES = ["", ".", "..", "a$b", "$", "a/b", "/", "../x", "a\\b", "a\x00b", "x" * 256, "\ud800", "t.lance"]


@pytest.mark.parametrize("mode", MODES)
def test_bad_names(tmp_path: Path, mode: str) -> None:
    space = both(tmp_path, mode).ours
    create(space, "t")
    before = folders(tmp_path)
    makers: list[Callable[[str], object]] = [
        lambda name: create(space, name),
        lambda name: space.declare_table(ln.DeclareTableRequest.model_construct(id=[name])),
    ]
    if mode != "listing":
        makers += [
            lambda name: space.register_table(ln.RegisterTableRequest.model_construct(id=[name], location="x")),
            lambda name: space.rename_table(ln.RenameTableRequest.model_construct(id=["t"], new_table_name=name)),
            lambda name: child(space, name.removesuffix(".lance")),
        ]
    for name in BAD_NAMES:
        for make in makers[: 4 if name.endswith(".lance") else 5]:
            with pytest.raises(ln.InvalidInputError):
                make(name)
    assert folders(tmp_path) == before
    assert tables(space) == ["t"]


@pytest.mark.parametrize("mode", WITH_CATALOG)
def test_locations_that_lead_outside_are_not_followed(tmp_path: Path, mode: str) -> None:
    """Whatever another writer has put into the catalog."""
    space = both(tmp_path / "root", mode).ours
    lancelet.write_dataset(ROWS, tmp_path / "out.lance")
    child(space, "n")
    dataset = lance.dataset(tmp_path / "root" / "__manifest")
    rows = [
        {"object_id": "n$x", "object_type": "table", "location": "../out.lance"},
        {"object_id": "n$y", "object_type": "table", "location": str(tmp_path / "out.lance")},
    ]
    lance.write_dataset(pa.Table.from_pylist(rows, dataset.schema), dataset, mode="append")
    for name in ("x", "y"):
        for method, kind in (("describe_table", "DescribeTableRequest"), ("drop_table", "DropTableRequest")):
            with pytest.raises(ln.InvalidInputError):
                asked(method, kind, id=["n", name])(space)
    assert lance.dataset(tmp_path / "out.lance").count_rows() == 3


LISTING: dict[str, tuple[int, Call]] = {
    "namespace": (0, lambda s: child(s, "n")),
    "namespaces below": (0, asked("list_namespaces", "ListNamespacesRequest", id=["n"])),
    "table below": (0, lambda s: create(s, "n", "t")),
    "table below described": (0, asked("describe_table", "DescribeTableRequest", id=["n", "t"])),
    "tables below": (0, lambda s: tables(s, "n")),
    "properties": (0, lambda s: create(s, "x", properties={"k": "v"})),
    "properties declared": (0, asked("declare_table", "DeclareTableRequest", id=["x"], properties={"k": "v"})),
    "register": (0, asked("register_table", "RegisterTableRequest", id=["x"], location="y")),
    "namespace described": (0, asked("describe_namespace", "DescribeNamespaceRequest", id=["n"])),
    "namespace dropped": (0, asked("drop_namespace", "DropNamespaceRequest", id=["n"])),
    "twice": (5, lambda s: create(s, "t")),
    "declared": (5, asked("declare_table", "DeclareTableRequest", id=["t"])),
    "after it was deregistered": (5, lambda s: create(s, "hidden")),
    "deregistered": (4, asked("deregister_table", "DeregisterTableRequest", id=["hidden"])),
    "unknown": (4, asked("describe_table", "DescribeTableRequest", id=["no"])),
    "root": (2, lambda s: child(s)),
    "root dropped": (13, asked("drop_namespace", "DropNamespaceRequest", id=[])),
}


def test_codes_without_a_catalog(tmp_path: Path) -> None:
    spaces = both(tmp_path, "listing")
    create(spaces.ours, "t")
    create(spaces.ours, "hidden")
    spaces.ours.deregister_table(ln.DeregisterTableRequest(id=["hidden"]))
    for case, (code, call) in LISTING.items():
        for space in (spaces.ours, spaces.theirs):
            with pytest.raises(ln.LanceNamespaceError) as caught:
                call(space)
            assert caught.value.code == code, case
    assert folders(tmp_path) == ["hidden.lance", "t.lance"]


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"root": ""},
        {"root": "x", "manifest_enabled": "maybe"},
        {"root": "x", "commit_retries": "-1"},
        {"root": "x", "manifest_enabled": "false", "dir_listing_enabled": "false"},
        {"root": "nope://x"},
    ],
)
def test_bad_properties(properties: dict[str, str]) -> None:
    with pytest.raises(ln.InvalidInputError):
        DirectoryNamespace(**properties)
