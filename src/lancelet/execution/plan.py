"""What to read, as a small picklable value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, get_args

import pyarrow as pa

from lancelet._naming.texts import check_text
from lancelet.errors import InvalidInput, InvalidType, UnknownColumn
from lancelet.execution.costs import DEFAULT_BATCH_SIZE, KEPT_FILTER, KEPT_PLANS
from lancelet.execution.shown import BlobForm, scan_field
from lancelet.expressions.expr import Column, Expr, columns_of, type_of
from lancelet.expressions.sort import SortKey
from lancelet.format.json_fields import STORED_JSON
from lancelet.format.logical_types import EXTENSION_NAME
from lancelet.format.schema import Field, Schema, names_extension, resolve_extensions, split_path
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID, SEARCH_FIELDS, SYSTEM_FIELDS
from lancelet.runtime.attributes import cached_property

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lancelet.execution.matching_plan import Matching
    from lancelet.execution.near_text_plan import NearText
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.row_mask import RowMask

_BATCH_SIZE_VARIABLE = "LANCE_DEFAULT_BATCH_SIZE"

Outputs: TypeAlias = tuple[tuple[str, Expr], ...]
"""Name and expression of each column of a result."""


@dataclass(frozen=True)
class ScanPlan:
    """A scan of one version of a table."""

    schema: Schema
    """All that the table has."""
    outputs: Outputs
    filter: Expr | None = None
    limit: int | None = None
    offset: int = 0
    order_by: tuple[SortKey, ...] = ()
    batch_size: int = DEFAULT_BATCH_SIZE
    fragment_ids: tuple[int, ...] | None = None
    """None means all, in the manifest's order."""
    include_deleted: bool = False
    in_order: bool = True
    late: bool = True
    """Read the filter's columns first, and the others for the rows that pass."""
    blobs_as_binary: frozenset[str] = field(default_factory=frozenset)
    """Outputs whose blobs are read whole instead of as descriptors."""
    row_ranges: tuple[tuple[int, int], ...] | None = None
    """For each of ``fragment_ids``, the physical rows to read: the first, and the one after the last. None means all."""
    use_index: bool = True
    """Ask scalar indices which rows the filter can be true for."""
    indexed_only: bool = False
    """Leave out the fragments that the indices do not cover which are asked."""
    mask: RowMask | None = None
    """Row ids that the scan is restricted to."""
    nearest: Nearest | None = None
    """Only the rows whose vectors are nearest to a query; see :mod:`lancelet.execution.nearest`."""
    matching: Matching | None = None
    """Only the rows whose texts match a query; see :mod:`lancelet.execution.matching`."""
    near_text: NearText | None = None
    """Only the rows whose texts are nearly the same as one; see :mod:`lancelet.execution.near_texts`."""

    @property
    def search(self) -> Nearest | Matching | NearText | None:
        """What rows are ranked by."""
        return self.near_text or (self.nearest if self.matching is None else self.matching)

    @cached_property
    def output_schema(self) -> pa.Schema:
        return resolve_extensions(self.storage_schema) if self.projection.names_extension else self.storage_schema

    @cached_property
    def storage_schema(self) -> pa.Schema:
        """The output schema before extension types are resolved."""
        return self.projection.schema

    @cached_property
    def projection(self) -> Projection:
        return _projection(self.schema, self.outputs, self.blobs_as_binary)


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns of a result, and what they are made of."""

    fields: tuple[Field, ...]
    """What is read, pruned to what the outputs use."""
    system: tuple[str, ...]
    """System columns that the outputs use."""
    schema: pa.Schema
    """Of the result, before extension types are resolved."""
    has_extensions: bool
    """Whether any column of the table has an extension type."""
    names_extension: bool
    """Whether one of the result has."""
    sources: tuple[tuple[int | str | Expr, pa.DataType], ...]
    """Where each output comes from: a field that is read whole, a system column, or an expression."""


@lru_cache(KEPT_PLANS)
def _projection(schema: Schema, outputs: Outputs, blobs_as_binary: frozenset[str]) -> Projection:
    fields, system = needed_fields(schema, (expr for _, expr in outputs))
    whole = {
        (field.name,): number for number, field in enumerate(fields) if field == schema.field_by_path((field.name,))
    }
    sources: list[tuple[int | str | Expr, pa.DataType]] = []
    for name, expr in outputs:
        dtype = _output_field(schema, name, expr, BlobForm.DESCRIPTOR).type
        if isinstance(expr, Column) and expr.path in whole and expr.extension != STORED_JSON:
            sources.append((whole[expr.path], dtype))
        elif isinstance(expr, Column) and expr.path[0] in system:
            sources.append((expr.path[0], dtype))
        else:
            sources.append((expr, dtype))
    shown = [
        _output_field(schema, name, expr, BlobForm.BINARY if name in blobs_as_binary else BlobForm.DESCRIPTOR)
        for name, expr in outputs
    ]
    return Projection(
        fields,
        system,
        pa.schema(shown, metadata=dict(schema.metadata) or None),
        any(EXTENSION_NAME in node.metadata for node in schema.walk()),
        any(map(names_extension, shown)),
        tuple(sources),
    )


def _output_field(schema: Schema, name: str, expr: Expr, blobs: BlobForm) -> pa.Field:
    if not isinstance(expr, Column) or expr.extension == STORED_JSON:
        return pa.field(name, type_of(expr))
    if len(expr.path) == 1 and expr.path[0] in SYSTEM_FIELDS and expr.path[0] not in schema.names:
        return SYSTEM_FIELDS[expr.path[0]].with_name(name)
    if is_search_column(schema, expr.path):
        return SEARCH_FIELDS[expr.path[0]].with_name(name)
    chain = schema.resolve(expr.path)
    if any(node.is_list for node in chain[:-1]):
        return pa.field(name, expr.type)
    nullable = any(node.nullable for node in chain)
    return scan_field(chain[-1], blobs).with_name(name).with_nullable(nullable)


def table_schema(schema: Schema) -> pa.Schema:
    """The columns as the table declares them: JSON as text, blobs in their logical form."""
    fields = [scan_field(f, BlobForm.LOGICAL) for f in schema.fields]
    return resolve_extensions(pa.schema(fields, metadata=dict(schema.metadata) or None))


@lru_cache(KEPT_PLANS)
def visible_schema(schema: Schema) -> pa.Schema:
    """What filters and expressions may refer to: the columns as scanned, in storage types, and the system columns."""
    fields = [scan_field(f) for f in schema.fields]
    names = set(schema.names)
    return pa.schema([*fields, *(f for name, f in SYSTEM_FIELDS.items() if name not in names)])


def is_search_column(schema: Schema, path: Sequence[str]) -> bool:
    """Whether a path is a column that searches make, and not one that the table stores."""
    return len(path) == 1 and path[0] in SEARCH_FIELDS and path[0] not in schema.names


def _visible_with(schema: Schema, made: Sequence[str]) -> pa.Schema:
    visible = visible_schema(schema)
    return pa.schema([*visible, *(SEARCH_FIELDS[name] for name in made)]) if made else visible


def default_batch_size() -> int:
    """Rows of a batch where nobody says; the environment variable ``LANCE_DEFAULT_BATCH_SIZE`` sets it."""
    text = os.environ.get(_BATCH_SIZE_VARIABLE, "").strip()
    if not text:
        return DEFAULT_BATCH_SIZE
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 32):
        raise InvalidInput(f"the environment variable {_BATCH_SIZE_VARIABLE} is a number of rows, not {text!r}")
    return int(text)


def plan_outputs(
    schema: Schema,
    columns: Sequence[str] | Mapping[str, str | pc.Expression] | None,
    *,
    with_row_id: bool = False,
    with_row_address: bool = False,
    made: Sequence[str] = (),
) -> Outputs:
    """The columns of the result: names, nested paths, or names with SQL expressions; ``made`` are those that a search makes."""
    if columns is None or isinstance(columns, (Mapping, str)) or not all(isinstance(name, str) for name in columns):
        return _outputs(schema, columns, with_row_id, with_row_address, tuple(made))
    return _named_outputs(schema, tuple(columns), with_row_id, with_row_address, tuple(made))


@lru_cache(KEPT_PLANS)
def _named_outputs(
    schema: Schema, columns: tuple[str, ...], with_row_id: bool, with_row_address: bool, made: tuple[str, ...]
) -> Outputs:
    return _outputs(schema, columns, with_row_id, with_row_address, made)


def _outputs(
    schema: Schema,
    columns: Sequence[str] | Mapping[str, str | pc.Expression] | None,
    with_row_id: bool,
    with_row_address: bool,
    made: tuple[str, ...],
) -> Outputs:
    outputs: list[tuple[str, Expr]] = []
    if columns is None:
        outputs = [(f.name, Column((f.name,), scan_field(f).type)) for f in schema.fields]
    elif isinstance(columns, Mapping):
        visible = _visible_with(schema, made)
        outputs = [(check_text(name, "the name of a column"), parse(text, visible)) for name, text in columns.items()]
    elif isinstance(columns, str):
        raise InvalidType(f"columns is a list of names or a dict of expressions, not the text {columns!r}")
    else:
        outputs = [
            (name, Column((name,), SEARCH_FIELDS[name].type) if name in made else _scanned_column(schema, name))
            for name in columns
        ]
    names = {name for name, _ in outputs}
    if len(names) < len(outputs):
        double = next(name for name in names if sum(n == name for n, _ in outputs) > 1)
        raise InvalidInput(f"Duplicate column name: {double}; ask for each column once")
    for wanted, name in ((with_row_id, ROW_ID), (with_row_address, ROW_ADDRESS)):
        if wanted:
            # Asked for in both ways, the column comes last.
            outputs = [output for output in outputs if output[0] != name]
            outputs.append((name, Column((name,), pa.uint64())))
    return tuple(outputs)


def plan_take(schema: Schema, columns: Sequence[str] | Mapping[str, str | pc.Expression] | None) -> ScanPlan:
    """Columns of single rows. Unlike in scans, a nested path prunes its column, and repetitions are one."""
    if columns is None or isinstance(columns, (Mapping, str)):
        return ScanPlan(schema, plan_outputs(schema, columns))
    system = [name for name in columns if name in SYSTEM_FIELDS and name not in schema.names]
    chosen = {name: column_of(schema, name) for name in columns}
    stored = [column.path for column in chosen.values() if column.path[0] in schema.names]
    pruned = schema.project(stored)
    fields = {field.name: field for field in pruned.fields}
    outputs: dict[str, Expr] = {}
    for column in chosen.values():
        top = column.path[0]
        dtype = scan_field(fields[top]).type if top in fields else column.type
        outputs.setdefault(top, Column((top,), dtype))
    if not outputs:
        raise InvalidInput("no columns are asked for; name at least one")
    if len(system) == len(set(system)):
        return ScanPlan(pruned, tuple(outputs.items()))
    # As in pylance, a column that every table has comes as often as it is named.
    firsts = [chosen[name].path[0] for name in columns]
    ordered = [top for at, top in enumerate(firsts) if top in system or top not in firsts[:at]]
    return ScanPlan(pruned, tuple((top, outputs[top]) for top in ordered))


def exact_plan(plan: ScanPlan, nearest: Nearest) -> ScanPlan:
    """What a search reads that compares all vectors: the column, and what the filter looks at when it comes first."""
    column = nearest.column
    dtype = scan_field(column.field(plan.schema)).type
    return replace(
        plan,
        outputs=((column.name, Column(column.path, dtype)),),
        filter=plan.filter if nearest.prefilter else None,
        limit=None,
        offset=0,
        order_by=(),
        blobs_as_binary=frozenset(),
        nearest=None,
    )


def allowed_plan(plan: ScanPlan, matching: Matching | NearText) -> ScanPlan:
    """What a search for texts reads to know which rows it may find: what the filter looks at when it comes first."""
    return replace(
        plan,
        outputs=(),
        filter=plan.filter if matching.prefilter else None,
        limit=None,
        offset=0,
        order_by=(),
        blobs_as_binary=frozenset(),
        matching=None,
        near_text=None,
    )


def plan_filter(schema: Schema, condition: str | pc.Expression | Expr | None, made: Sequence[str] = ()) -> Expr | None:
    """A filter as SQL text, as a pyarrow expression or already parsed; ``made`` are columns that a search makes."""
    if condition is None or (isinstance(condition, str) and not condition.strip()):
        return None
    if isinstance(condition, str):
        from lancelet.expressions.sql import names_moment, parse_filter

        if len(condition) > KEPT_FILTER or names_moment(condition):
            return parse_filter(condition, _visible_with(schema, made))
        return _parsed_filter(schema, condition, tuple(made))
    if isinstance(condition, get_args(Expr)):
        parsed: Expr = condition
        return parsed
    from lancelet.expressions.arrow_expr import from_arrow

    return from_arrow(condition, _visible_with(schema, made))


@lru_cache(KEPT_PLANS)
def _parsed_filter(schema: Schema, text: str, made: tuple[str, ...]) -> Expr:
    """A filter that means the same whenever it is read."""
    from lancelet.expressions.sql import parse_filter

    return parse_filter(text, _visible_with(schema, made))


def parse(text: str | pc.Expression, visible: pa.Schema) -> Expr:
    """An expression as SQL text or as a pyarrow expression."""
    if not isinstance(text, str):
        from lancelet.expressions.arrow_expr import from_arrow

        return from_arrow(text, visible)
    from lancelet.expressions.sql import parse_expression

    return parse_expression(text, visible)


def needed_fields(schema: Schema, exprs: Iterable[Expr]) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """Fields, pruned to what the expressions use, and system columns."""
    paths: dict[tuple[str, ...], None] = {}
    system: list[str] = []
    for expr in exprs:
        for path in sorted(columns_of(expr)):
            if path[0] in SYSTEM_FIELDS and path[0] not in schema.by_name:
                if path[0] not in system:
                    system.append(path[0])
            elif path not in paths and not is_search_column(schema, path):
                paths[path] = None
    return schema.project(paths).fields, tuple(system)


def _scanned_column(schema: Schema, name: str) -> Column:
    """The column that a scan gives for a name, which is matched exactly, or for a path.

    pylance reads a path as an expression, and so finds its first name in another case too; not those of struct fields.
    """
    _check_name(name)
    if name not in schema.by_name:
        top, *below = split_path(name)
        if below and top not in schema.by_name:
            top = next((known for known in schema.names if known.lower() == top.lower()), top)
            return _column_at(schema, name, (top, *below))
    return column_of(schema, name)


def column_of(schema: Schema, name: str, *, any_case: bool = False) -> Column:
    """The column that a name or a nested path stands for; its names are matched exactly unless ``any_case``."""
    _check_name(name)
    names = schema.names
    if name in SYSTEM_FIELDS and name not in names:
        return Column((name,), pa.uint64())
    return _column_at(schema, name, (name,) if name in names else tuple(split_path(name)), any_case=any_case)


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise InvalidType(f"a column is named by a text, not by {name!r}")


def _column_at(schema: Schema, name: str, path: tuple[str, ...], *, any_case: bool = False) -> Column:
    try:
        chain = schema.resolve(path, any_case=any_case)
    except UnknownColumn as error:
        raise UnknownColumn(name, error.known) from None
    if any(node.logical_type != "struct" for node in chain[:-1]):
        raise InvalidInput(
            f"column '{name}' goes through a list or map; only fields of structs have a path of their own"
        )
    return Column(tuple(node.name for node in chain), scan_field(chain[-1]).type)
