"""Base paths: where files go and are found, tiers and regions, tables that move, blobs by reference."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.blob import Blob, blob_array, blob_field

import lancelet
from conftest import Bucket
from drawing import examples
from lancelet import DatasetBasePath
from lancelet.errors import (
    CommitConflict,
    InvalidBase,
    InvalidInput,
    InvalidOption,
    LanceletError,
    MissingFile,
    RetryableCommitConflict,
    UnfitData,
)
from lancelet.fragment import write_fragments
from lancelet.writing import blobs as writing_blobs

BOTH = [pytest.param(lancelet, lance, id="ours first"), pytest.param(lance, lancelet, id="pylance first")]


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"x": pa.array(range(start, start + count), pa.int64())})


def values(dataset: Any) -> list[int]:
    return sorted(dataset.to_table()["x"].to_pylist())


def files_below(place: str | Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in Path(place).rglob("*") if path.is_file())


def homes(dataset: Any) -> list[int | None]:
    """The base of each fragment's file."""
    return [file.base_id for fragment in dataset.get_fragments() for file in fragment.metadata.files]


def shown(dataset: Any) -> list[tuple[Any, ...]]:
    return sorted((b.id, b.name, b.path, b.is_dataset_root) for b in dataset.base_paths().values())


def three(place: Path, library: Any = lance) -> list[Any]:
    """A folder, a table's root, and a folder without a name."""
    base = library.DatasetBasePath
    return [
        base(str(place / "one"), "one"),
        base(str(place / "two"), "two", is_dataset_root=True),
        base(str(place / "three")),
    ]


# Where files go


def test_a_base_path_is_made_as_in_pylance() -> None:
    for library in (lance, lancelet):
        base = library.DatasetBasePath("/x", "n", True, 5)
        assert (base.path, base.name, base.is_dataset_root, base.id) == ("/x", "n", True, 5)
        base = library.DatasetBasePath("/x")
        assert (base.name, base.is_dataset_root, base.id) == (None, False, 0)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_files_go_where_pylance_puts_them(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("bases")
    names = ["one", "two", str(folder / "three")]
    ids = data.draw(
        st.lists(st.sampled_from([0, 4, 9]), min_size=3, max_size=3).filter(
            lambda n: len({*n} - {0}) == len([i for i in n if i])
        )
    )
    writes = data.draw(
        st.lists(
            st.one_of(
                st.fixed_dictionaries({"target_bases": st.lists(st.sampled_from(names), max_size=4)}),
                st.fixed_dictionaries({"target_all_bases": st.sampled_from([True, False, None])}),
            ),
            min_size=1,
            max_size=3,
        )
    )
    sizes = data.draw(st.lists(st.integers(0, 12), min_size=len(writes), max_size=len(writes)))
    mode = data.draw(st.sampled_from(["append", "overwrite"]))
    made = []
    for library in (lancelet, lance):
        bases = [
            library.DatasetBasePath(b.path, b.name, b.is_dataset_root, i)
            for b, i in zip(three(folder), ids, strict=True)
        ]
        place = str(folder / library.__name__)
        for number, (options, size) in enumerate(zip(writes, sizes, strict=True)):
            new = {"initial_bases": bases, "mode": "create"} if number == 0 else {"mode": mode}
            library.write_dataset(rows(number * 100, size), place, max_rows_per_file=2, **options, **new)
        made.append(lance.dataset(place))
    assert homes(made[0]) == homes(made[1])
    assert shown(made[0]) == shown(made[1])
    for dataset in made:
        assert values(lancelet.dataset(dataset.uri)) == values(made[0])
        assert values(dataset) == values(made[0])


@pytest.mark.parametrize(("first", "second"), BOTH)
def test_tables_with_bases_are_continued(tmp_path: Path, first: Any, second: Any) -> None:
    place = str(tmp_path / "t")
    first.write_dataset(rows(0, 10), place, initial_bases=three(tmp_path, first), target_bases=["one"])
    second.write_dataset(rows(10, 10), place, mode="append", target_bases=["two"])
    first.write_dataset(rows(20, 10), first.dataset(place), mode="append", target_bases=[str(tmp_path / "three")])
    second.write_dataset(rows(30, 10), second.dataset(place), mode="append")
    first.dataset(place).insert(rows(40, 10), target_bases=["two", "one"], max_rows_per_file=5)
    first.dataset(place).delete("x % 10 = 3")
    second.dataset(place).delete("x % 10 = 4")
    lance.dataset(place).update({"x": "x + 1000"}, where="x % 10 = 5")
    lance.dataset(place).create_scalar_index("x", "BTREE")
    expected = sorted(x + 1000 if x % 10 == 5 else x for x in range(50) if x % 10 not in (3, 4))
    for library in (first, second):
        dataset = library.dataset(place)
        assert values(dataset) == expected
        dataset.validate()
        assert homes(dataset)[:6] == [1, 2, 3, None, 2, 1]
        assert dataset.take([0, 9, 17]).equals(dataset.to_table().take([0, 9, 17]).combine_chunks())
    assert {path.partition("/")[0] for path in files_below(tmp_path)} == {"t", "one", "two", "three"}
    assert [path.partition("/")[0] for path in files_below(tmp_path / "two")] == ["data"] * 2
    assert not any("_deletions" in path for name in ("one", "two", "three") for path in files_below(tmp_path / name))
    lance.dataset(place).optimize.compact_files()
    assert values(lancelet.dataset(place)) == expected


def test_fragments_are_written_into_bases(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    lancelet.write_dataset(rows(0, 4), place, initial_bases=three(tmp_path, lancelet))
    written = write_fragments(rows(4, 4), place, target_bases=["two", "one"], max_rows_per_file=2)
    assert [fragment.files[0].base_id for fragment in written] == [2, 1]
    done = lancelet.LanceDataset.commit(place, lancelet.LanceOperation.Append(written), read_version=1)
    assert values(done) == values(lance.dataset(place)) == list(range(8))
    made = write_fragments(
        rows(0, 4), tmp_path / "new", mode="create", initial_bases=three(tmp_path, lancelet), target_bases=["two"],
        return_transaction=True,
    )  # fmt: skip
    assert values(lancelet.LanceDataset.commit(tmp_path / "new", made)) == values(lance.dataset(str(tmp_path / "new")))


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = DatasetBasePath("near", "n")
    lancelet.write_dataset(rows(0, 3), "t", initial_bases=[base], target_bases=["near"])
    lancelet.dataset("t").add_bases([DatasetBasePath("far/away/../off")])
    lancelet.write_dataset(rows(3, 3), "t", mode="append", target_bases=[f"file://{tmp_path}/far/off/"])
    monkeypatch.chdir("/")
    dataset = lancelet.dataset(tmp_path / "t")
    assert shown(dataset) == [(1, "n", str(tmp_path / "near"), False), (2, None, str(tmp_path / "far/off"), False)]
    assert values(dataset) == values(lance.dataset(str(tmp_path / "t"))) == list(range(6))
    assert len(files_below(tmp_path / "far/off")) == 1


REFUSED: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "unknown": ({"target_bases": ["four"]}, OSError),
    "unknown among known": ({"target_bases": ["one", "four"]}, OSError),
    "two ways": ({"target_bases": ["one"], "target_all_bases": True}, OSError),
    "no list": ({"target_bases": "one"}, TypeError),
    "initial": ({"initial_bases": [("/elsewhere", "new")]}, OSError),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_bases_that_make_no_sense(tmp_path: Path, case: str, mode: str) -> None:
    place = str(tmp_path / "t")
    lance.write_dataset(rows(0, 4), place, initial_bases=three(tmp_path))
    before = files_below(tmp_path)
    arguments, kind = REFUSED[case]
    for library in (lance, lancelet):
        options = dict(arguments)
        if "initial_bases" in options:
            options["initial_bases"] = [library.DatasetBasePath(*base) for base in options["initial_bases"]]
        if case == "no list" and library is lance:
            continue
        with pytest.raises(kind) as caught:
            library.write_dataset(rows(4, 4), place, mode=mode, **options)
    assert isinstance(caught.value, LanceletError)
    assert files_below(tmp_path) == before


def test_new_tables_with_bases_that_make_no_sense(tmp_path: Path) -> None:
    def write(*bases: DatasetBasePath, **options: Any) -> None:
        lancelet.write_dataset(rows(0, 4), tmp_path / "t", initial_bases=bases, **options)

    here = str(tmp_path / "b")
    for wrong, options in (
        ([DatasetBasePath(here, id=7), DatasetBasePath(f"{here}2", id=7)], {}),
        ([DatasetBasePath("")], {}),
        ([DatasetBasePath(here, id=-1)], {}),
        ([DatasetBasePath(here, id=2**32)], {}),
        ([], {"target_all_bases": False}),
        ([DatasetBasePath(here)], {"target_bases": ["b"]}),
    ):
        with pytest.raises(InvalidBase):
            write(*wrong, **options)
    with pytest.raises(InvalidInput, match="scheme"):
        write(DatasetBasePath("nosuch://x"), target_all_bases=False)
    assert files_below(tmp_path) == []
    write(DatasetBasePath(here), target_all_bases=True, mode="append")
    assert shown(lance.dataset(str(tmp_path / "t"))) == [(1, None, here, False)]


def test_a_failed_write_leaves_no_files_in_any_base(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    lancelet.write_dataset(rows(0, 4), place, initial_bases=three(tmp_path, lancelet))
    before = files_below(tmp_path)

    def batches() -> Any:
        yield from rows(0, 9).to_batches()
        raise RuntimeError("no more")

    schema = rows(0, 0).schema
    for mode in ("append", "overwrite"):
        with pytest.raises(RuntimeError):
            lancelet.write_dataset(batches(), place, schema, mode, target_all_bases=True, max_rows_per_file=2)
    assert not (tmp_path / "three").exists(), "folders that a failed write made go with it"
    (tmp_path / "three").write_text("no folder")
    with pytest.raises(LanceletError):
        lancelet.write_dataset(rows(0, 9), place, mode="append", target_all_bases=True, max_rows_per_file=2)
    assert files_below(tmp_path) == [*before, "three"]


# Adding and moving


@pytest.mark.parametrize(("first", "second"), BOTH)
def test_bases_are_added(tmp_path: Path, first: Any, second: Any) -> None:
    place = str(tmp_path / "t")
    dataset = second.write_dataset(rows(0, 4), place)
    dataset = first.dataset(place)
    new = [first.DatasetBasePath(str(tmp_path / "a"), "a"), first.DatasetBasePath(str(tmp_path / "b"), "b", True, 9)]
    assert dataset.add_bases(new, {"who": "me"}) is dataset
    assert dataset.version == 2
    assert second.dataset(place).get_transactions(1)[0].transaction_properties == {"who": "me"}
    second.dataset(place).add_bases([second.DatasetBasePath(str(tmp_path / "c"), "c")])
    expected = [
        (1, "a", str(tmp_path / "a"), False),
        (2, "c", str(tmp_path / "c"), False),
        (9, "b", str(tmp_path / "b"), True),
    ]
    before = files_below(tmp_path)
    for library in (lancelet, lance):
        base = library.DatasetBasePath
        assert shown(library.dataset(place)) == expected
        for taken in (base(str(tmp_path / "a"), "z"), base(str(tmp_path / "z"), "a")):
            with pytest.raises(ValueError):
                library.dataset(place).add_bases([taken])
    with pytest.raises(InvalidBase, match="already"):
        # pylance lets the new one take the place of the old one, whose files are lost.
        lancelet.dataset(place).add_bases([DatasetBasePath(str(tmp_path / "z"), "z", id=9)])
    assert [path for path in files_below(tmp_path) if path not in before and "_transactions" not in path] == []
    first.write_dataset(rows(4, 4), place, mode="append", target_bases=["c"])
    assert values(second.dataset(place)) == list(range(8))


def test_writers_that_add_bases_at_once(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    lancelet.write_dataset(rows(0, 4), place)
    mine, yours, same = (lancelet.dataset(place) for _ in range(3))
    mine.add_bases([DatasetBasePath(str(tmp_path / "a"), "a")])
    lancelet.write_dataset(rows(4, 4), yours, mode="append")
    with pytest.raises((CommitConflict, InvalidBase)):
        same.add_bases([DatasetBasePath(str(tmp_path / "b"), "a")])
    assert values(lance.dataset(place)) == list(range(8))


@pytest.mark.parametrize("reference", ["near", 1, "path"])
def test_a_base_is_moved_by_a_manifest_alone(tmp_path: Path, reference: str | int) -> None:
    place, old, new = str(tmp_path / "t"), tmp_path / "old", tmp_path / "new" / "place"
    lance.write_dataset(
        rows(0, 10), place, initial_bases=[lance.DatasetBasePath(str(old), "near", True)], target_bases=["near"],
        max_rows_per_file=4,
    )  # fmt: skip
    lance.write_dataset(rows(10, 5), place, mode="append").delete("x = 1")
    before = files_below(place)
    dataset = lancelet.dataset(place)
    base = str(old) if reference == "path" else reference
    with pytest.raises(MissingFile, match="new/place/data"):
        dataset.move_base(base, str(new))
    shutil.copytree(old, new)
    short = min(new.rglob("*.lance"))
    content = short.read_bytes()
    short.write_bytes(content[:-1])
    with pytest.raises(InvalidBase, match="bytes"):
        dataset.move_base(base, str(new))
    short.write_bytes(content)
    assert files_below(place) == before
    assert dataset.move_base(base, str(new), transaction_properties={"why": "space"}) is dataset
    written = sorted({path.partition("/")[0] for path in set(files_below(place)) - set(before)})
    assert written == ["_transactions", "_versions"]
    shutil.rmtree(old)
    expected = [0, *range(2, 15)]
    for library in (lance, lancelet):
        assert values(library.dataset(place)) == expected
        assert shown(library.dataset(place)) == [(1, "near", str(new), True)]
        library.dataset(place).validate()
    with pytest.raises(FileNotFoundError):
        lancelet.dataset(place, version=1).to_table()
    lance.write_dataset(rows(20, 2), place, mode="append", target_bases=["near"])
    assert values(lancelet.dataset(place)) == [*expected, 20, 21]
    with pytest.raises(InvalidBase, match="id 5"):
        dataset.move_base(5, str(old))
    with pytest.raises(InvalidBase, match="nothing"):
        dataset.move_base("nothing", str(old))


def test_a_move_and_a_write_into_the_base_exclude_each_other(tmp_path: Path) -> None:
    """The file would be at the old place, and be looked for at the new one."""
    place, old, new = str(tmp_path / "t"), tmp_path / "old", tmp_path / "new"
    bases = [DatasetBasePath(str(old), "b"), DatasetBasePath(str(tmp_path / "other"), "o")]
    lancelet.write_dataset(rows(0, 4), place, initial_bases=bases, target_bases=["b"])
    shutil.copytree(old, new)
    mover, writer, other = (lancelet.dataset(place) for _ in range(3))
    lancelet.write_dataset(rows(4, 4), place, mode="append", target_bases=["b"])
    with pytest.raises(RetryableCommitConflict):
        mover.move_base("b", str(new))
    lancelet.write_dataset(rows(8, 2), writer, mode="append", target_bases=["o"])
    shutil.copytree(old, new, dirs_exist_ok=True)
    fragments = write_fragments(rows(20, 2), place, target_bases=["b"])
    version = lancelet.dataset(place).move_base("b", str(new)).version
    with pytest.raises(RetryableCommitConflict):
        lancelet.LanceDataset.commit(place, lancelet.LanceOperation.Append(fragments), read_version=version - 1)
    lancelet.write_dataset(rows(10, 2), other, mode="append", target_bases=["o"])
    lancelet.dataset(place).delete("x = 0")
    shutil.rmtree(old)
    for library in (lance, lancelet):
        assert values(library.dataset(place)) == list(range(1, 12))


def test_a_copied_table_keeps_its_bases_until_they_are_moved(tmp_path: Path) -> None:
    """The second way of the storage layout to port a table with several base paths."""
    home, away = tmp_path / "home", tmp_path / "away"
    place = str(home / "t")
    dataset = lancelet.write_dataset(
        rows(0, 9), place, initial_bases=three(home, lancelet), target_all_bases=True, max_rows_per_file=2
    )
    dataset.create_branch("dev")
    shutil.copytree(home, away)
    for library in (lance, lancelet):
        assert values(library.dataset(str(away / "t"))) == list(range(9))
    moved = lancelet.dataset(away / "t")
    for base in list(moved.base_paths().values()):
        moved.move_base(base.id, base.path.replace("home", "away"))
    branch = moved.checkout_version(("dev", None))
    for base in list(branch.base_paths().values()):
        branch.move_base(base.id, base.path.replace("home", "away"))
    shutil.rmtree(home)
    for library in (lance, lancelet):
        assert values(library.dataset(str(away / "t"))) == list(range(9))
        assert values(library.dataset(str(away / "t")).checkout_version(("dev", None))) == list(range(9))


# Layouts of the specification


@pytest.mark.parametrize(("first", "second"), BOTH)
def test_hot_and_cold(tmp_path: Path, first: Any, second: Any) -> None:
    """Recent rows next to the table, old ones in an archive, one of them under the base id 0."""
    hot, cold, frozen = (str(tmp_path / name) for name in ("hot", "cold", "frozen"))
    first.write_dataset(rows(0, 10), frozen)
    first.dataset(frozen).shallow_clone(hot, 1)
    second.dataset(hot).add_bases([second.DatasetBasePath(cold, "cold", True)])
    first.write_dataset(rows(10, 10), hot, mode="append", target_bases=["cold"])
    second.write_dataset(rows(20, 10), hot, mode="append")
    for library in (first, second):
        dataset = library.dataset(hot)
        assert homes(dataset) == [0, 1, None]
        assert values(dataset) == list(range(30))
        assert dataset.to_table(filter="x >= 8 and x < 22")["x"].to_pylist() == list(range(8, 22))
    first.dataset(hot).delete("x % 2 = 1")
    assert values(second.dataset(hot)) == list(range(0, 30, 2))
    assert len(files_below(frozen)) == len(files_below(cold)) + 3 == 4


def test_regions(bucket: Bucket) -> None:
    """Three roots, one for each region, in places that the table is not in."""
    options = bucket.options
    place = f"{bucket.uri}/table"
    regions = [DatasetBasePath(f"{bucket.uri}/{name}/dataset", name, True) for name in ("us", "eu", "ap")]
    for number, region in enumerate(regions):
        lancelet.write_dataset(
            rows(number * 10, 10), place, mode="append" if number else "create", storage_options=options,
            target_bases=[str(region.name)], **({} if number else {"initial_bases": regions}),
        )  # fmt: skip
    ours = lancelet.dataset(place, storage_options=options)
    theirs = lance.dataset(place, storage_options=options)
    assert homes(ours) == homes(theirs) == [1, 2, 3]
    assert values(ours) == values(theirs) == list(range(30))
    lance.write_dataset(rows(30, 10), theirs, mode="append", target_bases=["eu"], storage_options=options)
    assert values(lancelet.dataset(place, storage_options=options)) == list(range(40))


@pytest.mark.parametrize("way", ["params", "scoped"])
def test_a_base_on_another_store(tmp_path: Path, bucket: Bucket, way: str) -> None:
    """A table on the local disk, whose base path needs options that the table's own store does not have."""
    place, there = str(tmp_path / "t"), f"{bucket.uri}/base"
    scoped = {f"base_1.{key}": value for key, value in bucket.options.items()}
    extra = {"base_store_params": {there: bucket.options}} if way == "params" else {"storage_options": scoped}
    wrong = {"storage_options": {**bucket.options, "aws_endpoint": "http://127.0.0.1:1", "client_max_retries": "0"}}
    base = [DatasetBasePath(there, "far")]
    dataset = lancelet.write_dataset(rows(0, 5), place, initial_bases=base, target_bases=["far"], **extra)
    assert values(dataset) == list(range(5))
    if way == "params":
        assert values(lance.dataset(place, base_store_params={there: bucket.options})) == list(range(5))
    both = {**wrong, **extra, "storage_options": {**wrong["storage_options"], **extra.get("storage_options", {})}}
    again = lancelet.dataset(place, **both)
    assert values(again) == list(range(5))
    assert values(pickle.loads(pickle.dumps(again))) == list(range(5))
    with pytest.raises(LanceletError):
        lancelet.dataset(place, **wrong).to_table()
    again.insert(rows(5, 5), target_bases=["far"])
    again.delete("x = 0")
    if way == "params":
        lancelet.write_dataset(rows(10, 2), lancelet.dataset(place), mode="append", target_bases=["far"], **extra)
    else:
        again.insert(rows(10, 2), target_bases=["far"])
    assert values(lancelet.dataset(place, **extra)) == list(range(1, 12))


# Blobs by reference


def blob_table(*given: Any) -> pa.Table:
    schema = pa.schema([pa.field("x", pa.int64()), blob_field("b")])
    return pa.table([pa.array(range(len(given)), pa.int64()), blob_array(list(given))], schema=schema)


def contents(dataset: Any) -> list[bytes | None]:
    count = dataset.count_rows()
    return [None if blob is None else blob.readall() for blob in dataset.take_blobs("b", indices=range(count))]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "out side"
    (folder / "in" / "deep").mkdir(parents=True)
    (folder / "in" / "a").write_bytes(b"hello")
    (folder / "in" / "deep" / "b").write_bytes(bytes(range(256)) * 300)
    (folder / "c").write_bytes(b"far away")
    return folder


def test_references_are_those_of_pylance(tmp_path: Path, outside: Path) -> None:
    uri = {name: (outside / name).as_uri() for name in ("in/a", "in/deep/b", "c")}
    table = blob_table(
        uri["in/a"], b"own", None, str(outside / "in/deep/b"), Blob.from_uri(uri["in/deep/b"], 100, 50), uri["c"], b""
    )
    expected = [b"hello", b"own", None, bytes(range(256)) * 300, bytes(range(100, 150)), b"far away", b""]
    made = []
    for library in (lancelet, lance):
        base = library.DatasetBasePath
        bases = [
            base(str(outside / "in" / "deep"), "root", True),
            base(str(outside / "in"), "in"),
            base(str(tmp_path / "no"), "no"),
        ]
        place = str(tmp_path / library.__name__)
        with pytest.raises(OSError, match="outside"):
            library.write_dataset(table, place, initial_bases=bases)
        library.write_dataset(table, place, initial_bases=bases, allow_external_blob_outside_bases=True)
        library.write_dataset(table.slice(0, 5), place, mode="append")
        for reader in (lancelet, lance):
            assert contents(reader.dataset(place)) == [*expected, *expected[:5]]
        stored = lance.dataset(place).to_table(["b"])["b"].to_pylist()
        made.append([None if b is None else (b["kind"] == 3, b["blob_id"], b["blob_uri"]) for b in stored])
    # pylance puts large blobs into files of their own, and numbers those in the same field.
    assert made[0] == made[1]
    assert made[0][0] == (True, 2, "a")
    assert made[0][5] == (True, 0, uri["c"])


@pytest.mark.parametrize("where", ["in/../c", "in/", "in", "inner/x"])
def test_references_that_only_seem_to_be_inside(tmp_path: Path, outside: Path, where: str) -> None:
    bases = [DatasetBasePath(str(outside / "in"), "in")]
    before = files_below(tmp_path)
    with pytest.raises(UnfitData, match="outside"):
        lancelet.write_dataset(blob_table(f"{outside.as_uri()}/{where}"), tmp_path / "t", initial_bases=bases)
    assert files_below(tmp_path) == before


def test_a_move_takes_the_files_of_blobs_along(tmp_path: Path) -> None:
    """They lie beside the data files, and no manifest names them."""
    place, old, new = str(tmp_path / "t"), tmp_path / "old", tmp_path / "new"
    large = b"large" * 100_000
    bases = [lance.DatasetBasePath(str(old), "b")]
    lance.write_dataset(blob_table(large, b"small"), place, initial_bases=bases, target_bases=["b"])
    shutil.copytree(old, new)
    (blob,) = new.rglob("*.blob")
    content = blob.read_bytes()
    blob.unlink()
    with pytest.raises(MissingFile, match=r"\.blob"):
        lancelet.dataset(place).move_base("b", str(new))
    blob.write_bytes(content)
    lancelet.dataset(place).move_base("b", str(new))
    shutil.rmtree(old)
    for library in (lance, lancelet):
        assert contents(library.dataset(place)) == [large, b"small"]


def test_references_follow_a_base_that_moves(tmp_path: Path, outside: Path) -> None:
    bases = [DatasetBasePath(str(outside / "in"), "in")]
    dataset = lancelet.write_dataset(blob_table((outside / "in" / "a").as_uri()), tmp_path / "t", initial_bases=bases)
    (outside / "in").rename(tmp_path / "elsewhere")
    dataset.move_base("in", str(tmp_path / "elsewhere"))
    for library in (lance, lancelet):
        assert contents(library.dataset(str(tmp_path / "t"))) == [b"hello"]


def test_references_are_read_and_stored(tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = (outside / "in" / "deep" / "b").as_uri()
    table = blob_table(
        (outside / "in" / "a").as_uri(), b"own", None, big, Blob.from_uri(big, 100, 50), str(outside / "c"), b""
    )
    expected = [b"hello", b"own", None, bytes(range(256)) * 300, bytes(range(100, 150)), b"far away", b""]
    for number, step in enumerate((64 << 20, 1)):
        monkeypatch.setattr(writing_blobs, "_STEP_BYTES", step)
        lancelet.write_dataset(table, tmp_path / f"t{number}", external_blob_mode="ingest")
    lance.write_dataset(table, str(tmp_path / "theirs"), external_blob_mode="ingest")
    shutil.rmtree(outside)
    for name in ("t0", "t1", "theirs"):
        for library in (lance, lancelet):
            dataset = library.dataset(str(tmp_path / name))
            assert contents(dataset) == expected
            assert {b["kind"] for b in dataset.to_table(["b"])["b"].to_pylist() if b} <= {0, 1, 2}


def test_nested_references(tmp_path: Path, outside: Path) -> None:
    inner = blob_array([(outside / "in" / "a").as_uri(), b"own", None])
    field = pa.field("s", pa.struct([pa.field("n", pa.int64()), blob_field("b")]))
    array = pa.StructArray.from_arrays([pa.array([1, 2, 3]), inner], fields=list(field.type))
    table = pa.table([array], schema=pa.schema([field]))
    bases = [DatasetBasePath(str(outside / "in"), "in")]
    with pytest.raises(UnfitData, match="outside"):
        lancelet.write_dataset(table, tmp_path / "t")
    referred = lancelet.write_dataset(table, tmp_path / "t", initial_bases=bases)
    stored = referred.to_table()["s"].to_pylist()
    assert (stored[0]["b"]["blob_id"], stored[0]["b"]["blob_uri"]) == (1, "a")
    ingested = lancelet.write_dataset(table, tmp_path / "u", external_blob_mode="ingest")
    for dataset in (referred, ingested):
        blobs = [row["b"] for row in dataset.to_table(blob_handling="all_binary")["s"].to_pylist()]
        assert blobs == [b"hello", b"own", None]


BAD_BLOBS: dict[str, tuple[Any, dict[str, Any], type[Exception]]] = {
    "no leave": ("file:///somewhere", {}, UnfitData),
    "relative": ("a", {"allow_external_blob_outside_bases": True}, UnfitData),
    "relative, ingested": ("a", {"external_blob_mode": "ingest"}, UnfitData),
    "missing": ("file:///nowhere/at/all", {"external_blob_mode": "ingest"}, MissingFile),
    "leave and ingest": (
        b"",
        {"external_blob_mode": "ingest", "allow_external_blob_outside_bases": True},
        InvalidOption,
    ),
    "unknown mode": (b"", {"external_blob_mode": "copy"}, InvalidInput),
}


@pytest.mark.parametrize("case", BAD_BLOBS)
def test_blobs_that_cannot_be_written(tmp_path: Path, case: str) -> None:
    value, options, kind = BAD_BLOBS[case]
    with pytest.raises(kind) as caught:
        lancelet.write_dataset(blob_table(b"x", value), tmp_path / "t", **options)
    assert isinstance(caught.value, (OSError, ValueError))
    assert files_below(tmp_path) == []


def test_a_range_past_the_end_is_refused(tmp_path: Path, outside: Path) -> None:
    table = blob_table(Blob.from_uri((outside / "c").as_uri(), 3, 700))
    for library in (lance, lancelet):
        with pytest.raises(OSError):
            library.write_dataset(table, str(tmp_path / "t"), external_blob_mode="ingest")
    assert [path for path in files_below(tmp_path) if not path.startswith("out side")] == []
