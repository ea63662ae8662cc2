"""``python -m lancelet.spark.daemon``: the process of which Spark forks its Python workers, with their imports done.

Spark's own, ``pyspark.daemon``, imports nothing that a worker needs: every worker does that anew, and from a zip, whose
modules are compiled each time. Spark takes this one for tasks when ``spark.python.daemon.module`` says so. For the processes
that plan it always takes its own; they come here by ``startup/sitecustomize.py``.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

MODULE = "lancelet.spark.daemon"
_ZIP = "pyspark.zip"
_PACKAGE = "pyspark"
_OF_ALL = (
    "lancelet.spark.sql.sources",
    "lancelet.spark.plan",
    "lancelet.spark.arrays",
    "lancelet.expressions.sql",
    "numpy.ma",  # which pyarrow asks for
)
_OF_WRITES = ("lancelet.spark.sql.sinks", "lancelet.spark.writer")
_READERS = ("create_data_source", "plan_data_source_read", "lookup_data_sources")


def prepare(worker: str) -> None:
    """Import what workers need that run a module of Spark's."""
    import_unpacked()
    reads = worker.rpartition(".")[2] in _READERS
    for name in (worker, *_OF_ALL, *(() if reads else _OF_WRITES)):
        import_module(name)
    os.register_at_fork(after_in_child=_draw_anew)
    # Workers share what they do not touch, and the collector would touch everything.
    gc.collect()
    gc.freeze()


def import_unpacked() -> None:
    """Import pyspark from its folder, where the zip on the path lies inside of one: both are of the same installation."""
    if _PACKAGE in sys.modules:
        return
    zips = (Path(entry) for entry in sys.path if Path(entry).name == _ZIP)
    folder = next((found for zipped in zips if (found := unpacked(zipped)) is not None), None)
    spec = None if folder is None else PathFinder.find_spec(_PACKAGE, [str(folder)])
    if spec is not None and spec.loader is not None:
        package = module_from_spec(spec)
        sys.modules[_PACKAGE] = package
        spec.loader.exec_module(package)


def unpacked(zipped: Path) -> Path | None:
    """The folder that has the package of a zip, in a distribution of Spark or as pip installs it."""
    above = zipped.parents
    if len(above) > 3 and (above[0].name, above[1].name) == ("lib", "python"):
        for folder in (above[1], above[3]):
            package = folder / _PACKAGE
            if (package / "__init__.py").is_file() and (folder == above[1] or package == above[2]):
                return folder
    return None


def _draw_anew() -> None:
    """Numbers by chance differ between workers, as if each had imported numpy itself; ``random`` sees to it by itself."""
    drawn = sys.modules.get("numpy.random")
    if drawn is not None:
        drawn.seed()


def main() -> None:
    prepare(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
