"""SQL text into expressions.

The dialect is the one that pylance takes in filters and projections: single or
double quotes for text, backticks for names, ``==`` as well as ``=``, no
subqueries. sqlglot parses it; this module gives its tree meaning.

Names: the first part of a column path is matched exactly and else without
regard to case; one name in backticks, and the fields of structs, exactly.

A number next to a column takes the column's type. As in pylance this rounds a
double to the precision of a float column only where the comparison stands at
the top of the filter or under AND and OR alone; inside NOT or a function the
column's values are compared with the double itself.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet._naming.texts import half_character
from lancelet.errors import FilterSyntaxError, InvalidInput
from lancelet.expressions import build
from lancelet.expressions.arrow_type_names import arrow_name, parse_arrow_name
from lancelet.expressions.coercion import DAY, common_type, describe, is_list_like, value_type
from lancelet.expressions.expr import MAX_DEPTH, Column, Expr, Literal, depth_of, type_of
from lancelet.expressions.functions import find_function
from lancelet.expressions.literals import number_from_text, place
from lancelet.expressions.type_names import SQL_TYPES, timestamp_of

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError

__all__ = ["names_moment", "parse_expression", "parse_filter"]


def parse_filter(text: str, schema: pa.Schema, *, qualified: bool = False) -> Expr:
    """Parse a filter: an SQL condition over the columns of ``schema``.

    Parameters
    ----------
    text
        The condition, as it would follow WHERE.
    schema
        The table's schema; the system columns (``_rowid``, ...) need not be in it.
    qualified
        The columns of the schema are tables, and their fields columns.

    Raises
    ------
    FilterSyntaxError
        The text is not SQL; the error says where.
    UnknownColumn
        It names a column that the schema does not have.
    InvalidInput
        It calls an unknown function, mixes types that do not go together, or is not a condition.

    >>> str(parse_filter("a > 1 and not b like 'x%'", pa.schema({"a": pa.int8(), "b": pa.string()})))
    "a > 1 AND NOT (b LIKE 'x%')"
    """
    expr = _parse(text, schema, qualified)
    if pa.types.is_null(type_of(expr)):
        raise InvalidInput(f"the filter {text!r} is NULL, but a filter must be true or false")
    return build.condition(expr)


def parse_expression(text: str, schema: pa.Schema) -> Expr:
    """Parse an SQL expression over the columns of ``schema``, as in ``columns={"x": "a + 1"}``.

    Text that is just the name of a column, whatever characters it has and in whatever case, is that column.

    >>> str(parse_expression("A + 1", pa.schema({"a": pa.int64()})))
    'a + 1'
    """
    _refuse_surrogates(text)
    if text in schema.names or text.lower() in (name.lower() for name in schema.names):
        return build.column(schema, [text])
    return _parse(text, schema)


def names_moment(text: str) -> bool:
    """Whether a text may name the time at which it is read.

    >>> names_moment("at < NOW()"), names_moment("at < 5")
    (True, False)
    """
    lowered = text.lower()
    return any(name in lowered for name in _MOMENTS)


def _parse(text: str, schema: pa.Schema, qualified: bool = False) -> Expr:
    _refuse_surrogates(text)
    source = _Source.lifting(text)
    tree = source.parse()
    try:
        expr = _Translation(schema, source, qualified).expr(tree, top=True)
    except RecursionError:
        raise _too_deep(text) from None
    if depth_of(expr) > MAX_DEPTH:
        raise _too_deep(text)
    return expr


def _refuse_surrogates(text: str) -> None:
    if at := half_character(text):
        shown = text.encode(errors="backslashreplace").decode()
        raise FilterSyntaxError(_excerpt(shown), None, f"it is no Unicode text at character {at}")


def _too_deep(text: str) -> FilterSyntaxError:
    return FilterSyntaxError(_excerpt(text), None, "it is nested too deeply; write long chains with AND, OR or IN")


def _excerpt(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


# Long lists of literals are read here with one regular expression each, and a marker takes their place in
# the text: sqlglot would spend over a second on a hundred thousand values.
_LITERAL = r"(?:-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|'(?:[^']|'')*')"
_LISTS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/"
    rf"|\bIN\s*\(\s*({_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*\)",
    re.IGNORECASE | re.DOTALL,
)
_ITEM = re.compile(_LITERAL)
_LONG = 2000


@dataclass(slots=True)
class _Source:
    """The text to parse, with long literal lists lifted out of it."""

    text: str
    parsed_text: str
    lists: dict[str, str] = field(default_factory=dict)  # marker -> the list's own text
    cuts: list[tuple[int, int]] = field(default_factory=list)  # (offset in parsed_text, characters missing before it)

    @classmethod
    def lifting(cls, text: str) -> _Source:
        source = cls(text, text)
        if len(text) < _LONG:
            return source
        mark = "\0"
        while mark in text:
            mark += "\0"
        pieces: list[str] = []
        at = length = 0
        for match in _LISTS.finditer(text):
            if match[1] is None or len(match[1]) < _LONG:
                continue
            marker = f"{mark}{len(source.lists)}"
            source.lists[marker] = match[1]
            pieces += [text[at : match.start(1)], f"'{marker}'"]
            length += len(pieces[-2]) + len(pieces[-1])
            at = match.end(1)
            source.cuts.append((length, at - length))
        source.parsed_text = "".join([*pieces, text[at:]])
        return source

    def parse(self) -> exp.Expr:
        """The sqlglot tree."""
        from sqlglot import TokenType, exp
        from sqlglot.errors import ParseError, TokenError

        text = self.parsed_text
        dialect = _dialect()
        try:
            tokens = dialect.tokenize(text)
            for token in tokens:
                if token.token_type is TokenType.STRING:
                    raw = text[token.start : token.end + 1]
                    token.text = raw[1:-1].replace(raw[0] * 2, raw[0])
                elif token.token_type is TokenType.SEMICOLON:
                    raise self._error(token.start, "unexpected ';'")
            if not tokens:
                raise FilterSyntaxError(self.text, 0, "it is empty")
            trees = dialect.parser().parse_into(exp.Condition, tokens, text)
        except TokenError:
            opened = _unclosed(text)
            reason = "a literal is malformed" if opened is None else "a quote or a comment is opened and never closed"
            raise self._error(opened, reason) from None
        except ParseError as error:
            raise self._error(*_explained(error, text)) from None
        except RecursionError:
            raise _too_deep(self.text) from None
        if not trees or trees[0] is None:
            raise self._error(0, "there is no expression")
        return trees[0]

    def _error(self, position: int | None, reason: str) -> FilterSyntaxError:
        if position is None or len(self.text) >= _LONG:
            return FilterSyntaxError(_excerpt(self.text), None, f"{reason}{self._place(position)}")
        return FilterSyntaxError(self.text, position, reason)

    def _place(self, position: int | None) -> str:
        if position is None:
            return ""
        cut = bisect_right(self.cuts, position, key=lambda cut: cut[0]) - 1
        return f" (at character {position + (self.cuts[cut][1] if cut >= 0 else 0) + 1})"

    def lifted(self, marker: str) -> list[Expr] | None:
        """The literals of the list that was lifted out under this marker."""
        if marker not in self.lists:
            return None
        return [
            _number(item) if item[0] != "'" else _text(item[1:-1].replace("''", "'"))
            for item in _ITEM.findall(self.lists[marker])
        ]


def _number(text: str) -> Literal:
    literal = number_from_text(text.removeprefix("-"))
    return Literal(-literal.value, literal.type) if text[0] == "-" else literal  # type: ignore[operator]


def _text(value: str) -> Literal:
    return Literal(value, pa.string())


_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|([\"'`]|/\*)", re.DOTALL)


def _unclosed(text: str) -> int | None:
    return next((match.start() for match in _QUOTED.finditer(text) if match[1]), None)


def _explained(error: ParseError, text: str) -> tuple[int | None, str]:
    """Where sqlglot stopped, and why, in words."""
    detail = error.errors[0] if error.errors else {}
    line, column, token = detail.get("line"), detail.get("col"), detail.get("highlight") or ""
    description = str(detail.get("description") or "it is not an SQL expression")
    position = None
    if line is not None and column is not None:
        before = sum(len(part) + 1 for part in text.split("\n")[: line - 1])
        position = max(0, min(before + column - len(token), len(text)))
    if "missing for" in description:
        return position, f"an operand is missing near {token!r}"
    if "Unexpected token" in description:
        return position, f"unexpected {token!r}"
    return position, description[:1].lower() + description[1:] + (f" near {token!r}" if token else "")


@lru_cache(maxsize=1)
def _dialect() -> Dialect:
    from sqlglot import parser, tokens
    from sqlglot.dialects.dialect import Dialect

    kept = ("CAST", "EXTRACT", "SUBSTRING", "TRIM", "TRY_CAST")

    class Lance(Dialect):
        """Every function stays a plain call, so that names mean what ``expressions.functions`` says."""

        class Tokenizer(tokens.Tokenizer):
            IDENTIFIERS = ["`"]  # noqa: RUF012
            QUOTES = ["'", '"']  # noqa: RUF012
            STRING_ESCAPES = ["'", '"']  # noqa: RUF012
            HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012

        class Parser(parser.Parser):
            FUNCTIONS = {}  # noqa: RUF012
            NO_PAREN_FUNCTIONS = {}  # noqa: RUF012
            FUNCTION_PARSERS = {name: parser.Parser.FUNCTION_PARSERS[name] for name in kept}  # noqa: RUF012
            NO_PAREN_FUNCTION_PARSERS = {"CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}  # noqa: RUF012

    return Lance()


_COMPARISONS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_ARITHMETIC = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Mod": "modulo",
    "BitwiseLeftShift": "shift_left",
    "BitwiseRightShift": "shift_right",
    "BitwiseAnd": "bit_wise_and",
    "BitwiseOr": "bit_wise_or",
    "BitwiseXor": "bit_wise_xor",
    "DPipe": "||",
}
_TYPES = {
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "VARBINARY": pa.binary(),
    "TIME": pa.time64("ns"),
    **{name: kind for name, kind in SQL_TYPES.items() if " " not in name},
}


@dataclass(slots=True)
class _Translation:
    """From sqlglot's tree to expressions; one method for each sort of node."""

    schema: pa.Schema
    source: _Source
    qualified: bool = False

    def expr(self, node: exp.Expr | None, top: bool = False) -> Expr:
        """``top``: only AND and OR stand above this node."""
        if node is None:
            raise FilterSyntaxError(_excerpt(self.source.text), None, "an operand is missing")
        name = type(node).__name__
        if name == "Paren":
            return self.expr(node.this, top)
        if name in ("And", "Or"):
            parts = [self.expr(part, top) for part in _chain(node, type(node))]
            return build.all_of(parts) if name == "And" else build.any_of(parts)
        if name in _COMPARISONS:
            narrow = top and not _is_cast(node.this) and not _is_cast(node.expression)
            return build.compare(_COMPARISONS[name], self.expr(node.this), self.expr(node.expression), narrow)
        if name in _ARITHMETIC:
            operands = [self.expr(node.this), self.expr(node.expression)]
            return build.call(_ARITHMETIC[name], operands, narrow=top and name != "DPipe")
        method: Callable[[exp.Expr, bool], Expr] | None = getattr(self, f"_{name.lower()}", None)
        if method is None:
            raise InvalidInput(f"{_excerpt(_sql(node))!r} is not supported in filters and projections")
        return method(node, top)

    def _column(self, node: exp.Expr, top: bool) -> Expr:
        parts = [part for part in (node.args.get(key) for key in ("catalog", "db", "table", "this")) if part]
        if any(type(part).__name__ != "Identifier" for part in parts):
            raise InvalidInput(f"{_sql(node)!r} is not a column; quote unusual names with backticks")
        exact = len(parts) == 1 and bool(parts[0].args.get("quoted"))
        word = str(parts[0].this).lower()
        if len(parts) == 1 and not exact and word in _CONSTANTS and word.startswith("current_"):
            return _CONSTANTS[word]() if word not in map(str.lower, self.schema.names) else self._named(parts, exact)
        return self._named(parts, exact)

    def _named(self, parts: list[exp.Expr], exact: bool) -> Expr:
        return build.column(self.schema, [part.this for part in parts], exact, self.qualified)

    def _dot(self, node: exp.Expr, top: bool) -> Expr:
        if type(node.expression).__name__ != "Identifier":
            raise InvalidInput(f"{_sql(node)!r} is not a field of a struct")
        return self._field(self.expr(node.this), node.expression.this)

    def _field(self, parent: Expr, name: str) -> Expr:
        if isinstance(parent, Column):
            return build.field_of(parent, name)
        return build.call("get_field", [parent, _text(name)])

    def _bracket(self, node: exp.Expr, top: bool) -> Expr:
        parent = self.expr(node.this)
        if len(node.expressions) != 1 or type(node.expressions[0]).__name__ == "Slice":
            raise InvalidInput(f"{_sql(node)!r}: a list takes one index in brackets")
        index = self.expr(node.expressions[0])
        if isinstance(index, Literal) and isinstance(index.value, str):
            return self._field(parent, index.value)
        return build.call("array_element", [parent, index])

    def _literal(self, node: exp.Expr, top: bool) -> Expr:
        if node.is_string:
            return _text(node.this)
        try:
            return number_from_text(node.this)
        except ValueError:
            # A number to the tokenizer: digits and an "e" without an exponent.
            raise FilterSyntaxError(_excerpt(self.source.text), None, f"{node.this} is no number") from None

    def _hexstring(self, node: exp.Expr, top: bool) -> Expr:
        digits = node.this
        try:
            return Literal(bytes.fromhex("0" * (len(digits) % 2) + digits), pa.binary())
        except ValueError:
            raise InvalidInput(f"X'{digits}' is not a hexadecimal literal") from None

    def _boolean(self, node: exp.Expr, top: bool) -> Expr:
        return Literal(bool(node.this), pa.bool_())

    def _null(self, node: exp.Expr, top: bool) -> Expr:
        return Literal(None, pa.null())

    def _neg(self, node: exp.Expr, top: bool) -> Expr:
        arg = self.expr(node.this)
        if isinstance(arg, Literal) and arg.type in (pa.int64(), pa.uint64()) and isinstance(arg.value, int):
            if arg.value <= 2**63:
                return Literal(-arg.value, pa.int64())
            return Literal(-float(arg.value), pa.float64())
        return build.call("negate", [arg])

    def _not(self, node: exp.Expr, top: bool) -> Expr:
        inner = node.this
        # x NOT IN, NOT BETWEEN and NOT LIKE are single predicates to pylance, NOT (x IN ...) is not.
        return build.negation(self.expr(inner, top and type(inner).__name__ in ("In", "Between")))

    def _is(self, node: exp.Expr, top: bool) -> Expr:
        arg, test = self.expr(node.this), node.expression
        if type(test).__name__ == "Null":
            return build.is_null(arg)
        if type(test).__name__ == "Boolean":
            return build.call("is_true" if test.this else "is_false", [arg])
        raise InvalidInput(f"{_sql(node)!r}: IS takes NULL, TRUE, FALSE or DISTINCT FROM")

    def _nullsafeeq(self, node: exp.Expr, top: bool) -> Expr:
        narrow = top and not _is_cast(node.this) and not _is_cast(node.expression)
        return build.same(self.expr(node.this), self.expr(node.expression), narrow)

    def _nullsafeneq(self, node: exp.Expr, top: bool) -> Expr:
        return build.negation(self._nullsafeeq(node, top))

    def _in(self, node: exp.Expr, top: bool) -> Expr:
        if node.args.get("query") or node.args.get("field") or node.args.get("unnest"):
            raise InvalidInput(f"{_excerpt(_sql(node))!r}: IN takes a list of values in parentheses")
        arg = self.expr(node.this)
        items = node.expressions
        if len(items) == 1 and type(items[0]).__name__ == "Literal" and self.source.lists:
            lifted = self.source.lifted(items[0].this)
            if lifted is not None:
                return build.in_list(arg, lifted, narrow=top)
        values = [(self.expr(item), top and not _is_cast(item)) for item in items]
        return build.in_list(arg, [build.narrowed(value, arg) if narrow else value for value, narrow in values])

    def _between(self, node: exp.Expr, top: bool) -> Expr:
        if node.args.get("symmetric"):
            raise InvalidInput("BETWEEN SYMMETRIC is not supported")
        low, high = node.args["low"], node.args["high"]
        narrow = top and not _is_cast(low) and not _is_cast(high)
        return build.between(self.expr(node.this), self.expr(low), self.expr(high), narrow)

    def _like(self, node: exp.Expr, top: bool) -> Expr:
        return self._matches(node, None)

    def _ilike(self, node: exp.Expr, top: bool) -> Expr:
        return self._matches(node, None)

    def _escape(self, node: exp.Expr, top: bool) -> Expr:
        escape = self.expr(node.expression)
        if not isinstance(escape, Literal) or not isinstance(escape.value, str) or len(escape.value) != 1:
            raise InvalidInput(f"{_sql(node)!r}: ESCAPE takes one character in quotes")
        negated = type(node.this).__name__ == "Not"
        result = self._matches(node.this.this if negated else node.this, escape.value)
        return build.negation(result) if negated else result

    def _matches(self, node: exp.Expr, escape: str | None) -> Expr:
        ignore_case = type(node).__name__ == "ILike"
        if type(node).__name__ not in ("Like", "ILike") or type(node.expression).__name__ in ("Any", "All"):
            raise InvalidInput(f"{_sql(node)!r}: LIKE takes one pattern")
        result = build.like(self.expr(node.this), self.expr(node.expression), ignore_case, escape)
        return build.negation(result) if node.args.get("negate") else result

    def _cast(self, node: exp.Expr, top: bool) -> Expr:
        return build.cast(self.expr(node.this), self._type(node.args["to"]))

    def _trycast(self, node: exp.Expr, top: bool) -> Expr:
        return build.cast(self.expr(node.this), self._type(node.args["to"]), lenient=True)

    def _type(self, node: exp.Expr) -> pa.DataType:
        if _type_name(node) != "ARRAY":
            return _type(node)
        # As in MySQL and pylance, the word ARRAY behind a type changes nothing; other ways to ask for a list are refused.
        if len(node.expressions) != 1 or _LIST_TYPE.search(self.source.text):
            raise InvalidInput(f"CAST makes no lists ({_sql(node)}); write arrow_cast(x, 'List(Int32)')")
        return self._type(node.expressions[0])

    def _case(self, node: exp.Expr, top: bool) -> Expr:
        operand = self.expr(node.this) if node.this is not None else None
        args: list[Expr] = []
        for branch in node.args["ifs"]:
            test = self.expr(branch.this)
            args.append(build.condition(test) if operand is None else build.compare("=", operand, test))
            args.append(self.expr(branch.args["true"]))
        default = node.args.get("default")
        return build.call("case", [*args, Literal(None, pa.null()) if default is None else self.expr(default)])

    def _array(self, node: exp.Expr, top: bool) -> Expr:
        items = [self.expr(item) for item in node.expressions]
        if not all(isinstance(item, Literal) for item in items):
            return build.call("make_array", items)
        return _literal_list([item for item in items if isinstance(item, Literal)])

    def _extract(self, node: exp.Expr, top: bool) -> Expr:
        return build.call("date_part", [_text(str(node.this.this)), self.expr(node.expression)])

    def _regexplike(self, node: exp.Expr, top: bool) -> Expr:
        return build.call("regexp_like", self._present(node.this, node.expression, node.args.get("flag")))

    def _trim(self, node: exp.Expr, top: bool) -> Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "btrim")
        return build.call(name, self._present(node.this, node.args.get("expression")))

    def _substring(self, node: exp.Expr, top: bool) -> Expr:
        return build.call("substr", self._present(node.this, node.args.get("start"), node.args.get("length")))

    def _present(self, *nodes: exp.Expr | None) -> list[Expr]:
        return [self.expr(node) for node in nodes if node is not None]

    def _anonymous(self, node: exp.Expr, top: bool) -> Expr:
        name = str(node.this).lower()
        if name == "position" and len(node.expressions) == 1 and node.expressions[0].args.get("field"):
            inner = node.expressions[0]  # POSITION(part IN text)
            return build.call("strpos", self._present(inner.args["field"], inner.this))
        args = [self._interval_or(arg, name) for arg in node.expressions]
        if name == "is_valid" and len(args) == 1:
            return build.negation(build.is_null(args[0]))
        if name in ("arrow_cast", "arrow_try_cast"):
            if len(args) != 2 or not isinstance(args[1], Literal) or not isinstance(args[1].value, str):
                raise InvalidInput(f"{name}() takes a value and the name of a type in quotes")
            return build.cast(args[0], parse_arrow_name(args[1].value), lenient=name == "arrow_try_cast")
        if name == "arrow_typeof" and len(args) == 1:
            return _text(arrow_name(type_of(args[0])))
        if not args and name in _CONSTANTS:
            return _CONSTANTS[name]()
        return build.call(find_function(str(node.this)), args)

    def _interval_or(self, node: exp.Expr, function: str) -> Expr:
        """INTERVAL '1 day' is the text in functions that take one, and nothing elsewhere."""
        if function not in _WITH_INTERVALS or type(node).__name__ != "Interval":
            return self.expr(node)
        count, unit = node.this, node.args.get("unit")
        if count is None or type(count).__name__ != "Literal":
            raise InvalidInput(f"{_sql(node)!r}: INTERVAL takes a text, as in INTERVAL '1 day'")
        return _text(f"{count.name} {unit.name if unit is not None else ''}".strip())


def _is_cast(node: object) -> bool:
    return type(node).__name__ in ("Cast", "TryCast")


def _sql(node: exp.Expr) -> str:
    return str(node.sql())


def _chain(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The operands of a chain of ANDs or ORs, left to right, however long it is."""
    stack = [node]
    while stack:
        part = stack.pop()
        while type(part).__name__ == "Paren":
            part = part.this
        if type(part) is kind:
            stack += [part.expression, part.this]
        else:
            yield part


def _literal_list(items: list[Literal]) -> Literal:
    kind = pa.null()
    for item in items:
        common = common_type(kind, item.type)
        if common is None or is_list_like(value_type(item.type)):
            raise InvalidInput(f"a list cannot hold {describe(kind)} together with {describe(item.type)}")
        kind = common
    values: list[object] = []
    for item in items:
        placed = None if item.value is None else place(item, kind)
        values.append(None if placed is None else placed.value)
    return Literal(tuple(values), pa.list_(kind))


_LIST_TYPE = re.compile(r"\bARRAY\s*[<\[(]|\w\s*\[\s*\d*\s*\]", re.IGNORECASE)


def _type_name(node: exp.Expr) -> str:
    return str(node.this.name if hasattr(node.this, "name") else node.this)


def _type(node: exp.Expr) -> pa.DataType:
    name = _type_name(node)
    params = [int(param.name) for param in node.expressions if param.name.isdigit()]
    if name in ("TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"):
        return timestamp_of(params[0] if params else 6)
    if name == "DECIMAL":
        precision, scale = [*params, 0][:2] if params else (38, 10)
        if not 1 <= precision <= 38 or scale > precision:
            raise InvalidInput(
                f"DECIMAL({precision}, {scale}) is no type; the precision is 1 to 38, the scale at most that"
            )
        return pa.decimal128(precision, scale)
    if name not in _TYPES:
        raise InvalidInput(
            f"unknown type {_sql(node)}; known are {', '.join(SQL_TYPES)}, TIMESTAMP(n), DECIMAL(p, s) and TIME,"
            " and arrow_cast() takes any Arrow type"
        )
    return _TYPES[name]


def _now() -> Literal:
    return Literal(time.time_ns(), pa.timestamp("ns"))


def _clock() -> Literal:
    return Literal(time.time_ns() % (DAY * 10**9), pa.time64("ns"))


def _today() -> Literal:
    return Literal(dt.datetime.now(dt.timezone.utc).date().toordinal() - dt.date(1970, 1, 1).toordinal(), pa.date32())


_WITH_INTERVALS = ("date_bin", "range", "generate_series")
_CONSTANTS: dict[str, Callable[[], Literal]] = {
    "now": _now,
    "current_timestamp": _now,
    "current_date": _today,
    "current_time": _clock,
    "today": _today,
    "pi": lambda: Literal(math.pi, pa.float64()),
}
_MOMENTS = tuple(name for name in _CONSTANTS if name != "pi")
