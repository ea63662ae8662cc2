"""What follows from a schema and a list of columns is kept, and still belongs to that schema."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pytest

import lancelet
from lancelet.execution.plan import ScanPlan, plan_outputs, visible_schema
from lancelet.format.schema import Schema, schema_from_arrow


def _schema(**columns: pa.DataType) -> Schema:
    return schema_from_arrow(pa.schema(columns))


def _result(schema: Schema, columns: list[str]) -> pa.Schema:
    return ScanPlan(schema, plan_outputs(schema, columns)).output_schema


def test_schemas_with_the_same_ids_keep_their_own_columns() -> None:
    schemas = [_schema(a=pa.int8()), _schema(a=pa.int16()), _schema(b=pa.int8())]
    schemas.append(replace(schemas[0], metadata={"k": "v"}))
    schemas.append(Schema((replace(schemas[0].fields[0], metadata={"k": "v"}),)))
    schemas.append(Schema((replace(schemas[0].fields[0], nullable=False),)))
    for _ in range(2):
        for schema in schemas:
            name = schema.names[0]
            found = _result(schema, [name])
            assert found.equals(schema.to_arrow(), check_metadata=True)
            assert visible_schema(schema).field(name).equals(schema.to_arrow().field(name), check_metadata=True)


def test_equal_schemas_have_equal_hashes_in_all_processes() -> None:
    schema = _schema(a=pa.int8(), b=pa.struct({"c": pa.string()}))
    assert hash(schema) == hash(_schema(a=pa.int8(), b=pa.struct({"c": pa.string()})))
    program = (
        "import pickle, sys; s = pickle.load(sys.stdin.buffer); print(hash(s) == hash(type(s)(s.fields, s.metadata)))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(schema), capture_output=True, check=True)
    assert done.stdout.strip() == b"True"


def test_an_extension_type_counts_from_when_it_is_registered() -> None:
    class Mark(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.int64(), "lancelet.test.mark")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Mark:
            return cls()

    marks = pa.ExtensionArray.from_storage(Mark(), pa.array([1, 2]))
    dataset = lancelet.write_dataset(pa.table({"m": marks}), "memory://marks")
    assert dataset.to_table(["m"]).schema.field("m").type == pa.int64()
    pa.register_extension_type(Mark())
    try:
        assert dataset.to_table(["m"]).schema.field("m").type == Mark()
    finally:
        pa.unregister_extension_type("lancelet.test.mark")


@pytest.mark.parametrize("columns", [["a", "b.c"], ["_rowid", "a"], None])
def test_a_second_scan_of_the_same_columns_gives_the_same(columns: list[str] | None) -> None:
    table = pa.table({"a": [1, 2, 3], "b": [{"c": "x"}, None, {"c": "z"}]})
    dataset = lancelet.write_dataset(table, f"memory://again-{len(columns or ())}-{(columns or ['a'])[0]}")
    first = dataset.to_table(columns, filter="a > 1")
    assert dataset.to_table(columns, filter="a > 1").equals(first, check_metadata=True)
    assert dataset.to_table(columns, filter="a = 1").num_rows == 1
