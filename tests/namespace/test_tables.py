"""What a namespace does with its tables: the same as pylance's on a table of the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancelet
from namespace.spaces import BODY, ROWS, both, create, location, stream


class Pair:
    """A table for each of the two libraries, with the same history."""

    def __init__(self, root: Path) -> None:
        self.spaces = both(root)
        for name in ("ours", "theirs"):
            create(getattr(self.spaces, name), name)

    def __call__(self, method: str, kind: str, *data: bytes, **request: Any) -> tuple[Any, Any]:
        """Ask both, each about its own table."""
        answers = []
        for name in ("ours", "theirs"):
            asked = getattr(ln, kind).from_dict({"id": [name], **request})
            answers.append(getattr(getattr(self.spaces, name), method)(asked, *data))
        return answers[0], answers[1]

    def same(self, method: str, kind: str, *data: bytes, without: set[str] = frozenset(), **request: Any) -> Any:  # type: ignore[assignment]
        ours, theirs = self(method, kind, *data, **request)
        hidden = {"transaction_id", *without}
        assert ours.model_dump(exclude=hidden) == theirs.model_dump(exclude=hidden), method
        return ours

    def rows(self) -> pa.Table:
        """Both tables have the same rows, whoever reads them."""
        table = lancelet.dataset(location(self.spaces.ours, "ours")).to_table()
        assert table == lance.dataset(location(self.spaces.theirs, "ours")).to_table()
        assert table == lance.dataset(location(self.spaces.theirs, "theirs")).to_table()
        return table


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_rows(pair: Pair) -> None:
    pair.same("insert_into_table", "InsertIntoTableRequest", BODY)
    pair.same("insert_into_table", "InsertIntoTableRequest", BODY, mode="overwrite")
    pair.same("insert_into_table", "InsertIntoTableRequest", BODY, mode="Append")
    pair.same("count_table_rows", "CountTableRowsRequest")
    pair.same("count_table_rows", "CountTableRowsRequest", predicate="a > 1 and s <> 'z'")
    pair.same("count_table_rows", "CountTableRowsRequest", version=1)
    pair.same("update_table", "UpdateTableRequest", predicate="a = 1", updates=[["s", "concat(s, '!')"]])
    pair.same("delete_from_table", "DeleteFromTableRequest", predicate="a = 2")
    more = stream(pa.table({"a": pa.array([1, 9], pa.int64()), "s": ["m", "n"]}))
    merge = {"on": ["a"], "when_matched_update_all": True, "when_not_matched_insert_all": True, "timeout": "30s"}
    pair.same("insert_into_table", "InsertIntoTableRequest", BODY, mode="overwrite")
    pair.same("merge_insert_into_table", "MergeInsertIntoTableRequest", more, **merge)
    pair.same(
        "merge_insert_into_table",
        "MergeInsertIntoTableRequest",
        more,
        on=["a"],
        when_not_matched_by_source_delete=True,
        when_not_matched_by_source_delete_filt="a < 3",
    )
    assert sorted(pair.rows()["a"].to_pylist()) == [1, 3, 9]


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"k": 2},
        {"k": 1, "offset": 1},
        {"k": 0},
        {"columns": {"column_names": ["s"]}},
        {"columns": {"column_aliases": {"z": "a + 1"}}},
        {"filter": "a > 1", "with_row_id": True},
        {"version": 1},
    ],
)
def test_queries(pair: Pair, request_: dict[str, Any]) -> None:
    pair("insert_into_table", "InsertIntoTableRequest", BODY)
    answers = pair("query_table", "QueryTableRequest", **{"k": 10, "vector": {}, **request_})
    ours, theirs = (pa.ipc.open_file(answer.data).read_all() for answer in answers)
    assert ours == theirs
    assert ours.num_rows


def test_plans(pair: Pair) -> None:
    query = {"k": 10, "vector": {}, "filter": "a > 1"}
    ours, _ = pair("explain_table_query_plan", "ExplainTableQueryPlanRequest", query=query)
    assert "a > 1" in ours
    ours, _ = pair("analyze_table_query_plan", "AnalyzeTableQueryPlanRequest", **query)
    assert "2" in ours


def test_columns_and_metadata(pair: Pair) -> None:
    pair.same(
        "alter_table_add_columns", "AlterTableAddColumnsRequest", new_columns=[{"name": "z", "expression": "a+1"}]
    )
    pair.same("alter_table_alter_columns", "AlterTableAlterColumnsRequest", alterations=[{"path": "z", "rename": "y"}])
    pair.same("alter_table_drop_columns", "AlterTableDropColumnsRequest", columns=["s"])
    pair.same("update_table_schema_metadata", "UpdateTableSchemaMetadataRequest", metadata={"k": "v"})
    pair.same("update_table_schema_metadata", "UpdateTableSchemaMetadataRequest", metadata={"l": "w"})
    assert pair.rows().column_names == ["a", "y"]
    space = pair.spaces.ours
    alter = {"id": ["ours"], "alterations": [{"path": "y", "data_type": {"type": "int32"}}]}
    space.alter_table_alter_columns(ln.AlterTableAlterColumnsRequest.from_dict(alter))
    told = space.update_field_metadata(
        ln.UpdateFieldMetadataRequest.from_dict({"id": ["ours"], "updates": [{"path": "a", "metadata": {"u": "kg"}}]})
    )
    assert told.fields == {"a": {"u": "kg"}}
    schema = lance.dataset(location(space, "ours")).schema
    assert schema.field("y").type == pa.int32()
    assert schema.field("a").metadata == {b"u": b"kg"}


def test_versions(pair: Pair, tmp_path: Path) -> None:
    for _ in range(3):
        pair("insert_into_table", "InsertIntoTableRequest", BODY)
    for request in ({}, {"descending": True}, {"limit": 2}, {"limit": 2, "descending": True}):
        ours, theirs = pair("list_table_versions", "ListTableVersionsRequest", **request)
        assert [entry.version for entry in ours.versions] == [entry.version for entry in theirs.versions]
        paths = [entry.manifest_path.replace("ours.lance", "theirs.lance") for entry in ours.versions]
        assert paths == [entry.manifest_path for entry in theirs.versions]
        # Only ours tells that there are more.
        assert (ours.page_token is not None) is ("limit" in request)
    following = pair.spaces.ours.list_table_versions(ln.ListTableVersionsRequest(id=["ours"], limit=3, page_token="2"))
    assert [entry.version for entry in following.versions] == [3, 4]
    for version in (None, 2):
        told = pair.spaces.ours.describe_table_version(ln.DescribeTableVersionRequest(id=["ours"], version=version))
        theirs = pair.spaces.theirs.describe_table_version({"id": ["ours"], "version": version})["version"]
        plain = pair.spaces.ours.describe_table_version({"id": ["ours"], "version": version})["version"]
        for key in ("version", "manifest_path", "manifest_size"):
            assert getattr(told.version, key) == theirs[key] == plain[key]
        assert abs(told.version.timestamp_millis - theirs["timestamp_millis"]) <= 1
    pair.same("restore_table", "RestoreTableRequest", version=1)
    assert pair.rows() == ROWS
    deleted = pair.spaces.ours.batch_delete_table_versions(
        {"id": ["ours"], "ranges": [{"start_version": 2, "end_version": 4}]}
    )
    assert deleted["deleted_count"] == 2
    assert [entry["version"] for entry in lance.dataset(tmp_path / "ours.lance").versions()] == [1, 4, 5]
    lance.dataset(tmp_path / "ours.lance").validate()


@pytest.mark.parametrize("client", ["ours", "theirs"])
def test_versions_that_the_namespace_makes(tmp_path: Path, client: str) -> None:
    """With tracking on, pylance makes versions by way of the namespace: ours here."""
    spaces = both(tmp_path, table_version_tracking_enabled="true")
    module = lancelet if client == "ours" else lance
    dataset = module.write_dataset(ROWS, namespace_client=spaces.ours, table_id=["t"])
    assert dataset.version == 1
    module.write_dataset(ROWS, namespace_client=spaces.ours, table_id=["t"], mode="append")
    dataset = module.dataset(namespace_client=spaces.ours, table_id=["t"])
    dataset.delete("a = 1")
    told = spaces.theirs.describe_table(ln.DescribeTableRequest(id=["t"]))
    assert spaces.ours.describe_table(ln.DescribeTableRequest(id=["t"])) == told
    assert told.managed_versioning
    assert lance.dataset(told.location).version == 3
    assert lancelet.dataset(told.location).count_rows() == 4
    assert not list((tmp_path / "t.lance" / "_versions").glob("*.manifest-*"))


def test_a_version_from_a_staged_manifest(tmp_path: Path) -> None:
    spaces = both(tmp_path)
    create(spaces.ours, "t")
    lance.write_dataset(ROWS, tmp_path / "t.lance", mode="append")
    versions = tmp_path / "t.lance" / "_versions"
    newest = min(versions.glob("*.manifest"))
    staged = newest.rename(versions / f"{newest.name}-{'0' * 32}")
    request = {"id": ["t"], "version": 2, "manifest_path": str(staged)}
    with pytest.raises(ln.ConcurrentModificationError, match="does not follow"):
        spaces.ours.create_table_version({**request, "version": 3})
    with pytest.raises(ln.InvalidInputError, match="no manifest"):
        spaces.ours.create_table_version({**request, "manifest_path": "_versions/nothing"})
    with pytest.raises(ln.InvalidInputError, match="not below"):
        spaces.ours.create_table_version({**request, "manifest_path": "_versions/../../x"})
    made = spaces.ours.create_table_version(ln.CreateTableVersionRequest(**request))
    assert made.version.version == 2
    assert not staged.exists()
    assert lance.dataset(tmp_path / "t.lance").count_rows() == 6
    # The same once more is no harm, another one is refused.
    staged.write_bytes(newest.read_bytes())
    assert spaces.ours.create_table_version(request)["version"]["version"] == 2
    staged.write_bytes(newest.read_bytes() + b"x")
    with pytest.raises(ln.ConcurrentModificationError, match="already"):
        spaces.ours.create_table_version(request)


def test_tags_and_branches(pair: Pair) -> None:
    pair("insert_into_table", "InsertIntoTableRequest", BODY)
    pair.same("create_table_tag", "CreateTableTagRequest", tag="one", version=1)
    pair.same("create_table_tag", "CreateTableTagRequest", tag="two", version=1)
    pair.same("update_table_tag", "UpdateTableTagRequest", tag="two", version=2)
    pair.same("get_table_tag_version", "GetTableTagVersionRequest", tag="two")
    ours, theirs = pair("list_table_tags", "ListTableTagsRequest")
    assert {n: t.version for n, t in ours.tags.items()} == {n: t.version for n, t in theirs.tags.items()}
    pair.same("delete_table_tag", "DeleteTableTagRequest", tag="one")
    pair.same("create_table_branch", "CreateTableBranchRequest", name="side", from_version=1)
    pair.same("create_table_branch", "CreateTableBranchRequest", name="more", from_branch="side")
    ours, theirs = pair("list_table_branches", "ListTableBranchesRequest")
    told = [{n: (b.parent_branch, b.parent_version) for n, b in a.branches.items()} for a in (ours, theirs)]
    assert told[0] == told[1]
    pair.same("count_table_rows", "CountTableRowsRequest", branch="side")
    # pylance puts such rows into the main branch.
    space = pair.spaces.ours
    space.insert_into_table(ln.InsertIntoTableRequest(id=["ours"], branch="side"), BODY)
    counts = [space.count_table_rows(ln.CountTableRowsRequest(id=["ours"], branch=b)).count for b in ("side", None)]
    assert counts == [6, 6]
    space.delete_from_table(ln.DeleteFromTableRequest(id=["ours"], branch="side", predicate="a = 1"))
    counts = [space.count_table_rows(ln.CountTableRowsRequest(id=["ours"], branch=b)).count for b in ("side", None)]
    assert counts == [4, 6]
    pair.same("delete_table_branch", "DeleteTableBranchRequest", name="more")
    told = space.describe_table(ln.DescribeTableRequest(id=["ours"], tag="two", load_detailed_metadata=True))
    assert told.version == 2


def test_statistics_and_transactions(pair: Pair) -> None:
    for _ in range(4):
        pair("insert_into_table", "InsertIntoTableRequest", BODY)
    pair.same("get_table_stats", "GetTableStatsRequest")
    for name in ("1", "3"):
        answers = []
        for space in (pair.spaces.ours, pair.spaces.theirs):
            answers.append(space.describe_transaction(ln.DescribeTransactionRequest(id=["ours", name])))
        assert answers[0] == answers[1]
        uuid = answers[0].properties["uuid"]
        assert pair.spaces.ours.describe_transaction(ln.DescribeTransactionRequest(id=["ours", uuid])) == answers[0]


def test_indices(pair: Pair) -> None:
    pair("create_table_scalar_index", "CreateTableIndexRequest", column="a", index_type="BTREE")
    pair("create_table_index", "CreateTableIndexRequest", column="s", index_type="Bitmap", name="by_s")
    ours, theirs = pair("list_table_indices", "ListTableIndicesRequest")
    keys = {"index_name", "columns", "status", "index_type", "type_url", "num_indexed_rows", "num_unindexed_rows"}
    assert [i.model_dump(include=keys) for i in ours.indexes] == [i.model_dump(include=keys) for i in theirs.indexes]
    pair.same("describe_table_index_stats", "DescribeTableIndexStatsRequest", index_name="by_s")
    pair.same("count_table_rows", "CountTableRowsRequest", predicate="a = 2")
    pair.same("drop_table_index", "DropTableIndexRequest", index_name="by_s")
    ours, theirs = pair("list_table_indices", "ListTableIndicesRequest")
    assert [i.index_name for i in ours.indexes] == [i.index_name for i in theirs.indexes] == ["a_idx"]
