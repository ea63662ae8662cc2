"""Digests of texts and bytes, their encodings as text, and random values."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import describe, is_bytes, is_large, is_text, value_type
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.signature import Bound, Function, arity, by_distinct, coerce, constant

__all__ = ["FUNCTIONS"]

_DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    name: lambda raw, name=name: hashlib.new(name, raw, usedforsecurity=False).digest()  # type: ignore[misc]
    for name in ("md5", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s")
}


def _bytes_arg(name: str, arg: Expr) -> Expr:
    """Texts count as their bytes in UTF-8."""
    kind = value_type(type_of(arg))
    if not (is_text(kind) or is_bytes(kind) or pa.types.is_null(kind)):
        raise InvalidInput(f"{name}() takes text or bytes, not {describe(kind)} ({arg})")
    return coerce(arg, pa.large_binary() if is_large(kind) else pa.binary())


def _bind_hash(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    return [_bytes_arg(name, args[0])], pa.string() if name == "md5" else pa.binary()


def _run_hash(name: str) -> Callable[[list[Datum], pa.DataType], Datum]:
    return lambda args, kind: by_distinct(_DIGESTS[name], args, kind)


def _run_md5(args: list[Datum], kind: pa.DataType) -> Datum:
    return by_distinct(lambda raw: _DIGESTS["md5"](raw).hex(), args, kind)


def _bind_digest(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    method = constant(name, args[1])
    if method == "blake3":
        raise InvalidInput("digest() has no blake3 here; blake2b and blake2s are near")
    if method not in _DIGESTS:
        raise InvalidInput(f"digest() knows no method {method!r}; it knows {', '.join(_DIGESTS)}")
    return [_bytes_arg(name, args[0]), args[1]], pa.binary()


def _run_digest(args: list[Datum], kind: pa.DataType) -> Datum:
    return by_distinct(lambda raw, method: _DIGESTS[method](raw), args, kind)


def _from_base64(text: bytes) -> bytes:
    bare = text.rstrip(b"=")
    return base64.b64decode(bare + b"=" * (-len(bare) % 4), validate=True)


_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "hex": binascii.hexlify,
    "base64": lambda raw: base64.b64encode(raw).rstrip(b"="),
    "base64pad": base64.b64encode,
}
_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "hex": binascii.unhexlify,
    "base64": _from_base64,
    "base64pad": lambda text: base64.b64decode(text, validate=True),
}


def _bind_encoding(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    encoding = constant(name, args[1])
    if encoding not in _ENCODERS:
        raise InvalidInput(f"{name}() knows no encoding {encoding!r}; it knows {', '.join(_ENCODERS)}")
    value = _bytes_arg(name, args[0])
    large = is_large(type_of(value))
    text, raw = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    return [value, args[1]], text if name == "encode" else raw


def _run_encode(args: list[Datum], kind: pa.DataType) -> Datum:
    return by_distinct(lambda raw, encoding: _ENCODERS[encoding](raw).decode(), args, kind)


def _run_decode(args: list[Datum], kind: pa.DataType) -> Datum:
    def decoded(text: bytes, encoding: str) -> bytes:
        try:
            return _DECODERS[encoding](text)
        except binascii.Error as error:
            raise InvalidInput(f"decode() cannot read {text!r} as {encoding}: {error}") from None

    return by_distinct(decoded, args, kind)


def _bind_nothing(kind: pa.DataType) -> Callable[[str, list[Expr]], Bound]:
    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, 0)
        return [], kind

    return bind


def _run_uuid(args: list[Datum], kind: pa.DataType) -> Datum:
    return pa.array([str(uuid.UUID(bytes=os.urandom(16), version=4)) for _ in range(len(args[0]))], kind)


def _run_random(args: list[Datum], kind: pa.DataType) -> Datum:
    return pa.array(np.random.default_rng().random(len(args[0])), kind)


FUNCTIONS: dict[str, Function] = {
    "md5": Function(_bind_hash, _run_md5),
    **{name: Function(_bind_hash, _run_hash(name)) for name in ("sha224", "sha256", "sha384", "sha512")},
    "digest": Function(_bind_digest, _run_digest),
    "encode": Function(_bind_encoding, _run_encode),
    "decode": Function(_bind_encoding, _run_decode, may_fail=True),
    "uuid": Function(_bind_nothing(pa.string()), _run_uuid, volatile=True),
    "random": Function(_bind_nothing(pa.float64()), _run_random, volatile=True),
}
