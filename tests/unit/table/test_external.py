"""External manifest stores: commits through a database, and what readers do with half-done ones."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path

import boto3
import lance
import pyarrow as pa
import pytest

import lancelet
from conftest import Bucket
from faults.stores import Fault, FaultyStore, Killed
from lancelet.errors import CorruptFile, InvalidInput, LanceletError, MissingFile, StorageError
from lancelet.format.schema import schema_from_arrow
from lancelet.store import Store, open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.patience import Pace
from lancelet.table.commit.run import commit, create
from lancelet.table.manifest.names import ManifestName, NamingScheme
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.table.manifest.versions import list_versions, migrate_to_v2, publish_version
from lancelet.table.registers.external import base_of, external_for
from lancelet.table.registers.protocol import ManifestStore, RegisteredVersion

NUMBERS = itertools.count()
SCHEMA = schema_from_arrow(pa.schema([("k", pa.int64())]))
CONFIG = "a"


@pytest.fixture
def dynamodb(s3_endpoint: str) -> Iterator[str]:
    """The name of a new DynamoDB table with the right keys."""
    client = boto3.client(
        "dynamodb",
        endpoint_url=s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    name = f"manifests{next(NUMBERS)}"
    client.create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "base_uri", "KeyType": "HASH"},
            {"AttributeName": "version", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "base_uri", "AttributeType": "S"},
            {"AttributeName": "version", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    yield name
    client.delete_table(TableName=name)
    client.close()


@pytest.fixture(params=["sqlite", "dynamodb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "sqlite":
        return open_store(str(tmp_path / "table"), {"manifest_store": f"sqlite://{tmp_path}/manifests.db"})
    bucket: Bucket = request.getfixturevalue("bucket")
    table = request.getfixturevalue("dynamodb")
    endpoint = {"dynamodb_endpoint": bucket.options["aws_endpoint"]}
    return open_store(f"s3+ddb://{bucket.uri[5:]}/table?ddbTableName={table}", {**bucket.options, **endpoint})


def external(store: Store) -> ManifestStore:
    found = external_for(store)
    assert found is not None
    return found


def made(store: Store, versions: int = 2) -> None:
    create(store, ops.Overwrite(SCHEMA, ()))
    for version in range(2, versions + 1):
        set_config(store, version)


def set_config(store: Store, version: int) -> None:
    commit(store, ops.UpdateConfig(ops.MapEdits({CONFIG: str(version)})), read_version=version - 1)


def config(store: Store) -> str:
    return open_snapshot(store).manifest.config[CONFIG]


def staged(store: Store) -> list[str]:
    return [name for name in store.list_names("_versions") if "manifest-" in name]


def path_of(version: int) -> str:
    return ManifestName(version, NamingScheme.V2).path


def undo(store: Store, version: int, steps: int) -> str:
    """Bring a finished commit back to the state after one of the steps of the protocol; returns the staged path."""
    final, half = path_of(version), f"{path_of(version)}-00000000-0000-4000-8000-000000000000"
    size = store.size_of(final)
    store.copy(final, half)
    base = base_of(store)
    if steps < 4:
        external(store).put_if_present(base, RegisteredVersion(version, f"{base}/{half}", size))
    if steps < 3:
        store.delete(final)
    return half


def test_commits_go_through_the_database(store: Store) -> None:
    made(store, 4)
    base = base_of(store)
    for version in range(1, 5):
        entry = external(store).get(base, version)
        assert entry == RegisteredVersion(version, f"{base}/{path_of(version)}", store.size_of(path_of(version)))
    assert external(store).latest(base) == entry
    assert external(store).get(base, 9) is None
    assert external(store).latest("elsewhere") is None
    assert staged(store) == []
    assert config(store) == "4"
    assert [name.version for name in list_versions(store)] == [1, 2, 3, 4]
    assert not external(store).put_if_absent(base, RegisteredVersion(4, "other", 1))
    assert pickle.loads(pickle.dumps(external(store))).latest(base) == entry


def test_a_commit_that_only_staged_its_manifest(store: Store) -> None:
    made(store)
    store.put(f"{path_of(3)}-00000000-0000-4000-8000-000000000000", b"half")
    assert config(store) == "2"
    set_config(store, 3)
    assert config(store) == "3"


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize("look", ["latest", "version", "list", "commit"])
def test_readers_finish_what_was_decided(store: Store, steps: int, look: str) -> None:
    made(store, 3)
    undo(store, 3, steps)
    if look == "latest":
        assert open_snapshot(store).version == 3
    elif look == "version":
        assert open_snapshot(store, 3).manifest.config[CONFIG] == "3"
    elif look == "list":
        assert [name.version for name in list_versions(store)] == [1, 2, 3]
    else:
        set_config(store, 4)
    base = base_of(store)
    assert external(store).get(base, 3) == RegisteredVersion(3, f"{base}/{path_of(3)}", store.size_of(path_of(3)))
    assert len(staged(store)) == (1 if steps == 4 else 0)
    assert config(store) == ("4" if look == "commit" else "3")


def test_a_version_that_cannot_be_finished_is_refused(store: Store) -> None:
    made(store, 3)
    half = undo(store, 3, 2)
    store.delete(half)
    for look in (lambda: open_snapshot(store), lambda: open_snapshot(store, 3), lambda: set_config(store, 4)):
        with pytest.raises(MissingFile, match="version 3 was committed with it"):
            look()
    assert open_snapshot(store, 2).version == 2


def test_a_manifest_of_another_size_is_refused(store: Store) -> None:
    made(store, 3)
    undo(store, 3, 3)
    store.put(path_of(3), store.read_all(path_of(2)) + bytes(99))
    with pytest.raises(CorruptFile, match="was committed with"):
        open_snapshot(store)


def test_an_entry_that_leads_elsewhere_is_refused(store: Store) -> None:
    made(store)
    base = base_of(store)
    for path in ("/etc/passwd", f"{base}/_versions/../x.manifest", f"{base}/data/1.manifest", f"{base}/_versions/x"):
        external(store).put_if_present(base, RegisteredVersion(2, path, 1))
        with pytest.raises(CorruptFile, match="manifest store"):
            open_snapshot(store)


def test_a_table_from_before(store: Store) -> None:
    """Versions that the database does not know are found by name, and registered when they are read."""
    plain = open_store(store.uri, {key: value for key, value in store.options.items() if key != "manifest_store"})
    made(plain)
    assert config(store) == "2"
    assert open_snapshot(store, 2).version == 2
    assert external(store).get(base_of(store), 2) is not None
    set_config(store, 3)
    assert config(plain) == config(store) == "3"


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
def test_fault_at_every_operation_of_the_object_store(tmp_path: Path, fault: Fault) -> None:
    def fresh(name: str) -> Store:
        store = open_store(str(tmp_path / name), {"manifest_store": f"sqlite://{tmp_path}/manifests.db"})
        made(store)
        return store

    pace = Pace(sleep=lambda seconds: None)
    operation = ops.UpdateConfig(ops.MapEdits({CONFIG: "3"}))
    counting = FaultyStore(fresh("count"))
    commit(counting, operation, read_version=2, pace=pace)
    assert any(call.startswith("copy") for call in counting.calls)
    for at in range(len(counting.calls)):
        healthy = fresh(f"at-{at}")
        store = FaultyStore(healthy, at, fault)
        label = f"{at}: {counting.calls[at]}"
        try:
            commit(store, operation, read_version=2, uuid="u", pace=pace)
        except (Killed, LanceletError):
            assert config(healthy) in ("2", "3"), label
        else:
            assert config(healthy) == "3", label
        commit(healthy, operation, read_version=2, uuid="u", pace=pace)
        assert open_snapshot(healthy).version == 3, label
        assert config(healthy) == "3", label


def old_names(store: Store, versions: int = 3) -> None:
    """A table whose manifests have the names of scheme V1."""
    create(store, ops.Overwrite(SCHEMA, ()), naming=NamingScheme.V1)
    for version in range(2, versions + 1):
        set_config(store, version)
    assert {name.scheme for name in list_versions(store)} == {NamingScheme.V1}


def test_migration_of_names(store: Store) -> None:
    old_names(store)
    assert migrate_to_v2(store) == 3
    base = base_of(store)
    assert [external(store).get(base, version) for version in (1, 2, 3)] == [
        RegisteredVersion(version, f"{base}/{path_of(version)}", store.size_of(path_of(version)))
        for version in (1, 2, 3)
    ]
    assert [name.path for name in list_versions(store)] == [path_of(version) for version in (1, 2, 3)]
    assert config(store) == "3"
    set_config(store, 4)
    assert config(store) == "4"
    assert migrate_to_v2(store) == 0


def test_migration_finishes_a_commit_first(store: Store) -> None:
    old_names(store)
    final = ManifestName(3, NamingScheme.V1).path
    half = f"{final}-00000000-0000-4000-8000-000000000000"
    store.copy(final, half)
    external(store).put_if_present(
        base_of(store), RegisteredVersion(3, f"{base_of(store)}/{half}", store.size_of(final))
    )
    store.delete(final)
    migrate_to_v2(store)
    assert config(store) == "3"
    assert staged(store) == []
    assert [name.path for name in list_versions(store)] == [path_of(version) for version in (1, 2, 3)]


@pytest.mark.parametrize(
    "fault", [Fault.REFUSED, Fault.KILLED_BEFORE, Fault.KILLED_AFTER], ids=lambda f: f.name.lower()
)
def test_fault_at_every_operation_of_a_migration(tmp_path: Path, fault: Fault) -> None:
    """Every version stays readable, and another migration ends what this one began."""

    def fresh(name: str) -> Store:
        store = open_store(str(tmp_path / name), {"manifest_store": f"sqlite://{tmp_path}/manifests.db"})
        old_names(store)
        return store

    counting = FaultyStore(fresh("count"))
    migrate_to_v2(counting)
    for at, call in enumerate(counting.calls):
        healthy = fresh(f"at-{at}")
        with pytest.raises((Killed, StorageError)):
            migrate_to_v2(FaultyStore(healthy, at, fault))
        assert open_snapshot(healthy).version == 3, call
        assert [open_snapshot(healthy, version).version for version in (1, 2, 3)] == [1, 2, 3], call
        migrate_to_v2(healthy)
        assert [name.path for name in list_versions(healthy)] == [path_of(version) for version in (1, 2, 3)], call
        assert config(healthy) == "3", call


class Moody:
    """A database whose answers get lost."""

    can_change = True

    def __init__(self, inner: ManifestStore, *, writes: bool) -> None:
        self.inner = inner
        self.writes = writes
        self.left = 1

    def get(self, base: str, version: int) -> RegisteredVersion | None:
        return self.inner.get(base, version)

    def latest(self, base: str) -> RegisteredVersion | None:
        return self.inner.latest(base)

    def put_if_absent(self, base: str, entry: RegisteredVersion) -> bool:
        from lancelet.errors import UncertainPut

        if self.left:
            self.left = 0
            if self.writes:
                self.inner.put_if_absent(base, entry)
            raise UncertainPut("database", "silence")
        return self.inner.put_if_absent(base, entry)

    def put_if_present(self, base: str, entry: RegisteredVersion) -> None:
        self.inner.put_if_present(base, entry)


def test_a_finished_version_of_the_same_size_is_somebody_elses(store: Store) -> None:
    name = ManifestName(1, NamingScheme.V2)
    assert publish_version(store, name, b"a" * 50)
    assert not publish_version(store, name, b"b" * 50)
    assert store.read_all(name.path) == b"a" * 50
    assert staged(store) == []


@pytest.mark.parametrize("writes", [False, True])
def test_a_database_that_does_not_answer(store: Store, monkeypatch: pytest.MonkeyPatch, writes: bool) -> None:
    made(store)
    moody = Moody(external(store), writes=writes)
    monkeypatch.setattr("lancelet.table.manifest.versions.external_for", lambda _: moody)
    set_config(store, 3)
    assert moody.left == 0
    assert open_snapshot(store).version == 3
    assert config(store) == "3"


def test_databases_that_are_none(tmp_path: Path) -> None:
    for address, error in [
        ("redis://x", InvalidInput),
        ("sqlite://", InvalidInput),
        ("dynamodb://", InvalidInput),
        (f"sqlite://{tmp_path}", StorageError),
    ]:
        with pytest.raises(error):
            open_snapshot(open_store(str(tmp_path / "t"), {"manifest_store": address}))


def test_beside_pylance(bucket: Bucket, dynamodb: str) -> None:
    """Both write the same ``s3+ddb://`` table in turn."""
    uri = f"s3+ddb://{bucket.uri[5:]}/mixed?ddbTableName={dynamodb}"
    options = {**bucket.options, "dynamodb_endpoint": bucket.options["aws_endpoint"]}
    lance.write_dataset(pa.table({"k": [1, 2]}), uri, storage_options=options)
    snapshot = open_snapshot(uri, storage_options=options)
    commit(snapshot, ops.UpdateConfig(ops.MapEdits({CONFIG: "2"})))
    assert lance.dataset(uri, storage_options=options).version == 2
    lance.write_dataset(pa.table({"k": [3]}), uri, mode="append", storage_options=options)
    assert lancelet.dataset(uri, storage_options=options).to_table()["k"].to_pylist() == [1, 2, 3]
    undo(snapshot.store, 3, 2)
    assert lancelet.dataset(uri, storage_options=options).version == 3
    commit(open_snapshot(uri, storage_options=options), ops.UpdateConfig(ops.MapEdits({CONFIG: "4"})))
    undo(snapshot.store, 4, 2)
    assert lance.dataset(uri, storage_options=options).version == 4
    assert lance.dataset(uri, storage_options=options).config()[CONFIG] == "4"
