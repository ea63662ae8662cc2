"""Carrying an object from one store to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.runtime.threads import checkpoint

if TYPE_CHECKING:
    from lancelet.store.base import Store

_PIECE = 16 << 20


def copy_object(source: Store, path: str, target: Store, target_path: str, size: int | None = None) -> None:
    """Copy an object: by the file system or the store itself where they can, else in pieces.

    What is at the target is replaced, and may be half written when the copy fails; it lasts after
    :meth:`lancelet.store.Store.settle`. A known ``size`` saves a request.
    """
    if target.copy_from(source, path, target_path, size):
        return
    origin = source.open(path, size)
    target.delete(target_path)
    sink = target.open_sink(target_path)
    try:
        for start in range(0, origin.size, _PIECE):
            checkpoint()
            (piece,) = origin.read([(start, min(_PIECE, origin.size - start))])
            sink.write(piece)
        sink.finish()
    except BaseException:
        sink.abort()
        raise
