"""pyarrow.compute, imported when one of its functions is first called.

It makes some hundred functions and their documentation when it is imported, which takes longer than to open a table and to
read a row, and neither needs them. Modules say ``from lancelet.runtime import compute as pc``.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    found = globals()[name] = getattr(pyarrow.compute, name)
    return found
