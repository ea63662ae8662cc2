"""Namespaces over REST: either client with either server does what the namespace behind it does."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import lance.namespace
import lance_namespace as ln
import pytest

from lancelet.namespace import DirectoryNamespace, RestNamespace
from lancelet.namespace.rest.routes import ROUTES
from namespace.served import STEPS, history, kinds, served

UNTRIED = {"create_materialized_view"}
"""Its request needs more than a directory namespace will ever look at."""
THEIRS_LACKS = {"update_field_metadata", "batch_create_table_versions", "batch_commit_tables"}
"""Operations that pylance's client does not ask its server for."""


def test_the_history_has_every_operation() -> None:
    named = {step[0] for step in STEPS}
    assert named | UNTRIED == {route.operation for route in ROUTES}
    methods = {
        name for name, method in vars(ln.LanceNamespace).items() if inspect.isfunction(method) and name[0] != "_"
    }
    assert {route.operation for route in ROUTES} == methods - {"namespace_id", "create_empty_table"}


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """What our directory namespace answers."""
    root = tmp_path_factory.mktemp("direct")
    found = history(DirectoryNamespace(root=root, allowed_prefixes=""), root)
    for name, answer, *_ in found:
        if name == "update_table_schema_metadata":
            # The specification answers with the metadata, which leaves no room for anything else.
            assert answer.pop("transaction_id") == "UUID"
    return found


def test_our_client_and_our_server_say_what_the_folder_says(tmp_path: Path, direct: list[object]) -> None:
    with served(tmp_path) as server:
        assert history(RestNamespace(uri=server.uri), tmp_path) == direct


def test_pylances_client_and_our_server_say_what_the_folder_says(tmp_path: Path, direct: list[object]) -> None:
    with served(tmp_path) as server:
        found = kinds(history(lance.namespace.RestNamespace(uri=server.uri), tmp_path))
    expected = kinds(direct)
    for entry, ours in zip(found, expected, strict=True):
        if entry[0] in THEIRS_LACKS:
            assert entry[1] == "UnsupportedOperationError"
        else:
            assert entry == ours


def test_our_client_and_pylances_server_say_what_pylances_client_says(tmp_path: Path) -> None:
    found = []
    for name, client in (("ours", RestNamespace), ("theirs", lance.namespace.RestNamespace)):
        root = tmp_path / name
        root.mkdir()
        with lance.namespace.RestAdapter("dir", {"root": str(root)}, port=0) as server:
            found.append(kinds(history(client(uri=f"http://127.0.0.1:{server.port}"), root)))
    for (name, request, *_), ours, theirs in zip(STEPS, *found, strict=True):
        if _has_space(request):
            # Pylance's client sends a plus sign, and its server takes it for one; it cannot remove such folders either.
            assert isinstance(ours[1], dict) or (name, ours[1]) == ("drop_table", "InternalError")
        elif name == "list_tables" and request.id == ["n"]:
            assert [told[1]["tables"] for told in (ours, theirs)] == [["a b+c%25ü"], ["a+b+c%25ü"]]
        elif name in THEIRS_LACKS:
            # Asked for, and refused in the server's own words.
            assert (ours[1], theirs[1]) == ("InternalError", "UnsupportedOperationError")
        else:
            assert ours == theirs


def _has_space(request: Any) -> bool:
    in_path = [*(getattr(request, "id", None) or ()), getattr(request, "index_name", None) or ""]
    return any(" " in part for part in in_path)
