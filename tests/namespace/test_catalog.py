"""The table ``__manifest``: the same as pylance makes it, kept as others make it, read without looking at folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancelet
from lancelet.namespace import DirectoryNamespace
from lancelet.namespace.catalog import TABLE, Catalog, CatalogEntry
from namespace.spaces import MODES, ROWS, both, child, children, create, folders, location, tables

TABLES = 10_000


def catalog(root: Path) -> Any:
    return lance.dataset(root / "__manifest")


def fill(space: Any) -> None:
    child(space, "n", properties={"o": "ä"})
    child(space, "n", "m")
    create(space, "t", properties={"k": "v"})
    create(space, "n", "t")
    space.register_table(ln.RegisterTableRequest(id=["r"], location="some/where.lance"))
    space.drop_table(ln.DropTableRequest(id=["t"]))


def test_the_same_table(tmp_path: Path) -> None:
    """Opening makes nothing; the first change makes an empty version; every change writes all rows as one fragment."""
    spaces = both(tmp_path / "ours")
    assert tables(spaces.ours) == children(spaces.ours) == []
    assert not (tmp_path / "ours").exists()
    fill(spaces.ours)
    fill(both(tmp_path / "theirs").theirs)
    ours, theirs = catalog(tmp_path / "ours"), catalog(tmp_path / "theirs")
    assert str(ours.lance_schema) == str(theirs.lance_schema)
    assert ours.version == theirs.version
    assert ours.data_storage_version == theirs.data_storage_version
    columns = ["object_id", "object_type", "metadata", "base_objects"]
    assert ours.to_table(columns=columns) == theirs.to_table(columns=columns)
    for version in range(1, ours.version + 1):
        one, other = ours.checkout_version(version), theirs.checkout_version(version)
        assert len(one.get_fragments()) == len(other.get_fragments())
        assert one.count_rows() == other.count_rows()
        assert type(ours.read_transaction(version).operation) is type(theirs.read_transaction(version).operation)
    assert ours.checkout_version(1).count_rows() == 0
    ours.validate()


def test_what_others_added_is_kept(tmp_path: Path) -> None:
    """Columns and rows that only other tools know, config and metadata of the table."""
    space = both(tmp_path).ours
    child(space, "n", properties={"k": "v"})
    dataset = catalog(tmp_path)
    dataset.add_columns({"state": "concat(object_id, '!')"})
    dataset.update_config({"mine": "yes"})
    dataset.update_metadata({"some": "thing"})
    row = {"object_id": "n$t$1", "object_type": "table_version", "metadata": '{"path": "x"}', "state": "?"}
    lance.write_dataset(pa.Table.from_pylist([row], dataset.schema), dataset, mode="append")
    create(space, "n", "t")
    child(space, "o")
    space.rename_table(ln.RenameTableRequest(id=["n", "t"], new_table_name="u"))
    dataset = catalog(tmp_path)
    found = {entry["object_id"]: (entry["object_type"], entry["state"]) for entry in dataset.to_table().to_pylist()}
    assert found == {
        "n": ("namespace", "n!"),
        "n$t$1": ("table_version", "?"),
        "n$u": ("table", None),
        "o": ("namespace", None),
    }
    assert dataset.config()["mine"] == "yes"
    assert dataset.metadata["some"] == "thing"
    assert tables(space, "n") == ["u"]
    with pytest.raises(ln.NamespaceNotEmptyError):
        space.drop_namespace(ln.DropNamespaceRequest(id=["n"]))


@pytest.mark.parametrize("merged", [False, True])
def test_catalogs_of_other_writers(tmp_path: Path, merged: bool) -> None:
    """The first published schema has no key; without base_objects pylance cannot write; rows may come by a merge."""
    schema = pa.schema(
        [
            pa.field("object_id", pa.string(), nullable=False),
            pa.field("object_type", pa.string(), nullable=False),
            ("location", pa.string()),
            ("metadata", pa.string()),
        ]
    )
    rows = pa.Table.from_pylist([{"object_id": "n", "object_type": "namespace"}], schema)
    dataset = lance.write_dataset(rows, tmp_path / "__manifest", data_storage_version="2.0")
    if merged:
        more = pa.Table.from_pylist([{"object_id": "o", "object_type": "namespace"}], schema)
        dataset.merge_insert("object_id").when_matched_fail().when_not_matched_insert_all().execute(more)
    spaces = both(tmp_path)
    assert children(spaces.ours) == (["n", "o"] if merged else ["n"])
    create(spaces.ours, "n", "t")
    child(spaces.theirs, "p")
    create(spaces.theirs, "p", "t")
    assert tables(spaces.ours, "n") == tables(spaces.theirs, "p") == ["t"]
    assert location(spaces.ours, "p", "t") == location(spaces.theirs, "p", "t")
    assert catalog(tmp_path).schema.field("base_objects").type.value_field.name == "object_id"


@pytest.mark.parametrize("which", ["reader", "writer"])
def test_catalogs_of_later_releases(tmp_path: Path, which: str) -> None:
    space = both(tmp_path).ours
    child(space, "n")
    catalog(tmp_path).update_metadata({f"lance.namespace.manifest.{which}_feature_flags": "2"})
    before = catalog(tmp_path).version
    with pytest.raises(ln.UnsupportedOperationError, match="feature flags 2"):
        child(space, "o")
    if which == "writer":
        assert children(space) == ["n"]
    else:
        with pytest.raises(ln.UnsupportedOperationError):
            children(space)
    assert catalog(tmp_path).version == before


def test_damaged_catalogs(tmp_path: Path) -> None:
    lancelet.write_dataset({"x": [1]}, tmp_path / "a" / "__manifest")
    with pytest.raises(ln.InternalError, match="no column object_id"):
        children(both(tmp_path / "a").ours)
    space = both(tmp_path / "b").ours
    child(space, "n")
    dataset = catalog(tmp_path / "b")
    dataset.update({"metadata": "'no json'"})
    with pytest.raises(ln.InternalError, match="not a JSON object"):
        space.describe_namespace(ln.DescribeNamespaceRequest(id=["n"]))


def test_ten_thousand_tables_in_pages(tmp_path: Path) -> None:
    """The catalog is read once, for all pages, and no folder but that of its versions is looked at."""
    spaces = both(tmp_path, "manifest")
    child(spaces.ours, "n")
    names = [f"t{number:05}" for number in range(TABLES)]

    def edit(known: Catalog) -> pa.Table:
        entries = [CatalogEntry(f"n${name}", TABLE, f"{number:08x}_n${name}") for number, name in enumerate(names)]
        return known.with_entries([*entries, CatalogEntry("n$m", "namespace"), CatalogEntry("n$m$t", TABLE, "x")])

    spaces.ours.root.manifest.change(edit)
    assert folders(tmp_path) == ["__manifest"]
    space = DirectoryNamespace(root=tmp_path, **MODES["manifest"])
    counters = space.root.store.counters
    found: list[str] = []
    token = None
    while True:
        page = space.list_tables(ln.ListTablesRequest(id=["n"], limit=500, page_token=token))
        found += page.tables
        token = page.page_token
        if token is None:
            break
    assert found == names
    # For each page, one listing of the catalog's versions.
    assert counters.lists <= TABLES // 500 + 1
    theirs = spaces.theirs.list_tables(ln.ListTablesRequest(id=["n"], limit=700, page_token="t04321"))
    ours = space.list_tables(ln.ListTablesRequest(id=["n"], limit=700, page_token="t04321"))
    assert ours == theirs
    assert len(space.list_all_tables(ln.ListTablesRequest(id=[])).tables) == TABLES + 1


def test_pages(tmp_path: Path) -> None:
    spaces = both(tmp_path)
    for name in ("a", "b", "c"):
        child(spaces.ours, name)
        create(spaces.ours, f"t{name}")
    for limit in (None, 0, 1, 2, 3, 4, -1):
        for token in (None, "", "a", "b", "bb", "c", "ta", "tb", "zz"):
            for method, kind in (("list_namespaces", ln.ListNamespacesRequest), ("list_tables", ln.ListTablesRequest)):
                request = kind(id=[], limit=limit, page_token=token)
                assert getattr(spaces.ours, method)(request) == getattr(spaces.theirs, method)(request)
    assert spaces.ours.list_all_tables(ln.ListTablesRequest(limit=2)).page_token == "tb"


def test_modes_are_honoured(tmp_path: Path) -> None:
    space = both(tmp_path).ours
    child(space, "n", properties={"k": "v"})
    assert child(space, "n", mode="exist_ok", properties={"k": "w"}).properties == {"k": "v"}
    assert child(space, "n", mode="Overwrite", properties={"k": "w"}).properties == {"k": "w"}
    assert child(space, mode="ExistOk").properties is None
    create(space, "n", "t")
    child(space, "n", "m")
    create(space, "n", "m", "t")
    with pytest.raises(ln.NamespaceAlreadyExistsError, match="3 object"):
        child(space, "n", mode="overwrite")
    lancelet.write_dataset(ROWS, tmp_path / "kept.lance")
    space.register_table(ln.RegisterTableRequest(id=["n", "kept"], location="kept.lance"))
    space.register_table(ln.RegisterTableRequest(id=["other"], location="kept.lance"))
    space.register_table(ln.RegisterTableRequest(id=["n", "kept"], location="kept.lance", mode="Overwrite"))
    space.drop_namespace(ln.DropNamespaceRequest(id=["no"], mode="Skip"))
    dropped = space.drop_namespace(ln.DropNamespaceRequest(id=["n"], behavior="Cascade"))
    assert dropped.properties == {"k": "w"}
    assert children(space) == []
    # What another name leads to is not removed.
    assert folders(tmp_path) == ["__manifest", "kept.lance"]
    assert tables(space) == ["other"]
    made = create(space, "t", properties={"a": "b"})
    assert create(space, "t", mode="exist_ok").location == made.location
    assert create(space, "t", mode="overwrite", rows=ROWS.slice(0, 1)).version == 2
    assert space.describe_table(ln.DescribeTableRequest(id=["t"])).properties == {"a": "b"}
    assert create(space, "empty", rows=ROWS.slice(0, 0)).version == 1


def test_indices_come_with_every_change(tmp_path: Path) -> None:
    """pylance's three, in the same version; both read and change a catalog that the other has indexed."""
    spaces = both(tmp_path, inline_optimization_enabled="true")
    for turn, space in enumerate((spaces.ours, spaces.theirs, spaces.ours)):
        child(space, f"n{turn}")
        create(space, f"n{turn}", "t")
        dataset = catalog(tmp_path)
        assert dataset.version == 3 + 2 * turn
        told = {index.name: (index.index_type, index.field_names) for index in dataset.describe_indices()}
        assert told == {
            "object_id_btree": ("BTree", ["object_id"]),
            "object_type_bitmap": ("Bitmap", ["object_type"]),
            "base_objects_label_list": ("LabelList", ["base_objects"]),
        }
        for reader in (dataset, lancelet.dataset(tmp_path / "__manifest")):
            for name in told:
                assert reader.stats.index_stats(name)["num_unindexed_rows"] == 0
            assert reader.count_rows("object_id = 'n0$t'") == 1
            assert reader.count_rows("object_type = 'table'") == turn + 1
            assert reader.count_rows("array_has_any(base_objects, ['x'])") == 0
        assert children(spaces.ours) == children(spaces.theirs)
    child(both(tmp_path).ours, "plain")
    assert catalog(tmp_path).describe_indices() == []
    assert len(children(spaces.theirs)) == 4
