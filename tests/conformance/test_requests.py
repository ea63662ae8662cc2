"""An object store is asked for no more than pylance asks it for: neither requests nor bytes, whatever is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.counting_s3 import Count, serving
from benchmarks.requests import Case, cases, counted, tables

ROWS = 20_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Count]]:
    folder = tmp_path_factory.mktemp("requests")
    tables(folder, ROWS)
    with serving(folder) as served:
        yield served


@pytest.mark.parametrize("case", cases(ROWS), ids=lambda case: f"{case.name}, {'warm' if case.warm else 'cold'}")
@pytest.mark.spread(0.5, each=False)
def test_no_more_is_asked_for_than_pylance_does(case: Case, server: tuple[str, Count]) -> None:
    asked: list[str] = []
    counts = counted(case, *server, asked.append)
    (requests, size), (their_requests, their_size) = counts["lancelet"], counts["pylance"]
    assert requests <= their_requests, "\n".join(asked)
    assert size <= their_size, "\n".join(asked)
