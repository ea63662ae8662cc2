"""Lets Spark's daemons import what their workers need, so that each worker is only forked.

Spark starts a worker anew whenever one has raised an error, which tests provoke all the time. `spark.sessions` puts this
folder into the path of the daemons alone.
"""

import importlib.util
import sys

if "pyspark.daemon" in sys.orig_argv and importlib.util.find_spec("lancelet") is not None:
    import pandas  # noqa: F401

    import lancelet.expressions.sql
    import lancelet.spark.arrays
    import lancelet.spark.plan
    import lancelet.spark.source
    import lancelet.spark.writer  # noqa: F401
