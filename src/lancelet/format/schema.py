"""Schemas: a tree of fields with ids, read from and written to flat messages.

The wire form is a depth-first list; each field names its parent by id, -1 at
the top level (spec file-format.md 2.1). A fixed-size list of a primitive is one
field without children. Old writers left duplicate ids behind, so a child
belongs to the *nearest preceding* field with its parent's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lancelet.errors import CorruptFile, NotSupported, UnfitData, UnknownColumn
from lancelet.format.blob_types import BLOB_V2_NAME
from lancelet.format.extensions import storage_field
from lancelet.format.logical_types import EXTENSION_NAME, format_logical_type, list_size, parse_logical_type
from lancelet.format.proto import file_pb2

PACKED_KEYS = ("packed", "lance-encoding:packed")
BLOB_KEY = "lance-encoding:blob"
MAX_DEPTH = 128

BLOB_V1_DESCRIPTOR = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
BLOB_V2_DESCRIPTOR = pa.struct(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("blob_id", pa.uint32(), nullable=False),
        pa.field("blob_uri", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Field:
    """One node of the schema tree. What is derived from it is computed once."""

    id: int
    name: str
    logical_type: str
    nullable: bool = True
    children: tuple[Field, ...] = ()
    metadata: Mapping[str, str] = ()  # type: ignore[assignment]
    dictionary: tuple[int, int] | None = None
    """Legacy files only: offset and length of the dictionary's values, in the file that holds this message."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", dict(self.metadata))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.id, self.name, self.logical_type, self.nullable, self.children))

    def __getstate__(self) -> dict[str, Any]:
        # Texts have other hashes in other processes.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @property
    def extension_name(self) -> str | None:
        """Of an extension type, its name."""
        return self.metadata.get(EXTENSION_NAME)

    @property
    def is_list(self) -> bool:
        """Whether it has lists of any length."""
        return self.logical_type.startswith(("list", "large_list"))

    @property
    def is_json(self) -> bool:
        """Whether it holds JSON."""
        return self.logical_type == "json"

    @property
    def is_packed(self) -> bool:
        """A packed struct is one column; its children own none."""
        return self.logical_type == "struct" and (
            self.metadata.get("packed") == "true" or "lance-encoding:packed" in self.metadata
        )

    @property
    def is_blob(self) -> bool:
        """A blob of the first kind: binary data whose column holds positions and sizes."""
        return self.metadata.get(BLOB_KEY) == "true" and self.logical_type in ("large_binary", "binary")

    @property
    def is_blob_v2(self) -> bool:
        """A blob of the second kind: a struct in the schema, a descriptor in the file."""
        return self.logical_type == "struct" and self.extension_name == BLOB_V2_NAME

    @property
    def owns_column(self) -> bool:
        """Whether a 2.1 or later file has a column under this field's own id."""
        return not self.children or self.is_packed or self.is_blob_v2

    @property
    def key_and_value(self) -> tuple[Field, Field]:
        """The two fields of a map's entries."""
        entries = self.children[0] if len(self.children) == 1 else None
        if entries is None or entries.logical_type != "struct" or len(entries.children) != 2:
            found = ", ".join(child.logical_type for child in (entries or self).children)
            raise NotSupported(f"field '{self.name}' is a map whose entries are not pairs but have [{found}]")
        key, value = entries.children
        return key, value

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The storage type; extension names stay in the field metadata."""
        children = [child.arrow_field for child in self.children]
        match self.logical_type:
            case "struct":
                return pa.struct(children)
            case "list" | "list.struct":
                return pa.list_(self._only(children))
            case "large_list" | "large_list.struct":
                return pa.large_list(self._only(children))
            case "map":
                key, value = self.key_and_value
                return pa.map_(key.arrow_field.with_nullable(False), value.arrow_field)
        if self.logical_type.startswith("fixed_size_list:struct:"):
            return pa.list_(self._only(children), list_size(self.logical_type))
        if children:
            raise NotSupported(
                f"logical type '{self.logical_type}' of field '{self.name}' has no room for {len(children)} children"
            )
        return parse_logical_type(self.logical_type)

    @cached_property
    def arrow_field(self) -> pa.Field:
        """The field of Arrow data that a scan gives."""
        return pa.field(self.name, self.arrow_type, self.nullable, dict(self.metadata) or None)

    def walk(self) -> Iterator[Field]:
        """This field and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def _only(self, children: list[pa.Field]) -> pa.Field:
        if len(children) != 1:
            raise NotSupported(f"field '{self.name}' of type {self.logical_type} has {len(children)} children, not one")
        return children[0]


@dataclass(frozen=True)
class Schema:
    """The fields of a table or file, and its metadata."""

    fields: tuple[Field, ...]
    metadata: Mapping[str, str] = ()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", dict(self.metadata))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Of numbers alone, so that it is right in other processes too."""
        return hash(tuple(field.id for field in self.fields))

    @classmethod
    def from_proto(
        cls,
        messages: Sequence[file_pb2.Field],
        metadata: Mapping[str, bytes] | None = None,
        *,
        path: str = "schema",
    ) -> Schema:
        """Build the tree from the flat list of a manifest or file descriptor."""
        children: list[list[int]] = [[] for _ in messages]
        roots: list[int] = []
        latest: dict[int, int] = {}
        for index, message in enumerate(messages):
            if message.parent_id == -1:
                roots.append(index)
            elif message.parent_id in latest:
                children[latest[message.parent_id]].append(index)
            else:
                raise CorruptFile(path, f"field '{message.name}' has the unknown parent {message.parent_id}", "schema")
            latest[message.id] = index

        def build(index: int, depth: int) -> Field:
            if depth > MAX_DEPTH:
                raise CorruptFile(path, f"fields nest deeper than {MAX_DEPTH} levels", "schema")
            message = messages[index]
            if "\0" in message.name:
                raise CorruptFile(
                    path,
                    f"field {message.id} is named {message.name[:40]!r}; Arrow's interfaces end a name at a NUL character",
                    "schema",
                )
            below = tuple(build(child, depth + 1) for child in children[index])
            extras = _texts(message.metadata, path)
            if message.extension_name:
                extras[EXTENSION_NAME] = message.extension_name
            place = (message.dictionary.offset, message.dictionary.length) if message.HasField("dictionary") else None
            return Field(message.id, message.name, message.logical_type, message.nullable, below, extras, place)

        return cls(tuple(build(root, 0) for root in roots), _texts(metadata or {}, path))

    def to_arrow(self) -> pa.Schema:
        """The Arrow schema, extension types resolved where pyarrow knows them."""
        return resolve_extensions(pa.schema([f.arrow_field for f in self.fields], metadata=dict(self.metadata) or None))

    def walk(self) -> Iterator[Field]:
        """Every field, each before those inside it."""
        for field in self.fields:
            yield from field.walk()

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [field.name for field in self.fields]

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The columns by their names; of several with one name the first."""
        return {field.name: field for field in reversed(self.fields)}

    def paths(self) -> list[str]:
        """Paths of all fields as a projection takes them, for error texts."""

        def below(above: tuple[str, ...], fields: Iterable[Field]) -> Iterator[str]:
            for field in fields:
                steps = (*above, field.name)
                yield join_path(steps)
                yield from below(steps, field.children)

        return list(below((), self.fields))

    def field_by_path(self, path: str | tuple[str, ...]) -> Field:
        """The field at a path: its names one by one, or dotted, with backticks around names that have dots."""
        return self.resolve(path)[-1]

    def resolve(self, path: str | tuple[str, ...], *, any_case: bool = False) -> tuple[Field, ...]:
        """All fields from the top level down to the one at ``path``.

        With ``any_case``, a name that no field has exactly is that of the first field that differs in case alone.
        """
        steps = split_path(path) if isinstance(path, str) else path
        fields, found = self.fields, list[Field]()
        for step in steps:
            # There may be very many columns, but not so many fields inside of one.
            match = next((f for f in fields if f.name == step), None) if found else self.by_name.get(step)
            if match is None and any_case:
                match = next((field for field in fields if field.name.lower() == step.lower()), None)
            if match is None:
                raise UnknownColumn(join_path(steps), self.paths())
            found.append(match)
            fields = match.children
        return tuple(found)

    def resolve_texts(self, path: tuple[str, ...], *, any_case: bool = False) -> tuple[Field, ...]:
        """As :meth:`resolve`, where items of lists that are structs have no name of their own: ``l.t``, and not ``l.item.t``."""
        fields, found = self.fields, []
        for number, step in enumerate(path):
            match = next((field for field in fields if field.name == step), None)
            if match is None and any_case:
                match = next((field for field in fields if field.name.lower() == step.lower()), None)
            if match is None:
                raise UnknownColumn(join_path(path), self.paths())
            found.append(match)
            fields = match.children
            if number < len(path) - 1 and match.is_list and fields[0].logical_type == "struct":
                found.append(fields[0])
                fields = fields[0].children
        return tuple(found)

    def project(self, paths: Iterable[str | tuple[str, ...]]) -> Schema:
        """Only these columns, in this order; nested paths keep their parents and prune the siblings."""
        chosen: dict[str, Field] = {}
        for path in paths:
            chain = self.resolve(path)
            branch = chain[-1]
            for parent in reversed(chain[:-1]):
                branch = replace(parent, children=(branch,))
            top = chain[0].name
            chosen[top] = _merge(chosen[top], branch, self.resolve((top,))[0]) if top in chosen else branch
        return Schema(tuple(chosen.values()), self.metadata)


def texts_path(chain: Sequence[Field]) -> tuple[str, ...]:
    """The path that :meth:`Schema.resolve_texts` finds some fields by: their names, without those of items of lists."""
    return tuple(node.name for at, node in enumerate(chain) if not (at and chain[at - 1].is_list))


def join_path(steps: Sequence[str]) -> str:
    """The path that :func:`split_path` splits into these names; only nested ones that need backticks get them.

    >>> join_path(["s", "a.b"])
    's.`a.b`'
    """
    if len(steps) == 1 and "`" not in steps[0]:
        return steps[0]
    return ".".join("`" + step.replace("`", "``") + "`" if "." in step or "`" in step else step for step in steps)


def split_path(path: str) -> list[str]:
    """Split ``a.b.`c.d``` at dots outside backticks; two of them inside backticks stand for one.

    What ends inside backticks is one name.
    """
    if "`" not in path:
        return path.split(".")
    steps, current, quoted, at = [], "", False, 0
    while at < len(path):
        char = path[at]
        if char == "`" and quoted and path.startswith("``", at):
            current += char
            at += 1
        elif char == "`":
            quoted = not quoted
        elif char == "." and not quoted:
            steps.append(current)
            current = ""
        else:
            current += char
        at += 1
    return [path] if quoted else [*steps, current]


def resolve_extensions(schema: pa.Schema) -> pa.Schema:
    """Turn extension names in field metadata into the extension types registered with pyarrow."""
    if not any(names_extension(field) for field in schema):
        return schema
    try:
        return pa.ipc.read_schema(schema.serialize())
    except (TypeError, ValueError) as error:
        raise NotSupported(f"a field is not made as its extension type wants it: {error}") from error


def schema_from_arrow(schema: pa.Schema, first_id: int = 0) -> Schema:
    """Number the fields of an Arrow schema depth-first, as a new table does."""
    following = iter(range(first_id, 2**31))

    def build(arrow: pa.Field) -> Field:
        arrow = storage_field(arrow)
        metadata = {key.decode(): value.decode() for key, value in (arrow.metadata or {}).items()}
        dtype = arrow.type
        number = next(following)
        return Field(
            number,
            arrow.name,
            format_logical_type(dtype),
            arrow.nullable,
            tuple(build(child) for child in _child_fields(dtype)),
            metadata,
            (0, 0) if pa.types.is_dictionary(dtype) else None,
        )

    if len(set(schema.names)) != len(schema.names):
        double = next(name for name in schema.names if schema.names.count(name) > 1)
        raise UnfitData(f'Duplicate field name "{double}" in schema; give every column its own name')
    metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    return Schema(tuple(build(field) for field in schema), metadata)


def _child_fields(dtype: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(dtype):
        return list(dtype)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return [dtype.value_field]
    if pa.types.is_map(dtype):
        return [pa.field("entries", pa.struct([dtype.key_field, dtype.item_field]), nullable=False)]
    if pa.types.is_fixed_size_list(dtype) and pa.types.is_struct(dtype.value_type):
        return [dtype.value_field]
    return []


def _merge(left: Field, right: Field, full: Field) -> Field:
    """Union of two prunings of the same field, children in the full field's order."""
    if left == full or right == full:
        return full
    sides = [{child.name: child for child in side.children} for side in (left, right)]
    merged = []
    for child in full.children:
        found = [side[child.name] for side in sides if child.name in side]
        if found:
            merged.append(found[0] if len(found) == 1 else _merge(found[0], found[1], child))
    return replace(full, children=tuple(merged))


def names_extension(field: pa.Field) -> bool:
    """Whether a field, or one inside of it, names an extension type in its metadata."""
    if field.metadata and EXTENSION_NAME.encode() in field.metadata:
        return True
    return any(names_extension(field.type.field(i)) for i in range(field.type.num_fields))


def _texts(metadata: Mapping[str, bytes], path: str) -> dict[str, str]:
    try:
        return {key: value.decode() for key, value in metadata.items()}
    except UnicodeDecodeError as error:
        raise CorruptFile(path, f"metadata is not UTF-8: {error}", "schema") from None
