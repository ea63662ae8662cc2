"""Functions on text.

A kernel of pyarrow does the work where the parameters are constant, which is
nearly always; otherwise a Python function does, once per distinct text or row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import is_bytes, is_large, is_list_like, is_text, value_type
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.signature import Bound, Function, arity, by_distinct, coerce, text_arg
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

Kernel = Callable[..., Datum]


def _bind(
    params: tuple[pa.DataType, ...] = (), optional: int = 0, result: pa.DataType | None = None
) -> Callable[[str, list[Expr]], Bound]:
    """A signature of one text and then ``params``, the last ``optional`` of which may be left out."""

    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, 1 + len(params) - optional, 1 + len(params))
        text = text_arg(name, args[0])
        kind = value_type(type_of(text))
        rest = []
        for param, arg in zip(params, args[1:], strict=False):
            rest.append(coerce(text_arg(name, arg) if is_text(param) else arg, param))
        return [text, *rest], kind if result is None else result

    return bind


def _run(function: Callable[..., object], kernel: Kernel | None = None) -> Callable[[list[Datum], pa.DataType], Datum]:
    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        text, *params = args
        if kernel is None or any(isinstance(param, pa.Array) for param in params):
            return by_distinct(function, args, kind)
        values = [param.as_py() for param in params]
        if None in values:
            return pa.scalar(None, kind) if isinstance(text, pa.Scalar) else pa.nulls(len(text), kind)
        result = kernel(text, *values)
        return result if result.type == kind else result.cast(kind)

    return run


_TEXT, _INT = pa.string(), pa.int64()


def _substr(text: str, start: int, length: int | None = None) -> str:
    begin, end = _span(start, length)
    return text[begin:end]


def _span(start: int, length: int | None) -> tuple[int, int | None]:
    """SQL counts from 1; a start before the text uses up part of the length."""
    if length is not None and length < 0:
        raise InvalidInput(f"substr() takes a length of zero or more, not {length}")
    return max(start, 1) - 1, None if length is None else max(start + length, 1) - 1


def _substr_kernel(text: Datum, start: int, length: int | None = None) -> Datum:
    begin, end = _span(start, length)
    return pc.utf8_slice_codeunits(text, start=begin, stop=end)


_LONGEST = 2**24


def _repeat(text: str, count: int) -> str:
    if count > 0 and len(text) * count > _LONGEST:
        raise InvalidInput(f"repeat() makes texts of up to {_LONGEST} characters, not {len(text) * count}")
    return text * count


def _pad(text: str, width: int, fill: str, left: bool) -> str:
    if width > _LONGEST:
        raise InvalidInput(f"padding goes up to {_LONGEST} characters, not {width}")
    if width <= len(text) or not fill:
        return text[: max(width, 0)]
    padding = (fill * width)[: width - len(text)]
    return padding + text if left else text + padding


def _split_part(text: str, separator: str, index: int) -> str:
    if index == 0:
        raise InvalidInput("split_part() counts from 1, or from -1 at the end; 0 is no part")
    parts = text.split(separator) if separator else [text]
    at = index - 1 if index > 0 else len(parts) + index
    return parts[at] if 0 <= at < len(parts) else ""


def _initcap(text: str) -> str:
    return re.sub(r"[^\W_]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


def _strpos(text: str, part: str) -> int:
    return text.find(part) + 1


def _bind_strpos(name: str, args: list[Expr]) -> Bound:
    bound, kind = _bind((_TEXT,))(name, args)
    return bound, pa.int64() if is_large(kind) else pa.int32()


def _replace_kernel(text: Datum, old: str, new: str) -> Datum:
    if old == "":
        return by_distinct(str.replace, [text, pa.scalar(old), pa.scalar(new)], text.type)
    return pc.replace_substring(text, pattern=old, replacement=new)


def _bind_concat(name: str, args: list[Expr]) -> Bound:
    """Anything that can be written as text is; the result is large when a part is."""
    arity(name, args, 1, 1000)
    kinds = [value_type(type_of(arg)) for arg in args]
    joinable = any(is_text(kind) for kind in kinds) or all(pa.types.is_null(kind) for kind in kinds)
    if name == "||" and (not joinable or any(is_list_like(kind) for kind in kinds)):
        raise InvalidInput(f"|| joins texts, not {kinds[0]} with {kinds[1]} ({args[0]}, {args[1]})")
    result = pa.large_string() if any(is_large(kind) for kind in kinds) else pa.string()
    return [coerce(arg, result) for arg in args], result


def _run_concat(args: list[Datum], kind: pa.DataType) -> Datum:
    """Nulls count as empty. (pyarrow's own way to skip nulls loses a row where all are null.)"""
    return _run_joined([pc.fill_null(arg, "") for arg in args], kind)


def _run_joined(args: list[Datum], kind: pa.DataType) -> Datum:
    return pc.binary_join_element_wise(*args, pa.scalar("", kind), null_handling="emit_null")


def _run_concat_ws(args: list[Datum], kind: pa.DataType) -> Datum:
    """Each text that is not null behind a separator, then the first separator cut off."""
    separator, *texts = args
    if not isinstance(separator, pa.Scalar):
        return _join_by(separator, texts, kind)
    if not separator.is_valid:
        return pa.scalar(None, kind)
    pieces = [pc.fill_null(_run_joined([separator, text], kind), "") for text in texts]
    return pc.utf8_slice_codeunits(_run_joined(pieces, kind), start=len(separator.as_py()))


def _join_by(separators: pa.Array, texts: list[Datum], kind: pa.DataType) -> Datum:
    """Texts that are not null, with each row's own separator between them."""
    joined: Datum = pa.scalar(None, kind)
    for text in texts:
        both = pc.binary_join_element_wise(joined, text, separators, null_handling="emit_null")
        joined = pc.coalesce(both, joined, text)
    return pc.if_else(pc.is_valid(separators), pc.fill_null(joined, ""), pa.scalar(None, kind))


def _bind_length(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    text = text_arg(name, args[0])
    return [text], pa.int64() if is_large(value_type(type_of(text))) else pa.int32()


def _bind_octets(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    if is_bytes(value_type(type_of(args[0]))):
        return args, pa.int32()
    return _bind_length(name, args)


def _test(function: Callable[[str, str], bool], kernel: Callable[..., Datum]) -> Function:
    return Function(_bind((_TEXT,), result=pa.bool_()), _run(function, lambda text, part: kernel(text, pattern=part)))


def _trim(function: Callable[..., Any], spaces: Kernel) -> Function:
    return Function(
        _bind((_TEXT,), optional=1), _run(lambda text, chars=" ": function(text, chars), _trim_kernel(spaces))
    )


def _trim_kernel(kernel: Kernel) -> Kernel:
    return lambda text, chars=" ": kernel(text, characters=chars)


FUNCTIONS: dict[str, Function] = {
    "lower": Function(_bind(), _run(str.lower, pc.utf8_lower)),
    "upper": Function(_bind(), _run(str.upper, pc.utf8_upper)),
    "reverse": Function(_bind(), _run(lambda text: text[::-1], pc.utf8_reverse)),
    "initcap": Function(_bind(), _run(_initcap)),
    "length": Function(_bind_length, _run(len, pc.utf8_length)),
    "octet_length": Function(_bind_octets, _run(len, pc.binary_length)),
    "bit_length": Function(_bind_octets, _run(len, lambda text: pc.multiply(pc.binary_length(text), 8))),
    "ascii": Function(_bind(result=pa.int32()), _run(lambda text: ord(text[0]) if text else 0)),
    "btrim": _trim(str.strip, pc.utf8_trim),
    "ltrim": _trim(str.lstrip, pc.utf8_ltrim),
    "rtrim": _trim(str.rstrip, pc.utf8_rtrim),
    "substr": Function(_bind((_INT, _INT), optional=1), _run(_substr, _substr_kernel), may_fail=True),
    "lpad": Function(
        _bind((_INT, _TEXT), 1), _run(lambda text, width, fill=" ": _pad(text, width, fill, left=True)), True
    ),
    "rpad": Function(
        _bind((_INT, _TEXT), 1), _run(lambda text, width, fill=" ": _pad(text, width, fill, left=False)), True
    ),
    "repeat": Function(_bind((_INT,)), _run(_repeat), may_fail=True),
    "replace": Function(_bind((_TEXT, _TEXT)), _run(str.replace, _replace_kernel)),
    "split_part": Function(_bind((_TEXT, _INT)), _run(_split_part), may_fail=True),
    "strpos": Function(_bind_strpos, _run(_strpos)),
    "concat": Function(_bind_concat, _run_concat),
    "concat_ws": Function(_bind_concat, _run_concat_ws),
    "||": Function(_bind_concat, _run_joined),
    "starts_with": _test(str.startswith, pc.starts_with),
    "ends_with": _test(str.endswith, pc.ends_with),
    "contains": _test(lambda text, part: part in text, pc.match_substring),
}
