"""Programs that use ``memory://``: what pylance lets them do, they do here; what they find by name is ours alone."""

from __future__ import annotations

import os
import pickle
import signal
import uuid
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput


def rows(*values: int) -> pa.Table:
    return pa.table({"x": values})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


def create_twice(library: Any, uri: str) -> Any:
    first, second = library.write_dataset(rows(1), uri), library.write_dataset(rows(2), uri)
    return values(first), values(second), first.uri == second.uri, first.version, second.version


def create_under_another_schema(library: Any, uri: str) -> Any:
    library.write_dataset(rows(1), uri)
    return library.write_dataset(pa.table({"y": ["a"]}), uri).schema.names


def old_handle_goes_on(library: Any, uri: str) -> Any:
    first = library.write_dataset(rows(1), uri)
    second = library.write_dataset(rows(7), uri)
    first.insert(rows(2))
    first.delete("x = 1")
    second.insert(rows(8))
    return values(first), first.version, values(second), second.version, values(first.checkout_version(1))


def append_to_a_dataset(library: Any, uri: str) -> Any:
    first = library.write_dataset(rows(1), uri)
    second = library.write_dataset(rows(2), first, mode="append")
    return values(first), values(second), second.version


def overwrite_a_dataset(library: Any, uri: str) -> Any:
    first = library.write_dataset(rows(1), uri)
    second = library.write_dataset(rows(2, 3), first, mode="overwrite")
    return values(first), values(second), second.version


def overwrite_by_name(library: Any, uri: str) -> Any:
    first = library.write_dataset(rows(1), uri)
    return values(library.write_dataset(rows(2, 3), uri, mode="overwrite")), values(first)


def create_over_a_dataset(library: Any, uri: str) -> Any:
    first = library.write_dataset(rows(1), uri)
    with pytest.raises(OSError, match="already exists"):
        library.write_dataset(rows(2), first)
    return values(first)


def shared_session(library: Any, uri: str) -> Any:
    session = library.Session()
    first = library.write_dataset(rows(1), uri, session=session)
    with pytest.raises(OSError, match="already exists"):
        library.write_dataset(rows(2), uri, session=session)
    appended = library.write_dataset(rows(2), uri, mode="append", session=session)
    return values(appended), values(library.dataset(uri, session=session)), appended.version, values(first)


def two_tables_of_one_name(library: Any, uri: str) -> Any:
    one, other = library.write_dataset(rows(1), f"{uri}/a"), library.write_dataset(rows(2), f"{uri}/b")
    library.write_dataset(rows(3), f"{uri}/a")
    other.insert(rows(4))
    return values(one), values(other)


def fragments_beside_a_dataset(library: Any, uri: str) -> Any:
    dataset = library.write_dataset(rows(1), uri)
    fragments = library.fragment.write_fragments(rows(5), dataset)
    return values(library.LanceDataset.commit(dataset, library.LanceOperation.Append(fragments), read_version=1))


PROGRAMS: list[Callable[[Any, str], Any]] = [
    create_twice,
    create_under_another_schema,
    old_handle_goes_on,
    append_to_a_dataset,
    overwrite_a_dataset,
    overwrite_by_name,
    create_over_a_dataset,
    shared_session,
    two_tables_of_one_name,
    fragments_beside_a_dataset,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_for_pylance_run(program: Callable[[Any, str], Any]) -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    assert program(lancelet, uri) == program(lance, uri)


def test_a_name_leads_to_the_table_that_was_created_last() -> None:
    uri = f"memory://{uuid.uuid4().hex}/t"
    lancelet.write_dataset(rows(1), uri)
    lancelet.write_dataset(rows(2), uri)
    lancelet.write_dataset(rows(3), uri, mode="append")
    found = lancelet.dataset(uri)
    assert values(found) == [2, 3]
    assert [entry["version"] for entry in found.versions()] == [1, 2]
    assert found.verify(deep=True).findings == ()


def test_a_create_that_fails_leaves_the_name_as_it_was() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    lancelet.write_dataset(rows(1), uri)
    with pytest.raises(InvalidInput):
        lancelet.write_dataset(rows(2), uri, target_bases=["nowhere"])
    assert values(lancelet.dataset(uri)) == [1]


def test_other_tables_below_a_name_stay() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    lancelet.write_dataset(rows(1), uri)
    below = lancelet.write_dataset(rows(2), f"{uri}/below")
    lancelet.write_dataset(rows(3), uri)
    below.insert(rows(4))
    assert values(lancelet.dataset(f"{uri}/below")) == [2, 4]


def test_a_branch_of_a_table_that_lost_its_name_still_finds_its_files() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    first = lancelet.write_dataset(rows(1), uri)
    branch = first.create_branch("b")
    lancelet.write_dataset(rows(7), uri)
    branch = lancelet.write_dataset(rows(2), branch, mode="append")
    assert (values(branch), values(first)) == ([1, 2], [1])
    assert [values(each) for each in pickle.loads(pickle.dumps([first, branch]))] == [[1], [1, 2]]


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_has_the_tables_and_goes_its_own_way() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    dataset = lancelet.write_dataset(rows(1), uri)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        dataset.insert(rows(2))
        again = lancelet.write_dataset(rows(3), uri)
        os.write(writing, repr((values(dataset), values(again), values(lancelet.dataset(uri)))).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert answer == "([1, 2], [3], [3])"
    assert values(dataset) == values(lancelet.dataset(uri)) == [1]
