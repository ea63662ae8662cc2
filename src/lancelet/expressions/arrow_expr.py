"""pyarrow compute expressions into our own.

pyarrow shows the inside of an expression in two ways: Substrait, which loses
types (durations, unsigned integers, ...) and knows few functions, and the form
in which expressions are pickled, which loses nothing and is read here. That
form is a record batch of one row::

    columns           the literals and function options, by number
    schema metadata   the tree in order, as pairs (keys repeat):
        call <name>  <arguments>  [options <column>]  end <name>
        literal <column>
        field_ref <name>
        nested_field_ref <n>  followed by n field_refs

pyarrow's ``schema.metadata`` is a dict and would drop repeated keys, so the
pairs are read through the Arrow C data interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions import build
from lancelet.expressions.expr import MAX_DEPTH, Expr, Literal, depth_of, storage_value, type_of
from lancelet.expressions.literals import number_from_text
from lancelet.runtime import compute as pc

__all__ = ["from_arrow"]


_Options: TypeAlias = dict[str, Any]
"""What a call of Arrow's is told besides its arguments."""


def from_arrow(expression: pc.Expression, schema: pa.Schema) -> Expr:
    """Convert a pyarrow expression over the columns of ``schema``.

    The meaning is that of SQL filters: logic is three-valued, and floats have
    a total order in which NaN is the greatest.

    >>> schema = pa.schema({"a": pa.int8(), "b": pa.string()})
    >>> str(from_arrow((pc.field("a") > 1) & pc.field("b").isin(["x", "y"]), schema))
    "a > 1 AND b IN ('x', 'y')"
    """
    if not isinstance(expression, pc.Expression):
        raise InvalidInput(f"expected a pyarrow.compute.Expression, not {type(expression).__name__}")
    try:
        steps, values = _serialized(expression)
    except pa.ArrowException as error:
        raise InvalidInput(
            f"cannot read the expression {_shown(expression)}: {error}; refer to columns by name, as in pc.field('a')"
        ) from error
    expr = _Reader(schema, steps, values).read()
    if depth_of(expr) > MAX_DEPTH:
        raise InvalidInput(f"the expression {_shown(expression)} is nested too deeply")
    return expr


def _shown(expression: pc.Expression) -> str:
    text = str(expression)
    return text if len(text) <= 200 else text[:200] + "..."


class _ArrowSchema(ctypes.Structure):
    """The head of the C data interface's struct ArrowSchema."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _serialized(expression: pc.Expression) -> tuple[list[tuple[str, str]], list[pa.Scalar]]:
    buffer = expression.__reduce__()[1][0]
    batch = pa.ipc.open_file(buffer).get_batch(0)
    return _pairs(batch.schema), [column[0] for column in batch.columns]


def _pairs(schema: pa.Schema) -> list[tuple[str, str]]:
    """All metadata pairs: an int32 count, then for each key and value an int32 length and its bytes."""
    capsule = schema.__arrow_c_schema__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _ArrowSchema.from_address(get_pointer(capsule, b"arrow_schema")).metadata
    if address is None:
        return []
    texts: list[str] = []
    at = address + 4
    for _ in range(2 * ctypes.c_int32.from_address(address).value):
        length = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    return list(zip(texts[::2], texts[1::2], strict=True))


_COMPARISONS = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_FUNCTIONS = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "negate": "negate",
    "abs": "abs",
    "power": "power",
    "bit_wise_and": "bit_wise_and",
    "bit_wise_or": "bit_wise_or",
    "bit_wise_xor": "bit_wise_xor",
    "shift_left": "shift_left",
    "shift_right": "shift_right",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "sqrt": "sqrt",
    "exp": "exp",
    "ln": "ln",
    "log10": "log10",
    "log2": "log2",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sign": "signum",
    "is_nan": "isnan",
    "coalesce": "coalesce",
    "utf8_lower": "lower",
    "utf8_upper": "upper",
    "utf8_length": "length",
    "utf8_reverse": "reverse",
    "utf8_trim_whitespace": "btrim",
    "utf8_ltrim_whitespace": "ltrim",
    "utf8_rtrim_whitespace": "rtrim",
    "binary_length": "octet_length",
    "list_value_length": "array_length",
}
_PATTERNS = {"starts_with": "starts_with", "ends_with": "ends_with", "match_substring": "contains"}
_PARTS = {"iso_week": "week", "day_of_year": "doy"} | {
    name: name for name in ("year", "quarter", "month", "day", "hour", "minute", "second")
}
_CHAINS = ("and_kleene", "and", "or_kleene", "or")
_NARROWED = {"add", "subtract", "multiply", "divide"}


@dataclass(slots=True)
class _Chain:
    """An AND or OR that may still grow: ``a | b | c | ...`` is a deep tree to pyarrow, one node to us."""

    name: str
    parts: list[Expr]

    def close(self) -> Expr:
        return build.all_of(self.parts) if self.name.startswith("and") else build.any_of(self.parts)


def _closed(part: Expr | _Chain) -> Expr:
    return part.close() if isinstance(part, _Chain) else part


def _joined(name: str, args: list[Expr | _Chain]) -> _Chain:
    first, *others = args
    chain = first if isinstance(first, _Chain) and first.name == name else _Chain(name, [_closed(first)])
    chain.parts.extend(_closed(other) for other in others)
    return chain


class _Reader:
    """Rebuilds the tree from its serialised steps, without recursion: generated filters can be very deep."""

    def __init__(self, schema: pa.Schema, steps: list[tuple[str, str]], values: list[pa.Scalar]) -> None:
        self._schema = schema
        self._steps = steps
        self._values = values

    def read(self) -> Expr:
        open_calls: list[tuple[str, list[Expr | _Chain], _Options]] = [("", [], {})]
        at = 0
        while at < len(self._steps):
            kind, text = self._steps[at]
            at += 1
            name, args, options = open_calls[-1]
            if kind == "call":
                open_calls.append((text, [], {}))
            elif kind == "end":
                open_calls.pop()
                if name in _CHAINS:
                    open_calls[-1][1].append(_joined(name, args))
                else:
                    open_calls[-1][1].append(self._call(name, [_closed(arg) for arg in args], options))
            elif kind == "options":
                options.update(self._options(int(text)))
            elif kind == "nested_field_ref":
                path = [step[1] for step in self._steps[at : at + int(text)]]
                at += int(text)
                args.append(build.column(self._schema, path, exact=True))
            elif kind == "field_ref":
                args.append(build.column(self._schema, [text], exact=True))
            elif kind == "literal":
                args.append(_literal(self._values[int(text)]))
            else:
                raise InvalidInput(f"this version of pyarrow writes expressions in an unknown form ({kind})")
        return _closed(open_calls[0][1][0])

    def _options(self, index: int) -> _Options:
        """The options of a function, as Arrow scalars; a cast's target is the type of its scalar."""
        scalar = self._values[index]
        return {name: scalar[name] for name in (scalar.type.field(i).name for i in range(scalar.type.num_fields))}

    def _call(self, name: str, args: list[Expr], options: _Options) -> Expr:
        plain = name.removesuffix("_checked")
        if plain in _COMPARISONS:
            return build.compare(_COMPARISONS[plain], args[0], args[1], narrow=True)
        if plain in _NARROWED:
            return build.call(_FUNCTIONS[plain], args, narrow=True)
        if plain in _FUNCTIONS:
            return build.call(_FUNCTIONS[plain], args)
        if name in _PATTERNS or name == "match_substring_regex":
            return self._pattern(name, args[0], options)
        if name in _PARTS:
            return build.call("date_part", [Literal(_PARTS[name], pa.string()), args[0]])
        special: Callable[[list[Expr], _Options], Expr] | None = getattr(self, f"_{name}", None)
        if special is None:
            raise InvalidInput(f"the pyarrow function {name}() is not supported in filters and projections")
        return special(args, options)

    def _invert(self, args: list[Expr], options: _Options) -> Expr:
        return build.negation(args[0])

    def _is_null(self, args: list[Expr], options: _Options) -> Expr:
        missing = build.is_null(args[0])
        if options.get("nan_is_null") and options["nan_is_null"].as_py() and pa.types.is_floating(type_of(args[0])):
            return build.any_of([missing, build.call("is_true", [build.call("isnan", args)])])
        return missing

    def _is_valid(self, args: list[Expr], options: _Options) -> Expr:
        return build.negation(build.is_null(args[0]))

    def _xor(self, args: list[Expr], options: _Options) -> Expr:
        return build.compare("!=", build.condition(args[0]), build.condition(args[1]))

    def _is_in(self, args: list[Expr], options: _Options) -> Expr:
        items = [_literal(item) for item in options["value_set"].values]
        return build.in_list(args[0], items, narrow=True)

    def _cast(self, args: list[Expr], options: _Options) -> Expr:
        return build.cast(args[0], options["to_type"].type)

    def _if_else(self, args: list[Expr], options: _Options) -> Expr:
        # pyarrow gives null where the condition is null, CASE gives the last value.
        test, chosen, other = args
        return build.call("case", [build.is_null(test), Literal(None, pa.null()), test, chosen, other])

    def _struct_field(self, args: list[Expr], options: _Options) -> Expr:
        result = args[0]
        for part in str(options["field_ref"].as_py()).replace("][", "].[").removeprefix(".").split("."):
            kind = type_of(result)
            if part.startswith("[") and pa.types.is_struct(kind):
                index = int(part.strip("[]"))
                if index >= kind.num_fields:
                    raise InvalidInput(f"{result} has no field number {index}")
                part = kind.field(index).name
            result = build.call("get_field", [result, Literal(part, pa.string())])
        return result

    def _list_element(self, args: list[Expr], options: _Options) -> Expr:
        # pyarrow counts from 0 and knows no other end.
        return build.call("array_element", [args[0], build.call("add", [args[1], number_from_text("1")])])

    def _match_like(self, args: list[Expr], options: _Options) -> Expr:
        pattern = Literal(options["pattern"].as_py(), pa.string())
        return build.like(args[0], pattern, ignore_case=options["ignore_case"].as_py())

    def _pattern(self, name: str, text: Expr, options: _Options) -> Expr:
        pattern = Literal(options["pattern"].as_py(), pa.string())
        ignore_case = options["ignore_case"].as_py()
        if name == "match_substring_regex":
            flags = [Literal("i", pa.string())] if ignore_case else []
            return build.call("regexp_like", [text, pattern, *flags])
        if ignore_case:
            text, pattern = build.call("lower", [text]), build.call("lower", [pattern])  # type: ignore[assignment]
        return build.call(_PATTERNS[name], [text, pattern])


def _literal(scalar: pa.Scalar) -> Literal:
    kind = scalar.type
    return Literal(storage_value(scalar), kind.value_type if pa.types.is_dictionary(kind) else kind)
