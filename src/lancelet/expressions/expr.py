"""Filter and projection expressions: a small algebra of typed, immutable nodes.

::

    Column(path, type)            a column or a struct field:  a.b.c
    Literal(value, type)          a constant
    Cast(arg, type, lenient)      CAST, or TRY_CAST when lenient (a value that does not fit becomes null)
    Call(name, args, type)        arithmetic and functions of ``expressions.functions``
    Compare(op, left, right)      op is one of  =  !=  <  <=  >  >=
    In(arg, values)               arg IN (values); a null among the values has SQL's meaning
    Like(arg, pattern, ignore_case)   backslash escapes in the pattern
    IsNull(arg)
    And(args)  Or(args)  Not(arg) three-valued logic; And and Or hold two or more args and never nest directly

Other SQL forms are built from these: ``a BETWEEN x AND y`` is ``a >= x AND a <= y``,
``IS NOT NULL`` is ``Not(IsNull)``, ``IS TRUE`` is ``Call("is_true")``, ``CASE`` is ``Call("case")``.

Both sides of a Compare, and an In with its values, have the same type (a
dictionary counts as its value type): the builders in ``expressions.build`` put a
literal into its column's type and wrap anything else in a Cast. So code that
matches ``Compare(op, Column, Literal)`` against an index needs no coercion of
its own. Literals stand on the right.

Nodes can be hashed, compared, pickled and printed; ``str(expr)`` is SQL that parses back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

__all__ = [
    "And",
    "Call",
    "Cast",
    "Column",
    "Compare",
    "Expr",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Not",
    "Or",
    "ValueSet",
    "children_of",
    "columns_of",
    "conjuncts",
    "depth_of",
    "is_constant",
    "is_plain",
    "type_of",
    "walk",
]

# Front ends refuse deeper expressions, so that code may walk them by recursion.
MAX_DEPTH = 100


class _Node:
    """What all nodes share: ``str(node)`` is SQL."""

    __slots__ = ()

    def __str__(self) -> str:
        from lancelet.expressions.printing import to_sql

        return to_sql(self)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Column(_Node):
    """A column, or a field inside struct columns when the path has several names."""

    path: tuple[str, ...]
    type: pa.DataType
    extension: str = ""
    """The name of its extension type, as far as that matters to functions: what its storage type does not tell."""


@dataclass(frozen=True, slots=True)
class Literal(_Node):
    """A constant.

    ``value`` is None, bool, int, float, str, bytes, Decimal, or for a list a
    tuple of such; dates, times, timestamps and durations are the integer that
    Arrow stores for them.
    """

    value: object
    type: pa.DataType

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self.type == other.type and _signed(self.value) == _signed(other.value)

    def __hash__(self) -> int:
        return hash((self.value, self.type))


def _signed(value: object) -> object:
    """A constant, with the sign of its zeros: plans are kept by what they ask for, and -0.0 is not 0.0."""
    if isinstance(value, float):
        return value, math.copysign(1, value)
    return tuple(map(_signed, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Cast(_Node):
    """CAST (an impossible value is an error) or, when lenient, TRY_CAST (it becomes null)."""

    arg: Expr
    type: pa.DataType
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Call(_Node):
    """A function of ``expressions.functions`` applied to its arguments."""

    name: str
    args: tuple[Expr, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Compare(_Node):
    """A comparison; floats compare in a total order where NaN equals NaN and is above infinity."""

    op: str
    left: Expr
    right: Expr


class ValueSet:
    """The right side of an IN: an Arrow array that can be hashed and compared."""

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @property
    def has_null(self) -> bool:
        return bool(self.array.null_count)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueSet) and bool(self.array.equals(other.array))

    def __hash__(self) -> int:
        return hash((self.array.type, len(self.array), str(self.array[:4])))

    def __repr__(self) -> str:
        return f"ValueSet({self.array.type}, {len(self.array)} values)"

    def __reduce__(self) -> tuple[object, ...]:
        return ValueSet, (self.array,)

    def literals(self) -> Iterator[Literal]:
        """The values as literals, in order."""
        for scalar in self.array:
            yield Literal(storage_value(scalar), self.array.type)


@dataclass(frozen=True, slots=True)
class In(_Node):
    """True for a value of the set; for another value false, or null when the set holds a null."""

    arg: Expr
    values: ValueSet


@dataclass(frozen=True, slots=True)
class Like(_Node):
    """``%`` matches any run, ``_`` one character, a backslash takes the next character as it is."""

    arg: Expr
    pattern: Expr
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class IsNull(_Node):
    """True or false, never null."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class And(_Node):
    """False if any is false, else null if any is null, else true."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or(_Node):
    """True if any is true, else null if any is null, else false."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not(_Node):
    """Null stays null."""

    arg: Expr


Expr: TypeAlias = Column | Literal | Cast | Call | Compare | In | Like | IsNull | And | Or | Not

_BOOL = pa.bool_()


def type_of(expr: Expr) -> pa.DataType:
    """The Arrow type of the values of ``expr``."""
    if isinstance(expr, (Column, Literal, Cast, Call)):
        return expr.type
    return _BOOL


def children_of(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of ``expr``."""
    match expr:
        case Column() | Literal():
            return ()
        case Call() | And() | Or():
            return expr.args
        case Compare():
            return (expr.left, expr.right)
        case Like():
            return (expr.arg, expr.pattern)
        case _:
            return (expr.arg,)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node of ``expr``, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children_of(node)))


def depth_of(expr: Expr) -> int:
    """The number of nodes on the longest way down."""
    deepest = 0
    level: list[Expr] = [expr]
    while level:
        deepest += 1
        level = [child for node in level for child in children_of(node)]
    return deepest


def columns_of(expr: Expr) -> set[tuple[str, ...]]:
    """The paths of the columns that ``expr`` reads.

    >>> columns_of(Compare(">", Column(("a", "b"), pa.int64()), Literal(1, pa.int64())))
    {('a', 'b')}
    """
    return {node.path for node in walk(expr) if isinstance(node, Column)}


def is_constant(expr: Expr) -> bool:
    """Whether ``expr`` reads no column."""
    return not any(isinstance(node, Column) for node in walk(expr))


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The parts of a filter that must all hold: the args of a top-level And, or the filter itself."""
    return expr.args if isinstance(expr, And) else (expr,)


def is_plain(kind: pa.DataType) -> bool:
    """Whether a Literal can be of this type: no structs, maps, intervals or dictionaries, also inside of lists."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return is_plain(kind.value_type)
    odd = pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return not (odd or pa.types.is_interval(kind))


def storage_value(scalar: pa.Scalar) -> object:
    """The plain Python value by which a Literal holds this scalar."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_temporal(kind):
        return scalar.value
    if pa.types.is_dictionary(kind):
        return storage_value(scalar.dictionary[scalar.index.as_py()])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return tuple(storage_value(item) for item in scalar.values)
    return scalar.as_py()
