"""A search for texts, as a small picklable value: part of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.errors import InvalidInput, NotSupported, UnknownColumn
from lancelet.execution.costs import KEPT_PLANS
from lancelet.execution.shown import scan_field, texts_type
from lancelet.format.schema import join_path, split_path, texts_path
from lancelet.format.system_columns import DISTANCE, DOC_INDEX, SCORE
from lancelet.index.text.query import Query, check_query, columns_asked, with_columns
from lancelet.runtime.attributes import cached_property

if TYPE_CHECKING:
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.format.schema import Field, Schema


@dataclass(frozen=True)
class TextColumn:
    """A column of texts, of lists of texts, or of JSON documents."""

    path: tuple[str, ...]

    @cached_property
    def name(self) -> str:
        return join_path(self.path)

    def field(self, schema: Schema) -> Field:
        """The field of the column."""
        return self.chain(schema)[-1]

    def chain(self, schema: Schema) -> tuple[Field, ...]:
        """The fields that lead to it, items of lists among them."""
        return schema.resolve_texts(self.path)

    def type(self, schema: Schema) -> pa.DataType:
        """The type of its values; of texts inside of items of lists, lists."""
        return texts_type(self.chain(schema))


@dataclass(frozen=True)
class Matching:
    """The rows whose texts match a query."""

    query: Query
    """Its columns by their paths."""
    columns: tuple[TextColumn, ...]
    prefilter: bool = False
    """Whether the filter chooses among all rows, and not among those that match."""
    has_items: bool = False
    """Whether each item of a list is a text of its own."""
    near: Nearest | None = None
    """Vectors that rows have to be near to as well: before the search with ``prefilter``, otherwise of those that it found."""

    @property
    def made(self) -> tuple[str, ...]:
        """The columns that the search makes."""
        if self.near is not None and not self.prefilter:
            return (SCORE, DISTANCE)
        return (SCORE, DOC_INDEX) if self.has_items else (SCORE,)

    def column(self, name: str) -> TextColumn:
        """The column that a part of the query names."""
        return next(column for column in self.columns if column.name == name)


def matching_of(schema: Schema, query: Query) -> Matching:
    """A query of a table with a schema.

    Raises
    ------
    InvalidInput, UnknownColumn
        The query makes no sense, or a column is not there or has no texts.
    """
    check_query(query)
    columns = {name: text_column(schema, name) for name in columns_asked(query)}
    if any(column.name != name for name, column in columns.items()):
        query = with_columns(query, {name: column.name for name, column in columns.items()})
    return Matching(query, tuple({column.name: column for column in columns.values()}.values()))


@lru_cache(KEPT_PLANS)
def text_column(schema: Schema, name: str) -> TextColumn:
    """The column that a query names; in another case of letters too, where no other is meant."""
    try:
        steps = (name,) if name in schema.names else tuple(split_path(name))
        chain = schema.resolve_texts(steps, any_case=True)
    except UnknownColumn as error:
        raise UnknownColumn(name, error.known) from None
    check_texts_path(name, chain)
    field = chain[-1]
    dtype = scan_field(field).type
    while pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        dtype = dtype.value_type
    if not (field.is_json or pa.types.is_string(dtype) or pa.types.is_large_string(dtype)):
        raise InvalidInput(
            f"FTS field '{name}' must resolve to Utf8, LargeUtf8, Utf8View, or JSON, got {dtype}: name a column of texts"
        )
    return TextColumn(texts_path(chain))


def check_texts_path(name: str, chain: Sequence[Field]) -> None:
    """Raise where texts at the end of some fields cannot be told from each other: in maps, or in lists of lists."""
    lists = [node.is_list for node in chain]
    if any(node.logical_type != "struct" and not node.is_list for node in chain[:-1]):
        raise InvalidInput(f"column '{name}' goes through a map, or a list of fixed size, whose items have no path")
    if any(lists[:-1]) and (sum(lists) > 1 or chain[-1].is_json):
        raise NotSupported(
            f"column '{name}' has lists, or JSON, inside of items of lists; lancelet searches texts that are in one list"
        )
