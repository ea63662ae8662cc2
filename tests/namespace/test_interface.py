"""Every operation of the interface is answered, or refused as unsupported; root, vended options, counted operations."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import lance.namespace
import lance_namespace as ln
import pytest

import lancelet
from lancelet.namespace import DirectoryNamespace
from namespace.spaces import BODY, MODES, ROWS, both, child, create

if TYPE_CHECKING:
    from conftest import Bucket

OPERATIONS = [name for name, method in vars(ln.LanceNamespace).items() if callable(method) and not name.startswith("_")]
REFUSED = {
    "alter_table_backfill_columns",
    "batch_commit_tables",
    "batch_create_table_versions",
    "create_materialized_view",
    "refresh_materialized_view",
}
"""Pylance's directory namespace answers none of them."""
MORE = {"create_empty_table", "rename_table", "update_field_metadata"}
"""What pylance's directory namespace refuses."""


def answers(kind: type, name: str) -> bool:
    return getattr(kind, name) is not getattr(ln.LanceNamespace, name)


def test_all_others_are_answered() -> None:
    ours = {name for name in OPERATIONS if answers(DirectoryNamespace, name)}
    assert set(OPERATIONS) - ours == REFUSED
    theirs = {name for name in OPERATIONS if answers(lance.namespace.DirectoryNamespace, name)}
    assert ours - theirs == MORE - {"rename_table"}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals(tmp_path: Path, name: str) -> None:
    spaces = both(tmp_path)
    create(spaces.ours, "t")
    requests = {
        "alter_table_backfill_columns": ln.AlterTableBackfillColumnsRequest(id=["t"], column="a"),
        "batch_create_table_versions": ln.BatchCreateTableVersionsRequest(
            entries=[{"id": ["t"], "version": 2, "manifest_path": "x"}]
        ),
    }
    with pytest.raises(ln.UnsupportedOperationError) as caught:
        getattr(spaces.ours, name)(requests.get(name))
    assert caught.value.code == 0
    # Pylance refuses some in words of its own.
    with pytest.raises(Exception):  # noqa: B017
        getattr(spaces.theirs, name)(requests.get(name))
    assert lancelet.dataset(tmp_path / "t.lance").version == 1


@pytest.mark.parametrize("mode", MODES)
def test_the_root_has_no_properties(tmp_path: Path, mode: str) -> None:
    """Whatever the catalog's own metadata are, which changes of the catalog keep."""
    spaces = both(tmp_path, mode)

    def described() -> list[Any]:
        request = ln.DescribeNamespaceRequest(id=[])
        return [space.describe_namespace(request) for space in (spaces.ours, spaces.theirs)]

    assert described() == [ln.DescribeNamespaceResponse(properties={})] * 2
    create(spaces.ours, "t")
    catalog = tmp_path / "__manifest"
    if catalog.exists():
        lance.dataset(catalog).update_metadata({"owner": "me"})
        child(spaces.ours, "n")
        assert lance.dataset(catalog).metadata == {"owner": "me"}
    assert described() == [ln.DescribeNamespaceResponse(properties={})] * 2
    for space in (spaces.ours, spaces.theirs):
        with pytest.raises(ln.NamespaceAlreadyExistsError):
            space.create_namespace(ln.CreateNamespaceRequest(id=[], properties={"a": "b"}))
        with pytest.raises(ln.InvalidInputError):
            space.drop_namespace(ln.DropNamespaceRequest(id=[]))


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"storage.foo": "bar"},
        {"vend_input_storage_options": "true"},
        {"vend_input_storage_options": "true", "storage.foo": "bar"},
        {"credential_vendor.enabled": "true", "storage.foo": "bar"},
        {"credential_vendor.enabled": "true", "credential_vendor.aws_role_arn": "arn:aws:iam::1:role/x"},
    ],
    ids=str,
)
def test_storage_options_that_are_told(tmp_path: Path, properties: dict[str, str]) -> None:
    spaces = both(tmp_path, **properties)
    create(spaces.ours, "t")
    for wanted in (None, True, False):
        request = ln.DescribeTableRequest(id=["t"], vend_credentials=wanted)
        assert spaces.ours.describe_table(request) == spaces.theirs.describe_table(request)
    told = []
    for number, space in enumerate((spaces.ours, spaces.theirs)):
        declared = [
            space.declare_table(ln.DeclareTableRequest(id=[f"d{number}{wanted}"], vend_credentials=wanted))
            for wanted in (None, True, False)
        ]
        made = space.create_table(ln.CreateTableRequest(id=[f"c{number}"]), BODY)
        told.append([answer.storage_options for answer in (*declared, made)])
    if "vend_input_storage_options" not in properties:
        # Pylance tells who creates a table its storage options even then, secrets among them.
        assert told[0].pop() is None
        assert told[1].pop() == ({"foo": "bar"} if "storage.foo" in properties else None)
    assert told[0] == told[1]


def test_storage_options_that_expire(tmp_path: Path) -> None:
    vending = {"vend_input_storage_options": "true", "storage.foo": "bar"}
    spaces = both(tmp_path, **vending, vend_input_storage_options_refresh_interval_millis="60000")
    create(spaces.ours, "t")
    for space in (spaces.ours, spaces.theirs):
        before = time.time() * 1000
        told = space.describe_table(ln.DescribeTableRequest(id=["t"])).storage_options
        assert set(told) == {"foo", "expires_at_millis"}
        assert before + 59_999 <= int(told["expires_at_millis"]) <= time.time() * 1000 + 60_000
    with pytest.raises(ln.InvalidInputError, match="refresh_interval_millis"):
        DirectoryNamespace(root=tmp_path, **vending, vend_input_storage_options_refresh_interval_millis="soon")


def test_vended_options_open_tables(bucket: Bucket) -> None:
    storage = {f"storage.{key}": value for key, value in bucket.options.items()}
    for expiry in ({}, {"vend_input_storage_options_refresh_interval_millis": "60000"}):
        root = f"{bucket.uri}/space{len(expiry)}"
        space = DirectoryNamespace(root=root, vend_input_storage_options="true", **storage, **expiry)
        for module in (lancelet, lance):
            name = [f"by_{module.__name__}"]
            module.write_dataset(ROWS, namespace_client=space, table_id=name)
            for reader in (lancelet, lance):
                assert reader.dataset(namespace_client=space, table_id=name).count_rows() == 3


def test_operations_are_counted(tmp_path: Path) -> None:
    counting = both(tmp_path, ops_metrics_enabled="true")
    create(counting.ours, "t")
    counts = []
    for space in (counting.ours, counting.theirs):
        space.reset_ops_metrics()
        for _ in range(2):
            space.list_tables(ln.ListTablesRequest(id=[]))
        space.describe_table(ln.DescribeTableRequest(id=["t"]))
        space.describe_table(ln.DescribeTableRequest(id=["t"], load_detailed_metadata=True))
        with pytest.raises(ln.TableNotFoundError):
            space.describe_table(ln.DescribeTableRequest(id=["nope"]))
        with pytest.raises(ln.NamespaceNotFoundError):
            space.describe_namespace(ln.DescribeNamespaceRequest(id=["nope"]))
        space.describe_table_version({"id": ["t"], "version": 1})
        counts.append(space.retrieve_ops_metrics())
    assert counts[0] == counts[1]
    counting.ours.reset_ops_metrics()
    assert counting.ours.retrieve_ops_metrics() == {}
    silent = both(tmp_path)
    for space in (silent.ours, silent.theirs):
        space.list_tables(ln.ListTablesRequest(id=[]))
        assert space.retrieve_ops_metrics() == {}
