"""Schemas with ids, and as JSON."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lancelet.errors import InvalidInput
from lancelet.schema import LanceSchema, json_to_schema, schema_to_json

WIDE = pa.schema(
    [
        pa.field("a", pa.timestamp("us", "UTC"), nullable=False, metadata={"x": "y"}),
        pa.field("d", pa.decimal128(10, 2)),
        pa.field("st", pa.struct([pa.field("q", pa.large_string()), pa.field("l", pa.list_(pa.int8()))])),
        pa.field("m", pa.dictionary(pa.int8(), pa.string())),
        pa.field("fb", pa.binary(4)),
        pa.field("dt", pa.date32()),
        pa.field("t", pa.time64("us")),
        pa.field("du", pa.duration("ns")),
        pa.field("h", pa.float16()),
        pa.field("n", pa.null()),
        pa.field("ll", pa.large_list(pa.bool_())),
        pa.field("v", pa.list_(pa.float32(), 4)),
    ],
    metadata={"k": "v"},
)


def test_there_and_back() -> None:
    content = json.loads(json.dumps(schema_to_json(WIDE)))
    assert json_to_schema(content).equals(WIDE, check_metadata=True)


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"fields": 3},
        {"fields": [3]},
        {"fields": [{"name": "a"}]},
        {"fields": [{"name": "a", "type": {"type": "list"}}]},
    ],
)
def test_what_is_no_schema(content: object) -> None:
    with pytest.raises(InvalidInput):
        json_to_schema(content)


def test_fields_have_ids_and_paths() -> None:
    schema = LanceSchema.from_pyarrow(WIDE)
    assert [field.id() for field in schema.fields()] == [0, 1, 2, 6, 7, 8, 9, 10, 11, 12, 13, 15]
    nested = schema.field("st.l")
    assert nested is not None
    assert (nested.id(), nested.to_arrow().type) == (4, pa.list_(pa.int8()))
    assert schema.field("st.nope") is None
    assert schema.field_case_insensitive("ST.Q") == schema.field("st.q")
    assert schema.to_pyarrow().equals(WIDE, check_metadata=True)
    assert schema == LanceSchema.from_pyarrow(WIDE)
    assert "name='st', id=2" in repr(schema)


def test_keys_are_marked_in_the_metadata() -> None:
    key = "lance-schema:unenforced-primary-key"
    schema = LanceSchema.from_pyarrow(
        pa.schema(
            [
                pa.field("late", pa.int8(), nullable=False, metadata={key: "true"}),
                pa.field("first", pa.int8(), nullable=False, metadata={key: "true", f"{key}:position": "1"}),
                pa.field("c", pa.int8(), metadata={"lance-schema:unenforced-clustering-key:position": "2"}),
            ]
        )
    )
    assert [field.name() for field in schema.unenforced_primary_key()] == ["first", "late"]
    assert [field.name() for field in schema.unenforced_clustering_key()] == ["c"]
