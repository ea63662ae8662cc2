"""Functions that look at the single characters and pieces of texts: left, overlay, translate, distances."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import is_large, is_text, value_type
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.signature import Bound, Function, arity, by_distinct, coerce, per_parameters, text_arg
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

_TEXT, _INT = pa.string(), pa.int64()
_LARGEST = 0x10FFFF
_LONGEST = 2**62


def _bind(
    *params: pa.DataType, optional: int = 0, result: pa.DataType | None = None, large: pa.DataType | None = None
) -> Callable[[str, list[Expr]], Bound]:
    """A text and then ``params``; ``large`` is the result's type where the text is a large one."""

    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, 1 + len(params) - optional, 1 + len(params))
        text = text_arg(name, args[0])
        rest = [
            coerce(text_arg(name, arg) if is_text(param) else arg, param)
            for param, arg in zip(params, args[1:], strict=False)
        ]
        kind = value_type(type_of(text))
        if is_large(kind) and large is not None:
            return [text, *rest], large
        return [text, *rest], kind if result is None else result

    return bind


def _run(function: Callable[..., object]) -> Callable[[list[Datum], pa.DataType], Datum]:
    return lambda args, kind: by_distinct(function, args, kind)


def _left(texts: pa.Array, kind: pa.DataType, count: int | None) -> pa.Array:
    """All but the last ones where the count is negative."""
    if count is None:
        return pa.nulls(len(texts), kind)
    return pc.utf8_slice_codeunits(texts, start=0, stop=max(count, -_LONGEST))


def _right(texts: pa.Array, kind: pa.DataType, count: int | None) -> pa.Array:
    """All but the first ones where the count is negative."""
    if count is None:
        return pa.nulls(len(texts), kind)
    return pc.utf8_slice_codeunits(texts, start=min(-count, _LONGEST), stop=None if count else 0)


def _edit(kernel: Callable[..., pa.Array]) -> Callable[[list[Datum], pa.DataType], Datum]:
    return lambda args, kind: per_parameters(kernel, args, kind)


def _levenshtein(left: str, right: str) -> int:
    """The least number of characters to put in, take out or exchange."""
    row = list(range(len(right) + 1))
    for at, char in enumerate(left, 1):
        diagonal, row[0] = row[0], at
        for to, other in enumerate(right, 1):
            diagonal, row[to] = row[to], min(row[to] + 1, row[to - 1] + 1, diagonal + (char != other))
    return row[-1]


def _overlay(text: str, new: str, start: int, length: int | None = None) -> str:
    if start < 1:
        raise InvalidInput(f"overlay() counts from 1, so that it cannot start at {start}")
    end = start - 1 + (len(new) if length is None else length)
    return text[: start - 1] + new + text[max(end, 0) :]


def _translate(text: str, old: str, new: str) -> str:
    exchanged: dict[int, str] = {}
    for at, char in enumerate(old):
        exchanged.setdefault(ord(char), new[at : at + 1])
    return text.translate(exchanged)


def _find_in_set(text: str, texts: str) -> int:
    parts = texts.split(",")
    return parts.index(text) + 1 if text in parts else 0


def _substr_index(text: str, separator: str, count: int) -> str:
    """What stands before the count-th separator, or behind it, counted from the end."""
    if not separator or count == 0:
        return ""
    parts = text.split(separator)
    return separator.join(parts[:count] if count > 0 else parts[count:])


def _chr(code: int) -> str:
    if not 0 <= code <= _LARGEST or 0xD800 <= code <= 0xDFFF:
        raise InvalidInput(f"chr() knows no character of the number {code}")
    return chr(code)


def _bind_chr(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    return [coerce(args[0], _INT)], _TEXT


FUNCTIONS: dict[str, Function] = {
    "left": Function(_bind(_INT), _edit(_left)),
    "right": Function(_bind(_INT), _edit(_right)),
    "levenshtein": Function(_bind(_TEXT, result=pa.int32(), large=_INT), _run(_levenshtein)),
    "overlay": Function(_bind(_TEXT, _INT, _INT, optional=1, result=_TEXT, large=_TEXT), _run(_overlay), may_fail=True),
    "translate": Function(_bind(_TEXT, _TEXT), _run(_translate)),
    "find_in_set": Function(_bind(_TEXT, result=pa.int32()), _run(_find_in_set)),
    "substr_index": Function(_bind(_TEXT, _INT), _run(_substr_index)),
    "chr": Function(_bind_chr, _run(_chr), may_fail=True),
}
