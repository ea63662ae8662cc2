"""Google Cloud Storage and Azure: a version is created only if nobody has it, whatever becomes of the answers."""

from __future__ import annotations

import base64
import json
import random
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lancelet
from clouds import ACCOUNT, CONTAINER, Cloud, serve
from lancelet.errors import CommitOutcomeUnknown, LanceletError, StorageError, TableExists
from lancelet.store import open_store

KINDS = ["gs", "az"]
ROWS = pa.table({"k": range(10), "t": [f"row {k}" for k in range(10)]})


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with serve() as cloud:
        yield cloud


def place(kind: str, cloud: Cloud, retries: int = 0) -> tuple[str, dict[str, str]]:
    """The URI of a table, and the options that reach it. Without retries a client does not repeat what failed."""
    options = {"allow_http": "true", "client_max_retries": str(retries), "timeout": "20s"}
    if kind == "gs":
        # An account that needs no token: nobody is asked for one.
        names = ("private_key", "private_key_id", "client_email")
        account = {"gcs_base_url": cloud.url, "disable_oauth": True, **dict.fromkeys(names, "")}
        return "gs://bucket/t.lance", {**options, "google_service_account_key": json.dumps(account)}
    azure = {
        "azure_storage_account_name": ACCOUNT,
        "azure_storage_account_key": base64.b64encode(b"key").decode(),
        "azure_storage_endpoint": f"{cloud.url}/{ACCOUNT}",
    }
    return f"az://{CONTAINER}/t.lance", {**options, **azure}


@pytest.mark.parametrize("kind", KINDS)
def test_a_table(cloud: Cloud, kind: str) -> None:
    uri, options = place(kind, cloud)
    dataset = lancelet.write_dataset(ROWS, uri, storage_options=options, max_rows_per_file=4)
    for _ in range(9):
        lancelet.write_dataset(ROWS, uri, mode="append", storage_options=options)
    dataset.checkout_latest()
    assert dataset.delete("k < 5") == {"num_deleted_rows": 50}
    assert dataset.version == 11
    again = lancelet.dataset(uri, storage_options=options)
    assert again.to_table()["k"].to_pylist() == [5, 6, 7, 8, 9] * 10
    assert again.take([0, 49])["t"].to_pylist() == ["row 5", "row 9"]
    assert [entry["version"] for entry in again.versions()] == list(range(1, 12))
    assert lancelet.dataset(uri, 1, storage_options=options).to_table().equals(ROWS)
    with pytest.raises(TableExists):
        lancelet.write_dataset(ROWS, uri, storage_options=options)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_created_once(cloud: Cloud, kind: str) -> None:
    store = open_store(*place(kind, cloud))
    assert store.put_if_absent("a", b"first")
    assert not store.put_if_absent("a", b"second")
    assert store.read_all("a") == b"first"
    won: list[int] = []
    barrier = threading.Barrier(8)

    def race(number: int) -> None:
        barrier.wait()
        if store.put_if_absent("b", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.read_all("b")] == [str(number).encode() for number in won]


@pytest.mark.parametrize("kind", KINDS)
def test_large_files_go_up_in_parts(cloud: Cloud, kind: str) -> None:
    uri, options = place(kind, cloud)
    bulk = pa.table({"x": [random.Random(n).randbytes(4_000_000) for n in range(5)]})
    lancelet.write_dataset(bulk, uri, storage_options=options)
    assert lancelet.dataset(uri, storage_options=options).to_table().equals(bulk)
    assert any("partNumber" in request or "comp=block" in request for request in cloud.requests)


def once(cloud: Cloud, trouble: str, method: str, ending: str) -> list[str]:
    """Spoil the next request of a kind; the list says which it was."""
    met: list[str] = []

    def spoil(asked: str, key: str) -> str | None:
        if asked == method and key.endswith(ending) and not met:
            met.append(key)
            return trouble
        return None

    cloud.spoil = spoil
    return met


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("retries", [0, 3], ids=["silent", "repeating"])
@pytest.mark.parametrize("trouble", ["hang up", "503"])
@pytest.mark.parametrize("act", ["create", "append", "delete"])
def test_the_answer_of_a_commit_gets_lost(cloud: Cloud, kind: str, retries: int, trouble: str, act: str) -> None:
    """The version is read back: the commit took place once, whether the store or its client was at fault."""
    uri, options = place(kind, cloud, retries)
    if act != "create":
        lancelet.write_dataset(ROWS, uri, storage_options=options)
    met = once(cloud, trouble, "PUT", ".manifest")
    if act == "delete":
        lancelet.dataset(uri, storage_options=options).delete("k >= 3")
    else:
        lancelet.write_dataset(ROWS, uri, mode="append", storage_options=options)
    assert len(met) == 1
    dataset = lancelet.dataset(uri, storage_options=options)
    assert dataset.version == (1 if act == "create" else 2)
    assert dataset.count_rows() == {"create": 10, "append": 20, "delete": 3}[act]
    assert len([key for key in cloud.objects if key.endswith(".manifest")]) == dataset.version


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_falls_silent_after_the_commit(cloud: Cloud, kind: str) -> None:
    uri, options = place(kind, cloud)
    lancelet.write_dataset(ROWS, uri, storage_options=options)
    silent: list[str] = []

    def spoil(method: str, key: str) -> str | None:
        if method == "PUT" and key.endswith(".manifest"):
            silent.append(key)
            return "hang up"
        return "503" if silent else None

    cloud.spoil = spoil
    with pytest.raises(CommitOutcomeUnknown, match="version 2") as caught:
        lancelet.write_dataset(ROWS, uri, mode="append", storage_options=options)
    cloud.spoil = lambda method, key: None
    dataset = lancelet.dataset(uri, storage_options=options)
    assert dataset.read_transaction(2).uuid == caught.value.uuid
    assert dataset.count_rows() == 20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_places_without_access(cloud: Cloud, kind: str, method: str) -> None:
    """May not read, may not write: a clear error, no version, no files."""
    uri, options = place(kind, cloud)
    cloud.spoil = lambda asked, key: "403" if asked == method else None
    with pytest.raises(StorageError, match="cannot access") as caught:
        lancelet.write_dataset(ROWS, uri, storage_options=options)
    assert isinstance(caught.value, OSError)
    assert cloud.objects == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_commit_leaves_nothing(cloud: Cloud, kind: str) -> None:
    uri, options = place(kind, cloud)
    lancelet.write_dataset(ROWS, uri, storage_options=options)
    before = dict(cloud.objects)
    cloud.spoil = lambda method, key: "403" if method == "PUT" and key.endswith(".manifest") else None
    with pytest.raises(StorageError):
        lancelet.write_dataset(ROWS, uri, mode="append", storage_options=options)
    assert cloud.objects == before


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_input_leaves_nothing(cloud: Cloud, kind: str) -> None:
    uri, options = place(kind, cloud)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        lancelet.write_dataset(broken(), uri, ROWS.schema, storage_options=options, max_rows_per_file=3)
    assert cloud.objects == {}


def test_many_writers(cloud: Cloud) -> None:
    for kind in KINDS:
        cloud.objects.clear()
        uri, options = place(kind, cloud)
        lancelet.write_dataset(ROWS, uri, storage_options=options)
        failures: list[LanceletError] = []

        def write(uri: str, options: dict[str, str], failures: list[LanceletError]) -> None:
            for _ in range(3):
                try:
                    lancelet.write_dataset(ROWS, uri, mode="append", storage_options=options)
                except LanceletError as error:
                    failures.append(error)

        threads = [threading.Thread(target=write, args=(uri, options, failures)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        dataset = lancelet.dataset(uri, storage_options=options)
        assert (dataset.version, dataset.count_rows()) == (13, 130)


@pytest.fixture
def azurite(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Microsoft's own emulator, where it is installed (``npm install -g azurite``)."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("the emulator azurite-blob is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(tmp_path), "--silent"]
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    with subprocess.Popen([*command, "--skipApiVersionCheck"]) as process:
        try:
            options = {
                "allow_http": "true",
                "azure_storage_account_name": "devstoreaccount1",
                "azure_storage_account_key": key,
                "azure_storage_endpoint": f"http://127.0.0.1:{port}/devstoreaccount1",
            }
            yield f"az://{_container(options, port)}/t.lance", options
        finally:
            process.terminate()


def _container(options: dict[str, str], port: int) -> str:
    """Make a container, as soon as the emulator answers."""
    import hashlib
    import hmac
    from email.utils import formatdate

    name, account = f"c{uuid.uuid4().hex[:8]}", options["azure_storage_account_name"]
    deadline = time.monotonic() + 30
    while True:
        date = formatdate(usegmt=True)
        headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06"
        text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\n{headers}\n/{account}/{account}/{name}\nrestype:container"
        secret = base64.b64decode(options["azure_storage_account_key"])
        signature = base64.b64encode(hmac.new(secret, text.encode(), hashlib.sha256).digest()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/{account}/{name}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": "2021-08-06",
                "Authorization": f"SharedKey {account}:{signature}",
                "Content-Length": "0",
            },
        )
        try:
            with urllib.request.urlopen(request):
                return name
        except OSError:
            if time.monotonic() > deadline:
                raise


def test_a_table_on_azurite(azurite: tuple[str, dict[str, str]]) -> None:
    uri, options = azurite
    store = open_store(uri, options)
    assert store.put_if_absent("a", b"first")
    assert not store.put_if_absent("a", b"second")
    dataset = lancelet.write_dataset(ROWS, uri, storage_options=options, max_rows_per_file=4)
    lancelet.write_dataset(ROWS, uri, mode="append", storage_options=options)
    dataset.checkout_latest()
    assert dataset.delete("k < 5") == {"num_deleted_rows": 10}
    assert lancelet.dataset(uri, storage_options=options).to_table()["k"].to_pylist() == [5, 6, 7, 8, 9] * 2
