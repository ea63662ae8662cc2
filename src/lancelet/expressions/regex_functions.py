"""Functions on regular expressions. Every pattern goes to RE2, whose time is linear in the text.

Where a pattern comes from a column, rows with the same pattern are matched together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import value_type
from lancelet.expressions.expr import Expr, Literal, type_of
from lancelet.expressions.regex import Regex, compile_regex
from lancelet.expressions.signature import Bound, Function, arity, coerce, per_parameters, text_arg
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

_TEXT, _INT = pa.string(), pa.int64()
Kernel = Callable[..., pa.Array]


def _bind(
    params: tuple[pa.DataType, ...], least: int, flags_at: int | None, result: pa.DataType | None
) -> Callable[[str, list[Expr]], Bound]:
    """A signature of a text, a pattern and then ``params``; a pattern that is a literal is compiled now."""

    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, least, 2 + len(params))
        text = text_arg(name, args[0])
        rest = [
            coerce(text_arg(name, arg) if kind == _TEXT else arg, kind)
            for kind, arg in zip((_TEXT, *params), args[1:], strict=False)
        ]
        pattern = rest[0]
        flags = rest[flags_at - 1] if flags_at is not None and len(rest) >= flags_at else Literal(None, _TEXT)
        if isinstance(pattern, Literal) and isinstance(flags, Literal) and pattern.value is not None:
            _compiled(name, pattern.value, flags.value)
        kind = value_type(type_of(text))
        return [text, *rest], kind if result is None else result

    return bind


def _compiled(name: str, pattern: Any, flags: Any) -> Regex:
    flags = flags or ""
    if "g" in flags:
        if name != "regexp_replace":
            raise InvalidInput(f"{name}() takes no flag g: there is only one answer")
        flags = flags.replace("g", "")
    return compile_regex(pattern, flags)


def _run(kernel: Kernel) -> Callable[[list[Datum], pa.DataType], Datum]:
    return lambda args, kind: per_parameters(kernel, args, kind)


def _like(texts: pa.Array, kind: pa.DataType, pattern: str | None, flags: str | None = None) -> pa.Array:
    if pattern is None:
        return pa.nulls(len(texts), kind)
    regex = _compiled("regexp_like", pattern, flags)
    regex.check(texts)
    return pc.match_substring_regex(texts, pattern=regex.re2)


def _match(texts: pa.Array, kind: pa.DataType, pattern: str | None, flags: str | None = None) -> pa.Array:
    """The groups that took part in the first match, or the whole match when there are none."""
    if pattern is None:
        return pa.nulls(len(texts), kind)
    regex = _compiled("regexp_match", pattern, flags)
    regex.check(texts)
    names = [f"g{number + 1}" for number in range(len(regex.groups))]
    re2 = regex.re2 if names else f"(?P<g1>{regex.re2})"
    spans = pc.extract_regex_span(texts, re2)
    groups = [spans.field(name) for name in names or ["g1"]]
    matched = spans.is_valid().to_numpy(zero_copy_only=False)
    taken = np.stack([matched & group.is_valid().to_numpy(zero_copy_only=False) for group in groups], axis=1)
    words = pc.extract_regex(texts, re2)
    columns = [words.field(name) for name in names or ["g1"]]
    rows = len(texts)
    flat = pa.concat_arrays(columns).take(pa.array(np.arange(rows * len(groups)).reshape(len(groups), rows).T[taken]))
    offsets = np.concatenate(([0], np.cumsum(taken.sum(axis=1)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), flat.cast(kind.value_type), kind, mask=pa.array(~matched))


def _bind_match(name: str, args: list[Expr]) -> Bound:
    bound, kind = _bind((_TEXT,), 2, 2, None)(name, args)
    return bound, pa.list_(kind)


_NO_FLAGS = object()


def _replace(
    texts: pa.Array, kind: pa.DataType, pattern: str | None, new: str | None, flags: Any = _NO_FLAGS
) -> pa.Array:
    if pattern is None or new is None or flags is None:
        return pa.nulls(len(texts), kind)
    flags = "" if flags is _NO_FLAGS else flags
    regex = _compiled("regexp_replace", pattern, flags)
    regex.check(texts)
    limit = None if "g" in flags else 1
    return pc.replace_substring_regex(
        texts, pattern=regex.re2, replacement=regex.replacement(new), max_replacements=limit
    )


def _marked(texts: pa.Array, regex: Regex) -> tuple[pa.Array, str]:
    """The texts with a mark, a character that they do not have, before each match."""
    regex.check(texts)
    mark = next(char for char in map(chr, range(0xE000, 0xF8FF)) if not pc.any(pc.match_substring(texts, char)).as_py())
    return pc.replace_substring_regex(texts, pattern=regex.re2, replacement=mark + r"\0"), mark


def _tail(name: str, texts: pa.Array, start: int) -> pa.Array:
    if start < 1:
        raise InvalidInput(f"{name}() counts from 1, so that it cannot start at {start}")
    return pc.utf8_slice_codeunits(texts, start=start - 1) if start > 1 else texts


def _count(
    texts: pa.Array, kind: pa.DataType, pattern: str | None, start: int | None = None, flags: str | None = None
) -> pa.Array:
    """A null counts no matches."""
    if pattern is None:
        return pa.repeat(pa.scalar(0, kind), len(texts))
    regex = _compiled("regexp_count", pattern, flags)
    marked, mark = _marked(_tail("regexp_count", texts, 1 if start is None else start), regex)
    return pc.count_substring(marked, mark).cast(kind).fill_null(0)


def _instr(
    texts: pa.Array,
    kind: pa.DataType,
    pattern: str | None,
    start: int | None = 1,
    occurrence: int | None = 1,
    flags: str | None = None,
    group: int | None = 0,
) -> pa.Array:
    """Where a match begins, counted from 1; 0 where there is none."""
    if pattern is None:
        return pa.nulls(len(texts), kind)
    if start is None or occurrence is None or occurrence < 1 or group is None or group < 0:
        raise InvalidInput("regexp_instr() counts positions and matches from 1, groups from 0")
    regex = _compiled("regexp_instr", pattern, flags)
    if pattern == "":
        return pa.repeat(pa.scalar(0, kind), len(texts))
    tail = _tail("regexp_instr", texts, start)
    if group:
        if occurrence != 1:
            raise InvalidInput("regexp_instr() finds a group of the first match only")
        return _instr_group(tail, kind, regex, start, group)
    marked, mark = _marked(tail, regex)
    pieces = pc.split_pattern(marked, mark)
    # The text before a match is all pieces before its mark.
    lengths = pc.utf8_length(pieces.flatten()).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    offsets = pieces.offsets.to_numpy()
    found = np.diff(offsets) > occurrence
    last = np.where(found, offsets[:-1] + occurrence, offsets[:-1])
    position = np.where(found, ends[last] - ends[offsets[:-1]] + start, 0)
    return pa.array(position, kind, mask=texts.is_null().to_numpy(zero_copy_only=False))


def _instr_group(texts: pa.Array, kind: pa.DataType, regex: Regex, start: int, group: int) -> pa.Array:
    regex.check(texts)
    if group > len(regex.groups):
        return pc.if_else(texts.is_valid(), pa.scalar(0, kind), pa.scalar(None, kind))
    spans = pc.struct_field(pc.extract_regex_span(texts, regex.re2), f"g{group}")
    begins = pc.list_element(spans, 0).cast(pa.int64())
    raw = texts.cast(pa.large_binary() if pa.types.is_large_string(texts.type) else pa.binary())
    # The offset counts bytes.
    before = [
        None if begin is None else len(text[:begin].decode())
        for text, begin in zip(raw.to_pylist(), begins.to_pylist(), strict=True)
    ]
    position = pc.fill_null(pc.add(pa.array(before, kind), start), 0)
    return pc.if_else(texts.is_valid(), position, pa.scalar(None, kind))


def _bind_like(name: str, args: list[Expr]) -> Bound:
    return _bind((_TEXT,), 2, 2, pa.bool_())(name, args)


def _can_fail(args: Sequence[Expr]) -> bool:
    """With a text, a pattern and flags there is nothing left to refuse but borders of words."""
    return not all(isinstance(arg, Literal) and "\\b" not in str(arg.value).lower() for arg in args[1:])


FUNCTIONS: dict[str, Function] = {
    "regexp_like": Function(_bind_like, _run(_like), may_fail=_can_fail),
    "regexp_match": Function(_bind_match, _run(_match), may_fail=_can_fail),
    "regexp_replace": Function(_bind((_TEXT, _TEXT), 3, 3, None), _run(_replace), may_fail=_can_fail),
    "regexp_count": Function(_bind((_INT, _TEXT), 2, 3, _INT), _run(_count), may_fail=_can_fail),
    "regexp_instr": Function(_bind((_INT, _INT, _TEXT, _INT), 2, 4, _INT), _run(_instr), may_fail=_can_fail),
}
