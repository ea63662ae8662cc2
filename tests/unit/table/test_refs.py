"""Tag and branch files that were tampered with."""

from __future__ import annotations

import itertools
import json

import pytest

from lancelet.errors import CorruptFile
from lancelet.store import open_store
from lancelet.table.refs.read import list_branches, list_tags, read_branch, read_tag

NUMBERS = itertools.count()
TAG = {"branch": None, "version": 2, "createdAt": "2026-11-15T09:44:06.180655013Z", "manifestSize": 5, "metadata": {}}
BRANCH = {
    "parentBranch": None,
    "parentVersion": 2,
    "createAt": 1,
    "manifestSize": 5,
    "identifier": {"version_mapping": []},
}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[1]",
        b"[" * 100_000,
        json.dumps({**TAG, "version": "2"}).encode(),
        json.dumps({**TAG, "version": -1}).encode(),
        json.dumps({**TAG, "version": True}).encode(),
        json.dumps({**TAG, "manifestSize": None}).encode(),
        json.dumps({**TAG, "createdAt": "yesterday"}).encode(),
        json.dumps({**TAG, "branch": 5}).encode(),
        json.dumps({**TAG, "metadata": {"a": 1}}).encode(),
    ],
)
def test_tags(content: bytes) -> None:
    store = open_store(f"memory://tags-{next(NUMBERS)}")
    store.put("_refs/tags/t.json", content)
    with pytest.raises(CorruptFile, match=r"t\.json"):
        read_tag(store, "t")


def test_a_tag_without_optional_entries() -> None:
    store = open_store(f"memory://tags-{next(NUMBERS)}")
    store.put("_refs/tags/t.json", b'{"version": 2, "manifestSize": 5}')
    store.put("_refs/tags/notes.txt", b"")
    (tag,) = list_tags(store)
    assert (tag.version, tag.branch, tag.created_at, tag.metadata) == (2, None, None, {})
    store.put("_refs/tags/t.json", json.dumps(TAG).encode())
    assert read_tag(store, "t").created_at.isoformat() == "2026-11-15T09:44:06.180655+00:00"


@pytest.mark.parametrize(
    "change", [{"parentVersion": None}, {"identifier": {"version_mapping": [1]}}, {"createAt": "x"}]
)
def test_branches(change: dict[str, object]) -> None:
    store = open_store(f"memory://branches-{next(NUMBERS)}")
    store.put("_refs/branches/a%2Fb.json", json.dumps(BRANCH).encode())
    assert read_branch(store, "a/b").parent_version == 2
    assert [branch.name for branch in list_branches(store)] == ["a/b"]
    store.put("_refs/branches/a%2Fb.json", json.dumps({**BRANCH, **change}).encode())
    with pytest.raises(CorruptFile):
        read_branch(store, "a/b")
