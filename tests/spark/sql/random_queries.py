"""Tables and queries by chance: what Spark answers over Parquet is what it has to answer over our tables.

A column has few different values, most of them odd ones, so that conditions, joins and groups meet. A condition is a
text about the columns of one table, which is called ``t`` in a query.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

import lancelet

_NAN = float("nan")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """A column: its values, and how they are written in SQL."""

    dtype: pa.DataType
    values: tuple[Any, ...]
    literals: tuple[str, ...]
    index: tuple[str, ...] = ()
    """Kinds of scalar indices that it may have."""
    is_number: bool = False


_TEXTS = (
    "", " ", "a", "a ", "A", "ab", "a%", "a_", "%", "_", "\\", "a\\b", "it's", '"', "NULL", "ä", "a\u0308", "ß", "z",
    "\uffff", "\U0001f600", "日本", "a\tb", "a\nb", "\x00", "a\x00", "nan", "0", "1.0",
)  # fmt: skip


def _quoted(text: str) -> str:
    return "'" + "".join(f"\\u{ord(c):04x}" if c in "\\'\"\t\n\x00" else c for c in text) + "'"


_FLOATS = ("float('nan')", "float('-0.0')", "0.0f", "float('infinity')", "float('-infinity')", "1.5f", "0.1f", "-2.25f")
_DOUBLES = (
    "double('nan')",
    "-0.0d",
    "0.0d",
    "double('infinity')",
    "double('-infinity')",
    "1.5d",
    "0.1d",
    "-2.25d",
    "1e300d",
)
_WHOLE = (
    "-129",
    "-128",
    "-1",
    "0",
    "1",
    "2",
    "7",
    "127",
    "128",
    "255",
    "256",
    "2147483647",
    "2147483648L",
    "0.5",
    "1.0",
    "1.5d",
    "'1'",
)
_LONGS = (
    "-9223372036854775807L",
    "9223372036854775807L",
    "2147483648L",
    "-1",
    "0",
    "1",
    "7",
    "1.5",
    "9223372036854775808",
    "1e19d",
    "'7'",
)
_DECIMALS = (
    "0",
    "1",
    "1.10",
    "1.1",
    "1.105",
    "-1.10",
    "9999999.99",
    "10000000",
    "1.1d",
    "1e-10",
    "cast(1.10 as decimal(38,20))",
)
_DATES = ("DATE'0001-01-01'", "DATE'1582-10-15'", "DATE'1969-12-31'", "DATE'1970-01-01'", "DATE'2024-02-29'", "DATE'9999-12-31'",
          "TIMESTAMP'2024-02-29 00:00:00'", "TIMESTAMP_NTZ'2024-02-29 00:00:00'", "'2024-02-29'", "TIMESTAMP'2024-02-29 12:00:00'")  # fmt: skip
_TIMES = ("TIMESTAMP'1900-01-01 00:00:00'", "TIMESTAMP'1969-12-31 23:59:59.999999'", "TIMESTAMP'1970-01-01 00:00:00 UTC'",
          "TIMESTAMP'2024-03-10 02:30:00 America/New_York'", "TIMESTAMP'2024-11-03 01:30:00'", "DATE'2024-11-03'",
          "TIMESTAMP_NTZ'2024-11-03 01:30:00'", "'2024-11-03 01:30:00'", "TIMESTAMP'2024-11-03 01:30:00.000001'")  # fmt: skip
_INTS = (-128, -1, 0, 1, 2, 7, 100, 127)


def _instants(*extra: int) -> tuple[datetime, ...]:
    micros = (-2208988800_000000, -1_000000, 0, 1710052200_000000, 1730611800_000000, 1730615400_000000, *extra)
    return tuple(_EPOCH + timedelta(microseconds=some) for some in micros)


def _naive(times: Sequence[datetime]) -> tuple[datetime, ...]:
    return tuple(some.replace(tzinfo=None) for some in times)


_ORDERED = ("BTREE", "BITMAP", "ZONEMAP")
_SPLIT_SECONDS = _instants(-1, 1, 1730611800_000001)
KINDS: dict[str, Kind] = {
    "b": Kind(pa.bool_(), (True, False), ("true", "false"), ("BITMAP", "BTREE")),
    "i8": Kind(pa.int8(), _INTS, _WHOLE, _ORDERED, is_number=True),
    "i16": Kind(pa.int16(), (*_INTS, 255, 256, -32768, 32767), _WHOLE, _ORDERED, is_number=True),
    "i": Kind(pa.int32(), (*_INTS, 2**31 - 1, -(2**31)), _WHOLE, _ORDERED, is_number=True),
    "l": Kind(pa.int64(), (*_INTS, 2**31, 2**63 - 1, -(2**63)), _LONGS, _ORDERED, is_number=True),
    "u8": Kind(pa.uint8(), (0, 1, 7, 128, 255), _WHOLE, _ORDERED, is_number=True),
    "u32": Kind(pa.uint32(), (0, 1, 7, 2**31, 2**32 - 1), (*_WHOLE, "4294967295L"), _ORDERED, is_number=True),
    "u64": Kind(pa.uint64(), (0, 1, 7, 2**63, 2**64 - 1), (*_LONGS, "18446744073709551615"), ("BTREE",), is_number=True),
    "h": Kind(pa.float16(), (np.float16("nan"), np.float16(-0.0), np.float16(0), np.float16(1.5), np.float16(0.1), np.float16("inf")),
              (*_FLOATS, *_DOUBLES, "cast(0.0999755859375 as float)"), ("BTREE",), is_number=True),
    "f": Kind(pa.float32(), (_NAN, -0.0, 0.0, 1.5, 0.1, -2.25, math.inf, -math.inf, 1e-45, 3.4e38), (*_FLOATS, *_DOUBLES, "0.1", "1"), _ORDERED, is_number=True),
    "d": Kind(pa.float64(), (_NAN, -0.0, 0.0, 1.5, 0.1, -2.25, math.inf, -math.inf, 5e-324, 1e300), (*_FLOATS, *_DOUBLES, "0.1", "1"), _ORDERED, is_number=True),
    "s": Kind(pa.string(), _TEXTS, tuple(map(_quoted, _TEXTS)), ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "NGRAM")),
    "ls": Kind(pa.large_string(), _TEXTS[:12], tuple(map(_quoted, _TEXTS[:14])), ("BTREE", "BITMAP")),
    "y": Kind(pa.binary(), (b"", b"\x00", b"\x00\xff", b"\xff", b"a", b"ab"), ("X''", "X'00'", "X'00FF'", "X'FF'", "X'61'", "X'62'", "binary('a')"), ("BTREE", "BITMAP")),
    "m": Kind(pa.decimal128(9, 2), tuple(map(Decimal, ("0.00", "1.10", "-1.10", "9999999.99", "1.00"))), _DECIMALS, _ORDERED, is_number=True),
    "big": Kind(pa.decimal128(38, 10), tuple(map(Decimal, ("0E-10", "1.1000000000", "-1.1000000000", "9999999999999999999999999999.9999999999"))), _DECIMALS, _ORDERED, is_number=True),
    "day": Kind(pa.date32(), (date(1, 1, 1), date(1582, 10, 15), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)), _DATES, _ORDERED),
    "at": Kind(pa.timestamp("us", "UTC"), _SPLIT_SECONDS, _TIMES, _ORDERED),
    "ntz": Kind(pa.timestamp("us"), _naive(_SPLIT_SECONDS), _TIMES, _ORDERED),
    "ms": Kind(pa.timestamp("ms", "UTC"), _instants(), _TIMES, _ORDERED),
    "sec": Kind(pa.timestamp("s"), _naive(_instants()), _TIMES, _ORDERED),
    "ns": Kind(pa.timestamp("ns", "UTC"), _SPLIT_SECONDS, _TIMES, ("BTREE",)),
    "d64": Kind(pa.date64(), (date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)), _DATES),
    "dict": Kind(pa.dictionary(pa.int32(), pa.string()), _TEXTS[:8], tuple(map(_quoted, _TEXTS[:10]))),
    "odd name": Kind(pa.int32(), _INTS, _WHOLE, ("BTREE",), is_number=True),
    "Back`Tick": Kind(pa.string(), _TEXTS[:10], tuple(map(_quoted, _TEXTS[:12])), ("BITMAP",)),
}  # fmt: skip
STRUCT = pa.struct(
    [
        pa.field("i", pa.int32()),
        pa.field("s", pa.string()),
        pa.field("in side", pa.struct([pa.field("d", pa.float64()), pa.field("at", pa.timestamp("us", "UTC"))])),
    ]
)
_INSIDE = {"st.i": "i", "st.s": "s", "st.`in side`.d": "d", "st.`in side`.at": "at"}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_SAME = {
    "i8": "i",
    "i16": "l",
    "i": "l",
    "f": "d",
    "s": "ls",
    "day": "at",
    "m": "big",
    "b": "b",
    "at": "ms",
    "u8": "i16",
    "h": "f",
}


def make_rows(chance: random.Random, count: int, first: int = 0) -> pa.Table:
    """Rows with ids from ``first`` on."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(first, first + count), pa.int64())}
    for name, kind in KINDS.items():
        share = chance.choice((0.0, 0.1, 0.5))
        picked = [None if chance.random() < share else chance.choice(kind.values) for _ in range(count)]
        columns[name] = _array(picked, kind.dtype)
    columns["st"] = pa.array([_struct(chance) for _ in range(count)], STRUCT)
    columns["arr"] = pa.array(
        [chance.choice((None, [], [1], [1, None, 2], [7, 7])) for _ in range(count)], pa.list_(pa.int32())
    )
    return pa.table(columns)


def _array(values: list[Any], dtype: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(dtype):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, dtype)


def _struct(chance: random.Random) -> Any:
    def some(name: str) -> Any:
        return None if chance.random() < 0.2 else chance.choice(KINDS[name].values)

    if chance.random() < 0.2:
        return None
    inside = None if chance.random() < 0.2 else {"d": some("d"), "at": some("at")}
    return {"i": some("i"), "s": some("s"), "in side": inside}


def make_table(chance: random.Random, place: str, count: int = 60) -> lancelet.LanceDataset:
    """A table of several fragments; some of its rows are deleted, some columns have an index, over some of its fragments."""
    ds = lancelet.write_dataset(make_rows(chance, count), place, max_rows_per_file=chance.choice((7, 25, 1000)))
    if chance.random() < 0.7:
        ds.delete(f"id % {chance.choice((3, 5, 11))} = {chance.choice((0, 1))}")
    for name, kind in KINDS.items():
        if kind.index and chance.random() < 0.5:
            ds.create_scalar_index(_path(name), chance.choice(kind.index))
    if chance.random() < 0.5:
        ds.create_scalar_index("id", chance.choice(_ORDERED))
    if chance.random() < 0.5:
        ds.insert(make_rows(chance, 15, count))
        if chance.random() < 0.5:
            ds.delete(f"id % {chance.choice((4, 7))} = 2")
    return lancelet.dataset(place)


def change(chance: random.Random, ds: lancelet.LanceDataset) -> None:
    """What somebody does to a table of which an older version is read."""
    ds.delete(f"id % {chance.choice((2, 3))} = 0")
    ds.insert(make_rows(chance, 9, 10_000))
    ds.update({"i": "7", "s": "'changed'"}, "id % 5 = 1")
    if chance.random() < 0.5:
        ds.optimize.compact_files()


def _path(name: str) -> str:
    return f"`{name.replace('`', '``')}`" if not name.isalnum() else name


def columns() -> list[str]:
    """All columns as SQL has them, those inside of structs too."""
    return ["id", *map(_path, KINDS), *_INSIDE]


def _kind_of(column: str) -> Kind:
    name = _INSIDE.get(column)
    if name is not None:
        return KINDS[name]
    return next(kind for each, kind in KINDS.items() if _path(each) == column)


def make_condition(chance: random.Random, depth: int = 2) -> str:
    """A condition on the table."""
    if depth and chance.random() < 0.45:
        word = chance.choice((" AND ", " OR "))
        return f"({make_condition(chance, depth - 1)}{word}{make_condition(chance, depth - 1)})"
    if depth and chance.random() < 0.25:
        return f"(NOT {make_condition(chance, depth - 1)})"
    column = chance.choice(columns()[1:])
    return f"({_atom(chance, column, _kind_of(column))})"


def _atom(chance: random.Random, column: str, kind: Kind) -> str:
    literal: Callable[[], str] = lambda: chance.choice(kind.literals)  # noqa: E731 - one line each
    forms: list[Callable[[], str]] = [
        lambda: f"{column} {chance.choice(_COMPARISONS)} {literal()}",
        lambda: f"{column} {chance.choice(_COMPARISONS)} {literal()}",
        lambda: f"{column} {chance.choice(_COMPARISONS)} {literal()}",
        lambda: f"{literal()} {chance.choice(_COMPARISONS)} {column}",
        lambda: f"{column} {chance.choice(('', 'NOT '))}BETWEEN {literal()} AND {literal()}",
        lambda: f"{column} {chance.choice(('', 'NOT '))}IN ({', '.join(_some(chance, kind.literals))})",
        lambda: f"{column} {chance.choice(('', 'NOT '))}IN ({', '.join(_some(chance, (*kind.literals, 'NULL', 'NULL')))})",
        lambda: f"{column} {chance.choice(('', 'NOT '))}IN ({', '.join(_typed(chance, kind) or kind.literals)})",
        lambda: f"{column} IS {chance.choice(('', 'NOT '))}NULL",
        lambda: f"{column} {chance.choice(('=', '<=>', '<>'))} NULL",
        lambda: f"coalesce({column}, {literal()}) = {literal()}",
        lambda: chance.choice(("st IS NULL", "st IS NOT NULL", "arr IS NULL", "st.`in side` IS NULL", "get(arr, 0) = 1", "size(arr) > 1")),
        lambda: f"cast({column} AS STRING) {chance.choice(('=', '<=>', '>'))} cast({literal()} AS STRING)",
        lambda: f"nullif({column}, {literal()}) IS {chance.choice(('', 'NOT '))}NULL",
        lambda: f"if({column} {chance.choice(_COMPARISONS)} {literal()}, {column} IS NULL, {column} <=> {literal()})",
        lambda: f"({column} {chance.choice(_COMPARISONS)} {literal()}) <=> {chance.choice(('true', 'false', 'NULL', 'b'))}",
        lambda: f"CASE WHEN {column} IS NULL THEN {chance.choice(('true', 'false', 'NULL'))} ELSE {column} <=> {literal()} END",
    ]  # fmt: skip
    if pa.types.is_boolean(kind.dtype):
        # Spark reads "t WHERE (b)" as the table with another name for it and for its column.
        forms.append(lambda: f"{column} AND true")
    if kind.is_number:
        forms.append(lambda: f"{column} {chance.choice(('=', '<', '>=', '<=>'))} {chance.choice(_numbers())}")
    if pa.types.is_temporal(kind.dtype):
        forms += [
            lambda: (
                f"{chance.choice(('year', 'dayofmonth'))}({column}) {chance.choice(('=', '>'))} {chance.choice((1, 31, 1970, 2024))}"
            ),
            lambda: f"cast({column} AS DATE) {chance.choice(_COMPARISONS)} {chance.choice(_DATES)}",
            lambda: f"cast({column} AS TIMESTAMP) {chance.choice(_COMPARISONS)} {chance.choice(_TIMES)}",
            lambda: f"date_trunc('DAY', {column}) = {chance.choice(_TIMES)}",
        ]
    if pa.types.is_floating(kind.dtype):
        forms.append(lambda: f"isnan({column})")
    if pa.types.is_string(kind.dtype) or pa.types.is_large_string(kind.dtype) or pa.types.is_dictionary(kind.dtype):
        patterns = (
            "'a%'",
            "'%b'",
            "'%a%'",
            "'a_'",
            "'a\\\\%'",
            "'\\\\_%'",
            "'%'",
            "''",
            "'a%b'",
            "'_'",
            "'%\\\\\\\\%'",
            "'a|%' ESCAPE '|'",
        )
        forms += [
            lambda: f"{column} {chance.choice(('', 'NOT '))}LIKE {chance.choice(patterns)}",
            lambda: f"{chance.choice(('startswith', 'endswith', 'contains'))}({column}, {literal()})",
            lambda: f"{column} ILIKE 'a%'",
            lambda: f"length({column}) > 1",
        ]  # fmt: skip
    return chance.choice(forms)()


def _numbers() -> list[str]:
    names = [_path(name) for name, kind in KINDS.items() if kind.is_number]
    return [*names, "st.i", "st.`in side`.d"]


def _some(chance: random.Random, values: Sequence[str]) -> list[str]:
    return [chance.choice(values) for _ in range(chance.choice((1, 2, 3, 12)))]


def _typed(chance: random.Random, kind: Kind) -> list[str]:
    """Constants that need no cast, so that all of them are handed to the scan."""
    if pa.types.is_string(kind.dtype) or pa.types.is_date32(kind.dtype) or pa.types.is_binary(kind.dtype):
        plain = [text for text in kind.literals if text.startswith(("'", "DATE", "X'"))]
        return _some(chance, [*plain[:-1], "NULL"])
    if pa.types.is_float64(kind.dtype):
        return _some(chance, [*_DOUBLES, "NULL"])
    if pa.types.is_float32(kind.dtype):
        return _some(chance, [*_FLOATS, "NULL"])
    return []


@dataclass(frozen=True)
class Query:
    """A query over ``{t}`` and ``{u}``."""

    text: str
    is_ordered: bool = False


def make_query(chance: random.Random) -> Query:
    """A query of any form."""
    return chance.choice(
        (_rows, _first, _first, _cut, _ends, _groups, _joined, _joined, _among, _among, _sets, _windows, _twice)
    )(chance)


def _where(chance: random.Random) -> str:
    return f" WHERE {make_condition(chance)}" if chance.random() < 0.6 else ""


def _shown(chance: random.Random) -> str:
    picked = chance.sample([*columns(), "st", "arr", "st.`in side`"], chance.choice((1, 2, 4)))
    return ", ".join(f"{name} AS c{number}" for number, name in enumerate(picked))


def _rows(chance: random.Random) -> Query:
    share = chance.choice(("", "", "", " TABLESAMPLE (100 PERCENT)", " TABLESAMPLE (0 PERCENT)"))
    return Query(f"SELECT id, {_shown(chance)} FROM {{t}}{share}{_where(chance)}")


def _keys(chance: random.Random) -> str:
    keys = [
        f"{name}{chance.choice(('', ' ASC', ' DESC'))}{chance.choice(('', '', ' NULLS FIRST', ' NULLS LAST'))}"
        for name in chance.sample(columns(), chance.choice((1, 2, 3)))
    ]
    return ", ".join([*keys, "id"])


def _first(chance: random.Random) -> Query:
    limit = chance.choice(("", " LIMIT 1", " LIMIT 5", " LIMIT 5", " LIMIT 17", " LIMIT 1000", " LIMIT 0"))
    offset = chance.choice(("", "", " OFFSET 3", " OFFSET 40"))
    text = f"SELECT id, {_shown(chance)} FROM {{t}}{_where(chance)} ORDER BY {_keys(chance)}{limit}{offset}"
    if chance.random() < 0.2:
        return Query(f"SELECT * FROM ({text}) WHERE id % 2 = 0 ORDER BY id LIMIT 3", is_ordered=True)
    return Query(text, is_ordered=True)


def _cut(chance: random.Random) -> Query:
    """Without an order any rows will do, but as many as there are."""
    limit, offset = chance.choice((0, 1, 5, 30, 1000)), chance.choice((0, 0, 2, 29))
    inner = f"SELECT id FROM {{t}}{_where(chance)} LIMIT {limit} OFFSET {offset}"
    outer = chance.choice(
        ("{}", "SELECT * FROM ({}) LIMIT 3", "SELECT * FROM ({}) OFFSET 4", "SELECT * FROM ({}) WHERE id >= 0")
    )
    counts = chance.choice(("count(*) AS a", "count(*) AS a, count(DISTINCT id) AS b"))
    return Query(f"SELECT {counts} FROM ({outer.format(inner)})")


def _twice(chance: random.Random) -> Query:
    """One part that stands in a query several times."""
    left, _ = _pair(chance)
    cut = chance.choice(("", "", " ORDER BY id LIMIT 20"))
    groups = f"(SELECT {left} AS k, count(*) AS n FROM c GROUP BY 1)"
    form = chance.choice(
        (
            f"SELECT a.id AS c, b.id AS d FROM c a JOIN c b ON a.{left} <=> b.{left} AND a.id < b.id",
            "SELECT count(*) AS c FROM c UNION ALL SELECT max(id) AS c FROM c",
            f"SELECT id AS c FROM c WHERE {left} IN (SELECT {left} FROM c WHERE id > 9)",
            f"SELECT a.k AS c, a.n AS d, b.n AS e FROM {groups} a LEFT JOIN {groups} b ON a.k <=> b.k",
        )
    )
    return Query(f"WITH c AS (SELECT * FROM {{t}}{_where(chance)}{cut}) {form}")


def _aggregates(chance: random.Random) -> str:
    every = [name for name in columns() if not name.startswith("st.") or chance.random() < 0.5]
    made = []
    for number in range(chance.choice((1, 1, 2, 4))):
        name = chance.choice(every)
        form = chance.choice(
            ("count(*)", "count(1)", "count(NULL)", f"count({name})", f"min({name})", f"max({name})", f"min({name})", f"max({name})",
             f"count(DISTINCT {name})", "sum(id)", "avg(i16)", f"count_if({name} IS NULL)", "sum(DISTINCT i8)",
             f"max(struct({name}, id))", "bool_and(b)", "count(id, i)")
        )  # fmt: skip
        kept = f" FILTER (WHERE {make_condition(chance, 1)})" if chance.random() < 0.15 else ""
        made.append(f"{form}{kept} AS a{number}")
    return ", ".join(made)


def _ends(chance: random.Random) -> Query:
    return Query(f"SELECT {_aggregates(chance)} FROM {{t}}{_where(chance)}")


def _groups(chance: random.Random) -> Query:
    keys = ", ".join(chance.sample(columns()[1:], chance.choice((1, 1, 2))))
    having = chance.choice(("", "", " HAVING count(*) > 2"))
    form = chance.choice(("GROUP BY {0}", "GROUP BY ROLLUP ({0})", "GROUP BY {0}"))
    return Query(f"SELECT {keys}, {_aggregates(chance)} FROM {{t}}{_where(chance)} {form.format(keys)}{having}")


def _pair(chance: random.Random) -> tuple[str, str]:
    left = chance.choice([*map(_path, KINDS), "id", *_INSIDE])
    return left, _SAME.get(left, left) if chance.random() < 0.3 else left


def _joined(chance: random.Random) -> Query:
    left, right = _pair(chance)
    how = chance.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "JOIN"))
    test = chance.choice((f"t.{left} = u.{right}", f"t.{left} <=> u.{right}", f"t.{left} = u.{right} AND t.id < u.id"))
    few = make_condition(chance, 1)
    hint = chance.choice(("", "/*+ BROADCAST(u) */ ", "/*+ BROADCAST(t) */ ", "/*+ MERGE(u) */ "))
    one_sided = how.startswith(("LEFT SEMI", "LEFT ANTI"))
    shown = f"t.id, t.{left} AS c" if one_sided else f"t.id AS a, u.id AS b, t.{left} AS c"
    side = f"(SELECT * FROM {{u}} WHERE {few})" if chance.random() < 0.7 else "{u}"
    cut = f"(SELECT * FROM {{t}}{_where(chance)})"
    return Query(f"SELECT {hint}{shown} FROM {cut} t {how} {side} u ON {test}")


def _among(chance: random.Random) -> Query:
    left, right = _pair(chance)
    inner = f"SELECT {right} FROM {{u}}{_where(chance)}"
    few = f"SELECT {right} FROM {{u}} WHERE id < 9"
    value = f"SELECT max({right}) FROM {{u}}{_where(chance)}"
    text = chance.choice(
        (
            f"SELECT id FROM {{t}} WHERE {left} IN ({inner})",
            f"SELECT id FROM {{t}} WHERE {left} NOT IN ({inner})",
            f"SELECT id FROM {{t}} WHERE {left} NOT IN ({inner} AND {right} IS NOT NULL)" if "WHERE" in inner else f"SELECT id FROM {{t}} WHERE {left} NOT IN ({few})",
            f"SELECT id FROM {{t}} WHERE {left} IN ({few}) OR {left} IS NULL",
            f"SELECT id FROM {{t}} WHERE {left} IN ({few}) AND {make_condition(chance, 1)}",
            f"SELECT id FROM {{t}} t WHERE EXISTS (SELECT 1 FROM {{u}} u WHERE u.{right} = t.{left} AND u.id > t.id)",
            f"SELECT id FROM {{t}} t WHERE NOT EXISTS (SELECT 1 FROM {{u}} u WHERE u.{right} = t.{left})",
            f"SELECT id FROM {{t}} WHERE {left} = ({value})",
            f"SELECT id, ({value}) AS v FROM {{t}}{_where(chance)}",
            f"SELECT id FROM {{t}} WHERE {left} >= ({value}) AND {make_condition(chance, 1)}",
        )
    )  # fmt: skip
    return Query(text)


def _sets(chance: random.Random) -> Query:
    name = chance.choice(columns()[1:])
    word = chance.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"))
    one, two = (f"SELECT {name} AS c FROM {{{table}}}{_where(chance)}" for table in "tu")
    if chance.random() < 0.3:
        return Query(f"SELECT DISTINCT {name} AS c FROM {{t}}{_where(chance)}")
    return Query(f"({one}) {word} ({two})")


def _windows(chance: random.Random) -> Query:
    name, by = chance.sample(columns(), 2)
    form = chance.choice((f"row_number() OVER (PARTITION BY {by} ORDER BY {name}, id)", f"lag({name}) OVER (ORDER BY id)",
                          f"rank() OVER (ORDER BY {name} DESC NULLS LAST)"))  # fmt: skip
    text = f"SELECT id, {form} AS w FROM {{t}}{_where(chance)}"
    return Query(f"SELECT * FROM ({text}) WHERE w <= 3" if chance.random() < 0.5 and "lag" not in form else text)


def plain(value: Any, *, one_zero: bool) -> Any:
    """A value that is equal to itself, and that has a place in an order."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return 0.0 if one_zero and value == 0 else repr(value)
    if isinstance(value, (list, tuple)):
        return tuple(plain(part, one_zero=one_zero) for part in value)
    return value if value is None or isinstance(value, (int, str)) else repr(value)


def answers(rows: Sequence[Any], made: Query) -> list[Any]:
    """Rows of an answer as they are compared; zeros of both signs are one where values were grouped or compared."""
    one_zero = not made.text.startswith("SELECT id, ")
    found = [plain(tuple(row), one_zero=one_zero) for row in rows]
    return found if made.is_ordered else sorted(found, key=repr)


def _references(ds: lancelet.LanceDataset) -> list[tuple[dict[str, str], str]]:
    """Ways to read a version, as options and as SQL has them; the first only as long as it is the newest."""
    ds.tags.create("then", ds.version)
    ds.create_branch("side", ds.version)
    return [
        ({}, ""),
        ({}, ""),
        ({"version": str(ds.version)}, f" VERSION AS OF {ds.version}"),
        ({"tag": "then"}, " VERSION AS OF 'then'"),
        ({"branch": "side"}, " VERSION AS OF 'side'"),
    ]


@dataclass(frozen=True)
class Tables:
    """The tables ``t`` and ``u``, as Lance and as Parquet."""

    spark: Any
    ours: dict[str, str]
    theirs: dict[str, str]

    @classmethod
    def make(cls, spark: Any, chance: random.Random, folder: Path) -> Tables:
        """Tables in a folder; what is written as Parquet is what a read without conditions gives."""
        ours, theirs = {}, {}
        by_path = chance.random() < 0.5
        for name in "tu":
            place = f"{folder / name}.lance"
            ds = make_table(chance, place, chance.choice((60, 60, 3, 400)))
            frame = spark.read.format("lance").load(place)
            frame.write.mode("overwrite").parquet(f"{folder / name}.parquet")
            spark.read.parquet(f"{folder / name}.parquet").createOrReplaceTempView(f"parquet_{name}")
            theirs[name] = f"parquet_{name}"
            options, reference = chance.choice(_references(ds))
            if reference or options:
                change(chance, lancelet.dataset(place))
            if chance.random() < 0.3:
                # Rows of one task come in many batches, whose memory is used again.
                options = {**options, "batchSize": chance.choice(("1", "3", "8"))}
            spark.read.format("lance").options(**options).load(place).createOrReplaceTempView(f"lance_{name}")
            ours[name] = f"lance.`{place}`{reference}" if by_path else f"lance_{name}"
        return cls(spark, ours, theirs)

    def differing_conditions(self, conditions: Sequence[str]) -> Iterator[str]:
        """Those that are true for other rows of ours; many are asked about in one go."""
        marks = ", ".join(f"({text}) AS p{number}" for number, text in enumerate(conditions))
        known = self.spark.sql(f"SELECT id, {marks} FROM {self.theirs['t']}").collect()
        parts = (
            f"SELECT {number} AS q, id FROM {self.ours['t']} WHERE {text}" for number, text in enumerate(conditions)
        )
        found = self.spark.sql(" UNION ALL ".join(parts)).collect()
        for number, text in enumerate(conditions):
            expected = sorted(row["id"] for row in known if row[f"p{number}"])
            if sorted(row["id"] for row in found if row["q"] == number) != expected:
                yield f"{text} is true for the rows {expected}"

    def difference(self, made: Query) -> str | None:
        """What is wrong with the answer over ours; a query that Spark refuses over its own tables asks nothing."""
        try:
            expected = answers(self.spark.sql(made.text.format(**self.theirs)).collect(), made)
        except PySparkException:
            return None
        found = answers(self.spark.sql(made.text.format(**self.ours)).collect(), made)
        if found == expected:
            return None
        missing, more = (
            [row for row in some if row not in other][:5] for some, other in ((expected, found), (found, expected))
        )
        return f"{made.text}: {len(expected)} rows, not {len(found)}; without {missing}, but with {more}"
