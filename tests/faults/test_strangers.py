"""Tables that somebody else wrote: what their manifests and blobs may lead to."""

from __future__ import annotations

import http.server
import logging
import os
import pickle
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lancelet
from conftest import Bucket
from drawing import examples
from lancelet.blob import Blob, blob_array, blob_field
from lancelet.errors import InvalidInput, LanceletError, PathNotAllowed
from lancelet.store import open_store
from lancelet.store.limit import VARIABLE
from lancelet.table.manifest.manifest import BasePath, read_manifest
from lancelet.table.manifest.manifest_bytes import manifest_bytes
from lancelet.table.manifest.paths import Places

SECRET = b"the secret of somebody else"


def lie(table: Path, base: str, *, is_root: bool = True) -> None:
    """Have the newest version say that its data files are in a base path."""
    snapshot = lancelet.dataset(table).table.snapshot
    (path,) = [file for file in (table / "_versions").iterdir() if file.suffix == ".manifest"]
    message = read_manifest(snapshot.store, f"_versions/{path.name}").message
    del message.base_paths[:]
    message.base_paths.add(id=1, path=base, is_dataset_root=is_root)
    for fragment in message.fragments:
        for file in fragment.files:
            file.base_id = 1
    path.write_bytes(manifest_bytes(message, [], b""))


class Neighbours:
    """A table, and places around it that have files of the same names with other rows."""

    def __init__(self, folder: Path) -> None:
        self.table = folder / "mine" / "t.lance"
        lancelet.write_dataset({"x": [1, 2, 3]}, self.table)
        (self.file,) = (self.table / "data").iterdir()
        other = folder / "other.lance"
        lancelet.write_dataset({"x": [666, 666, 666]}, other)
        (foreign,) = (other / "data").iterdir()
        self.outside = [folder / "secret", folder / "mine" / "t.lance-2", folder / "mine", folder]
        for place in self.outside:
            (place / "data").mkdir(parents=True, exist_ok=True)
            for target in (place / "data" / self.file.name, place / self.file.name):
                shutil.copy(foreign, target)
        (self.table / "link").symlink_to(folder / "secret")
        self.folder = folder


@pytest.fixture
def around(tmp_path: Path) -> Neighbours:
    return Neighbours(tmp_path)


@contextmanager
def opened_places() -> Iterator[list[str]]:
    """The places that the gate opens meanwhile."""
    places: list[str] = []

    class Record(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert isinstance(record.args, tuple)
            places.append(str(record.args[2]))

    logger, handler = logging.getLogger("lancelet.store.gate"), Record()
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield places
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def spellings(folder: Path) -> st.SearchStrategy[str]:
    """Texts that lead somewhere near a table, in all the ways that texts can."""
    table = str(folder / "mine" / "t.lance")
    part = st.sampled_from(
        [
            "..",
            ".",
            "%2e%2e",
            "%2E%2e",
            "..%2f..",
            "",
            "link",
            "data",
            "secret",
            "t.lance-2",
            "mine",
            "t.lance",
            "\\..\\",
        ]
    )
    start = st.sampled_from(
        [
            table,
            str(folder),
            str(folder / "secret"),
            f"{table}-2",
            f"{table}/link",
            "/",
            "~",
            ".",
            "..",
            table.upper(),
            "x",
        ]
    )
    local = ["", "file://", "FILE://", "file://localhost", "file://host", "file:", "file:/", "//", "\\\\host\\share"]
    remote = [
        "s3://",
        "S3://bucket",
        "s3+ddb://bucket",
        "memory://",
        "memory://b",
        "gs://b",
        "az://c",
        "http://h",
        "c:",
    ]
    scheme = st.one_of(st.sampled_from(local), st.sampled_from(remote))
    end = st.sampled_from(["", "/", "//", "?x", "#x", "%00", "/."])
    return st.builds(
        lambda scheme, start, parts, end: f"{scheme}{'/'.join([start, *parts])}{end}",
        scheme,
        start,
        st.lists(part, max_size=5),
        end,
    )


def test_no_text_leads_out_of_a_table_with_a_limit(tmp_path: Path) -> None:
    around = Neighbours(tmp_path)
    table = around.table
    inside = os.path.realpath(table)

    @settings(max_examples=examples(150), suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(spellings(tmp_path), st.booleans())
    @example(f"{table}/../t.lance-2", True)
    @example(f"file://{table}/%2e%2e/%2e%2e/secret", True)
    @example(f"{table}/link", False)
    @example(f"{table}-2", True)
    def check(text: str, is_root: bool) -> None:
        lie(table, text, is_root=is_root)
        with opened_places() as places:
            try:
                rows = lancelet.dataset(table, allowed_prefixes=[]).to_table()["x"].to_pylist()
            except LanceletError:
                rows = [1, 2, 3]
        assert rows == [1, 2, 3]
        for place in places:
            real = os.path.realpath(place)
            assert real == inside or real.startswith(f"{inside}/"), (text, place)

    check()


def test_without_a_limit_base_paths_lead_anywhere(around: Neighbours) -> None:
    for place in around.outside:
        lie(around.table, str(place))
        assert lancelet.dataset(around.table).to_table()["x"].to_pylist() == [666] * 3


def test_prefixes_are_whole_folders(around: Neighbours) -> None:
    lie(around.table, str(around.folder / "secret"))

    def read(allowed: Any) -> int:
        return lancelet.dataset(around.table, allowed_prefixes=allowed).to_table().num_rows

    for allowed in (
        [around.folder / "secret"],
        [f"file://{around.folder}/secret/"],
        [f"FILE://{around.folder}"],
        ["/"],
    ):
        assert read(allowed) == 3
    for refused in ([], [f"{around.folder}/sec"], [f"{around.folder}/secret/data"], ["s3://bucket"]):
        with pytest.raises(PathNotAllowed, match="allowed_prefixes"):
            read(refused)


def test_the_environment_and_storage_options_limit_as_well(around: Neighbours, monkeypatch: pytest.MonkeyPatch) -> None:
    lie(around.table, str(around.folder / "secret"))
    with pytest.raises(PathNotAllowed):
        lancelet.dataset(around.table, storage_options={"allowed_prefixes": ""}).to_table()
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(PathNotAllowed):
        lancelet.dataset(around.table).to_table()
    # Whoever opens it says more than the environment.
    allowed = lancelet.dataset(around.table, allowed_prefixes=[str(around.folder)])
    assert allowed.count_rows("x = 666") == 3
    monkeypatch.setenv(VARIABLE, f"s3://bucket, {around.folder}/secret")
    kept = lancelet.dataset(around.table)
    monkeypatch.delenv(VARIABLE)
    assert kept.count_rows("x = 666") == 3
    monkeypatch.setenv(VARIABLE, "[no json")
    with pytest.raises(InvalidInput, match="JSON"):
        lancelet.dataset(around.table)


def test_a_limit_goes_wherever_the_table_goes(around: Neighbours) -> None:
    lie(around.table, str(around.folder / "secret"))
    limited = lancelet.dataset(around.table, allowed_prefixes=[])
    for copy in (
        pickle.loads(pickle.dumps(limited)),
        limited.checkout_version(1),
        pickle.loads(pickle.dumps(limited.get_fragments()[0])),
        limited.create_branch("b", storage_options={}),
    ):
        with pytest.raises(PathNotAllowed):
            copy.to_table()
    with pytest.raises(PathNotAllowed):
        limited.deep_clone(around.folder / "clone", None, storage_options={})
    clone = limited.shallow_clone(around.folder / "shallow", None, storage_options={})
    with pytest.raises(PathNotAllowed):
        clone.to_table()


def test_links_below_a_table_may_not_leave_it(around: Neighbours) -> None:
    around.file.rename(around.folder / "moved.lance")
    around.file.symlink_to(around.folder / "moved.lance")
    assert lancelet.dataset(around.table).to_table().num_rows == 3
    with pytest.raises(PathNotAllowed, match="symbolic link"):
        lancelet.dataset(around.table, allowed_prefixes=[]).to_table()
    # The table itself may be reached by one, and one may stay inside.
    (around.folder / "name").symlink_to(around.table)
    around.file.unlink()
    (around.folder / "moved.lance").rename(around.table / "kept.lance")
    around.file.symlink_to(around.table / "kept.lance")
    assert lancelet.dataset(around.folder / "name", allowed_prefixes=[]).to_table().num_rows == 3


def test_what_was_not_there_may_not_become_a_way_out(tmp_path: Path) -> None:
    """Where folders lead is remembered, but not of those that are still to come; files are looked at every time."""
    (tmp_path / "t").mkdir()
    (tmp_path / "outside").mkdir()
    store = open_store(tmp_path / "t", {"allowed_prefixes": ""})
    store.put("here/file", b"1")
    assert store.read_all("here/file") == b"1"
    for path in ("later/file", "here/later"):
        assert not store.exists(path)
    (tmp_path / "t" / "later").symlink_to(tmp_path / "outside")
    (tmp_path / "t" / "here" / "later").symlink_to(tmp_path / "outside")
    for path in ("later/file", "here/later"):
        with pytest.raises(PathNotAllowed, match="symbolic link"):
            store.exists(path)
    assert pickle.loads(pickle.dumps(store)).read_all("here/file") == b"1"


def test_a_branch_may_refer_to_its_root(tmp_path: Path) -> None:
    lancelet.write_dataset({"x": [1]}, tmp_path / "t").create_branch("b")
    limited = lancelet.dataset(tmp_path / "t", allowed_prefixes=[])
    assert limited.checkout_version(("b", None)).to_table().num_rows == 1
    branch = limited.checkout_version(("b", None))
    assert lancelet.write_dataset({"x": [2]}, branch, mode="append", allowed_prefixes=[]).to_table().num_rows == 2
    by_folder = lancelet.dataset(tmp_path / "t" / "tree" / "b", allowed_prefixes=[])
    with pytest.raises(PathNotAllowed):
        by_folder.to_table()
    assert lancelet.dataset(tmp_path / "t" / "tree" / "b", allowed_prefixes=[tmp_path / "t"]).to_table().num_rows == 2


def blobs(*uris: str) -> pa.Table:
    column = blob_array([Blob.from_uri(uri) for uri in uris])
    return pa.table([column], schema=pa.schema([blob_field("b")]))


def read_blob(table: Path, **options: Any) -> bytes:
    (blob,) = lancelet.dataset(table, **options).take_blobs("b", indices=[0])
    return blob.readall()


@pytest.mark.parametrize("form", ["{}", "file://{}", "FILE://localhost{}"])
def test_external_blobs_are_limited(tmp_path: Path, form: str) -> None:
    (tmp_path / "a folder").mkdir()
    secret = tmp_path / "a folder" / "secret"
    secret.write_bytes(SECRET)
    uri = form.format(str(secret).replace(" ", "%20") if "://" in form else secret)
    lancelet.write_dataset(
        blobs(uri), tmp_path / "t", allow_external_blob_outside_bases=True, data_storage_version="2.2"
    )
    assert read_blob(tmp_path / "t") == SECRET
    assert read_blob(tmp_path / "t", allowed_prefixes=[tmp_path / "a folder"]) == SECRET
    with opened_places() as places, pytest.raises(PathNotAllowed):
        read_blob(tmp_path / "t", allowed_prefixes=[])
    assert places == []
    with pytest.raises(PathNotAllowed):
        lancelet.dataset(tmp_path / "t", allowed_prefixes=[]).to_table(blob_handling="all_binary")


def test_no_uri_of_a_blob_leads_out_of_a_table_with_a_limit(tmp_path: Path) -> None:
    around = Neighbours(tmp_path)
    table, inside = around.table, os.path.realpath(around.table)
    for place in around.outside:
        (place / "blob").write_bytes(SECRET)
    (table / "blob").write_bytes(b"mine")

    @settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(spellings(tmp_path))
    @example(f"file://{table}/%2e%2e")
    @example(f"{table}/link")
    @example(f"{table}")
    def check(text: str) -> None:
        try:
            lancelet.write_dataset(
                blobs(f"{text}/blob"),
                table,
                mode="overwrite",
                allow_external_blob_outside_bases=True,
                data_storage_version="2.2",
            )
        except LanceletError:
            return
        with opened_places() as places:
            try:
                content = read_blob(table, allowed_prefixes=[])
            except LanceletError:
                content = b"mine"
        assert content == b"mine", text
        for place in places:
            assert os.path.realpath(place).startswith(inside), (text, place)

    check()


def test_rows_that_are_written_are_limited_too(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    rows = blobs(f"file://{tmp_path}/secret")
    for how in ({"external_blob_mode": "ingest"}, {"allow_external_blob_outside_bases": True}):
        with pytest.raises(PathNotAllowed):
            lancelet.write_dataset(rows, tmp_path / "t", allowed_prefixes=[], **how)
        assert not (tmp_path / "t" / "_versions").exists()
    base = lancelet.DatasetBasePath(str(tmp_path / "base"), "base")
    with pytest.raises(PathNotAllowed):
        lancelet.write_dataset({"x": [1]}, tmp_path / "u", initial_bases=[base], allowed_prefixes=[])
    limited = lancelet.write_dataset({"x": [1]}, tmp_path / "u", allowed_prefixes=[])
    with pytest.raises(PathNotAllowed):
        limited.add_bases([base])


class Recorder(http.server.BaseHTTPRequestHandler):
    """Notes every request and refuses it."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(404)

    do_PUT = do_POST = do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A machine in a cloud: the address at which credentials are to be had, and what it was asked."""
    asked: list[str] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Recorder,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", address)
    monkeypatch.setenv("AWS_ENDPOINT", address)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("IDENTITY_ENDPOINT", address)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", address)
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    yield asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("base", ["s3://bucket/x", "S3A://bucket/x", "az://container/x"])
def test_nobody_asks_for_credentials_of_a_cloud_that_was_not_named(tmp_path: Path, cloud: list[str], base: str) -> None:
    around = Neighbours(tmp_path)
    lie(around.table, base)
    with pytest.raises(PathNotAllowed, match="base_store_params"):
        lancelet.dataset(around.table).to_table()
    # Options for another store are no name either.
    with pytest.raises(PathNotAllowed, match="base_store_params"):
        lancelet.dataset(around.table, storage_options={"aws_access_key_id": "a", "azure_account_key": "b"}).to_table()
    assert not lancelet.dataset(around.table).verify().ok
    lancelet.write_dataset(
        blobs(f"{base}/blob"), tmp_path / "b", allow_external_blob_outside_bases=True, data_storage_version="2.2"
    )
    with pytest.raises(PathNotAllowed, match="base_store_params"):
        read_blob(tmp_path / "b")
    with pytest.raises(PathNotAllowed, match="base_store_params"):
        lancelet.write_dataset(blobs(f"{base}/blob"), tmp_path / "c", external_blob_mode="ingest")
    assert cloud == []


def test_a_cloud_that_was_named_is_asked(tmp_path: Path, cloud: list[str]) -> None:
    around = Neighbours(tmp_path)
    lie(around.table, "s3://bucket/x")
    quick = {"client_max_retries": "0", "client_retry_timeout": "5"}
    with pytest.raises(LanceletError) as caught:
        lancelet.dataset(around.table, base_store_params={"s3://bucket": quick}).to_table()
    assert not isinstance(caught.value, PathNotAllowed)
    assert cloud != []


def test_options_are_for_their_own_bucket(bucket: Bucket, s3_endpoint: str, tmp_path: Path) -> None:
    base = lancelet.DatasetBasePath(f"{bucket.uri}/base", "base")
    named = {base.path: bucket.options}
    # From another store: only those that were given for the bucket, by its URI or by one above.
    lancelet.write_dataset(
        {"x": [1]}, tmp_path / "t", initial_bases=[base], target_bases=["base"], base_store_params=named
    )
    for params in (named, {bucket.uri: bucket.options}):
        assert lancelet.dataset(tmp_path / "t", base_store_params=params).to_table().num_rows == 1
    scoped = {f"base_1.{key}": value for key, value in bucket.options.items()}
    assert lancelet.dataset(tmp_path / "t", storage_options=scoped).to_table().num_rows == 1
    with pytest.raises(PathNotAllowed):
        lancelet.dataset(tmp_path / "t", storage_options=bucket.options).to_table()
    # In the same bucket: those of the table.
    uri = f"{bucket.uri}/t"
    lancelet.write_dataset({"x": [1]}, uri, initial_bases=[base], target_bases=["base"], storage_options=bucket.options)
    assert lancelet.dataset(uri, storage_options=bucket.options).to_table().num_rows == 1
    limited = lancelet.dataset(uri, storage_options=bucket.options, allowed_prefixes=[])
    with pytest.raises(PathNotAllowed):
        limited.to_table()


@pytest.mark.parametrize(
    ("table", "options", "base", "given"),
    [
        ("s3://a/t", {}, "s3://b/x", {}),
        ("s3://a/t", {"aws_region": "here"}, "s3a://b/x", {}),
        ("s3://a/t", {"aws_region": "here"}, "s3a://a/x", {"aws_region": "here"}),
        ("s3://a/t", {"aws_endpoint": "http://here"}, "s3://b/x", None),
        ("s3://a/t", {"skip_signature": "true"}, "s3://b/x", None),
        ("s3://a/t", {}, "gs://a/x", None),
        ("gs://a/t", {}, "gs://b/x", {}),
        ("abfss://a@mine.dfs.core.windows.net/t", {}, "abfss://b@mine.dfs.core.windows.net/x", {}),
        ("abfss://a@mine.dfs.core.windows.net/t", {}, "abfss://b@theirs.dfs.core.windows.net/x", None),
        ("s3://a/t", {"aws_token": "secret", "base_1.aws_token": "other"}, "s3://b/x", {"aws_token": "other"}),
        ("s3://a/t", {"aws_token": "secret"}, "/local", {}),
        ("memory://a/t", {"aws_token": "secret"}, "memory://b/x", {}),
    ],
)
def test_which_options_a_base_path_gets(
    table: str, options: dict[str, str], base: str, given: dict[str, str] | None
) -> None:
    places = Places(open_store(table, options), {1: BasePath(base, id=1)}, "manifest")
    if given is None:
        with pytest.raises(PathNotAllowed, match="base_store_params"):
            places.data_folder(1)
    else:
        assert dict(places.data_folder(1).store.options) == given


def test_a_clone_in_another_store_reads_its_source(bucket: Bucket, tmp_path: Path) -> None:
    source = lancelet.write_dataset({"x": [1]}, f"{bucket.uri}/s", storage_options=bucket.options)
    clone = source.shallow_clone(tmp_path / "clone", None)
    assert clone.to_table().num_rows == 1
    params = {bucket.uri: bucket.options}
    assert lancelet.dataset(tmp_path / "clone", base_store_params=params).to_table().num_rows == 1


def test_verify_lists_what_lies_outside(around: Neighbours, tmp_path: Path) -> None:
    lie(around.table, str(around.folder / "secret"))
    report = lancelet.dataset(around.table).verify(deep=True)
    outside = {finding.place: finding.problem for finding in report.findings if finding.kind == "outside"}
    assert set(outside) == {f"base path 1 ({around.folder}/secret)", f"{around.table}/link"}
    for number in range(3):
        (tmp_path / f"blob{number}").write_bytes(SECRET)
    rows = blobs(*(f"file://{tmp_path}/blob{number}" for number in range(3)))
    blobbed = lancelet.write_dataset(
        rows, tmp_path / "b", allow_external_blob_outside_bases=True, data_storage_version="2.2"
    )
    (note,) = (finding for finding in blobbed.verify(deep=True).findings if finding.kind == "outside")
    assert (note.place, note.problem.partition(" ")[0]) == (f"file://{tmp_path}", "3")
    refused = lancelet.dataset(around.table, allowed_prefixes=[]).verify()
    assert {finding.kind for finding in refused.errors} == {"not allowed"}


def test_a_namespace_keeps_its_tables_below_its_root(around: Neighbours, tmp_path: Path) -> None:
    pytest.importorskip("lance_namespace", reason="namespaces need the package lance-namespace")
    root = around.table.parent
    open_ = lancelet.connect(root)
    limited = lancelet.connect(root, allowed_prefixes="")
    lie(around.table, str(around.folder / "secret"))
    assert open_.open("t").to_table().num_rows == 3
    with pytest.raises(Exception, match="allowed_prefixes"):
        limited.open("t").to_table()
    with pytest.raises(PathNotAllowed):
        lancelet.dataset(namespace_client=limited.client, table_id=["t"]).to_table()
    allowed = lancelet.connect(root, allowed_prefixes=[str(around.folder / "secret")])
    assert allowed.open("t").to_table().num_rows == 3
    # Tables of the namespace may refer to each other.
    made = limited.create("whole", {"x": [5]})
    made.shallow_clone(root / "clone.lance", None)
    assert limited.open("clone").to_table()["x"].to_pylist() == [5]
    assert lancelet.dataset(namespace_client=limited.client, table_id=["clone"]).to_table().num_rows == 1


def test_a_spark_read_is_limited_by_its_option_or_the_environment_of_the_driver(
    around: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancelet.spark.options import parse_table_ref

    lie(around.table, str(around.folder / "secret"))

    def file_of(**options: str) -> str:
        place = pickle.loads(pickle.dumps(parse_table_ref({"path": str(around.table), **options})))
        monkeypatch.delenv(VARIABLE, raising=False)
        snapshot = pickle.loads(pickle.dumps(place.open()))
        return str(snapshot.places.data_file(snapshot.manifest.fragments[0].files[0]).full_path)

    assert file_of().startswith(f"{around.folder}/secret/")
    assert file_of(allowedprefixes=f"/nowhere,{around.folder}").startswith(f"{around.folder}/secret/")
    with pytest.raises(PathNotAllowed):
        file_of(allowedprefixes="")
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(PathNotAllowed):
        file_of()
