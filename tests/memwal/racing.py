"""A local store on which others are faster: they act right before or after a request of somebody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lancelet.store.local import LocalStore


def racing(
    where: Path, request: str, prefix: str, then: Callable[[], None], *, before: bool = False, passed: int = 0
) -> LocalStore:
    """A folder in which something happens at one request for a path that begins so, once ``passed`` of them were made."""
    left = [passed]

    def carried_out(store: Any, path: str, *args: Any, **named: Any) -> Any:
        plain = getattr(LocalStore, request)
        met = path.startswith(prefix)
        left[0] -= met
        if not met or left[0] != -1:
            return plain(store, path, *args, **named)
        if before:
            then()
            return plain(store, path, *args, **named)
        done = plain(store, path, *args, **named)
        then()
        return done

    kind: type[LocalStore] = type("RacingStore", (LocalStore,), {request: carried_out})
    return kind(where)
