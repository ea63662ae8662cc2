"""A plan as readable text: one step a line, each below the one that it feeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lancelet.execution.candidates import Search
from lancelet.execution.index_match import AllOf, AnyOf, Constant, Lookup, Opposite, Shape
from lancelet.execution.plan import ScanPlan, allowed_plan, exact_plan, needed_fields
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.build import all_of
from lancelet.expressions.expr import Column
from lancelet.expressions.printing import quoted_path, to_sql
from lancelet.format.schema import Field
from lancelet.index.questions import Missing

if TYPE_CHECKING:
    from lancelet.execution.candidates import Candidates
    from lancelet.execution.matching_plan import Matching
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.vector_indices import VectorIndex
    from lancelet.index.vector.query import SearchUse


def explain(
    table: TableReader,
    plan: ScanPlan,
    *,
    verbose: bool = False,
    found: Candidates | None = None,
    use: SearchUse | None = None,
) -> str:
    """The steps of a scan, the last one first; what is asked of indices stands below the read that it is for.

    ``verbose`` adds the paths of nested fields and the ids of the fragments, ``found`` what was found, and ``use`` what a
    search looked at.
    """
    if plan.nearest is not None:
        return _explain_search(table, plan, plan.nearest, verbose=verbose, found=found, use=use)
    if plan.matching is not None:
        return _explain_matching(table, plan, plan.matching, verbose=verbose, found=found)
    fields, system = needed_fields(plan.schema, (expr for _, expr in plan.outputs))
    steps = _finish(plan)
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
    if plan.mask is not None:
        lists = [name for name, held in (("allowed", plan.mask.allowed), ("blocked", plan.mask.blocked)) if held]
        steps.append(f"RowMask: {' and '.join(lists)} row ids")
    lines = ["  " * depth + step for depth, step in enumerate(steps)]
    if plan.filter is not None and not plan.include_deleted:
        search = (
            found.search
            if found is not None
            else Search.of(table, plan.filter, plan.fragment_ids, use_index=plan.use_index)
        )
        if search is not None and search.parts:
            lines += ("  " * len(steps) + line for line in _search(search, verbose, found))
    return "\n".join(lines)


def _finish(plan: ScanPlan) -> list[str]:
    """What becomes of rows that were read."""
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
    return steps


def _explain_search(
    table: TableReader,
    plan: ScanPlan,
    nearest: Nearest,
    *,
    verbose: bool,
    found: Candidates | None,
    use: SearchUse | None,
) -> str:
    """A search: the rows that it finds, and what it looks at for that."""
    steps = _finish(plan)
    fields, _ = needed_fields(plan.schema, (expr for _, expr in plan.outputs))
    if fields:
        steps.append(f"TakeRows: columns=[{_names(fields, verbose)}]")
    if plan.filter is not None and not nearest.prefilter:
        steps.append(f"Filter: {to_sql(plan.filter)}")
    if nearest.text is not None and not nearest.prefilter:
        steps.append(f"Match: {nearest.text.query!r}")
    steps.append(_nearest(nearest))
    lines = ["  " * depth + step for depth, step in enumerate(steps)]
    reads = exact_plan(plan, nearest)
    below: list[str] = []
    index = table.vector_indices.choose(nearest)
    compared = "" if use is None else f", vectors compared={use.refined}"
    if index is None and plan.indexed_only and nearest.use_index:
        below.append("NoRows: fast_search, and no index with this metric")
    elif index is None:
        below.append(f"ExactSearch: metric={nearest.exact_metric().value}{compared}")
        below += explain(table, reads, verbose=verbose, found=found).splitlines()[1:]
    elif use is not None and not use.segments and use.refined:
        below.append(f"ExactSearch: metric={index.metric.value}, few rows to look at{compared}")
        below += explain(table, replace(reads, outputs=()), verbose=verbose, found=found).splitlines()[1:]
    else:
        if nearest.refine is not None:
            below.append(f"Refine: factor={nearest.refine}")
        below.append(_index_query(index, nearest, verbose, use))
        if reads.filter is not None or reads.mask is not None:
            below += explain(table, replace(reads, outputs=()), verbose=verbose, found=found).splitlines()[1:]
        left = () if plan.indexed_only else index.unindexed(table, nearest, plan.fragment_ids)
        if left:
            below.append(f"ExactSearch: metric={index.metric.value}, not indexed")
            below += explain(table, replace(reads, fragment_ids=left), verbose=verbose).splitlines()[1:]
    if nearest.text is not None and nearest.prefilter:
        texts = replace(plan, outputs=(), limit=None, offset=0, order_by=(), nearest=None)
        asked = replace(nearest.text, prefilter=True)
        below += _explain_matching(table, texts, asked, verbose=verbose, found=None).splitlines()[1:]
    return "\n".join([*lines, *("  " * len(steps) + line for line in below)])


def _explain_matching(
    table: TableReader, plan: ScanPlan, matching: Matching, *, verbose: bool, found: Candidates | None
) -> str:
    """A search for texts: the rows that match, and for each column where its texts are looked up."""
    steps = _finish(plan)
    fields, _ = needed_fields(plan.schema, (expr for _, expr in plan.outputs))
    if fields:
        steps.append(f"TakeRows: columns=[{_names(fields, verbose)}]")
    if plan.filter is not None and not matching.prefilter:
        steps.append(f"Filter: {to_sql(plan.filter)}")
    if matching.near is not None and not matching.prefilter:
        steps.append(_nearest(matching.near))
    most = "all" if plan.limit is None or plan.order_by else str(plan.limit + plan.offset)
    steps.append(f"Match: {matching.query!r}, best={most}")
    lines = ["  " * depth + step for depth, step in enumerate(steps)]
    below: list[str] = []
    every = table.snapshot.manifest.fragments.ids.tolist() if plan.fragment_ids is None else list(plan.fragment_ids)
    for column in matching.columns:
        index = table.text_indices.choose(column, has_items=matching.has_items)
        known = frozenset() if index is None else index.fragments
        if index is not None:
            which = f"fragments={sorted(known) if verbose else len(known)}"
            below.append(
                f"TextIndexQuery: INVERTED {index.name}, column={column.name}, {which}, segments={len(index.parts)}"
            )
        left = [number for number in every if number not in known]
        if left and not plan.indexed_only:
            below.append(f"FlatMatch: column={column.name}, fragments={left if verbose else len(left)}, not indexed")
    if matching.near is not None and matching.prefilter:
        nearest = replace(matching.near, prefilter=True)
        whole = replace(plan, outputs=(), limit=None, offset=0, order_by=(), matching=None, nearest=nearest)
        searched = _explain_search(table, whole, nearest, verbose=verbose, found=None, use=None).splitlines()[1:]
        return "\n".join([*lines, *("  " * len(steps) + line for line in (*below, *searched))])
    reads = allowed_plan(plan, matching)
    if reads.filter is not None or reads.mask is not None:
        below += explain(table, reads, verbose=verbose, found=found).splitlines()[1:]
    return "\n".join([*lines, *("  " * len(steps) + line for line in below)])


def _index_query(index: VectorIndex, nearest: Nearest, verbose: bool, use: SearchUse | None) -> str:
    covered = index.fragments
    parts = [
        f"VectorIndexQuery: {index.title} {index.name}, metric={index.metric.value}",
        f"fragments={sorted(covered) if verbose else len(covered)}",
        f"segments={len(index.parts)}",
    ]
    if nearest.effort is not None:
        parts.append(f"effort={nearest.effort}")
    elif nearest.min_probes is not None or nearest.max_probes is not None:
        most = "all" if nearest.max_probes is None else nearest.max_probes
        parts.append(f"probes={nearest.min_probes or 1} to {most}")
    if use is not None:
        parts.append(f"partitions probed={use.partitions}, codes scored={use.codes}, rows refined={use.refined}")
    return ", ".join(parts)


def _nearest(nearest: Nearest) -> str:
    parts = [f"column={nearest.column.name}", f"k={nearest.count}"]
    if len(nearest.queries) > 1:
        parts.append(f"{'queries' if nearest.is_batch else 'query vectors'}={len(nearest.queries)}")
    if nearest.lower is not None or nearest.upper is not None:
        parts.append(f"distances from {nearest.lower} to {nearest.upper}")
    return f"Nearest: {', '.join(parts)}"


def _search(search: Search, verbose: bool, found: Candidates | None) -> Iterable[str]:
    """What is asked, a line for each part of the filter that is asked about."""
    open_parts = [part for parts, shape in search.parts if not _is_exact(search, shape) for part in parts]
    left = [*open_parts, *search.rest]
    rechecked = f"tested on rows: {to_sql(all_of(left))}" if left else "nothing left to test"
    yield f"IndexSearch: {rechecked}{_found(found)}"
    for _, shape in search.parts:
        yield from ("  " + line for line in _shape(search, shape, verbose, found))


def _is_exact(search: Search, shape: Shape) -> bool:
    """Whether the indices know exactly which rows, of those that they cover."""
    match shape:
        case AllOf(parts, complete):
            return complete and all(_is_exact(search, part) for part in parts)
        case AnyOf(parts):
            return all(_is_exact(search, part) for part in parts)
        case Opposite(part):
            return _is_exact(search, part)
        case Lookup():
            kinds = [part.kind for part in search.serving(shape)]
            exact = not kinds or any(kind.is_exact for kind in kinds) or isinstance(shape.asked[0].question, Missing)
            return exact and not shape.asked[0].loose
    return True


def _found(found: Candidates | None) -> str:
    if found is None:
        return ""
    maybe, use = found.bounds.maybe, found.use
    whole = sum(maybe.is_whole(number) for number in maybe.fragments)
    rows = sum(len(maybe.bitmap(number)) for number in maybe.fragments if not maybe.is_whole(number))
    return (
        f", candidates={rows} rows of {len(maybe.fragments) - whole} fragments and {whole} whole fragments, "
        f"segments opened={use.loaded}, cached={use.cached}, parts read={use.parts}, entries read={use.rows}"
    )


def _shape(search: Search, shape: Shape, verbose: bool, found: Candidates | None) -> Iterable[str]:
    parts: Sequence[Shape] = ()
    match shape:
        case Constant(value):
            yield "AllRows" if value else "NoRows"
        case AllOf(parts, complete):
            yield "And:" if complete else "And: rows are tested"
        case AnyOf(parts):
            yield "Or:"
        case Opposite(part):
            yield "NotTrue:"
            parts = (part,)
        case Lookup():
            yield from _lookup(search, shape, verbose, found)
    for part in parts:
        yield from ("  " + line for line in _shape(search, part, verbose, found))


def _lookup(search: Search, lookup: Lookup, verbose: bool, found: Candidates | None) -> Iterable[str]:
    text = to_sql(all_of(lookup.conditions))
    serving = search.serving(lookup)
    if not serving:
        yield f"RowQuery: {text}"
    live = len(search.table.snapshot.manifest.fragments)
    for name in dict.fromkeys(part.entry.name for part in serving):
        segments = [part for part in serving if part.entry.name == name]
        covered = frozenset().union(*(part.fragments for part in segments))
        which = f"fragments={sorted(covered) if verbose else f'{len(covered)} of {live}'}"
        number = f", segments={len(segments)}" if len(segments) > 1 else ""
        rows = f", rows={found.use.found.get((id(lookup), name), 0)}" if found is not None else ""
        yield f"ScalarIndexQuery: {segments[0].kind.name} {name}: {text}, {which}{number}{rows}"


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
