"""Every pair of operations, one committed after the other without knowing of it: the same outcome as with pylance.

Each operation is made once by pylance, on a copy of the same table. Its transaction is then committed after every
other one, by pylance and by us: both must refuse, both must ask for a retry, or both must make the same manifest.
The one that comes first is committed by pylance in half of the pairs, by us in the other half.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from pathlib import Path
from uuid import UUID

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.commit import CommitConflictError
from lance.optimize import Compaction

import lancelet
from conformance.test_commits import differences, overlay_file, table
from lancelet.errors import CommitConflict, InvalidInput, RetryableCommitConflict
from lancelet.store import open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.conflicts import _COLUMNS, _MATRIX, _RULES
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.run import commit
from lancelet.table.commit.transactions import transaction_from_proto
from lancelet.table.manifest import flags
from lancelet.table.manifest.names import ManifestName, NamingScheme
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from lancelet.table.rows.deletions import read_deletions

BASE = 3


def by_hand(uri: str, operation: LanceOperation.BaseOperation) -> None:
    lance.LanceDataset.commit(uri, operation, read_version=BASE)


def new_fragment(uri: str, first: int = 100, last: int = 120) -> lance.FragmentMetadata:
    return lance.fragment.LanceFragment.create(uri, table(first, last))


def update_columns(uri: str, number: int, column: str) -> None:
    fragment = lance.dataset(uri).get_fragment(number)
    first = 20 * number
    values = {"k": [first, first + 1], "s": ["x", "y"]} if column == "s" else {"s": ["text 0"], "k": [7]}
    key = "k" if column == "s" else "s"
    data = pa.table({name: pa.array(values[name], pa.int64() if name == "k" else pa.string()) for name in ("k", "s")})
    metadata, fields = fragment.update_columns(data, left_on=key, right_on=key)
    operation = LanceOperation.Update(
        updated_fragments=[metadata], fields_modified=fields, update_mode="rewrite_columns"
    )
    by_hand(uri, operation)


def rewrite(uri: str, number: int) -> None:
    old = lance.dataset(uri).get_fragment(number).metadata
    new = new_fragment(uri, 20 * number, 20 * number + 20)
    by_hand(uri, LanceOperation.Rewrite([LanceOperation.RewriteGroup([old], [new])], []))


def replace(uri: str, number: int, column: str) -> None:
    aside = f"{uri}-aside-{number}-{column}"
    file = lance.fragment.LanceFragment.create(aside, table(0, 20).select([column])).files[0]
    shutil.copy(f"{aside}/data/{file.path}", f"{uri}/data/{file.path}")
    field = {"k": 0, "s": 1, "v": 2}[column]
    file = lance.fragment.DataFile(file.path, [field], [0], 2, 2, file.file_size_bytes)
    by_hand(uri, LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(number, file)]))


def overlay(uri: str, number: int, column: str, rows: list[int]) -> None:
    file = overlay_file(uri, column, rows, rows)
    by_hand(uri, LanceOperation.DataOverlay([LanceOperation.DataOverlayGroup(number, [file])]))


def project_in_place(uri: str) -> None:
    by_hand(uri, LanceOperation.Project(lance.dataset(uri).lance_schema))


def merge_in_place(uri: str) -> None:
    dataset = lance.dataset(uri)
    by_hand(uri, LanceOperation.Merge([f.metadata for f in dataset.get_fragments()], dataset.lance_schema))


def edit(**edits: object) -> Callable[[str], None]:
    return lambda uri: by_hand(uri, LanceOperation.UpdateConfig(**edits))


def change(**updates: str | None) -> LanceOperation.UpdateMap:
    return LanceOperation.UpdateMap(updates)


def on_dataset(act: Callable[[lance.LanceDataset], object]) -> Callable[[str], None]:
    return lambda uri: (act(lance.dataset(uri)), None)[1]


MAKERS: dict[str, Callable[[str], None]] = {
    "append": lambda uri: by_hand(uri, LanceOperation.Append([new_fragment(uri)])),
    "delete-0": on_dataset(lambda d: d.delete("k = 3")),
    "delete-1": on_dataset(lambda d: d.delete("k = 23")),
    "delete-0-1": on_dataset(lambda d: d.delete("k = 4 or k = 24")),
    "remove-0": on_dataset(lambda d: d.delete("k < 20")),
    "delete-nothing": on_dataset(lambda d: d.delete("k < 0")),
    "update-rows-0": on_dataset(lambda d: d.update({"s": "'n'"}, where="k = 5")),
    "update-rows-1": on_dataset(lambda d: d.update({"k": "k + 100"}, where="k = 25")),
    "update-all-0": on_dataset(lambda d: d.update({"k": "k + 100"}, where="k < 20")),
    "update-columns-0": lambda uri: update_columns(uri, 0, "s"),
    "update-columns-1": lambda uri: update_columns(uri, 1, "s"),
    "update-keys-0": lambda uri: update_columns(uri, 0, "k"),
    "rewrite-0": lambda uri: rewrite(uri, 0),
    "rewrite-1": lambda uri: rewrite(uri, 1),
    "overwrite": lambda uri: by_hand(uri, LanceOperation.Overwrite(table(0, 0).schema, [new_fragment(uri)])),
    "index-k": on_dataset(lambda d: d.create_scalar_index("k", "BTREE")),
    "index-s-again": on_dataset(lambda d: d.create_scalar_index("s", "BTREE", replace=True)),
    "drop-index-s": on_dataset(lambda d: d.drop_index("s_idx")),
    "add-column": on_dataset(lambda d: d.add_columns({"t": "k * 2"})),
    "add-null-column": on_dataset(lambda d: d.add_columns(pa.field("n", pa.int32()))),
    "merge-in-place": merge_in_place,
    "rename": on_dataset(lambda d: d.alter_columns({"path": "v", "name": "w"})),
    "drop-v": on_dataset(lambda d: d.drop_columns(["v"])),
    "project-in-place": project_in_place,
    "restore": lambda uri: by_hand(uri, LanceOperation.Restore(1)),
    "config-a": edit(config_updates=change(a="2")),
    "config-a-gone": edit(config_updates=change(a=None)),
    "config-b": edit(config_updates=change(b="2")),
    "metadata-a": edit(table_metadata_updates=change(a="2")),
    "schema-metadata": edit(schema_metadata_updates=change(a="2")),
    "field-0-metadata": edit(field_metadata_updates={0: change(a="2")}),
    "field-1-metadata": edit(field_metadata_updates={1: change(a="2")}),
    "replace-0-k": lambda uri: replace(uri, 0, "k"),
    "replace-0-v": lambda uri: replace(uri, 0, "v"),
    "replace-1-k": lambda uri: replace(uri, 1, "k"),
    "overlay-0-k": lambda uri: overlay(uri, 0, "k", [3, 5]),
    "overlay-0-k-elsewhere": lambda uri: overlay(uri, 0, "k", [12]),
    "overlay-0-v": lambda uri: overlay(uri, 0, "v", [3, 5]),
    "overlay-1-k": lambda uri: overlay(uri, 1, "k", [3]),
    "add-base": on_dataset(lambda d: d.add_bases([lance.DatasetBasePath("/elsewhere/x", "x", False, 0)])),
}

# pylance only adds base paths through a call of its own, which commits on the newest version.
NOT_BY_HAND = {"add-base"}
# The message of a Project has no schema metadata. pylance, given one by hand, forgets the table's; we keep it.
FORGETFUL = {(project, "schema-metadata") for project in ("rename", "drop-v", "project-in-place")}


@dataclass(frozen=True)
class Made:
    """An operation on the base table: committed there by pylance, and its transaction in both tongues."""

    uri: str
    theirs: LanceOperation.BaseOperation
    ours: ops.Operation


@pytest.fixture(scope="module", autouse=True)
def overlays_allowed() -> Iterator[None]:
    """Overlays are unstable: pylance asks for a variable, we refuse them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")
        patch.setattr(flags, "READABLE", flags.READABLE | flags.Feature.OVERLAY_FILES)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    folder = tmp_path_factory.mktemp("made")
    base = str(folder / "base")
    lance.write_dataset(table(0, 40), base, max_rows_per_file=20)
    lance.dataset(base).create_scalar_index("s", "BTREE")
    lance.dataset(base).update_config({"a": "1"})
    assert lance.dataset(base).version == BASE
    found = {}
    for name, make in MAKERS.items():
        uri = shutil.copytree(base, folder / name)
        make(str(uri))
        message = open_snapshot(uri).manifest.transaction
        assert message is not None
        transaction = transaction_from_proto(message, name)
        assert transaction is not None
        assert transaction.read_version == BASE
        operation = lance.dataset(str(uri)).read_transaction(BASE + 1).operation
        found[name] = Made(str(uri), operation, transaction.operation)
    return found


@pytest.fixture(scope="module")
def made_by_us(made: dict[str, Made], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """The same operations on the same table, committed by us."""
    return {name: committed_by_us(one, tmp_path_factory.mktemp("ours") / name) for name, one in made.items()}


def committed_by_us(one: Made, target: Path) -> Made:
    shutil.copytree(one.uri, target, copy_function=os.link)
    message = open_snapshot(target).manifest.transaction
    assert message is not None
    (target / ManifestName(BASE + 1, NamingScheme.V2).path).unlink()
    (target / "_versions/latest_version_hint.json").unlink()
    commit(open_store(str(target)), one.ours, read_version=BASE, uuid=message.uuid)
    return replace_fields(one, uri=str(target))


def joined(first: Made, second: Made, target: Path) -> str:
    """A table in which the first operation is committed, and which has the files of both."""
    shutil.copytree(first.uri, target, copy_function=os.link)
    for part in ("data", "_deletions", "_indices"):
        if Path(second.uri, part).is_dir():
            for source in Path(second.uri, part).rglob("*"):
                place = target / source.relative_to(second.uri)
                if source.is_file() and not place.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.link(source, place)
    return str(target)


def by_pylance(uri: str, operation: LanceOperation.BaseOperation, uuid: str) -> str:
    try:
        lance.LanceDataset.commit(uri, lance.Transaction(BASE, operation, uuid))
    except CommitConflictError as error:
        return "R" if "Retryable" in str(error) else "I"
    except OSError as error:
        return "R" if "preempted" in str(error) else "I" if "incompatible" in str(error) else f"error: {error}"[:150]
    return "."


def by_us(uri: str, operation: ops.Operation, uuid: str) -> str:
    try:
        commit(open_store(uri), operation, read_version=BASE, uuid=uuid)
    except RetryableCommitConflict as error:
        assert error.version == BASE + 1
        return "R"
    except CommitConflict:
        return "I"
    return "."


ROWS = [name for name in MAKERS if name not in NOT_BY_HAND]


@pytest.mark.parametrize("ours", ROWS)
@pytest.mark.spread(0.6, each=False)
def test_outcome(made: dict[str, Made], made_by_us: dict[str, Made], tmp_path: Path, ours: str) -> None:
    odd = ROWS.index(ours) % 2
    check_row(made, made_by_us, tmp_path, ours, odd)


@pytest.mark.soak
@pytest.mark.parametrize("ours", ROWS)
def test_outcome_the_other_way_round(
    made: dict[str, Made], made_by_us: dict[str, Made], tmp_path: Path, ours: str
) -> None:
    """The first writers of :func:`test_outcome` exchanged."""
    check_row(made, made_by_us, tmp_path, ours, 1 - ROWS.index(ours) % 2)


def check_row(made: dict[str, Made], made_by_us: dict[str, Made], tmp_path: Path, ours: str, odd: int) -> None:
    wrong = []
    for number, theirs in enumerate(MAKERS):
        uuid = f"00000000-0000-4000-8000-{number:012}"
        start = (made, made_by_us)[(number + odd) % 2][theirs]
        first = joined(start, made[ours], tmp_path / f"{number}-a")
        second = joined(start, made[ours], tmp_path / f"{number}-b")
        expected = by_pylance(first, made[ours].theirs, uuid)
        outcome = by_us(second, made[ours].ours, uuid)
        if outcome != expected:
            wrong.append(f"{ours} after {theirs}: {outcome}, pylance {expected}")
        elif outcome == "." and (ours, theirs) not in FORGETFUL:
            apart = differences(open_snapshot(second).manifest, open_snapshot(first).manifest)
            if apart:
                wrong.append(f"{ours} after {theirs}: {apart[:6]}")
        shutil.rmtree(first)
        shutil.rmtree(second)
    assert wrong == []


def test_the_matrix_is_whole() -> None:
    assert list(_MATRIX) == list(_COLUMNS)
    for ours, row in _MATRIX.items():
        assert list(row) == list(_COLUMNS), ours
        for cell in row.values():
            assert all(rule in _RULES or rule in (".", "R", "I") for rule in cell.split("+")), (ours, cell)


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """One fragment of 20 rows and one of 10."""
    uri = str(tmp_path / "rows")
    lance.write_dataset(table(0, 30), uri, max_rows_per_file=20)
    return uri


def keys(uri: str) -> list[int]:
    found = lancelet.dataset(uri).to_table(columns=["k"])["k"].to_pylist()
    assert found == lance.dataset(uri).to_table(columns=["k"])["k"].to_pylist()
    lance.dataset(uri).validate()
    return found


def test_deletions_are_joined_by_row(rows: str) -> None:
    before = open_snapshot(rows)
    for row in (3, 11, 4, 0):
        deletion = delete_rows(before, {0: [row]}, predicate=f"k = {row}")
        after = commit(before, deletion.operation, affected_rows=deletion.affected_rows)
    transaction = after.manifest.transaction
    assert transaction is not None
    assert transaction.read_version == 4
    fragment = after.manifest.fragments[0]
    assert fragment.deletion_file is not None
    assert fragment.deletion_file.is_bitmap
    assert fragment.deletion_file.read_version == 4
    assert fragment.num_deletions == 4
    assert keys(rows) == [key for key in range(30) if key not in (0, 3, 4, 11)]
    assert lance.dataset(rows).read_transaction(5).operation.predicate == "k = 0"


def test_joined_deletions_may_empty_a_fragment(rows: str) -> None:
    before = open_snapshot(rows)
    first = delete_rows(before, {1: range(9)})
    second = delete_rows(before, {0: [1], 1: [9]})
    commit(before, first.operation, affected_rows=first.affected_rows)
    after = commit(before, second.operation, affected_rows=second.affected_rows)
    assert [fragment.id for fragment in after.manifest.fragments] == [0]
    assert keys(rows) == [0, *range(2, 20)]


def test_one_row_cannot_be_deleted_twice(rows: str) -> None:
    before = open_snapshot(rows)
    first, second = (delete_rows(before, {0: chosen}) for chosen in ([1, 2], [2, 3]))
    commit(before, first.operation, affected_rows=first.affected_rows)
    with pytest.raises(RetryableCommitConflict, match="Please retry"):
        commit(before, second.operation, affected_rows=second.affected_rows)
    again = delete_rows(before.latest(), {0: [2, 3]})
    assert again.num_rows == 1
    commit(before.latest(), again.operation, affected_rows=again.affected_rows)
    assert keys(rows) == [0, *range(4, 30)]


def test_without_the_rows_a_deletion_is_not_joined(rows: str) -> None:
    before = open_snapshot(rows)
    first, second = (delete_rows(before, {0: chosen}) for chosen in ([1], [2]))
    commit(before, first.operation, affected_rows=first.affected_rows)
    with pytest.raises(RetryableCommitConflict):
        commit(before, second.operation)


def test_deletions_beside_pylance(rows: str) -> None:
    stale, before = lance.dataset(rows), open_snapshot(rows)
    ours = delete_rows(before, {0: [5]})
    lance.dataset(rows).delete("k = 6")
    commit(before, ours.operation, affected_rows=ours.affected_rows)
    stale.delete("k = 7")
    lance.dataset(rows).update({"s": "'new'"}, where="k = 8")
    before = open_snapshot(rows)
    ours = delete_rows(before, {0: [9]})
    lance.dataset(rows).update({"s": "'new'"}, where="k = 10")
    commit(before, ours.operation, affected_rows=ours.affected_rows)
    gone = {5, 6, 7, 9}
    assert sorted(keys(rows)) == [key for key in range(30) if key not in gone]


def test_deleting_what_is_gone(rows: str) -> None:
    snapshot = open_snapshot(rows)
    deletion = delete_rows(snapshot, {0: [1, 1, 2]})
    snapshot = commit(snapshot, deletion.operation, affected_rows=deletion.affected_rows)
    nothing = delete_rows(snapshot, {0: [1], 1: []})
    assert nothing.operation == ops.Delete((), (), "")
    assert commit(snapshot, nothing.operation).version == 3
    assert keys(rows) == [0, *range(3, 30)]


KEYED = pa.schema(
    [pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}), ("s", pa.string())]
)
SHARDS = [str(UUID(int=number)) for number in (7, 9)]


def keyed(keys: Iterable[int]) -> pa.Table:
    chosen = list(keys)
    return pa.table({"k": chosen, "s": [f"text {k % 7}" for k in chosen]}, schema=KEYED)


def merged(*keys: int, shard: int | None = None, generation: int = 0) -> Callable[[lance.LanceDataset], object]:
    """An upsert by primary key, whose transaction has a filter of the keys that it inserts."""

    def act(dataset: lance.LanceDataset) -> None:
        builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().conflict_retries(0)
        if shard is not None:
            builder.mark_sstables_as_compacted([lance.CompactedSsTable(SHARDS[shard], generation)])
        builder.execute(keyed(keys))

    return act


def based(name: str, path: str, number: int = 0) -> Callable[[lance.LanceDataset], object]:
    return lambda d: d.add_bases([lance.DatasetBasePath(path, name, False, number)])


def compacted(dataset: lance.LanceDataset) -> None:
    """Reserves fragment ids in a commit of its own, since an index has to be rewritten."""
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 1000})
    Compaction.commit(dataset, [task.execute(dataset) for task in plan.tasks])


# Calls on a dataset that does not know of the newest version. They try once, and know which rows they touch.
CALLS: dict[str, Callable[[lance.LanceDataset], object]] = {
    "append": lambda d: lance.write_dataset(keyed([90]), d, mode="append"),
    "delete-3": lambda d: d.delete("k = 3", conflict_retries=0),
    "delete-4": lambda d: d.delete("k = 4", conflict_retries=0),
    "delete-most": lambda d: d.delete("k > 4 and k < 20", conflict_retries=0),
    "remove-1": lambda d: d.delete("k >= 20", conflict_retries=0),
    "update-5": lambda d: d.update({"s": "'n'"}, where="k = 5", conflict_retries=0),
    "update-25": lambda d: d.update({"s": "'n'"}, where="k = 25", conflict_retries=0),
    "merge-500": merged(500),
    "merge-500-501": merged(500, 501),
    "merge-502-503": merged(502, 503),
    "merge-5": merged(5),
    "merge-5-504": merged(5, 504),
    "shard-0-1": merged(6, shard=0, generation=1),
    "shard-0-1-again": merged(27, shard=0, generation=1),
    "shard-0-2": merged(26, shard=0, generation=2),
    "shard-1-1": merged(7, shard=1, generation=1),
    "index": lambda d: d.create_scalar_index("k", "BTREE"),
    "drop-column": lambda d: d.drop_columns(["s"]),
    "rename": lambda d: d.alter_columns({"path": "s", "name": "t"}),
    "config": lambda d: d.update_config({"a": "2"}),
    "base-x": based("x", "/elsewhere/x"),
    "base-x-again": based("x", "/elsewhere/y"),
    "base-path-again": based("z", "/elsewhere/x"),
    "base-number": based("n", "/elsewhere/n", 5),
    "base-number-again": based("m", "/elsewhere/m", 5),
    "compaction": compacted,
}
# Operations that pylance makes only on its own; here we make them.
STATES = {
    "state-0-1": ops.UpdateMemWalState((ops.CompactedSsTable(UUID(SHARDS[0]), 1),)),
    "state-0-2": ops.UpdateMemWalState((ops.CompactedSsTable(UUID(SHARDS[0]), 2),)),
    "state-1-1": ops.UpdateMemWalState((ops.CompactedSsTable(UUID(SHARDS[1]), 1),)),
}


@dataclass(frozen=True)
class Called:
    """What the first commit of a call did to the base table."""

    uri: str
    ours: ops.Operation
    affected: dict[int, np.ndarray]


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Called]:
    folder = tmp_path_factory.mktemp("called")
    base = str(folder / "base")
    lance.write_dataset(keyed(range(40)), base, max_rows_per_file=20)
    lance.dataset(base).initialize_mem_wal(unsharded=True)
    lance.dataset(base).create_scalar_index("s", "BTREE")
    assert lance.dataset(base).version == BASE
    found = {}
    for name in (*CALLS, *STATES):
        uri = shutil.copytree(base, folder / name)
        if name in CALLS:
            CALLS[name](lance.dataset(str(uri)))
        else:
            commit(open_snapshot(uri), STATES[name])
        later = ManifestName(BASE + 2, NamingScheme.V2).path
        if Path(uri, later).exists():
            # What follows the first commit of a call is not looked at.
            Path(uri, later).unlink()
            Path(uri, "_versions/latest_version_hint.json").unlink()
        snapshot = open_snapshot(uri)
        message = snapshot.manifest.transaction
        assert message is not None
        transaction = transaction_from_proto(message, name)
        assert transaction is not None
        found[name] = Called(str(uri), transaction.operation, affected_rows(snapshot, transaction.operation))
    return found


def test_the_calls_make_what_they_are_named_for(called: dict[str, Called]) -> None:
    assert isinstance(called["compaction"].ours, ops.ReserveFragments)
    assert isinstance(called["base-x"].ours, ops.UpdateBases)
    assert isinstance(called["state-0-1"].ours, ops.UpdateMemWalState)
    for name in ("merge-500", "merge-5-504"):
        assert called[name].ours.inserted_keys is not None
    assert called["shard-0-1"].ours.compacted_sstables
    assert list(called["merge-5-504"].affected) == [0]


def affected_rows(snapshot: Snapshot, operation: ops.Operation) -> dict[int, np.ndarray]:
    """Rows that a Delete or Update took away; there were no deletions before."""
    fragments = operation.updated_fragments if isinstance(operation, (ops.Delete, ops.Update)) else ()
    return {fragment.id: read_deletions(snapshot.places, fragment).offsets for fragment in fragments}


def call_of_pylance(uri: str, name: str) -> str:
    """The verdict on the first commit of a call."""
    try:
        CALLS[name](lance.dataset(uri, version=BASE))
    except (CommitConflictError, OSError, ValueError) as error:
        if lance.dataset(uri).version > BASE + 1:
            return "."
        retry = ("Retryable", "preempted", "Too many concurrent writers")
        return "R" if any(text in str(error) for text in retry) else "I"
    return "."


@pytest.mark.parametrize("ours", CALLS)
@pytest.mark.spread(0.6, each=False)
def test_outcome_of_calls(called: dict[str, Called], tmp_path: Path, ours: str) -> None:
    """Also by row, by inserted key, by shard of the write-ahead log."""
    wrong = []
    for number, theirs in enumerate(called):
        first = joined(called[theirs], called[ours], tmp_path / f"{number}-a")
        second = joined(called[theirs], called[ours], tmp_path / f"{number}-b")
        expected = call_of_pylance(first, ours)
        try:
            commit(
                open_store(second), called[ours].ours, read_version=BASE, affected_rows=called[ours].affected or None
            )
            outcome = "."
        except RetryableCommitConflict:
            outcome = "R"
        except (CommitConflict, InvalidInput):
            outcome = "I"
        if outcome != expected:
            wrong.append(f"{ours} after {theirs}: {outcome}, pylance {expected}")
        elif outcome == "." and lance.dataset(first).version == BASE + 2:
            found, judge = (sorted(lance.dataset(uri).to_table()["k"].to_pylist()) for uri in (second, first))
            if found != judge:
                wrong.append(f"{ours} after {theirs}: {found} instead of {judge}")
        shutil.rmtree(first)
        shutil.rmtree(second)
    assert wrong == []
