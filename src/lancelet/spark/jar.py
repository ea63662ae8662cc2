"""``python -m lancelet.spark.jar`` prints where the bridge is, for ``spark.jars``."""

from __future__ import annotations

import sys

from lancelet.spark.session import bridge_jar

if __name__ == "__main__":
    sys.stdout.write(f"{bridge_jar()}\n")
