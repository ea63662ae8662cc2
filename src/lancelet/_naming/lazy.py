"""Names that a module has, and imports only when they are first asked for.

A program that only reads rows does not wait for what writes, merges and indexes them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(module: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module.

    Parameters
    ----------
    module
        The module's own name.
    homes
        For modules, the names that come from there.
    modules
        Modules of the package ``module`` that are found as its attributes.

    Examples
    --------
    >>> find = lazy_names("here", {"fractions": ("Fraction",)})
    >>> find("Fraction")(1, 2)
    Fraction(1, 2)
    >>> find("Numeral")
    Traceback (most recent call last):
    ...
    AttributeError: module 'here' has no attribute 'Numeral'
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name in home_of:
            found = getattr(import_module(home_of[name]), name)
            if module in sys.modules:
                # The next time nobody is asked.
                setattr(sys.modules[module], name, found)
            return found
        if name in modules:
            return import_module(f"{module}.{name}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
