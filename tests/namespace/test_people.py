"""Namespaces as people and other libraries use them: by name, by class path, instead of a uri."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import lance.namespace
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancelet
from conftest import Bucket
from lancelet.errors import InvalidInput, InvalidType, TableNotFound
from lancelet.namespace import Connection, DirectoryNamespace, RemoteConnection, RestAdapter
from namespace.spaces import BODY, ROWS, both, create, folders, location, tables


@pytest.fixture(params=["folder", "server"])
def space(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    """A connection to a folder, or to a server that has it."""
    if request.param == "folder":
        yield lancelet.connect(tmp_path)
    else:
        with RestAdapter("dir", {"root": tmp_path}, port=0) as server:
            yield lancelet.connect("rest", uri=server.uri)


def test_a_connection(space: Connection, tmp_path: Path) -> None:
    assert list(space) == list(space.namespaces()) == []
    space.create_namespace("sales", {"owner": "ann"})
    space.create_namespace(("sales", "v1.0"))
    made = space.create("sales.orders", {"id": [1, 2, 3]}, properties={"kind": "fact"})
    assert made.count_rows() == 3
    space.create(["sales", "v1.0", "orders"], [{"id": 9}], pa.schema([("id", pa.int8())]))
    space.create("top", ROWS, max_rows_per_file=2, enable_stable_row_ids=True)
    assert list(space.tables()) == ["top"]
    assert list(space.tables("sales")) == ["orders"]
    assert list(space.namespaces("sales")) == ["v1.0"]
    assert list(space.tables(["sales", "v1.0"])) == ["orders"]
    assert space.open(["sales", "v1.0", "orders"]).schema == pa.schema([("id", pa.int8())])
    assert len(space.open("top").get_fragments()) == 2
    assert space.open("top").has_stable_row_ids
    assert "sales.orders" in space
    assert "sales.nothing" not in space
    assert "nothing.nothing" not in space
    with pytest.raises(ln.TableAlreadyExistsError):
        space.create("top", ROWS)
    assert space.create("top", ROWS, mode="exist_ok").version == 1
    assert space.create("top", ROWS, mode="overwrite").version == 2
    assert space.open("top", 1).version == 1
    with pytest.raises(ln.TableVersionNotFoundError):
        space.open("top", 9)
    space.open("top").create_branch("b")
    assert space.open("top", branch="b").count_rows() == 3
    with pytest.raises(ln.TableBranchNotFoundError):
        space.open("top", branch="c")
    space.open("top").branches.delete("b")
    space.create_namespace("sales", exist_ok=True)
    for data in (object(), pa.table([[1], [2]], names=["a", "a"])):
        with pytest.raises(ln.LanceNamespaceError):
            space.create("sales.bad", data)
    assert "sales.bad" not in space
    assert space.properties("sales") == {"owner": "ann"}
    # The specification of servers has no way to change properties.
    folder = lancelet.connect(tmp_path)
    if isinstance(space, RemoteConnection):
        for change in (lambda: space.set_properties("sales", {"x": "y"}), space.migrate):
            with pytest.raises(ln.UnsupportedOperationError):
                change()
        with pytest.raises(ln.UnsupportedOperationError):
            space.create("top", ROWS, mode="overwrite", properties={"a": "b"})
    assert folder.set_properties("sales.orders", {"kind": None, "a": "b"}) == {"a": "b"}
    assert folder.set_properties("sales", {"x": "y"}) == {"owner": "ann", "x": "y"}
    assert space.describe("sales") == {"name": "sales", "kind": "namespace", "properties": {"owner": "ann", "x": "y"}}
    assert space.describe() == {"name": "the root namespace", "kind": "namespace", "properties": {}}
    for missing in ("nothing", "sales.nothing"):
        with pytest.raises(ln.TableNotFoundError):
            space.describe(missing)
    assert space.describe("top")["location"] == str(tmp_path / "top.lance")
    assert space.properties("top") == {}
    space.rename("sales.orders", "orders")
    assert list(space) == ["orders", "top"]
    assert space.properties("orders") == {"a": "b"}
    space.deregister("top")
    space.register("sales.top", "top.lance")
    assert space.open("sales.top").count_rows() == 3
    space.drop("orders")
    with pytest.raises(ln.NamespaceNotEmptyError):
        space.drop_namespace("sales")
    space.drop_namespace("sales", cascade=True)
    assert list(space) == list(space.namespaces()) == []
    assert folders(tmp_path) == ["__manifest"]


def test_servers_by_their_addresses(tmp_path: Path) -> None:
    """A folder may still be called ``rest``."""
    with RestAdapter("dir", {"root": tmp_path}, port=0, token="a-token-of-ours") as server:
        space = lancelet.connect(server.uri, token="a-token-of-ours")
        space.create("t", ROWS)
        assert isinstance(space, RemoteConnection)
        assert server.uri in repr(space)
        for number in range(5):
            space.create_namespace(f"n{number}")
        pages = lancelet.connect("rest", uri=server.uri, token="a-token-of-ours")
        assert list(pages.namespaces()) == [f"n{number}" for number in range(5)]
        assert list(space.tables()) == ["t"]
        with pytest.raises(ln.UnauthenticatedError):
            list(lancelet.connect(server.uri))
    with pytest.raises(ln.ServiceUnavailableError):
        list(lancelet.connect(server.uri, retries=0))
    assert not isinstance(lancelet.connect("rest"), RemoteConnection)


def test_what_people_write(tmp_path: Path) -> None:
    space = lancelet.connect(tmp_path)
    with pytest.raises(ln.InvalidInputError):
        space.open([1])  # type: ignore[list-item]
    with pytest.raises(ln.InvalidInputError):
        space.set_properties((), {"a": "b"})
    with pytest.raises(ln.TableSchemaValidationError):
        space.create("t", pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(ln.InvalidInputError):
        space.create("t", ROWS, max_rows_per_file=-1)
    with pytest.raises(ln.TableNotFoundError):
        space.properties("t")
    assert not tmp_path.joinpath("t.lance").exists()


def test_loaded_by_its_class_path(tmp_path: Path) -> None:
    space = ln.connect("lancelet.namespace.DirectoryNamespace", {"root": str(tmp_path), "unheard": "of"})
    assert isinstance(space, DirectoryNamespace)
    theirs = ln.connect("dir", {"root": str(tmp_path)})
    assert space.namespace_id() == theirs.namespace_id()
    assert repr(space) == repr(theirs)
    create(space, "t")
    assert tables(pickle.loads(pickle.dumps(space))) == tables(theirs) == ["t"]
    assert pickle.loads(pickle.dumps(space)) == space
    with pytest.raises(ValueError, match="root"):
        ln.connect("lancelet.namespace.DirectoryNamespace", {})
    public = {name for name in dir(lance.namespace.DirectoryNamespace) if not name.startswith("_")}
    unsupported = {"retrieve_ops_metrics", "reset_ops_metrics"}
    assert public - unsupported <= set(dir(space))


@pytest.mark.parametrize("form", ["absolute", "slash", "uri", "relative", "dotted", "path"])
def test_three_ways_to_name_a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    root = {
        "absolute": str(tmp_path / "a b"),
        "slash": f"{tmp_path}/a b/",
        "uri": f"file://{tmp_path}/a%20b",
        "relative": "a b",
        "dotted": "./a b",
        "path": tmp_path / "a b",
    }[form]
    space = DirectoryNamespace(root=root)
    create(space, "t")
    space.create_namespace(ln.CreateNamespaceRequest(id=["n"]))
    create(space, "n", "t")
    assert (tmp_path / "a b" / "t.lance" / "_versions").is_dir()
    assert location(space, "n", "t").startswith(f"file://{tmp_path}/a%20b/")
    theirs = lance.namespace.DirectoryNamespace(root=str(root))
    assert tables(theirs) == ["t"]
    assert location(theirs, "n", "t") == location(space, "n", "t")
    if form not in ("relative", "dotted"):
        assert location(theirs, "t") == location(space, "t")
    # Ours stays true when the working folder changes.
    monkeypatch.chdir("/")
    for names in (["t"], ["n", "t"]):
        assert lance.dataset(location(space, *names)).to_table() == lancelet.dataset(location(space, *names)).to_table()
        assert lancelet.dataset(namespace_client=space, table_id=names).to_table() == ROWS


@pytest.mark.parametrize("client", ["ours", "theirs"])
def test_instead_of_a_uri(tmp_path: Path, client: str) -> None:
    """Both libraries, by way of either namespace."""
    space = getattr(both(tmp_path), client)
    made = lancelet.write_dataset(ROWS, namespace_client=space, table_id=["t"])
    assert made.version == 1
    assert lancelet.write_dataset(ROWS, namespace_client=space, table_id=["t"], mode="append").count_rows() == 6
    assert lance.dataset(namespace_client=space, table_id=["t"]).count_rows() == 6
    lance.write_dataset(ROWS, namespace_client=space, table_id=["u"])
    assert lancelet.dataset(namespace_client=space, table_id=["u"], version=1).to_table() == ROWS
    assert lancelet.LanceDataset(None, namespace_client=space, table_id=["u"]).version == 1
    with pytest.raises(ln.TableAlreadyExistsError):
        lancelet.write_dataset(ROWS, namespace_client=space, table_id=["t"])
    with pytest.raises(ln.TableNotFoundError):
        lancelet.write_dataset(ROWS, namespace_client=space, table_id=["v"], mode="append")
    with pytest.raises(ln.TableNotFoundError):
        lancelet.dataset(namespace_client=space, table_id=["v"])
    # A write that fails takes its declaration back.
    with pytest.raises(InvalidInput):
        lancelet.write_dataset(pa.table([[1], [2]], names=["a", "a"]), namespace_client=space, table_id=["v"])
    assert tables(space) == ["t", "u"]
    assert folders(tmp_path) == ["__manifest", "t.lance", "u.lance"]


def test_places_given_twice_or_by_halves(tmp_path: Path) -> None:
    space = both(tmp_path).ours
    create(space, "t")
    uri = tmp_path / "t.lance"
    for call in (
        lancelet.dataset,
        lambda *given, **named: lancelet.write_dataset(ROWS, *given, mode="append", **named),
    ):
        for given in (
            {"namespace_client": space},
            {"table_id": ["t"]},
            {"uri": uri, "namespace_client": space, "table_id": ["t"]},
            {"uri": uri, "table_id": ["t"]},
            {},
        ):
            with pytest.raises(InvalidInput):
                call(**given)
        with pytest.raises(InvalidType):
            call(namespace_client=object(), table_id=["t"])
    with pytest.raises(TableNotFound):
        lancelet.dataset(tmp_path / "nothing")
    assert lancelet.dataset(uri).version == 1


class Elsewhere(DirectoryNamespace):
    """A directory namespace that is not taken for one, so that it is asked to make versions."""

    def namespace_id(self) -> str:
        return "Elsewhere"


def test_a_directory_namespace_makes_versions_when_asked(tmp_path: Path) -> None:
    properties = {"root": str(tmp_path), "table_version_tracking_enabled": "true", "ops_metrics_enabled": "true"}
    space = Elsewhere(**properties)
    dataset = lancelet.write_dataset(ROWS, namespace_client=space, table_id=["t"])
    dataset.delete("a = 1")
    dataset = lancelet.write_dataset(ROWS, namespace_client=space, table_id=["t"], mode="append")
    assert space.retrieve_ops_metrics()["create_table_version"] == dataset.version == 3
    named = lance.dataset(namespace_client=lance.namespace.DirectoryNamespace(**properties), table_id=["t"])
    assert named.to_table() == lancelet.dataset(tmp_path / "t.lance").to_table() == dataset.to_table()
    assert not [path for path in (tmp_path / "t.lance" / "_versions").iterdir() if "manifest-" in path.name]
    assert tables(space) == ["t"]


def test_pylances_namespaces_are_asked_with_dicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = lance.namespace.DirectoryNamespace(root=str(tmp_path), table_version_tracking_enabled="true")
    monkeypatch.setattr(lance.namespace.DirectoryNamespace, "namespace_id", lambda self: "Elsewhere")
    dataset = lancelet.write_dataset(ROWS, namespace_client=space, table_id=["t"])
    dataset.delete("a = 1")
    assert lancelet.dataset(namespace_client=space, table_id=["t"], version=1).count_rows() == 3
    assert (dataset.version, lance.dataset(namespace_client=space, table_id=["t"]).version) == (2, 2)


def test_object_stores(bucket: Bucket) -> None:
    """Both libraries on one bucket; options of the store come as properties."""
    root = f"{bucket.uri}/some/where"
    options = {f"storage.{key}": value for key, value in bucket.options.items()}
    spaces = [
        DirectoryNamespace(root=root, vend_input_storage_options="true", **options),
        lance.namespace.DirectoryNamespace(root=root, vend_input_storage_options="true", **options),
    ]
    ours, theirs = spaces
    ours.create_namespace(ln.CreateNamespaceRequest(id=["n"]))
    for space, name in ((ours, "o"), (theirs, "t")):
        create(space, name)
        create(space, "n", name)
    ours.declare_table(ln.DeclareTableRequest(id=["d"]))
    for parent in ([], ["n"]):
        assert tables(ours, *parent) == tables(theirs, *parent)
        for name in ("o", "t"):
            assert location(ours, *parent, name) == location(theirs, *parent, name)
            asked = ln.CountTableRowsRequest(id=[*parent, name])
            assert ours.count_table_rows(asked) == theirs.count_table_rows(asked)
            assert lancelet.dataset(namespace_client=ours, table_id=[*parent, name]).to_table() == ROWS
            assert lance.dataset(namespace_client=ours, table_id=[*parent, name]).to_table() == ROWS
    ours.drop_table(ln.DropTableRequest(id=["t"]))
    theirs.drop_table(ln.DropTableRequest(id=["n", "o"]))
    assert tables(ours) == tables(theirs) == ["d", "o"]
    assert tables(ours, "n") == tables(theirs, "n") == ["t"]
    people = lancelet.connect(root, storage_options=bucket.options)
    people.rename("o", "n.p")
    assert tables(theirs, "n") == ["p", "t"]
    assert people.open("n.p").to_table() == ROWS
    people.drop("n.p")
    left = {entry.path.split("/")[0] for entry in people.client.root.store.list_objects()}
    assert left == {"__manifest", "d.lance", location(ours, "n", "t").rpartition("/")[2]}


def test_sessions_and_streams(tmp_path: Path) -> None:
    """Rows come as a stream, of any length; tables share the caches of the namespace."""
    session = lancelet.Session()
    space = Connection(DirectoryNamespace(session, root=tmp_path))
    reader = pa.RecordBatchReader.from_batches(ROWS.schema, (batch for _ in range(5) for batch in ROWS.to_batches()))
    assert space.create("t", reader).count_rows() == 15
    assert space.open("t").session() is session
    assert space.client.insert_into_table({"id": ["t"]}, BODY).num_inserted_rows == 3


def test_not_loaded_before_it_is_used() -> None:
    """``import lancelet`` is as fast as without; without the package, the error says which extra to install."""
    code = (
        "import sys, lancelet\n"
        "assert not [m for m in sys.modules if m.startswith(('lance_namespace', 'lancelet.namespace.', 'pydantic'))]\n"
        "sys.modules['lance_namespace'] = None\n"
        "for use in (lambda: lancelet.connect('x'), lambda: lancelet.dataset(namespace_client=1, table_id=['t'])):\n"
        "    try:\n"
        "        use()\n"
        "    except ImportError as error:\n"
        "        assert 'lancelet[namespace]' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
