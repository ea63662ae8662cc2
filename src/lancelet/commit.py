"""Conflicts between commits, under pylance's names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from lancelet.errors import CommitConflictError

__all__ = ["CommitConflictError", "CommitLock"]

CommitLock: TypeAlias = Callable[[int], AbstractContextManager[None]]
