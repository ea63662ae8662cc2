"""Which versions of Spark this was run with."""

from __future__ import annotations

import pyspark

from lancelet.errors import NotSupported

LEAST = (4, 2)


def check_spark() -> None:
    """Refuse a Spark that is too old, in a sentence, before anything fails in words of its own."""
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < LEAST:
        raise NotSupported(
            f"lancelet needs Spark {'.'.join(map(str, LEAST))} or later, and this is {pyspark.__version__}: pip install "
            "'pyspark>=4.2'"
        )
