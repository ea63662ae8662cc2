"""Merging a data frame into a table: Spark joins, tasks write, the driver commits once.

Of each pair that the join finds, the first clause of its kind whose condition is true
decides what becomes of it::

    MATCHED    a row of the table and one of the source     inner join
    SOURCE     a row that only the source has               with it: the source's rows stay in the join
    TARGET     a row that only the table has                with it: the table's rows stay in the join

Only addresses, the columns that conditions and values look at, and new values go
through Spark: columns that keep their values are read where the new rows are
written, exactly as they are stored.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from lancelet.editing.merge import SOURCE, TARGET, MergeResult, primary_key_paths
from lancelet.editing.retry import retried
from lancelet.errors import InvalidInput, InvalidType, UnfitData, UnknownColumn
from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import ROW_ADDRESS, ROW_ID
from lancelet.spark.names import find_name, is_case_sensitive
from lancelet.spark.table.edit import pin_version
from lancelet.spark.table.rows import RowAction, RowJob, RowStep, commit_moved
from lancelet.spark.table.values import STEP, analysed, assigned, condition_of, fitted, in_words, table_frame
from lancelet.spark.types import stored_columns
from lancelet.table.commit.patience import SPARK_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.format.schema import Schema
    from lancelet.spark.options import TableRef
    from lancelet.table.manifest.snapshot import Snapshot

_ADDRESS = "__lance_address"
_FOUND = "__lance_source"


class Side(enum.Enum):
    """Who has a row."""

    MATCHED = "whenMatched"
    SOURCE = "whenNotMatched"
    TARGET = "whenNotMatchedBySource"


@dataclass(frozen=True)
class Clause:
    """What becomes of rows of one kind."""

    side: Side
    kind: RowAction
    condition: Any = None
    values: Mapping[str, str | Column] | None = None
    """None: all columns that the source has."""


@dataclass(frozen=True)
class Merge:
    """What the user asked for."""

    source: DataFrame
    condition: Any
    alias: str | None = None
    """Of the table."""
    clauses: tuple[Clause, ...] = field(default=())

    def check(self) -> None:
        """Refuse a merge that makes no sense for any table."""
        if not self.clauses:
            raise InvalidInput(
                "the merge would not change the table; say what to do with rows, for example with "
                "whenMatchedUpdateAll() or whenNotMatchedInsertAll()"
            )
        for side in Side:
            own = [clause for clause in self.clauses if clause.side is side]
            for clause in own[:-1]:
                if clause.condition is None:
                    raise InvalidInput(
                        f"a {side.value} clause without a condition leaves nothing to the {side.value} clauses after it; "
                        "give it a condition, or put it last"
                    )

    @property
    def join(self) -> str:
        """How the table is joined with the source."""
        sides = {clause.side for clause in self.clauses}
        if Side.TARGET in sides:
            return "full_outer" if Side.SOURCE in sides else "left_outer"
        return "right_outer" if Side.SOURCE in sides else "inner"

    @property
    def may_repeat(self) -> bool:
        """Whether it does not matter how many rows of the source match: what matches is deleted."""
        matched = [clause for clause in self.clauses if clause.side is Side.MATCHED]
        return all(clause.kind is RowAction.DELETE and clause.condition is None for clause in matched)


def merge_rows(spark: SparkSession, place: TableRef, merge: Merge) -> MergeResult:
    """Carry a merge out; when others changed the same rows meanwhile, again on the newest version."""
    merge.check()

    def attempt(table: TableReader) -> MergeResult:
        snapshot = table.snapshot
        frame, job = plan_merge(spark, snapshot, place, merge)
        fields = snapshot.manifest.schema.fields
        done = commit_moved(snapshot, frame, job, fields, may_repeat=merge.may_repeat)
        return {
            "num_inserted_rows": done.inserted,
            "num_updated_rows": done.updated,
            "num_deleted_rows": done.deleted,
        }

    return retried(TableReader(place.open()), attempt, None, SPARK_SECONDS)


def plan_merge(spark: SparkSession, snapshot: Snapshot, place: TableRef, merge: Merge) -> tuple[DataFrame, RowJob]:
    """The rows that tasks get, and what they are to do with them."""
    schema = snapshot.manifest.schema
    here = pin_version(snapshot, place)
    target = table_frame(spark, here, schema).drop(ROW_ID).withColumnRenamed(ROW_ADDRESS, _ADDRESS)
    joined = _joined(target.alias(merge.alias or TARGET), merge)
    choices = _choices(merge)
    with in_words("the conditions of the clauses"):
        chosen = analysed(joined.select("*", choices.alias(STEP)).filter(F.col(STEP).isNotNull()))
    case_sensitive = is_case_sensitive(spark)
    values = [_values(chosen, schema, merge, clause, case_sensitive) for clause in merge.clauses]
    names = [name for name in schema.names if any(name in given for given in values)]
    columns = [_column(values, name).alias(f"v{at}") for at, name in enumerate(names)]
    frame = chosen.select(STEP, _ADDRESS, *columns).sortWithinPartitions(F.col(_ADDRESS).asc_nulls_last())
    steps = [RowStep(clause.kind, tuple(given)) for clause, given in zip(merge.clauses, values, strict=True)]
    for step in steps:
        if step.kind is RowAction.INSERT:
            _check_insertable(schema, step.columns)
    stored = stored_columns(schema)
    inserts = any(step.kind is RowAction.INSERT for step in steps)
    key = primary_key(schema) if inserts else ()
    return frame, RowJob(here, tuple(steps), pa.schema([stored.field(name) for name in names]), key)


def _joined(target: DataFrame, merge: Merge) -> DataFrame:
    """The table beside its source, which is called by the alias that it has, or ``source``."""
    given = [merge.condition, *(clause.condition for clause in merge.clauses)]
    given += [value for clause in merge.clauses for value in (clause.values or {}).values()]
    source = merge.source.alias(SOURCE) if any(map(_names_source, given)) else merge.source
    condition = condition_of(merge.condition, "the condition of the merge")
    with in_words(f"the condition of the merge, {merge.condition!r}"):
        return analysed(target.join(source.select("*", F.lit(True).alias(_FOUND)), condition, merge.join))


def _names_source(given: Any) -> bool:
    return given is not None and re.search(rf"(?<![\w.`])`?{SOURCE}`?\s*\.", str(given)) is not None


def _choices(merge: Merge) -> Column:
    """The number of the clause for each pair."""
    in_table, in_source = F.col(_ADDRESS).isNotNull(), F.col(_FOUND).isNotNull()
    has = {
        Side.MATCHED: in_table & in_source,
        Side.SOURCE: ~in_table & in_source,
        Side.TARGET: in_table & ~in_source,
    }
    found: Any = F
    for number, clause in enumerate(merge.clauses):
        applies = has[clause.side]
        if clause.condition is not None:
            applies = applies & condition_of(clause.condition, f"the condition of {clause.side.value}")
        found = found.when(applies, number)
    chosen: Column = found
    return chosen


def _values(frame: DataFrame, schema: Schema, merge: Merge, clause: Clause, case_sensitive: bool) -> dict[str, Column]:
    """The new values of a clause, in the types of their columns."""
    if clause.kind is RowAction.DELETE:
        return {}
    if clause.values is not None:
        return fitted(frame, schema, assigned(schema, clause.values, case_sensitive=case_sensitive))
    given: dict[str, Column] = {}
    for name in merge.source.columns:
        column = find_name(name, schema.names, case_sensitive=case_sensitive)
        if column is None:
            raise UnknownColumn(
                name,
                schema.names,
                "the table, but in the source of the merge; leave it out (source.drop), name the columns with set= and "
                "values=, or add it to the table first (LanceTable.addColumns)",
            )
        if column in given:
            raise InvalidInput(f"the source of the merge has several columns for '{column}'; select one of them")
        given[column] = merge.source[f"`{name.replace('`', '``')}`"]
    return fitted(frame, schema, given)


def _column(values: Iterable[Mapping[str, Column]], name: str) -> Column:
    """The value of a column, whatever the clause."""
    cases = [(number, given[name]) for number, given in enumerate(values) if name in given]
    first = F.when(F.col(STEP) == cases[0][0], cases[0][1])
    return reduce(lambda found, case: found.when(F.col(STEP) == case[0], case[1]), cases[1:], first)


def _check_insertable(schema: Schema, columns: Iterable[str]) -> None:
    given = set(columns)
    for field_ in schema.fields:
        if not field_.nullable and field_.name not in given:
            raise UnfitData(
                f"rows cannot be inserted without a value for '{field_.name}', which takes no nulls; add it to the source "
                "or to the values"
            )


def primary_key(schema: Schema) -> tuple[str, ...]:
    """The columns of the table's primary key, if it is made of whole columns."""
    paths = primary_key_paths(schema)
    return tuple(path[0] for path in paths) if all(len(path) == 1 for path in paths) else ()


def checked_source(source: Any) -> DataFrame:
    """What is merged must be a data frame."""
    if not hasattr(source, "mapInArrow"):
        raise InvalidType(f"the source of a merge is a Spark data frame, not {type(source)}")
    frame: DataFrame = source
    return frame
