"""A plan as readable text: one step a line, each below the one that it feeds."""

from __future__ import annotations

from collections.abc import Iterable

from lancelet.format.schema import Field
from lancelet.query.expr import Column
from lancelet.query.plan import ScanPlan, needed_fields
from lancelet.query.printing import quoted_path, to_sql
from lancelet.query.table_reader import TableReader


def explain(table: TableReader, plan: ScanPlan, *, verbose: bool = False) -> str:
    """The steps of a scan, the last one first.

    ``verbose`` adds the paths of nested fields and the ids of the fragments.
    """
    fields, system = needed_fields(plan.schema, (expr for _, expr in plan.outputs))
    steps = []
    if plan.limit is not None or plan.offset:
        steps.append(f"Limit: offset={plan.offset}, limit={'none' if plan.limit is None else plan.limit}")
    if plan.order_by:
        keys = (
            f"{key.column} {'asc' if key.ascending else 'desc'} nulls {'first' if key.nulls_first else 'last'}"
            for key in plan.order_by
        )
        steps.append(f"Sort: {', '.join(keys)}")
    steps.append(f"Project: {_outputs(plan)}")
    if plan.blobs_as_binary:
        steps.append(f"ReadBlobs: {', '.join(sorted(plan.blobs_as_binary))}")
    if plan.filter is not None:
        first, first_system = needed_fields(plan.schema, [plan.filter])
        if plan.late:
            held = {field.id for field in first}
            rest = [field for field in fields if field.id not in held]
            steps.append(f"ReadPassing: columns=[{_names(rest, verbose)}]")
        else:
            first, first_system = (
                tuple(dict.fromkeys((*first, *fields))),
                tuple(dict.fromkeys((*first_system, *system))),
            )
        steps.append(f"Filter: {to_sql(plan.filter)}")
        fields, system = first, first_system
    manifest = table.snapshot.manifest
    chosen = manifest.fragments.ids.tolist() if plan.fragment_ids is None else list(plan.fragment_ids)
    which = f"fragments={chosen if verbose else len(chosen)}"
    more = f", system=[{', '.join(system)}]" if system else ""
    deleted = ", deleted rows included" if plan.include_deleted else ""
    steps.append(
        f"LanceRead: uri={table.snapshot.uri}, version={manifest.version}, {which}, "
        f"columns=[{_names(fields, verbose)}]{more}{deleted}"
    )
    return "\n".join("  " * depth + step for depth, step in enumerate(steps))


def _outputs(plan: ScanPlan) -> str:
    parts = []
    for name, expr in plan.outputs:
        text = to_sql(expr)
        plain = isinstance(expr, Column) and quoted_path(expr.path) == text and name in (text, ".".join(expr.path))
        parts.append(name if plain else f"{text} as {name}")
    return ", ".join(parts) or "(no columns)"


def _names(fields: Iterable[Field], verbose: bool) -> str:
    if not verbose:
        return ", ".join(field.name for field in fields)

    def leaves(field: Field, prefix: str) -> Iterable[str]:
        path = f"{prefix}{field.name}"
        if not field.children:
            yield path
        for child in field.children:
            yield from leaves(child, f"{path}.")

    return ", ".join(leaf for field in fields for leaf in leaves(field, ""))
