"""The smaller public names: progress, models, row ids, counters, structs in SQL, automatic cleanup, options."""

from __future__ import annotations

import enum
import gc
import importlib
import json
import logging
import pickle
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, List, Optional, Tuple, Union  # noqa: UP035

import lance
import lance.progress
import lance.pydantic
import numpy as np
import pyarrow as pa
import pydantic
import pytest
from lance.fragment import RowIdSequence as TheirSequence

import lancelet
import lancelet.pydantic
from lancelet.errors import InvalidInput, InvalidType, LanceletError
from lancelet.fragment import RowIdSequence
from lancelet.progress import FileSystemFragmentWriteProgress, FragmentWriteProgress, NoopFragmentWriteProgress


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.Enum):
    SMALL = 1


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Point(pydantic.BaseModel):
    x: float
    label: Optional[str] = None  # noqa: UP045


class Everything(pydantic.BaseModel):
    number: int
    ratio: float = 1.0
    text: str
    flag: bool
    raw: bytes
    day: date
    moment: datetime
    zoned: datetime = pydantic.Field(json_schema_extra={"tz": "UTC"})
    maybe: int | None
    perhaps: Optional[str]  # noqa: UP045
    numbers: List[int]  # noqa: UP006
    some: list[Optional[int]]  # noqa: UP045
    pair: Tuple[int, int]  # noqa: UP006
    nested: Point
    points: list[Point]
    colour: Colour
    size: Size
    mixed: Mixed


def test_models_become_schemas_as_in_pylance() -> None:
    assert lancelet.pydantic.pydantic_to_schema(Everything) == lance.pydantic.pydantic_to_schema(Everything)
    made = []
    for library in (lance, lancelet):
        vector, many = library.pydantic.Vector, library.pydantic.MultiVector
        fields = {
            "v": (vector(3), ...),
            "w": (vector(2, pa.float16(), nullable=False), ...),
            "m": (many(2), ...),
        }
        model = pydantic.create_model("Vectors", **fields)
        assert model(v=[1, 2, 3], w=[1, 2], m=[[1, 2]]).v == [1, 2, 3]
        with pytest.raises(pydantic.ValidationError):
            model(v=[1, 2], w=[1, 2], m=[[1, 2]])
        made.append(library.pydantic.pydantic_to_schema(model))
    assert made[0] == made[1]


@pytest.mark.parametrize("annotation", [dict[str, int], List, Union[int, str], complex], ids=str)  # noqa: UP006, UP007
def test_fields_without_an_arrow_type(annotation: Any) -> None:
    model = pydantic.create_model("Odd", x=(annotation, ...), __config__={"arbitrary_types_allowed": True})
    for library in (lance, lancelet):
        with pytest.raises(TypeError):
            library.pydantic.pydantic_to_schema(model)


def test_models_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [Point(x=1.0), Point(x=2.0, label="two")]
    first = lancelet.LanceDataset.from_pydantic_model(Point, rows)
    second = lancelet.write_dataset(rows, tmp_path / "t", mode="create")
    assert first.uri == "point"
    for dataset in (first, second, lance.dataset("point")):
        assert dataset.to_table().to_pylist() == [{"x": 1.0, "label": None}, {"x": 2.0, "label": "two"}]
    assert not first.schema.field("x").nullable
    again = lancelet.LanceDataset.from_pydantic_model(Point, rows, mode="append", max_rows_per_file=1)
    assert len(again.get_fragments()) == 3
    for model, data, kind in (
        (int, [1], TypeError),
        (Point, [1], TypeError),
        (Point, (1,), TypeError),
        (Point, [], ValueError),
    ):
        for library in (lance, lancelet):
            with pytest.raises(kind):
                library.LanceDataset.from_pydantic_model(model, data, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_progress(tmp_path: Path) -> None:
    seen: list[str] = []

    class Watching(FragmentWriteProgress):
        def begin(self, fragment: Any, **kwargs: Any) -> None:
            seen.append(f"begin {fragment.id}")

        def complete(self, fragment: Any, **kwargs: Any) -> None:
            seen.append(f"complete {fragment.physical_rows}")

    lancelet.write_dataset({"x": [1, 2, 3]}, tmp_path / "t", max_rows_per_file=2, progress=Watching())
    assert seen == ["begin 0", "complete 2", "begin 0", "complete 1"]
    lancelet.write_dataset({"x": [1]}, tmp_path / "t", mode="append", progress=NoopFragmentWriteProgress())
    with pytest.raises(TypeError):
        FragmentWriteProgress()  # type: ignore[abstract]


def test_progress_in_files(tmp_path: Path) -> None:
    for library in (lance, lancelet):
        kind = library.progress.FileSystemFragmentWriteProgress
        folder = tmp_path / library.__name__
        fragment = library.write_dataset({"x": [1]}, str(tmp_path / f"{library.__name__}.lance")).get_fragments()[0]
        progress = kind(folder.as_uri(), {"worker": "1"})
        progress.begin(fragment.metadata)
        told = json.loads((folder / "fragment_0.in_progress").read_text())
        assert told == {"fragment_id": 0, "metadata": {"worker": "1"}}
        assert json.loads((folder / "fragment_0.json").read_text())["id"] == 0
        progress.complete(fragment.metadata)
        assert [path.name for path in folder.iterdir()] == ["fragment_0.json"]
    assert FileSystemFragmentWriteProgress.PROGRESS_EXT == lance.progress.FileSystemFragmentWriteProgress.PROGRESS_EXT


SEQUENCES: dict[str, Any] = {
    "list": [1, 2, 3, 7],
    "none": [],
    "range": range(5),
    "unsigned": pa.array([1, 2], pa.uint64()),
    "signed": pa.array([1]),
    "chunks": pa.chunked_array([pa.array([1], pa.uint64()), pa.array([5], pa.uint64())]),
    "numpy": np.array([1, 2]),
    "unsorted": [3, 1, 2],
    "large": [2**64 - 1, 0],
    "far apart": [1, 2**40, 2**50],
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_row_ids(case: str) -> None:
    ours, theirs = RowIdSequence(SEQUENCES[case]), TheirSequence(SEQUENCES[case])
    assert list(ours) == list(theirs)
    assert (len(ours), repr(ours)) == (len(theirs), repr(theirs))
    assert ours.to_pyarrow().equals(theirs.to_pyarrow())
    back = lance.fragment.RowIdMeta.from_json(ours.to_inline_metadata().json())
    assert list(TheirSequence.from_inline_metadata(back)) == list(ours)
    forth = lancelet.fragment.RowIdMeta.from_json(theirs.to_inline_metadata().json())
    assert RowIdSequence.from_inline_metadata(forth) == ours == pickle.loads(pickle.dumps(ours))
    assert (ours == list(ours)) is False


@pytest.mark.parametrize(
    "wrong",
    [[-1], ["a"], [1, 1], None, pa.array([None], pa.uint64()), [2**64], np.array([-1]), np.array([0.5])],
    ids=str,
)
def test_row_ids_that_are_none(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)) as theirs:
        TheirSequence(wrong)
    with pytest.raises(LanceletError) as ours:
        RowIdSequence(wrong)
    assert isinstance(ours.value, theirs.type)


def test_counters_never_go_back() -> None:
    before = lancelet.bytes_read_counter(), lancelet.iops_counter()
    dataset = lancelet.write_dataset({"x": np.random.default_rng(0).random(10_000)}, "memory://small/counters")
    dataset.to_table()
    after = lancelet.bytes_read_counter(), lancelet.iops_counter()
    assert after[0] >= before[0] + 80_000
    assert after[1] > before[1]
    del dataset
    gc.collect()
    assert (lancelet.bytes_read_counter(), lancelet.iops_counter()) >= after


STRUCTS = [
    "named_struct('x', a, 'y', b)",
    "named_struct('A b', a + 1)",
    "named_struct('x', named_struct('z', a))",
    "named_struct('x', a)['x']",
    "named_struct('x', cast(a as int)).x",
    "NAMED_STRUCT('x', 1, 'y', a)",
    "get_field(named_struct('x', a), 'x')",
    "struct(a, b)",
    "row(1, a)",
]


@pytest.mark.parametrize("expression", STRUCTS)
def test_structs_in_sql(tmp_path: Path, expression: str) -> None:
    theirs = lance.write_dataset(pa.table({"a": [1, None, 3], "b": ["x", "y", None]}), str(tmp_path / "t"))
    ours = lancelet.dataset(tmp_path / "t")
    assert ours.to_table(columns={"s": expression}).equals(theirs.to_table(columns={"s": expression}))
    if "x" in expression:
        condition = "named_struct('x', a, 'y', b).x >= 2"
        assert ours.to_table(filter=condition).equals(theirs.to_table(filter=condition))


@pytest.mark.parametrize(
    "expression", ["named_struct()", "named_struct('x')", "named_struct(a, b)", "named_struct('', a)"]
)
def test_structs_that_are_none(tmp_path: Path, expression: str) -> None:
    theirs = lance.write_dataset(pa.table({"a": [1], "b": ["x"]}), str(tmp_path / "t"))
    with pytest.raises(ValueError):
        theirs.to_table(columns={"s": expression})
    with pytest.raises(InvalidInput, match="named_struct"):
        lancelet.dataset(tmp_path / "t").to_table(columns={"s": expression})


def test_a_struct_as_a_new_value(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2], "s": pa.array([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])})
    dataset = lancelet.write_dataset(rows, tmp_path / "t")
    dataset.update({"s": "named_struct('x', k + 10, 'y', 'new')"}, where="k = 2")
    assert lance.dataset(str(tmp_path / "t")).to_table()["s"].to_pylist() == [{"x": 1, "y": "a"}, {"x": 12, "y": "new"}]


def test_automatic_cleanup_is_switched(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset({"x": [1]}, tmp_path / "t")
    dataset.optimize.enable_auto_cleanup({"interval": 3, "older_than_seconds": 100_000})
    config = lance.dataset(str(tmp_path / "t")).config()
    assert config["lance.auto_cleanup.interval"] == "3"
    # pylance reads the span at its next commit, and would say so if it could not.
    lance.write_dataset(pa.table({"x": [2]}), str(tmp_path / "t"), mode="append")
    dataset.checkout_latest()
    dataset.optimize.disable_auto_cleanup()
    assert dataset.config() == lance.dataset(str(tmp_path / "t")).config() == {}
    with pytest.raises(InvalidInput, match="older_than_seconds"):
        dataset.optimize.enable_auto_cleanup({"interval": 3})  # type: ignore[typeddict-item]


def test_addresses_after_compaction(tmp_path: Path) -> None:
    theirs = lance.write_dataset(pa.table({"x": range(40)}), str(tmp_path / "t"), max_rows_per_file=10)
    assert lancelet.dataset(tmp_path / "t").remap_row_addrs(pa.array([1], pa.uint64())) is None
    theirs.create_scalar_index("x", "BTREE")
    theirs.delete("x in (3, 15)")
    theirs.optimize.compact_files(defer_index_remap=True)
    addresses = pa.array([0, 3, 1 << 32 | 5, 1 << 32 | 6, 9 << 32], pa.uint64())
    ours = lancelet.dataset(tmp_path / "t")
    assert ours.remap_row_addrs(addresses).equals(theirs.remap_row_addrs(addresses))
    for wrong in ([1], pa.array([1])):
        with pytest.raises(InvalidType):
            ours.remap_row_addrs(wrong)


def test_storage_options_as_they_were_given(tmp_path: Path) -> None:
    lancelet.write_dataset({"x": [1]}, tmp_path / "t")
    assert lancelet.dataset(tmp_path / "t").storage_options_accessor is None
    accessor = lancelet.dataset(tmp_path / "t", storage_options={"key": "value"}).storage_options_accessor
    assert accessor is not None
    assert accessor.get_storage_options() == accessor.initial_storage_options() == {"key": "value"}
    assert not accessor.has_provider()
    assert "value" not in repr(accessor)
    assert accessor.accessor_id() == type(accessor).with_static_options({"key": "value"}).accessor_id()


def test_loggers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lancelet.log, "LOGGER", lancelet.log.LOGGER)
    lancelet.set_logger(str(tmp_path / "x.log"), name="lancelet.test", level=logging.WARNING)
    logger = logging.getLogger("lancelet.test")
    logger.info("not this")
    logger.warning("but this")
    (handler,) = logger.handlers
    handler.close()
    logger.removeHandler(handler)
    text = (tmp_path / "x.log").read_text()
    assert "but this" in text
    assert "not this" not in text
    for value in ("", "debug", "trace", "info,lance=debug", "lance=debug", "error"):
        monkeypatch.setenv("LANCE_LOG", value)
        assert lancelet.log.get_log_level() == lance.log.get_log_level()


def test_the_module_of_the_logger_leaves_its_level_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANCE_LOG", raising=False)
    importlib.reload(lancelet.log)
    assert logging.getLogger("lancelet").level == logging.NOTSET


def test_times() -> None:
    moment = datetime(2024, 1, 31, 12, 30)
    for given in (moment, "2024-01-31 12:30:00"):
        assert lancelet.sanitize_ts(given) == lance.sanitize_ts(given) == moment
    assert lancelet.util.td_to_micros(timedelta(seconds=1)) == lance.util.td_to_micros(timedelta(seconds=1))


def test_names_of_other_modules_are_found_where_pylance_has_them() -> None:
    from lancelet.dataset import AutoCleanupConfig, Tag, Version, write_dataset
    from lancelet.types import ReaderLike

    assert write_dataset is lancelet.write_dataset
    assert set(Version.__annotations__) == {"version", "timestamp", "metadata"}
    assert AutoCleanupConfig(interval=1, older_than_seconds=2)["interval"] == 1
    assert ReaderLike is not None
    assert "version" in Tag.__annotations__
    assert lancelet.Session().index_cache_size_bytes() == 0
