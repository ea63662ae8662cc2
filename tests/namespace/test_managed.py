"""Tables whose versions a namespace makes: commits go through its requests, and pylance sees the same table."""

from __future__ import annotations

import pickle
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import lance.file
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancelet
from conformance.together import together
from faults.stores import Fault, FaultyStore, Killed
from lancelet.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    InvalidInput,
    LanceletError,
    NotSupported,
    StorageError,
)
from lancelet.format.schema import schema_from_arrow
from lancelet.fragment import write_fragments
from lancelet.namespace_client.tables import Manager, vended
from lancelet.namespace_client.versions import managed_store
from lancelet.store import open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.patience import Pace
from lancelet.table.commit.run import commit, create
from lancelet.table.manifest.snapshot import open_snapshot
from namespace.registry import Registry

if TYPE_CHECKING:
    from conftest import Bucket

ID = ["sales", "orders"]
ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture(params=[False, True], ids=["staged", "finished by the namespace"])
def space(tmp_path: Path, request: pytest.FixtureRequest) -> Registry:
    return Registry(tmp_path, finishes=request.param)


def written(space: Registry, mode: str = "create", rows: pa.Table = ROWS, **options: Any) -> lancelet.LanceDataset:
    return lancelet.write_dataset(rows, namespace_client=space, table_id=ID, mode=mode, **options)


def opened(space: Registry, module: Any = lancelet, **options: Any) -> Any:
    return module.dataset(namespace_client=space, table_id=ID, **options)


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


def test_every_commit_is_made_by_the_namespace(space: Registry) -> None:
    dataset = written(space)
    dataset = written(space, "append")
    dataset.delete("a = 1")
    dataset.update({"a": "a + 10"}, where="a = 2")
    dataset.merge_insert("a").when_not_matched_insert_all().execute(pa.table({"a": [77]}))
    dataset.add_columns({"b": "a * 2"})
    dataset.create_scalar_index("a", "BTREE")
    dataset.optimize.compact_files()
    dataset.restore()
    assert sorted(space.versions(*ID)) == list(range(1, dataset.version + 1))
    assert space.asked.count("create_table_version") == dataset.version
    assert values(dataset) == values(opened(space)) == values(opened(space, lance)) == [3, 3, 12, 12, 77]


def test_both_libraries_in_turn(space: Registry) -> None:
    lance.write_dataset(ROWS, namespace_client=space, table_id=ID)
    written(space, "append")
    theirs = opened(space, lance)
    theirs.delete("a = 1")
    ours = opened(space)
    assert ours.version == 3
    ours.delete("a = 2")
    theirs.checkout_latest()
    assert theirs.version == 4
    assert values(theirs) == values(ours) == [3, 3]
    assert values(ours.checkout_version(1)) == values(theirs.checkout_version(1)) == [1, 2, 3]
    assert [v["version"] for v in ours.versions()] == [1, 2, 3, 4]
    ours.validate()


def test_an_older_handle_rebases(space: Registry) -> None:
    stale = written(space)
    for module in (lancelet, lance):
        module.write_dataset(ROWS, namespace_client=space, table_id=ID, mode="append")
    stale.delete("a = 3")
    assert stale.version == 4
    assert values(stale) == [1, 1, 1, 2, 2, 2, 3, 3]
    again = opened(space, version=3)
    opened(space).delete("a = 1")
    fragments = [fragment.metadata for fragment in again.get_fragments()[1:]]
    with pytest.raises(CommitConflict):
        lancelet.LanceDataset.commit(again, lancelet.LanceOperation.Delete(fragments, [0], "a = 1"), read_version=3)


def test_many_writers(space: Registry) -> None:
    written(space)
    results = together(lambda n: written(space, "append", pa.table({"a": [100 + n]})).version, 6)
    assert sorted(results) == list(range(2, 8))  # type: ignore[type-var]
    assert values(opened(space)) == [1, 2, 3, *range(100, 106)]
    assert values(opened(space, lance)) == [1, 2, 3, *range(100, 106)]


def test_it_is_pickled_with_its_namespace(space: Registry) -> None:
    dataset = pickle.loads(pickle.dumps(written(space)))
    dataset.delete("a = 1")
    assert max(space.versions(*ID)) == 2
    assert values(opened(space)) == [2, 3]


def test_commits_of_written_fragments(space: Registry) -> None:
    dataset = written(space)
    place = str(space.root / "$".join(ID))
    fragments = write_fragments(ROWS, place, namespace_client=space, table_id=ID)
    assert isinstance(fragments, list)
    committed = lancelet.LanceDataset.commit(
        place,
        lancelet.LanceOperation.Append(fragments),
        read_version=dataset.version,
        namespace_client=space,
        table_id=ID,
        namespace_client_managed_versioning=True,
    )
    assert committed.version == max(space.versions(*ID)) == 2
    committed.delete("a = 1")
    again = lancelet.LanceDataset.commit(
        committed, lancelet.LanceOperation.Append(write_fragments(ROWS, committed)), read_version=committed.version
    )
    assert again.version == max(space.versions(*ID)) == 4
    with pytest.raises(InvalidInput, match="together"):
        lancelet.LanceDataset.commit(
            place,
            lancelet.LanceOperation.Append(fragments),
            read_version=1,
            namespace_client=space,
            namespace_client_managed_versioning=True,
        )


def test_tags_and_branches(space: Registry) -> None:
    dataset = written(space)
    dataset.tags.create("first", 1)
    written(space, "append")
    assert values(opened(space, version="first")) == [1, 2, 3]
    branch = opened(space).create_branch("work")
    branch.delete("a = 1")
    assert values(branch) == [2, 2, 3, 3]
    assert max(space.versions(*ID, branch="work")) == branch.version
    main = branch.checkout_version((None, None))
    main.delete("a = 2")
    assert max(space.versions(*ID)) == main.version == 3
    assert values(opened(space)) == [1, 1, 3, 3]


def test_cleanup_tells_the_namespace(space: Registry) -> None:
    written(space)
    for _ in range(3):
        dataset = written(space, "overwrite")
    dataset.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert list(space.versions(*ID)) == [4]
    assert values(opened(space)) == values(opened(space, lance)) == [1, 2, 3]
    newest = written(space, "append")
    for _ in range(2):
        newest.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert {name for name in files(space.root) if "manifest" in name and "9551611" in name} == set()
    assert values(opened(space, lance)) == [1, 1, 2, 2, 3, 3]


def test_a_version_that_only_the_folder_has(space: Registry) -> None:
    """A table that was there before the namespace took it over."""
    lance.write_dataset(ROWS, space.root / "$".join(ID))
    dataset = opened(space)
    assert (dataset.version, values(dataset)) == (1, [1, 2, 3])
    assert space.versions(*ID) == {}
    dataset.delete("a = 1")
    assert list(space.versions(*ID)) == [2]
    assert values(opened(space, lance)) == [2, 3]


def test_a_refusal_leaves_nothing(space: Registry) -> None:
    dataset = written(space)
    before = files(space.root)

    def refuse(request: Any) -> None:
        raise ln.PermissionDeniedError("not you")

    space.before = refuse
    with pytest.raises(StorageError, match="not you"):
        written(space, "append")
    with pytest.raises(StorageError, match="not you"):
        dataset.delete("a = 1")
    assert files(space.root) == before
    space.before = None
    assert values(opened(space)) == [1, 2, 3]


def test_an_answer_that_is_lost_after_the_version_was_made(space: Registry) -> None:
    written(space)

    def lose(request: Any) -> None:
        raise ConnectionError("gone")

    space.after = lose
    dataset = written(space, "append")
    assert dataset.version == max(space.versions(*ID)) == 2
    space.after = None
    assert values(opened(space, lance)) == [1, 1, 2, 2, 3, 3]


def test_an_answer_that_is_lost_before_the_version_was_made(space: Registry) -> None:
    """Nobody knows whether the version will be made after all, so its files stay."""
    dataset = written(space)
    before = files(space.root)

    def lose(request: Any) -> None:
        raise ConnectionError("gone")

    space.before = lose
    fragments = write_fragments(ROWS, dataset)
    with pytest.raises(CommitOutcomeUnknown):
        lancelet.LanceDataset.commit(
            dataset,
            lancelet.LanceOperation.Append(fragments),
            read_version=1,
            max_retries=0,
            commit_timeout=timedelta(0),
        )
    space.before = None
    assert {name for name in files(space.root) - before if "/data/" in name}
    assert values(opened(space)) == [1, 2, 3]


def test_who_is_first_when_manifests_have_the_same_size(space: Registry) -> None:
    """A version that somebody else made is not taken for our own, however alike it is."""
    dataset = written(space)
    raced: list[int] = []

    def race(request: Any) -> None:
        space.before = None
        raced.append(written(Registry(space.root, finishes=space.finishes), "append", pa.table({"a": [8]})).version)
        opened(space)

    space.before = race
    ours = lancelet.write_dataset(pa.table({"a": [9]}), dataset, mode="append")
    assert (raced, ours.version) == ([2], 3)
    assert values(opened(space)) == values(ours) == [1, 2, 3, 8, 9]


def test_manifests_keep_their_names(space: Registry) -> None:
    dataset = written(space, enable_v2_manifest_paths=False)
    with pytest.raises(NotSupported, match="cannot get other names"):
        dataset.migrate_manifest_paths_v2()


def test_a_namespace_that_tells_nonsense(tmp_path: Path) -> None:
    space = Registry(tmp_path)
    written(space)
    space.versions(*ID)[2] = ln.TableVersion(version=2, manifest_path="somewhere/else")
    with pytest.raises(OSError, match="somewhere/else"):
        opened(space)


def test_storage_options_are_merged(tmp_path: Path) -> None:
    space = Registry(tmp_path, storage_options={"k": "theirs"})
    dataset = written(space, storage_options={"k": "ours", "other": "ours"})
    assert dataset.initial_storage_options == {"k": "theirs", "other": "ours"}


def test_fragments_fit_the_newest_version_of_the_namespace(tmp_path: Path) -> None:
    """Its manifest need not have its final name yet."""
    space = Registry(tmp_path)
    theirs = lance.write_dataset(ROWS.append_column("b", ROWS["a"]), namespace_client=space, table_id=ID)
    theirs.drop_columns(["a"])
    place = str(space.root / "$".join(ID))
    rows = pa.table({"b": [5]})
    transaction = write_fragments(rows, place, namespace_client=space, table_id=ID, return_transaction=True)
    assert transaction.read_version == 2
    done = lancelet.LanceDataset.commit(
        place, transaction, namespace_client=space, table_id=ID, namespace_client_managed_versioning=True
    )
    assert done.to_table().to_pydict() == opened(space, lance).to_table().to_pydict() == {"b": [1, 2, 3, 5]}


def test_fragments_of_a_table_that_is_not_there_yet(tmp_path: Path) -> None:
    space = Registry(tmp_path)
    assert len(write_fragments(ROWS, tmp_path / "new", namespace_client=space, table_id=["new"], mode="create")) == 1
    assert len(write_fragments(ROWS, tmp_path / "other", namespace_client=space, table_id=["other"])) == 1


@pytest.mark.parametrize("module", [lancelet, lance], ids=["ours", "theirs"])
def test_a_namespace_and_an_id_go_together(tmp_path: Path, module: Any) -> None:
    for half in ({"namespace_client": Registry(tmp_path)}, {"table_id": ID}):
        with pytest.raises(ValueError, match="together"):
            module.fragment.write_fragments(ROWS, str(tmp_path / "x"), **half)
    assert files(tmp_path) == set()


@pytest.mark.parametrize("module", [lancelet, lance], ids=["ours", "theirs"])
def test_files_with_the_storage_options_of_a_namespace(bucket: Bucket, tmp_path: Path, module: Any) -> None:
    file = import_module(f"{module.__name__}.file")
    space = Registry(tmp_path, storage_options=bucket.options)
    (tmp_path / "$".join(ID)).mkdir()
    named: dict[str, Any] = {"namespace_client": space, "table_id": ID}
    if module is lance:
        named["storage_options"] = bucket.options  # it asks the namespace only once these have expired
    with file.LanceFileWriter(f"{bucket.uri}/x.lance", ROWS.schema, **named) as writer:
        writer.write_batch(ROWS)
    assert file.LanceFileReader(f"{bucket.uri}/x.lance", **named).read_all().to_table() == ROWS
    session = file.LanceFileSession(bucket.uri, **named)
    assert session.list() == ["x.lance"]
    assert session.open_reader("x.lance").num_rows() == 3
    fragments = module.fragment.write_fragments(ROWS, f"{bucket.uri}/t", mode="create", **named)
    assert len(fragments) == 1


def test_options_that_are_given_and_hold_are_enough(tmp_path: Path) -> None:
    space = Registry(tmp_path, storage_options={"key": "new"})
    (tmp_path / "$".join(ID)).mkdir()
    later, earlier = {"key": "old", "expires_at_millis": str(10**15)}, {"key": "old", "expires_at_millis": "1"}
    assert vended("s3://b/x", later, space, ID) is later
    assert vended("s3://b/x", earlier, space, ID) == {"key": "new", "expires_at_millis": "1"}
    assert vended("s3://b/x", None, space, ID) == {"key": "new"}
    assert vended("/local", None, space, ID) is None
    assert vended("s3://b/x", None, None, ID) is None
    assert space.asked == ["describe_table"] * 2


@pytest.mark.parametrize("finishes", [False, True], ids=["staged", "finished"])
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
def test_fault_at_every_operation_of_the_object_store(tmp_path: Path, fault: Fault, finishes: bool) -> None:
    """The next reader and the next commit carry on, whatever a commit was interrupted by."""
    numbers = schema_from_arrow(pa.schema([("k", pa.int64())]))
    pace = Pace(sleep=lambda seconds: None)
    operation = ops.UpdateConfig(ops.MapEdits({"a": "2"}))
    space = Registry(tmp_path, finishes=finishes)

    def managed(store: Any, name: str) -> Any:
        return managed_store(store, Manager(space, (name,)))

    def fresh(name: str) -> Any:
        store = open_store(str(tmp_path / name))
        create(managed(store, name), ops.Overwrite(numbers, ()))
        return store

    counting = FaultyStore(fresh("count"))
    commit(managed(counting, "count"), operation, read_version=1, pace=pace)
    assert len(counting.calls) > 3
    for at in range(len(counting.calls)):
        healthy = managed(inner := fresh(f"at{at}"), f"at{at}")
        label = f"{at}: {counting.calls[at]}"
        done = True
        try:
            commit(managed(FaultyStore(inner, at, fault), f"at{at}"), operation, read_version=1, uuid="u", pace=pace)
        except (Killed, LanceletError):
            done = False
        found = open_snapshot(healthy)
        assert found.version == 2 or not done, label
        commit(healthy, operation, read_version=1, uuid="u", pace=pace)
        assert (open_snapshot(healthy).version, open_snapshot(healthy).manifest.config["a"]) == (2, "2"), label
        assert list(space.versions(f"at{at}")) == [1, 2], label
