"""Functions of Python's that Java puts into Spark's plans: searches whose results are tables, and joins by distance."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.cloudpickle import dumps
from pyspark.sql.types import StructType

from lancelet._api.entry import dataset
from lancelet.spark.options import TableRef
from lancelet.spark.predicates import from_json
from lancelet.spark.search.function import FUNCTIONS, Place, at_place
from lancelet.spark.search.join import join_rows, planned_join
from lancelet.spark.sql.jobs import PYTHON_VERSION


def load_function(details: Mapping[str, Any]) -> dict[str, str]:
    """A function whose results are tables, as Spark's workers read it; with the place of a table that a name means."""
    function, place = FUNCTIONS[details["name"].upper()], details["place"]
    return handed(function if place is None else at_place(function, Place(**place)))


def plan_join(details: Mapping[str, Any]) -> dict[str, str]:
    """A function that puts beside each row the rows of a table whose vectors are nearest to one of its own."""
    place, told = Place(**details["place"]), details["options"]
    ds = dataset(place.uri, place.version, storage_options=dict(place.storage) or None)
    schema = ds.table.snapshot.manifest.schema
    conditions = details["conditions"]
    result = StructType.fromJson(json.loads(details["result"]))
    job = planned_join(
        ds,
        TableRef(place.uri, place.storage, place.version),
        told,
        None if conditions is None else from_json(conditions, schema),
        result,
    )
    return handed((partial(join_rows, job), result))


def handed(function: Any) -> dict[str, str]:
    """Something that workers call."""
    command = b64encode(dumps(function)).decode()  # type: ignore[no-untyped-call]
    return {"command": command, "python_version": PYTHON_VERSION}
