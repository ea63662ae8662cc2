"""Texts about a table name what it is made of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancelet
from lancelet.debug import format_fragment, format_manifest, format_schema, list_transactions
from lancelet.hf import HuggingFaceConverter


def test_texts_name_what_there_is(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False, metadata={"kelp": "yes"}), pa.field("l", pa.list_(pa.int8()))]
    )
    dataset = lancelet.write_dataset(pa.table({"id": [1, 2], "l": [[1], None]}, schema), tmp_path / "t")
    dataset.delete("id = 1")
    assert format_schema(dataset) == "0 id: int64, not null {'kelp': 'yes'}\n1 l: list\n  2 item: int8"
    manifest = format_manifest(dataset)
    for part in ("version: 2", "fragments {", "writer_version {", "int64", "deletion_file {"):
        assert part in manifest
    (fragment,) = dataset.get_fragments()
    text = format_fragment(fragment, dataset)
    assert text == format_fragment(fragment.metadata, dataset)
    assert fragment.metadata.files[0].path in text
    assert "  0 id: int64" in text
    dataset.drop_columns(["l"])
    assert "  2 (dropped)" in format_fragment(dataset.get_fragments()[0], dataset)
    assert ["Project" in list_transactions(dataset)[0], len(list_transactions(dataset))] == [True, 3]
    assert len(list_transactions(dataset, max_transactions=1)) == 1


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset({"a": [1]}, tmp_path / "t")
    for call in (format_schema, format_manifest, list_transactions):
        with pytest.raises(TypeError, match="dataset is needed"):
            call("t")  # type: ignore[operator]
    with pytest.raises(TypeError, match="fragment is"):
        format_fragment(1, dataset)  # type: ignore[arg-type]


def test_features_of_hugging_face_tell_pictures(tmp_path: Path) -> None:
    from io import BytesIO

    from PIL import Image

    data = BytesIO()
    Image.new("RGB", (2, 3)).save(data, format="PNG")
    rows = pa.array(
        [{"bytes": data.getvalue(), "path": None}, None], pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    )
    told = '{"info": {"features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel"}}}}'
    table = pa.table({"image": rows, "label": [0, 1]}).replace_schema_metadata({"huggingface": told})
    dataset = lancelet.write_dataset(table, tmp_path / "t")
    converter = HuggingFaceConverter.of_schema(dataset.schema)
    assert converter is not None
    first, second = converter.to_pytorch("image", dataset.to_table()["image"].combine_chunks()) or []
    assert (first.size, second) == ((2, 3), None)
    assert converter.to_pytorch("label", pa.array([1])) is None
    assert HuggingFaceConverter.of_schema(pa.schema([])) is None
    for features in ({"tags": [{"_type": "Image"}]}, [], None):
        told = HuggingFaceConverter({"info": {"features": features}})
        assert told.to_pytorch("tags", pa.array([["a"]])) is None
    assert HuggingFaceConverter({"info": None}).to_pytorch("tags", pa.array([1])) is None
    with pytest.raises(ValueError, match="no JSON"):
        HuggingFaceConverter.of_schema(pa.schema([], {"huggingface": "{"}))
