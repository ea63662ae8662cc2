"""This library under the name of the reference implementation, for programs that cannot be changed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_OURS: Final = "lancelet"
_THEIRS: Final = "lance"


class _Finder(MetaPathFinder):
    """Finds ``lance.x`` where ``lancelet.x`` is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name, _, rest = fullname.partition(".")
        return ModuleSpec(fullname, _Same(f"{_OURS}.{rest}" if rest else _OURS)) if name == _THEIRS else None


class _Same(Loader):
    """Gives the module that is there under our name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        try:
            found = import_module(self._name)
        except ModuleNotFoundError as error:
            if error.name != self._name:
                raise
            raise ModuleNotFoundError(f"lancelet has no module {self._name}", name=spec.name) from None
        self._spec = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        # It has run already; an import notes in a module where it came from, and it came from here.
        module.__spec__ = self._spec


_FINDER: Final = _Finder()


def enable_as_lance() -> None:
    """Have ``import lance`` give this library, in this process from now on.

    For programs and libraries that are written for pylance and cannot be changed. Modules below it are found too:
    ``from lance.query import MatchQuery`` is ``from lancelet.query import MatchQuery``.

    Raises
    ------
    ImportError
        The program has imported pylance already: call this before.
    """
    loaded = sys.modules.get(_THEIRS)
    if loaded is not None and loaded is not sys.modules[_OURS]:
        raise ImportError(
            f"{_THEIRS} is imported already, from {getattr(loaded, '__file__', None)}: call enable_as_lance() before that"
        )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
