"""Python runs this before anything else in the processes that Spark starts to plan reads and writes of Lance tables.

Nothing else can be changed about them: Spark runs ``pyspark.daemon`` there, whatever its settings say.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path

_SPARKS_OWN = "pyspark.daemon"


def _run_hidden() -> None:
    """The module of this name that would have been run, were this folder not on the path."""
    here = str(Path(__file__).parent)
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if entry != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_run_hidden()
_program = sys.orig_argv[sys.orig_argv.index("-m") + 1] if "-m" in sys.orig_argv[:-1] else ""
if _program.startswith("pyspark.") and find_spec("lancelet") is not None:
    from lancelet.spark.daemon import import_unpacked, prepare

    if _program == _SPARKS_OWN:
        prepare(sys.orig_argv[-1])
    else:
        # A process of its own, as streams have one: it imports the rest by itself.
        import_unpacked()
