"""Tables on object stores, over the real protocol on the loopback."""

from __future__ import annotations

import pickle

import lance
import pytest

import lancelet
from conformance.agree import agree
from conformance.states import rows
from conftest import Bucket
from lancelet.errors import LanceletError, TableNotFound


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_a_table_on_s3(bucket: Bucket, version: str) -> None:
    uri = f"{bucket.uri}/some/table.lance"
    dataset = lance.write_dataset(
        rows(500), uri, storage_options=bucket.options, data_storage_version=version, max_rows_per_file=200
    )
    dataset.delete("k % 5 = 1")
    dataset.tags.create("tagged", 1)
    ours = lancelet.dataset(uri, storage_options=bucket.options)
    theirs = lance.dataset(uri, storage_options=bucket.options)
    agree(ours, theirs, lambda ds: ds.to_table(with_row_id=True))
    agree(ours, theirs, lambda ds: ds.to_table(["s", "k"], filter="k > 100 and k < 150"))
    agree(ours, theirs, lambda ds: ds.take([3, 399, 3, 77]))
    assert ours.checkout_version("tagged").count_rows() == 500
    assert pickle.loads(pickle.dumps(ours)).count_rows() == 400


def test_nothing_there_on_s3(bucket: Bucket) -> None:
    with pytest.raises(TableNotFound):
        lancelet.dataset(f"{bucket.uri}/nothing.lance", storage_options=bucket.options)


def test_a_store_that_does_not_answer(bucket: Bucket) -> None:
    options = bucket.options | {
        "aws_endpoint": "http://127.0.0.1:9",
        "client_max_retries": "0",
        "client_retry_timeout": "1",
    }
    with pytest.raises(LanceletError):
        lancelet.dataset(f"{bucket.uri}/t.lance", storage_options=options)


def test_unknown_schemes_are_named() -> None:
    with pytest.raises(LanceletError, match="gopher"):
        lancelet.dataset("gopher://host/table")
