"""bfloat16 and images as Arrow types: values as pylance makes them, and kept by tables of both."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance.arrow as theirs
import ml_dtypes
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import lancelet.arrow as ours

FLOATS = st.floats(width=32) | st.floats()


@given(st.lists(st.none() | FLOATS))
def test_numbers_are_rounded_as_pylance_rounds_them(values: list[float | None]) -> None:
    found = ours.bfloat16_array(values)
    assert found.storage.equals(theirs.bfloat16_array(values).storage)
    assert repr(found.to_pylist()) == repr(theirs.bfloat16_array(values).to_pylist())


@given(FLOATS, FLOATS)
def test_a_number_compares_and_prints_as_pylance_s(left: float, right: float) -> None:
    a, b, c, d = (kind(value) for kind in (ours.BFloat16, theirs.BFloat16) for value in (left, right))
    assert [a == b, a < b, a <= b, a > b, a >= b] == [c == d, c < d, c <= d, c > d, c >= d]
    assert repr(a) == repr(c)
    assert np.array_equal(a.as_float(), c.as_float(), equal_nan=True)
    assert pickle.loads(pickle.dumps(a)).to_bytes() == a.to_bytes()


def test_every_number_prints_as_pylance_s() -> None:
    """Also those in the middle of two texts, and those at whose one side others are nearer."""
    every = [number.to_bytes(2, "little") for number in range(1 << 16)]
    shown, expected = ([repr(kind.from_bytes(raw)) for raw in every] for kind in (ours.BFloat16, theirs.BFloat16))
    assert shown == expected


@pytest.mark.parametrize("value", ["1", b"ab", None], ids=str)
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        ours.BFloat16(value)
    if value is not None:
        with pytest.raises(TypeError):
            ours.bfloat16_array([value])
    with pytest.raises(ValueError, match="2 bytes"):
        ours.BFloat16.from_bytes(b"a")


def test_numpy_has_the_numbers_of_a_column_without_nulls() -> None:
    column = ours.bfloat16_array([0.0, 1.1, -2.5, 3e38])[1:]
    found = column.to_numpy()
    assert found.dtype == ml_dtypes.bfloat16
    assert ours.BFloat16Array.from_numpy(found).equals(column)
    with pytest.raises(ValueError, match="null"):
        ours.bfloat16_array([None]).to_numpy()
    with pytest.raises(ValueError, match="bfloat16_array"):
        ours.BFloat16Array.from_numpy(np.array([1.0]))


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_casts_go_both_ways_and_keep_nulls(kind: pa.DataType) -> None:
    numbers = pa.array([0.5, 1.5, None, -3.0], kind)
    for name in ("bfloat16", "bf16", ours.BFloat16Type()):
        assert ours.cast(ours.cast(numbers[1:], name), kind).equals(numbers[1:])
    vectors = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(kind, 2))[1:]
    narrow = ours.cast(vectors, pa.list_(ours.BFloat16Type(), 2))
    assert [item and [*map(float, item)] for item in narrow.to_pylist()] == [None, [3.0, 4.0]]
    assert ours.cast(narrow, pa.list_(kind, 2)).equals(vectors)
    assert ours.cast(numbers, "string").type == pa.string()
    for column in (numbers, vectors):
        chunks = pa.chunked_array([column[:1], column[1:]])
        target = ours.BFloat16Type() if column is numbers else narrow.type
        assert ours.cast(ours.cast(chunks, target), column.type).equals(chunks)


def test_casts_that_do_not_exist_are_refused() -> None:
    for array, target in (
        (pa.array([1]), "bfloat16"),
        (ours.bfloat16_array([1]), "int8"),
        (pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), pa.list_(ours.BFloat16Type(), 1)),
    ):
        with pytest.raises(ValueError, match="Only support casting"):
            ours.cast(array, target)


def test_pandas_has_the_column() -> None:
    series = ours.bfloat16_array([1.0, None, 2.5]).to_pandas()
    assert str(series.dtype) == "lance.bfloat16"
    assert series.isna().tolist() == [False, True, False]
    assert series[[2, 1]].tolist() == [ours.BFloat16(2.5), None]
    assert pd.concat([series, series[:1]], ignore_index=True).tolist()[3] == ours.BFloat16(1)
    assert series.reindex([2, 9]).isna().tolist() == [False, True]
    assert pa.array(series.array).equals(ours.bfloat16_array([1.0, None, 2.5]))
    assert (series[:1] == ours.BFloat16(1)).tolist() == [True]
    assert (series == 2.5).tolist() == [False, False, True]
    assert (series == [1.0, 9.0, 2.0]).tolist() == [True, False, False]
    # Only what is new is filled: a value that was missing stays so.
    assert series.reindex([1, 9], fill_value=ours.BFloat16(7)).tolist() == [None, ours.BFloat16(7)]
    assert series.shift(1, fill_value=0.0).tolist() == [ours.BFloat16(0), ours.BFloat16(1), None]


def test_addresses_are_texts() -> None:
    texts = pa.chunked_array([["a"], [None]])
    assert ours.ImageURIArray.from_uris(texts).to_pylist() == ["a", None]
    assert type(ours.ImageArray.from_array(pa.chunked_array([[b"..."]]))) is ours.EncodedImageArray
    for wrong in ([b"..."], [1], "a"):
        with pytest.raises(TypeError, match="address"):
            ours.ImageURIArray.from_uris(wrong)  # type: ignore[arg-type]


def test_pixels_have_a_shape() -> None:
    wide, tall = (ours.FixedShapeImageTensorType(pa.uint8(), shape) for shape in ((2, 3, 1), (3, 2, 1)))
    assert wide != tall
    assert not pa.schema([("c", wide)]).equals(pa.schema([("c", tall)]))
    assert wide == ours.FixedShapeImageTensorType(pa.uint8(), (2, 3, 1))
    for files, said in (([], "without images"), ([b"nothing"], "no image")):
        with pytest.raises(ValueError, match=said):
            ours.ImageArray.from_array(pa.array(files, pa.binary())).to_tensor()


def test_values_are_printed_as_numbers() -> None:
    assert str(ours.bfloat16_array([1.5, None])) == "[1.5, None]"
    assert str(ours.bfloat16_array(range(30))).count(",") == 20


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three pictures, each with pixels of its own."""
    paths = []
    for number in range(3):
        pixels = (np.arange(12).reshape(2, 2, 3) + number).astype(np.uint8)
        paths.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths


def test_images_go_from_addresses_to_pixels_and_back(files: list[str]) -> None:
    addresses = ours.ImageURIArray.from_uris([files[0], Path(files[1]), f"file://{files[2]}"])
    encoded = addresses.read_uris()
    assert encoded.to_pylist() == [Path(path).read_bytes() for path in files]
    tensors = encoded.to_tensor()
    assert tensors.to_numpy().tolist() == [np.asarray(Image.open(path)).tolist() for path in files]
    assert tensors[1:].to_numpy().tolist() == tensors.to_numpy()[1:].tolist()
    assert tensors.to_encoded(storage_type=pa.large_binary()).to_tensor().equals(tensors)
    assert tensors.to_encoded(encoder=lambda image: bytes([image.max()])).to_pylist() == [b"\x0b", b"\x0c", b"\x0d"]
    assert encoded.to_tensor(decoder=lambda data: np.zeros((len(data), 1, 1, 1), np.uint8)).type.shape == (1, 1, 1)
    their = theirs.ImageURIArray.from_uris(files).read_uris().to_tensor()
    assert their.type.storage_type == tensors.type.storage_type
    assert their.storage.equals(tensors.storage)


def test_any_array_of_images_finds_its_form() -> None:
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 2, 2, 3), np.uint8))
    for images in (pa.array(["a"]), pa.array(["a"], pa.large_string()), pa.array([b"a"]), tensors, ["a"]):
        mine, other = ours.ImageArray.from_array(images), theirs.ImageArray.from_array(images)
        assert type(mine).__name__ == type(other).__name__
        assert mine.storage.equals(other.storage)
        assert mine.type.__arrow_ext_serialize__() == other.type.__arrow_ext_serialize__()
        assert ours.ImageArray.from_array(mine) is mine


def test_images_that_cannot_be_shown_are_refused(files: list[str]) -> None:
    large = io.BytesIO()
    Image.fromarray(np.zeros((5, 5, 3), np.uint8)).save(large, format="PNG")
    mixed = ours.ImageArray.from_array(pa.array([Path(files[0]).read_bytes(), large.getvalue()]))
    with pytest.raises(ValueError, match="one shape"):
        mixed.to_tensor()
    with pytest.raises(ValueError, match="drop them"):
        ours.ImageArray.from_array(pa.array([None], pa.binary())).to_tensor()
    with pytest.raises(FileNotFoundError):
        ours.ImageURIArray.from_uris([f"{files[0]}.no"]).read_uris()
    with pytest.raises(ValueError, match="string type"):
        ours.ImageURIType(pa.int8())
    with pytest.raises(ValueError, match="binary type"):
        ours.EncodedImageType(pa.string())


ROUND_TRIP = """
import sys
import numpy as np
import pyarrow as pa
import {write} as writer, {write}.arrow as types
pixels = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3))
table = pa.table({{
    "half": types.bfloat16_array([1.5, None]),
    "vector": pa.FixedSizeListArray.from_arrays(types.bfloat16_array([1, 2, 3, 4]), 2),
    "uri": types.ImageURIArray.from_uris(["a", "b"]),
    "file": types.ImageArray.from_array(pa.array([b"a", b"b"])),
    "pixels": types.ImageArray.from_array(pixels),
}})
writer.write_dataset(table, sys.argv[1])
"""
READ = """
import sys
import {read} as reader, {read}.arrow as types
table = reader.dataset(sys.argv[1]).to_table()
print(table.schema.to_string(show_field_metadata=False).replace("lancelet", "lance"))
print(repr(table.to_pylist()))
print([type(column.chunk(0)).__name__ for column in table.columns])
"""


def test_tables_keep_the_types_for_both_libraries(tmp_path: Path) -> None:
    """Each in a process of its own: pyarrow knows one type of a name."""

    def run(program: str, path: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    seen = set()
    for write in ("lance", "lancelet"):
        run(ROUND_TRIP.format(write=write), tmp_path / write)
        seen |= {run(READ.format(read=read), tmp_path / write) for read in ("lance", "lancelet")}
    assert len(seen) == 1
    assert "BFloat16Array" in seen.pop()
