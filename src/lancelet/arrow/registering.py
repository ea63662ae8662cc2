"""Extension types made known to pyarrow, once a process."""

from __future__ import annotations

import pyarrow as pa


def register(dtype: pa.ExtensionType) -> None:
    """Have pyarrow make values of a type where its name is met; whoever registered that name first keeps it."""
    try:
        pa.register_extension_type(dtype)
    except pa.ArrowKeyError:
        return
