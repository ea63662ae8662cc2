"""Tags and branches, restore and truncate: made by one of lancelet and pylance, used and continued by the other."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from conformance.together import together
from conftest import Bucket
from faults.stores import Fault, FaultyStore, Killed
from lancelet.cloning.drop import drop_table
from lancelet.errors import (
    InvalidInput,
    InvalidRef,
    LanceletError,
    RefConflict,
    RefNotFound,
    RowNotFound,
    VersionNotFound,
)
from lancelet.store import Store, open_store
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.table.refs.write import create_branch, create_tag, delete_branch

BOTH = [pytest.param(lancelet, lance, id="ours first"), pytest.param(lance, lancelet, id="pylance first")]
EACH = [pytest.param(lancelet, id="lancelet"), pytest.param(lance, id="pylance")]


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"x": pa.array(range(start, start + count), pa.int64())})


@pytest.fixture
def where(tmp_path: Path) -> str:
    """Three versions: ten rows, twenty rows, seventeen rows."""
    place = str(tmp_path / "t")
    lance.write_dataset(rows(0, 10), place)
    lance.write_dataset(rows(10, 10), place, mode="append").delete("x < 3")
    return place


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


def files_below(place: str | Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in Path(place).rglob("*") if path.is_file())


def shape(place: str, folder: str, name: str) -> str:
    """The text of a tag or branch, with what is drawn or measured replaced by its form."""
    text = Path(place, "_refs", folder, f"{name}.json").read_text()
    text = re.sub(r'"[0-9a-f]{32}"', '"uuid"', text)
    text = re.sub(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"', '"time"', text)
    text = re.sub(r'"manifestSize": \d+', '"manifestSize": bytes', text)
    return re.sub(r'"createAt": \d{10}', '"createAt": seconds', text)


def bases(dataset: Any, place: str) -> list[tuple[Any, ...]]:
    """The base paths, with paths relative to a place."""
    found = dataset.base_paths().values()
    return sorted((base.id, base.name, base.path.replace(place, ""), base.is_dataset_root) for base in found)


# Tags


def test_the_files_of_tags_are_those_of_pylance(where: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    shutil.copytree(where, other)
    for library, place in ((lancelet, where), (lance, other)):
        dataset = library.dataset(place)
        dataset.create_branch("dev", 2)
        dataset.tags.create("own")
        dataset.tags.create("first", 1)
        dataset.tags.create("same", "first")
        dataset.tags.create("pair", ("main", 2))
        dataset.tags.create("newest", (None, None))
        dataset.tags.create("dev.one", ("dev", None))
        dataset.tags.create("moved", 1)
        dataset.tags.update("moved", 3)
        dataset.tags.replace_metadata("moved", {"who": "wër"})
    names = files_below(f"{where}/_refs/tags")
    assert names == files_below(f"{other}/_refs/tags")
    for name in names:
        assert shape(where, "tags", name[:-5]) == shape(other, "tags", name[:-5])


@pytest.mark.parametrize(("first", "second"), BOTH)
def test_a_tag_of_one_is_used_by_the_other(where: str, first: Any, second: Any) -> None:
    first.dataset(where, version=2).tags.create("two")
    first.dataset(where).tags.create("grün")
    other = second.dataset(where)
    assert (other.tags.get_version("two"), other.tags.get_version("grün")) == (2, 3)
    first.dataset(where).tags.delete("grün")
    assert other.checkout_version("two").count_rows() == 20
    assert second.dataset(where, version="two").version == 2
    other.tags.update("two", 1)
    other.tags.replace_metadata("two", {"k": "v"})
    entry, seen = other.tags.list()["two"], first.dataset(where).tags.list()["two"]
    assert entry == seen
    assert (entry["version"], entry["metadata"]) == (1, {"k": "v"})
    assert entry["updated_at"] > entry["created_at"]
    other.tags.delete("two")
    assert first.dataset(where).tags.list() == {}
    with pytest.raises(ValueError, match="does not exist"):
        first.dataset(where).tags.delete("two")


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "..", "a..b", ".a", "a.", "x.lock", "a\n", "a@", "a%2Fb", "a\0b", "../x"]
)
def test_names_that_no_tag_can_have(where: str, name: str) -> None:
    before = files_below(where)
    for library in (lance, lancelet):
        with pytest.raises(OSError, match="Ref is invalid"):
            library.dataset(where).tags.create(name, 1)
    tags = lancelet.dataset(where).tags
    for call in (tags.delete, tags.get_version, tags.update, lambda n: tags.replace_metadata(n, {})):
        with pytest.raises(InvalidRef):
            call(name)
    assert files_below(where) == before


@pytest.mark.parametrize("name", ["A-_.1", "main", "x.lock.y", "1", "-"])
def test_names_that_a_tag_can_have(where: str, name: str) -> None:
    lancelet.dataset(where).tags.create(name, 1)
    assert list(lance.dataset(where).tags.list()) == [name]


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        (99, ValueError),
        (0, ValueError),
        (-1, OverflowError),
        ("nothing", OSError),
        (("nothing", 1), ValueError),
        (1.5, ValueError),
        ((1, 2, 3), ValueError),
    ],
    ids=str,
)
def test_references_to_nothing(where: str, reference: Any, kind: type[Exception]) -> None:
    lance.dataset(where).tags.create("here", 1)
    before = files_below(where)
    for library in (lance, lancelet):
        dataset = library.dataset(where)
        with pytest.raises(kind):
            dataset.tags.create("new", reference)
        with pytest.raises((kind, ValueError)):
            dataset.tags.update("here", reference)
    ours = lancelet.dataset(where)
    for call in (ours.create_branch, ours.shallow_clone, ours.deep_clone):
        with pytest.raises(LanceletError):
            call(f"{where}-new" if "clone" in call.__name__ else "new", reference)
    assert files_below(where) == before
    assert not Path(f"{where}-new").exists()


def test_tags_that_are_there_or_not(where: str) -> None:
    for library in (lancelet, lance):
        tags = library.dataset(where).tags
        tags.create("a", 1)
        with pytest.raises(ValueError, match="already exists"):
            tags.create("a", 2)
        for call in (lambda t: t.update("b", 1), lambda t: t.replace_metadata("b", {}), lambda t: t.delete("b")):
            with pytest.raises(ValueError, match="does not exist"):
                call(tags)
        with pytest.raises(TypeError):
            tags.replace_metadata("a", {"k": 1})
        assert tags.get_version("a") == 1
        tags.delete("a")
    with pytest.raises(TypeError):
        lancelet.dataset(where).tags.create(5)


@pytest.mark.parametrize("remote", [False, True], ids=["local", "s3"])
def test_one_of_many_creators_wins(tmp_path: Path, bucket: Bucket, remote: bool) -> None:
    place, options = (f"{bucket.uri}/t", bucket.options) if remote else (str(tmp_path / "t"), {})
    for start in range(3):
        lancelet.write_dataset(rows(start, 1), place, mode="append", storage_options=options)
    snapshot = open_snapshot(place, storage_options=options)
    for attempt in range(5):
        tagged = together(lambda n, name=f"t{attempt}": create_tag(snapshot, name, n % 3 + 1), 6)
        assert sum(isinstance(found, RefConflict) for found in tagged) == 5
        branched = together(lambda n, name=f"b/{attempt}": create_branch(snapshot, name, n % 3 + 1), 6)
        (won,) = [found for found in branched if not isinstance(found, RefConflict)]
        names = [entry["version"] for entry in snapshot_versions(snapshot, f"b/{attempt}")]
        assert names == [won.version]


def snapshot_versions(snapshot: Any, branch: str) -> list[dict[str, int]]:
    return lancelet.LanceDataset._of(snapshot.uri, snapshot.at((branch, None)), None, None).version_refs()


# Branches


def test_the_files_of_branches_are_those_of_pylance(where: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    shutil.copytree(where, other)
    for library, place in ((lancelet, where), (lance, other)):
        dataset = library.dataset(place)
        dataset.tags.create("tag", 2)
        dev = dataset.create_branch("dev")
        dev = library.write_dataset(rows(50, 5), dev, mode="append")
        dev.create_branch("dev/inner")
        dev.create_branch("back", 3)
        dev.create_branch("away", ("main", 1))
        dev.create_branch("tagged", "tag")
        dev.tags.create("on-dev")
        dataset.create_branch("by-tag", "on-dev")
        dataset.branches.replace_metadata("dev", {"a": "b"})
        assert dev.create_branch("last", (None, None)).version == 3
    for name in files_below(f"{other}/_refs/branches"):
        assert shape(where, "branches", name[:-5]) == shape(other, "branches", name[:-5])
        branch = name[:-5].replace("%2F", "/")
        mine = lance.dataset(where).checkout_version((branch, None))
        yours = lance.dataset(other).checkout_version((branch, None))
        assert values(mine) == values(yours)
        assert bases(mine, where) == bases(yours, other)
        operations = [
            str(d.get_transactions(1)[0].operation).replace(p, "") for d, p in ((mine, where), (yours, other))
        ]
        if branch != "dev":
            assert operations[0] == operations[1]
    folders = [sorted({path.rpartition("/")[0] for path in files_below(place)}) for place in (where, other)]
    assert folders[0] == folders[1]
    sizes = json.loads(Path(where, "_refs/branches/dev.json").read_text())
    assert sizes["manifestSize"] == Path(where, "_versions", f"{2**64 - 1 - 3:020}.manifest").stat().st_size


@pytest.mark.parametrize(("first", "second"), BOTH)
def test_a_branch_of_one_is_continued_by_the_other(where: str, first: Any, second: Any) -> None:
    dev = first.dataset(where).create_branch("dev", 2)
    assert (dev.version, dev.count_rows()) == (2, 20)
    dev = second.dataset(where).checkout_version(("dev", None))
    second.write_dataset(rows(100, 5), dev, mode="append")
    dev = first.dataset(where).checkout_version(("dev", 3))
    dev.delete("x = 100")
    assert (dev.version, dev.count_rows()) == (4, 24)
    first.write_dataset(rows(200, 1), f"{where}/tree/dev", mode="append")
    inner = second.dataset(where).checkout_version(("dev", None)).create_branch("dev/inner")
    first.write_dataset(rows(300, 1), first.dataset(where).checkout_version(("dev/inner", 5)), mode="append")
    for library in (first, second):
        main = library.dataset(where)
        assert values(main) == list(range(3, 20))
        assert values(main.checkout_version(("dev", None))) == [*range(20), 101, 102, 103, 104, 200]
        assert values(main.checkout_version(("dev/inner", None))) == [*range(20), 101, 102, 103, 104, 200, 300]
        assert values(main.checkout_version(("dev", 2))) == list(range(20))
        assert main.checkout_version(("dev", None)).checkout_version(("main", 1)).count_rows() == 10
        assert [entry["version"] for entry in main.checkout_version(("dev", None)).versions()] == [2, 3, 4, 5]
        with pytest.raises(ValueError, match="dev"):
            main.branches.delete("nodev")
    assert inner.version == 5
    for place in (where, f"{where}/tree/dev"):
        second.dataset(place).validate()
        first.dataset(place).validate()


@pytest.mark.parametrize(("first", "second"), BOTH)
def test_branches_go_away(where: str, first: Any, second: Any) -> None:
    dataset = first.dataset(where)
    dev = dataset.create_branch("dev")
    first.write_dataset(rows(1, 1), dev, mode="append").create_branch("child")
    dataset.create_branch("dev/x", 1)
    dataset.create_branch("deep/down/below", 1)
    other = second.dataset(where)
    other.tags.create("t", ("dev", 3))
    for obstacle, remove in (("child", other.branches.delete), ("t", other.tags.delete)):
        for library in (first, second):
            with pytest.raises(OSError, match=f"(?s)dev.*{obstacle}"):
                library.dataset(where).branches.delete("dev")
        remove(obstacle)
    other.branches.delete("dev")
    assert sorted(other.branches.list()) == ["deep/down/below", "dev/x"]
    if second is lance:
        # It leaves the whole folder, for the sake of the one below it.
        lancelet.dataset(where).branches.delete("dev")
    assert [path.name for path in Path(where, "tree/dev").iterdir()] == ["x"]
    assert first.dataset(where).checkout_version(("dev/x", None)).count_rows() == 10
    other.branches.delete("dev/x")
    other.branches.delete("deep/down/below")
    assert not Path(where, "tree/deep").exists()
    for library in (first, second):
        with pytest.raises(ValueError, match="does not exist"):
            library.dataset(where).branches.delete("dev")
    assert first.dataset(where).create_branch("dev", 2).count_rows() == 20


REFUSED = [
    "",
    "main",
    "/a",
    "a/",
    "a//b",
    "..",
    "a/../b",
    "a\\b",
    "a b",
    "x.lock",
    "a..b",
    "a/./b",
    ".",
    "../../x",
    "a\0",
]


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_no_branch_can_have(where: str, name: str) -> None:
    before = files_below(where)
    for library in (lance, lancelet):
        with pytest.raises((OSError, ValueError)):
            library.dataset(where).create_branch(name, 1)
    ours = lancelet.dataset(where)
    for call in (ours.create_branch, ours.branches.delete, lambda n: ours.branches.replace_metadata(n, {})):
        with pytest.raises(InvalidRef, match="Ref is invalid"):
            call(name)
    assert files_below(where.rpartition("/")[0]) == [f"t/{path}" for path in before]


@pytest.mark.parametrize("name", ["x.lock/y", "a/.b", "a/b.", ".a", "a.", "Dev", "1/2/3"])
@pytest.mark.parametrize(("first", "second"), BOTH)
def test_names_that_a_branch_can_have(where: str, name: str, first: Any, second: Any) -> None:
    first.dataset(where).create_branch(name, 2)
    assert list(second.dataset(where).branches.list()) == [name]
    assert second.dataset(where).checkout_version((name, None)).count_rows() == 20
    second.dataset(where).branches.delete(name)
    assert not any(path.startswith("tree") for path in files_below(where))


def test_branches_that_are_there_or_not(where: str) -> None:
    ours = lancelet.dataset(where)
    ours.create_branch("dev", 2)
    before = files_below(where)
    # pylance leaves files behind where it refuses.
    other = shutil.copytree(where, f"{where}-copy")
    for version in (1, 2, 3):
        with pytest.raises(RefConflict, match="already exists"):
            ours.create_branch("dev", version)
        with pytest.raises(OSError):
            lance.dataset(other).create_branch("dev", version)
    with pytest.raises(RefNotFound):
        ours.branches.replace_metadata("other", {})
    for wrong in (("other", None), ("other", 2)):
        with pytest.raises(RefNotFound, match="branch other"):
            ours.checkout_version(wrong)
    with pytest.raises(VersionNotFound):
        ours.checkout_version(("dev", 9))
    with pytest.raises(RowNotFound):
        ours.checkout_version(("dev", -1))
    with pytest.raises(InvalidInput):
        ours.checkout_version(("dev", "x"))
    assert files_below(where) == before


def test_a_branch_that_cannot_be_made_leaves_nothing(where: str) -> None:
    """Its name is free again, too."""
    Path(where, "tree").write_text("in the way")
    before = files_below(where)
    with pytest.raises(LanceletError):
        lancelet.dataset(where).create_branch("dev")
    assert files_below(where) == before
    Path(where, "tree").unlink()
    lancelet.dataset(where).create_branch("dev")


def test_half_a_branch_is_refused_and_deleted(where: str) -> None:
    """Either half may be missing: the file after a crash of ours, the table after one of pylance's."""
    ours = lancelet.dataset(where)
    ours.create_branch("a")
    ours.create_branch("b")
    Path(where, "_refs/branches/a.json").unlink()
    shutil.rmtree(Path(where, "tree/b"))
    with pytest.raises(RefConflict, match="not listed"):
        ours.create_branch("a")
    assert not Path(where, "_refs/branches/a.json").exists()
    with pytest.raises(RefConflict, match="already exists"):
        ours.create_branch("b")
    with pytest.raises(LanceletError, match="listed"):
        ours.checkout_version(("b", None))
    for name in ("a", "b"):
        ours.branches.delete(name)
        assert ours.create_branch(name).count_rows() == 17


def test_branches_in_memory_and_on_s3(bucket: Bucket) -> None:
    for place, options in (("memory://refs/t", {}), (f"{bucket.uri}/t", bucket.options)):
        dataset = lancelet.write_dataset(rows(0, 5), place, storage_options=options)
        dev = lancelet.write_dataset(rows(5, 5), dataset.create_branch("dev/x"), mode="append")
        dev.tags.create("v")
        again = lancelet.dataset(place, version="v", storage_options=options)
        assert values(again) == list(range(10))
        if options:
            theirs = lance.dataset(place, storage_options=options).checkout_version(("dev/x", None))
            assert values(theirs) == list(range(10))
        dev.tags.delete("v")
        dataset.branches.delete("dev/x")
        store = open_store(place, options)
        assert [
            entry.path for entry in store.list_objects() if not entry.path.startswith(("_versions", "data", "_tr"))
        ] == []


def test_deleting_a_branch_follows_no_links(where: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    lancelet.dataset(where).create_branch("dev")
    Path(where, "tree/dev/link").symlink_to(outside)
    delete_branch(open_store(where), "dev")
    assert (outside / "kept").exists()
    assert not Path(where, "tree").exists()


# Versions made the newest again


@pytest.mark.parametrize(("first", "second"), BOTH)
def test_restore(where: str, first: Any, second: Any) -> None:
    first.dataset(where).tags.create("one", 1)
    first.dataset(where, version="one").restore()
    assert values(second.dataset(where)) == list(range(10))
    dev = second.dataset(where).create_branch("dev", 2)
    second.write_dataset(rows(90, 1), dev, mode="append")
    old = first.dataset(where).checkout_version(("dev", 2))
    old.restore()
    assert (old.version, old.count_rows()) == (4, 20)
    second.dataset(where).tags.create("three", ("dev", 3))
    by_tag = first.dataset(where, version="three")
    by_tag.restore()
    assert by_tag.version == 5
    for library in (first, second):
        assert values(library.dataset(where)) == list(range(10))
        assert values(library.dataset(where).checkout_version(("dev", None))) == [*range(20), 90]


def test_a_version_that_is_gone_cannot_be_restored(where: str) -> None:
    old = lancelet.dataset(where, version=1)
    branch = lancelet.dataset(where).create_branch("dev", 2)
    for store in (where, f"{where}/tree/dev"):
        lancelet.write_dataset(rows(0, 1), store, mode="append")
    Path(where, "_versions", f"{2**64 - 1 - 1:020}.manifest").unlink()
    Path(where, "tree/dev/_versions", f"{2**64 - 1 - 2:020}.manifest").unlink()
    before = files_below(where)
    for gone in (old, branch):
        with pytest.raises(VersionNotFound, match="cleaned up"):
            gone.restore()
    with pytest.raises(VersionNotFound):
        lancelet.dataset(where).tags.create("gone", 1)
    assert files_below(where) == before


@pytest.mark.parametrize("library", EACH)
def test_truncate(where: str, library: Any) -> None:
    dataset = library.dataset(where)
    lance.write_dataset(rows(70, 4), where, mode="append")
    assert dataset.truncate_table() is None
    newest = lance.dataset(where)
    assert (dataset.version, dataset.latest_version) == (5, 5)
    operation = newest.get_transactions(1)[0].operation
    assert (operation.updated_fragments, operation.predicate) == ([], "true")
    assert values(newest) == values(lancelet.dataset(where))
    dataset.truncate_table()
    assert (dataset.version, dataset.count_rows(), dataset.schema.names) == (6, 0, ["x"])
    other = lance if library is lancelet else lancelet
    assert values(other.write_dataset(rows(1, 2), where, mode="append")) == [1, 2]


# Tables that go away


@pytest.mark.parametrize("library", EACH)
def test_drop(where: str, tmp_path: Path, library: Any) -> None:
    lance.dataset(where).create_branch("dev")
    Path(where, "notes.txt").write_text("what is beside goes too")
    stray = tmp_path / "stray"
    (stray / "data").mkdir(parents=True)
    (stray / "data" / "x.lance").write_text("x")
    (stray / "_versions").mkdir()
    (stray / "_versions" / f"{2**64 - 2:020}.manifest").write_text("no manifest")
    drop = library.LanceDataset.drop
    for ignore in (None, True):
        with pytest.raises(ValueError, match="Refusing to drop"):
            drop(stray, ignore_not_found=ignore)
        with pytest.raises(ValueError, match="Refusing to drop"):
            drop(tmp_path, ignore_not_found=ignore)
    with pytest.raises(OSError):
        drop(tmp_path / "nothing")
    drop(tmp_path / "nothing", ignore_not_found=True)
    with pytest.raises(ValueError):
        drop(stray / "data" / "x.lance")
    drop(f"{where}/tree/dev")
    assert lancelet.dataset(where).count_rows() == 17
    drop(where)
    assert not Path(where).exists()
    assert len(files_below(tmp_path)) == 2
    with pytest.raises(OSError):
        drop(where)


def test_drop_on_s3_removes_the_table_and_nothing_else(bucket: Bucket) -> None:
    for name in ("t", "t2"):
        lancelet.write_dataset(rows(0, 5), f"{bucket.uri}/{name}", storage_options=bucket.options)
    lancelet.LanceDataset.drop(f"{bucket.uri}/t", bucket.options)
    store = open_store(bucket.uri, bucket.options)
    assert {entry.path.partition("/")[0] for entry in store.list_objects()} == {"t2"}
    with pytest.raises(InvalidInput, match="Refusing"):
        lancelet.LanceDataset.drop(bucket.uri, bucket.options)
    with pytest.raises(FileNotFoundError):
        lancelet.LanceDataset.drop(f"{bucket.uri}/t", bucket.options)


def test_a_manifest_store_forgets_what_is_gone(tmp_path: Path) -> None:
    options = {"manifest_store": f"sqlite://{tmp_path / 'versions.db'}"}
    place = tmp_path / "t"
    for count in (3, 5):
        dataset = lancelet.write_dataset(rows(0, count), place, storage_options=options)
        dev = lancelet.write_dataset(rows(0, count), dataset.create_branch("dev"), mode="append")
        dev.create_branch("kept")
        dataset.create_branch("gone")
        dataset.branches.delete("gone")
        assert dataset.create_branch("gone").count_rows() == count
        assert lancelet.dataset(place, storage_options=options).count_rows() == count
        lancelet.LanceDataset.drop(place, options)
        assert not place.exists()


class FaultyFolder(FaultyStore):
    """A store whose sub-folders fail with it: one count for all."""

    def __init__(
        self, inner: Store, at: int = -1, fault: Fault = Fault.REFUSED, root: FaultyFolder | None = None
    ) -> None:
        self.root = root or self
        super().__init__(inner, at, fault)
        self.calls = self.root.calls

    @property
    def dead(self) -> bool:
        return self.root.is_dead

    @dead.setter
    def dead(self, value: bool) -> None:
        self.root.is_dead = value

    def child(self, path: str) -> Store:
        return FaultyFolder(self.inner.child(path), self.at, self.fault, self.root)


def at_every_step(
    make: Callable[[], Store],
    work: Callable[[Store], object],
    check: Callable[[Store, Fault, BaseException | None], None],
) -> int:
    """Do the work once for every operation of the store, with that one failing in every way."""
    counting = FaultyFolder(make())
    work(counting)
    for at in range(len(counting.calls)):
        for fault in Fault:
            store, error = make(), None
            try:
                work(FaultyFolder(store, at, fault))
            except (LanceletError, Killed) as caught:
                error = caught
            check(store, fault, error)
    return len(counting.calls)


_NUMBERS = itertools.count()


def in_memory() -> Store:
    place = f"memory://refs/{next(_NUMBERS)}"
    lancelet.write_dataset(rows(10, 3), lancelet.write_dataset(rows(0, 10), place), mode="append")
    return open_store(place)


def test_a_branch_is_made_whole_or_not_at_all() -> None:
    def check(store: Store, fault: Fault, error: BaseException | None) -> None:
        ours = lancelet.dataset(store.uri)
        listed = list(ours.branches.list()) == ["dev"]
        if error is None:
            assert listed
        if listed and any(True for _ in store.list_names("tree/dev/_versions")):
            assert values(ours.checkout_version(("dev", None))) == list(range(10))
        else:
            # Half a branch does not keep its name for ever.
            with contextlib.suppress(RefNotFound):
                ours.branches.delete("dev")
            ours.create_branch("dev", 1)
        assert values(ours) == list(range(13))
        ours.branches.delete("dev")
        assert [entry.path for entry in store.list_objects("tree")] == []

    steps = at_every_step(in_memory, lambda store: create_branch(open_snapshot(store), "dev", 1), check)
    assert steps >= 6


def test_a_branch_that_is_half_deleted_can_be_deleted_again() -> None:
    def make() -> Store:
        store = in_memory()
        lancelet.write_dataset(rows(5, 1), lancelet.dataset(store.uri).create_branch("dev"), mode="append")
        return store

    def check(store: Store, fault: Fault, error: BaseException | None) -> None:
        with contextlib.suppress(RefNotFound):
            delete_branch(store, "dev")
        assert [entry.path for entry in store.list_objects() if entry.path.startswith(("tree", "_refs"))] == []
        assert values(lancelet.dataset(store.uri)) == list(range(13))

    at_every_step(make, lambda store: delete_branch(store, "dev"), check)


def test_a_tag_is_made_whole_or_not_at_all() -> None:
    def check(store: Store, fault: Fault, error: BaseException | None) -> None:
        found = lancelet.dataset(store.uri).tags.list()
        assert found == {} or found["v"]["version"] == 1
        if error is None:
            assert found

    at_every_step(in_memory, lambda store: create_tag(open_snapshot(store), "v", 1), check)


def test_an_interrupted_drop_can_be_repeated() -> None:
    """The manifests go last: a table of which they are left is still known as one."""

    def check(store: Store, fault: Fault, error: BaseException | None) -> None:
        drop_table(store, ignore_not_found=True)
        assert list(store.list_objects()) == []

    at_every_step(in_memory, drop_table, check)
