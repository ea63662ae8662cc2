"""Kinds that are recognised, described and kept, but neither built nor asked yet."""

from __future__ import annotations

from typing import Final

from lancelet.index.kind import KnownKind


class MinHashKind(KnownKind):
    """Texts that are nearly the same."""

    name = "MINHASHLSH"
    type_url = "/lance.index.pb.MinHashLshIndexDetails"


class FMKind(KnownKind):
    """Parts of texts, of any length."""

    name = "FM"
    type_url = "/lance.index.pb.FMIndexDetails"


KINDS: Final = (MinHashKind(), FMKind())
