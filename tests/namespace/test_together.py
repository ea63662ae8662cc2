"""pylance's namespace and ours on one root, in turn: the same tables at the same places, which both can open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import lancelet
from drawing import examples
from namespace.spaces import MODES, ROWS, WITH_CATALOG, Spaces, both, child, children, create, location, tables


def assert_alike(spaces: Spaces, namespaces: list[tuple[str, ...]] = [()]) -> None:  # noqa: B006
    """Both see the same, and both open everything."""
    for parent in namespaces:
        names = tables(spaces.theirs, *parent)
        assert tables(spaces.ours, *parent) == names
        assert children(spaces.ours, *parent) == children(spaces.theirs, *parent)
        for name in names:
            place = location(spaces.ours, *parent, name)
            assert place == location(spaces.theirs, *parent, name)
            assert lancelet.dataset(place).to_table() == lance.dataset(place).to_table()
            request = ln.CountTableRowsRequest(id=[*parent, name])
            assert spaces.ours.count_table_rows(request).count == spaces.theirs.count_table_rows(request).count


@pytest.mark.parametrize("mode", MODES)
def test_tables_of_the_root(tmp_path: Path, mode: str) -> None:
    spaces = both(tmp_path, mode)
    made = {"a": create(spaces.ours, "a"), "b": create(spaces.theirs, "b")}
    assert {name: answer.version for name, answer in made.items()} == {"a": 1, "b": 1}
    create(spaces.ours, "e f")
    create(spaces.theirs, "c d")
    assert tables(spaces.ours) == ["a", "b", "c d", "e f"]
    assert_alike(spaces)
    # What one made, the other removes.
    spaces.theirs.drop_table(ln.DropTableRequest(id=["a"]))
    spaces.ours.drop_table(ln.DropTableRequest(id=["b"]))
    assert_alike(spaces)
    assert tables(spaces.ours) == ["c d", "e f"]
    assert sum(path.is_dir() for path in tmp_path.iterdir() if path.name != "__manifest") == 2


NAMES_OF_ALL_KINDS = ["ä b", "日本", "50%", "q'q", 'q"q', "a..b", "#?", "x^|y", "[z]", "Ω~`{}<>", "-", ".lance.x"]


@pytest.mark.parametrize("name", NAMES_OF_ALL_KINDS)
def test_names_of_all_kinds(tmp_path: Path, name: str) -> None:
    """pylance loses some of them in the root, where it looks for the folder under an escaped name; and it cannot list
    a namespace with a quote in its name, which it puts into a filter as it is.
    """
    spaces, parent = both(tmp_path), name.replace("'", "")
    child(spaces.ours, "n")
    child(spaces.theirs, "n", parent)
    create(spaces.ours, "n", parent, name)
    create(spaces.theirs, "n", parent, "t")
    assert_alike(spaces, [("n",), ("n", parent)])
    create(spaces.ours, name)
    assert tables(spaces.ours) == [name] == tables(both(tmp_path, "manifest").theirs)
    theirs = location(both(tmp_path, "manifest").theirs, name)
    assert theirs == location(both(tmp_path, "manifest").ours, name)
    assert lance.dataset(theirs).to_table() == ROWS == lancelet.dataset(location(spaces.ours, name)).to_table()
    spaces.ours.drop_table(ln.DropTableRequest(id=[name]))
    assert tables(spaces.ours) == tables(spaces.theirs) == []


@pytest.mark.parametrize("mode", WITH_CATALOG)
def test_nested_namespaces(tmp_path: Path, mode: str) -> None:
    spaces = both(tmp_path, mode)
    child(spaces.ours, "n", properties={"owner": "ann"})
    child(spaces.theirs, "n", "m", properties={"k": "v"})
    child(spaces.ours, "n", "m", "o")
    create(spaces.ours, "n", "t", properties={"p": "q"})
    create(spaces.theirs, "n", "m", "t")
    create(spaces.theirs, "n", "m", "o", "t")
    create(spaces.ours, "t")
    assert_alike(spaces, [(), ("n",), ("n", "m"), ("n", "m", "o")])
    for names in (["n"], ["n", "m"], ["n", "m", "o"], []):
        request = ln.DescribeNamespaceRequest(id=names)
        assert spaces.ours.describe_namespace(request) == spaces.theirs.describe_namespace(request)
        spaces.ours.namespace_exists(ln.NamespaceExistsRequest(id=names))
    request = ln.DescribeTableRequest(id=["n", "t"], check_declared=True)
    assert spaces.ours.describe_table(request) == spaces.theirs.describe_table(request)
    assert spaces.ours.describe_table(request).properties == {"p": "q"}
    for space, names in ((spaces.theirs, ["n", "t"]), (spaces.ours, ["n", "m", "o", "t"])):
        space.drop_table(ln.DropTableRequest(id=names))
    spaces.theirs.drop_namespace(ln.DropNamespaceRequest(id=["n", "m", "o"]))
    assert_alike(spaces, [(), ("n",), ("n", "m")])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("maker", ["ours", "theirs"])
def test_declared_tables(tmp_path: Path, mode: str, maker: str) -> None:
    spaces = both(tmp_path, mode)
    one, other = (getattr(spaces, name) for name in (maker, "theirs" if maker == "ours" else "ours"))
    told = one.declare_table(ln.DeclareTableRequest(id=["d"]))
    (marker,) = tmp_path.rglob(".lance-reserved")
    assert marker.read_bytes() == b"reserved"
    for space in (one, other):
        assert tables(space) == ["d"]
        assert tables(space, include_declared=False) == []
        assert space.describe_table(ln.DescribeTableRequest(id=["d"], check_declared=True)).is_only_declared
        with pytest.raises(ln.TableAlreadyExistsError):
            space.declare_table(ln.DeclareTableRequest(id=["d"]))
    made = create(other, "d")
    assert made.location == told.location
    assert made.version == 1
    assert tables(one, include_declared=False) == ["d"]
    assert not one.describe_table(ln.DescribeTableRequest(id=["d"], check_declared=True)).is_only_declared
    assert_alike(spaces)


@pytest.mark.parametrize("mode", MODES)
def test_details(tmp_path: Path, mode: str) -> None:
    spaces = both(tmp_path, mode)
    schema = pa.schema(
        [
            pa.field("b", pa.bool_()),
            pa.field("u", pa.uint16(), nullable=False),
            pa.field("f", pa.float16(), metadata={"k": "v"}),
            ("t", pa.large_string()),
            ("n", pa.binary()),
            ("d", pa.date32()),
            ("w", pa.timestamp("us", "UTC")),
            ("dec", pa.decimal128(10, 2)),
            ("l", pa.list_(pa.int32())),
            ("v", pa.list_(pa.float32(), 4)),
            ("st", pa.struct([("x", pa.int8()), pa.field("y", pa.string(), nullable=False)])),
            ("fsb", pa.binary(3)),
            ("m", pa.map_(pa.string(), pa.int32())),
        ],
        metadata={"made": "by hand"},
    )
    rows = pa.table([pa.nulls(1, f.type) if f.nullable else pa.array([1], f.type) for f in schema], schema=schema)
    for space, name in ((spaces.ours, "o"), (spaces.theirs, "t")):
        create(space, name, rows=rows)
        request = ln.DescribeTableRequest(id=[name], load_detailed_metadata=True)
        ours, theirs = spaces.ours.describe_table(request), spaces.theirs.describe_table(request)
        assert ours.var_schema == theirs.var_schema
        assert ours.version == theirs.version == 1
        assert ours.location == theirs.location
        assert ours.is_only_declared is theirs.is_only_declared is False
        # The catalog's own tables have no statistics there.
        assert theirs.metadata in (None, ours.metadata)


@pytest.mark.parametrize("mode", WITH_CATALOG)
def test_registered_tables(tmp_path: Path, mode: str) -> None:
    spaces = both(tmp_path, mode)
    lance.write_dataset(ROWS, tmp_path / "elsewhere" / "x.lance")
    child(spaces.theirs, "n")
    for space, name in ((spaces.ours, "o"), (spaces.theirs, "t")):
        answer = space.register_table(ln.RegisterTableRequest(id=["n", name], location="elsewhere/x.lance"))
        assert answer.location == "elsewhere/x.lance"
    assert_alike(spaces, [("n",)])
    for space, name in ((spaces.ours, "t"), (spaces.theirs, "o")):
        told = space.deregister_table(ln.DeregisterTableRequest(id=["n", name]))
        assert told.id == ["n", name]
    assert tables(spaces.ours, "n") == tables(spaces.theirs, "n") == []
    assert lance.dataset(tmp_path / "elsewhere" / "x.lance").count_rows() == 3
    # pylance does not find such a table in the root of a compatible namespace, though it has registered it.
    spaces.theirs.register_table(ln.RegisterTableRequest(id=["r"], location="elsewhere/x.lance"))
    assert tables(spaces.ours) == ["r"]
    assert spaces.ours.count_table_rows(ln.CountTableRowsRequest(id=["r"])).count == 3


@pytest.mark.parametrize("mode", ["compatible", "listing"])
def test_deregistered_tables_of_the_root_stay_hidden(tmp_path: Path, mode: str) -> None:
    spaces = both(tmp_path, mode)
    create(spaces.theirs, "a")
    create(spaces.ours, "b")
    spaces.ours.deregister_table(ln.DeregisterTableRequest(id=["a"]))
    assert (tmp_path / "a.lance" / ".lance-deregistered").read_bytes() == b"reserved"
    assert tables(spaces.ours) == tables(spaces.theirs) == ["b"]
    for space in (spaces.ours, spaces.theirs):
        with pytest.raises(ln.TableNotFoundError, match="deregistered"):
            location(space, "a")
    assert lance.dataset(tmp_path / "a.lance").count_rows() == 3


def test_tables_that_are_only_listed(tmp_path: Path) -> None:
    """Tables that were written without a namespace are tables of its root."""
    spaces = both(tmp_path)
    lance.write_dataset(ROWS, tmp_path / "l.lance")
    lancelet.write_dataset(ROWS, tmp_path / "m.lance")
    create(spaces.ours, "t")
    assert_alike(spaces)
    with pytest.raises(ln.TableAlreadyExistsError):
        create(spaces.ours, "l")
    assert create(spaces.ours, "l", mode="exist_ok").version is None
    assert create(spaces.ours, "m", mode="Overwrite").version == 2
    # Both have rows in the catalog now, so that readers that do not list find them.
    assert tables(both(tmp_path, "manifest").theirs) == ["l", "m", "t"]
    spaces.ours.drop_table(ln.DropTableRequest(id=["l"]))
    lance.write_dataset(ROWS, tmp_path / "k.lance")
    spaces.ours.drop_table(ln.DropTableRequest(id=["k"]))
    assert_alike(spaces)
    assert tables(spaces.ours) == ["m", "t"]


def test_what_is_no_table_is_not_listed(tmp_path: Path) -> None:
    """A folder without a version and without a marker, as an interrupted write leaves it, or a file."""
    spaces = both(tmp_path)
    (tmp_path / "empty.lance").mkdir()
    (tmp_path / "junk.lance" / "data").mkdir(parents=True)
    (tmp_path / "junk.lance" / "data" / "x.lance").write_bytes(b"half")
    (tmp_path / "file.lance").write_bytes(b"")
    (tmp_path / "other").mkdir()
    assert tables(spaces.ours) == []
    for name in ("empty", "junk", "file", "other"):
        with pytest.raises(ln.TableNotFoundError):
            spaces.ours.table_exists(ln.TableExistsRequest(id=[name]))
    assert create(spaces.ours, "junk").version == 1
    assert create(spaces.ours, "empty").version == 1
    assert tables(spaces.ours) == ["empty", "junk"]


@pytest.mark.parametrize("mode", WITH_CATALOG)
def test_renamed_tables(tmp_path: Path, mode: str) -> None:
    spaces = both(tmp_path, mode)
    child(spaces.theirs, "n")
    create(spaces.theirs, "t")
    create(spaces.theirs, "n", "u", properties={"p": "q"})
    before = {name: location(both(tmp_path, "manifest").theirs, *name) for name in (("t",), ("n", "u"))}
    spaces.ours.rename_table(ln.RenameTableRequest(id=["n", "u"], new_table_name="v"))
    spaces.ours.rename_table(ln.RenameTableRequest(id=["t"], new_table_name="w", new_namespace_id=["n"]))
    assert_alike(spaces, [(), ("n",)])
    assert tables(spaces.ours) == []
    assert tables(spaces.theirs, "n") == ["v", "w"]
    assert [location(spaces.theirs, "n", name) for name in ("v", "w")] == [before["n", "u"], before["t",]]
    assert spaces.ours.describe_table(ln.DescribeTableRequest(id=["n", "v"])).properties == {"p": "q"}
    # The old name is free, and back again.
    create(spaces.ours, "t")
    spaces.ours.drop_table(ln.DropTableRequest(id=["t"]))
    spaces.ours.rename_table(ln.RenameTableRequest(id=["n", "w"], new_table_name="t", new_namespace_id=[]))
    assert tables(spaces.ours) == ["t"]
    assert tables(both(tmp_path, "manifest").theirs) == ["t"]
    assert_alike(spaces, [(), ("n",)])


def test_migration(tmp_path: Path) -> None:
    listing, full, catalog = (both(tmp_path, mode) for mode in ("listing", "compatible", "manifest"))
    for name in ("a", "b", "c"):
        create(listing.theirs, name)
    listing.ours.declare_table(ln.DeclareTableRequest(id=["d"]))
    listing.theirs.deregister_table(ln.DeregisterTableRequest(id=["c"]))
    assert tables(catalog.theirs) == []
    assert full.ours.migrate() == ["a", "b", "d"]
    assert full.ours.migrate() == []
    assert tables(catalog.theirs) == tables(catalog.ours) == ["a", "b", "d"]
    assert lance.dataset(tmp_path / "__manifest").version == 2
    for name in ("a", "b"):
        assert lance.dataset(location(catalog.theirs, name)).to_table() == ROWS
    create(catalog.theirs, "d")
    assert_alike(both(tmp_path, "migrating"))
    with pytest.raises(ln.UnsupportedOperationError):
        listing.ours.migrate()


NAMES = st.sampled_from(["a", "b", "c"])


class Turns(RuleBasedStateMachine):
    """Changes by one or the other, in any order; afterwards both see what a dict remembers."""

    root: Path
    mode: str
    made = 0

    @initialize()
    def begin(self) -> None:
        Turns.made += 1
        self.spaces = both(self.root / str(Turns.made), self.mode)
        self.known: dict[tuple[str, ...], str] = {}

    def space(self, ours: bool) -> Any:
        return self.spaces.ours if ours else self.spaces.theirs

    @rule(ours=st.booleans(), parent=st.sampled_from([(), ("a",), ("b",)]), name=NAMES)
    def create_namespace(self, ours: bool, parent: tuple[str, ...], name: str) -> None:
        names = (*parent, name)
        if names in self.known:
            with pytest.raises(ln.NamespaceAlreadyExistsError):
                child(self.space(ours), *names)
        elif parent and self.known.get(parent) != "namespace":
            with pytest.raises(ln.NamespaceNotFoundError):
                child(self.space(ours), *names)
        else:
            child(self.space(ours), *names)
            self.known[names] = "namespace"

    @rule(ours=st.booleans(), parent=st.sampled_from([(), ("a",), ("a", "b")]), name=NAMES, declare=st.booleans())
    def create_table(self, ours: bool, parent: tuple[str, ...], name: str, declare: bool) -> None:
        names = (*parent, name)
        space = self.space(ours)

        def make() -> None:
            if declare:
                space.declare_table(ln.DeclareTableRequest(id=list(names)))
            else:
                create(space, *names)

        if parent and self.known.get(parent) != "namespace":
            if ours:
                with pytest.raises(ln.NamespaceNotFoundError):
                    make()
        elif names in self.known and (self.known[names] != "declared" or declare):
            with pytest.raises(ln.TableAlreadyExistsError):
                make()
        else:
            make()
            self.known[names] = "declared" if declare else "table"

    @rule(ours=st.booleans(), names=st.sampled_from([("a",), ("b",), ("a", "a"), ("a", "b"), ("a", "b", "c")]))
    def drop_table(self, ours: bool, names: tuple[str, ...]) -> None:
        request = ln.DropTableRequest(id=list(names))
        if self.known.get(names, "namespace") == "namespace":
            with pytest.raises(ln.TableNotFoundError):
                self.space(ours).drop_table(request)
        else:
            self.space(ours).drop_table(request)
            del self.known[names]

    @rule(ours=st.booleans(), names=st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a")]))
    def drop_namespace(self, ours: bool, names: tuple[str, ...]) -> None:
        request = ln.DropNamespaceRequest(id=list(names))
        if self.known.get(names) != "namespace":
            with pytest.raises(ln.NamespaceNotFoundError):
                self.space(ours).drop_namespace(request)
        elif any(other[: len(names)] == names and other != names for other in self.known):
            with pytest.raises(ln.NamespaceNotEmptyError):
                self.space(ours).drop_namespace(request)
        else:
            self.space(ours).drop_namespace(request)
            del self.known[names]

    @rule(ours=st.booleans(), names=st.sampled_from([("a",), ("b",), ("a", "a")]))
    def append(self, ours: bool, names: tuple[str, ...]) -> None:
        request = ln.InsertIntoTableRequest(id=list(names))
        if self.known.get(names, "namespace") != "namespace":
            from namespace.spaces import BODY

            self.space(ours).insert_into_table(request, BODY)
            self.known[names] = "table"

    @invariant()
    def both_agree(self) -> None:
        parents = [(), *(names for names, kind in self.known.items() if kind == "namespace")]
        for parent in parents:
            direct = {names[-1]: kind for names, kind in self.known.items() if names[:-1] == parent}
            wanted = sorted(name for name, kind in direct.items() if kind != "namespace")
            for space in (self.spaces.ours, self.spaces.theirs):
                assert tables(space, *parent) == wanted
                assert children(space, *parent) == sorted(set(direct) - set(wanted))
            for name in wanted:
                assert location(self.spaces.ours, *parent, name) == location(self.spaces.theirs, *parent, name)
                if direct[name] == "table":
                    request = ln.CountTableRowsRequest(id=[*parent, name])
                    ours, theirs = (s.count_table_rows(request) for s in (self.spaces.ours, self.spaces.theirs))
                    assert ours == theirs


@pytest.mark.parametrize("mode", ["compatible", "manifest"])
def test_any_order(tmp_path: Path, mode: str) -> None:
    machine = type("Machine", (Turns,), {"root": tmp_path, "mode": mode})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(6), stateful_step_count=12))
