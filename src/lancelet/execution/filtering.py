"""A filter in stages: conditions on cheap columns first, the others only for rows that still pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lancelet.execution.plan import needed_fields
from lancelet.expressions.build import all_of
from lancelet.expressions.evaluate import may_fail
from lancelet.expressions.expr import Expr, columns_of, conjuncts
from lancelet.format.schema import Field, Schema


@dataclass(frozen=True, slots=True)
class Stage:
    """A condition of the filter, and what it looks at."""

    condition: Expr
    fields: tuple[Field, ...]
    system: tuple[str, ...]


def filter_stages(condition: Expr, schema: Schema, cost: Callable[[Sequence[Field]], float]) -> list[Stage]:
    """The parts of a filter, those with cheap columns first.

    A filter that may fail stays whole: one part may be there to keep rows away from another."""
    if may_fail(condition):
        return [_stage([condition], schema)]
    groups: dict[frozenset[tuple[str, ...]], list[Expr]] = {}
    for part in conjuncts(condition):
        groups.setdefault(frozenset(columns_of(part)), []).append(part)
    return sorted((_stage(parts, schema) for parts in groups.values()), key=lambda stage: cost(stage.fields))


def _stage(parts: list[Expr], schema: Schema) -> Stage:
    fields, system = needed_fields(schema, parts)
    return Stage(all_of(parts), fields, system)
