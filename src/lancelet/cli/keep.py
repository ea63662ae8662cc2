"""Commands that keep tables in order: checks, repairs, compaction, cleanup, indices, names of versions, copies."""

from __future__ import annotations

import json as json_texts
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from lancelet._api.checking import repair as repair_table
from lancelet._api.checking import verify as verify_table
from lancelet.cli.places import At, Json, Options, Place, in_namespace, location, open_table, reference, storage_options
from lancelet.cli.printing import Printer, Size, safe_lines
from lancelet.cli.progress import counted, staged
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput
from lancelet.optimize import Compaction

app = typer.Typer()
index = typer.Typer(help="Indices: create, optimize, drop.", no_args_is_help=True)
tag = typer.Typer(help="Tags: names for versions.", no_args_is_help=True)
branch = typer.Typer(help="Branches: lines of versions.", no_args_is_help=True)
app.add_typer(index, name="index")
app.add_typer(tag, name="tag")
app.add_typer(branch, name="branch")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]
FOUND: Final = 3
"""The exit code of a check that found something."""
_AGE: Final = re.compile(r"(\d+)\s*(s|m|h|d|w)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@app.command()
def verify(
    table: Place,
    deep: Annotated[bool, typer.Option("--deep", help="Decode every page and compare indices with columns.")] = False,
    at: At = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """Check a table: every file, size, row count and reference. Ends with 3 if something is wrong."""
    place = location(table, options) if at is None else open_table(table, at, None, options).uri
    version = None if at is None else reference(open_table(place, options=options), at)
    with counted("checking", None):
        report = verify_table(place, version, deep=deep, storage_options=storage_options(options))
    if json:
        Printer(as_json=True).json(report)
    else:
        Printer(as_json=False).text(report)
    if not report.ok:
        raise typer.Exit(FOUND)


@app.command()
def repair(
    table: Place,
    yes: Yes = False,
    set_aside_damaged: Annotated[
        bool,
        typer.Option("--set-aside-damaged", help="Go on without versions that cannot be read; their rows are lost."),
    ] = False,
    options: Options = None,
    json: Json = False,
) -> None:
    """Repair what can be repaired without guessing. Explains first, then asks."""
    told: dict[str, Any] = {"set_aside_damaged": set_aside_damaged, "storage_options": storage_options(options)}
    place = location(table, options)
    report = repair_table(place, dry_run=True, **told)
    printer = Printer(as_json=json)
    if not json:
        printer.text(report)
    if report.actions and _agreed(printer, yes, "Do this?"):
        report = repair_table(place, dry_run=False, **told)
        printer.say(f"{len(report.actions)} things were repaired")
    if json:
        printer.json(report)


@app.command()
def compact(
    table: Place,
    target_rows: Annotated[int | None, typer.Option("--target-rows", min=1, help="Rows of a fragment.")] = None,
    dry_run: DryRun = False,
    options: Options = None,
    json: Json = False,
) -> None:
    """Put small fragments together, without the rows that are deleted."""
    printer, dataset = Printer(as_json=json), open_table(table, options=options)
    settings: Any = {} if target_rows is None else {"target_rows_per_fragment": target_rows}
    plan = Compaction.plan(dataset, settings)
    if dry_run or not plan.tasks:
        if json:
            printer.json({"tasks": [[one.id for one in task.fragments] for task in plan.tasks]})
        else:
            printer.text(plan)
        return
    with counted("rewriting", len(plan.tasks)) as step:
        done = []
        for task in plan.tasks:
            done.append(task.execute(dataset))
            step(1)
    metrics = Compaction.commit(dataset, done)
    facts = {name.replace("_", " "): getattr(metrics, name) for name in _METRICS}
    printer.facts("", {"version": dataset.version, **facts})


_METRICS: Final = ("fragments_removed", "fragments_added", "files_removed", "files_added")


@app.command()
def cleanup(
    table: Place,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="For example 7d, 12h, 30m.")
    ] = None,
    keep: Annotated[int | None, typer.Option("--keep", min=1, help="Versions to keep at least.")] = None,
    delete_unverified: Annotated[
        bool, typer.Option("--delete-unverified", help="Also young files that no version names; nobody may be writing.")
    ] = False,
    files: Annotated[bool, typer.Option("--files", help="Name the files.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    options: Options = None,
    json: Json = False,
) -> None:
    """Remove old versions and the files that only they need. Explains first, then asks."""
    printer, dataset = Printer(as_json=json), open_table(table, options=options)
    told: dict[str, Any] = {
        "older_than": None if older_than is None else age(older_than),
        "retain_versions": keep,
        "delete_unverified": delete_unverified,
        "error_if_tagged_old_versions": False,
    }
    explained = dataset.explain_cleanup_old_versions(**told, include_files=files)
    if dry_run or not (explained.stats.old_versions or explained.stats.bytes_removed):
        printer.json(explained) if json else printer.text(explained)
        return
    if not json:
        printer.text(explained)
    if _agreed(printer, yes, "Remove them?"):
        with counted("removing", None):
            stats = dataset.cleanup_old_versions(**told)
        facts = {"versions removed": stats.old_versions, "freed": Size(stats.bytes_removed)}
        printer.facts("", facts, raw=stats)
        if stats.failed_deletes:
            printer.say(f"{stats.failed_deletes:,} files could not be removed; a later cleanup takes them")
            raise typer.Exit(1)


@index.command("create")
def create_index(
    table: Place,
    column: Annotated[str, typer.Argument(help="The column, or the path of a field in structs.")],
    kind: Annotated[str, typer.Argument(help="BTREE, BITMAP, INVERTED, IVF_PQ, ...")],
    name: Annotated[str | None, typer.Option("--name", help="By default COLUMN_idx.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="In place of an index of this name.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An option of the kind; more than once.")
    ] = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """Build an index over a column."""
    printer, dataset = Printer(as_json=json), open_table(table, options=options)
    told: dict[str, Any] = dict(_setting(one) for one in settings or ())
    title = name or f"{column}_idx"
    if not replace and title in {one.name for one in dataset.describe_indices()}:
        raise InvalidInput(
            f"{dataset.uri} has an index {title} already: --replace builds it anew, --name gives another name"
        )
    is_vector = kind.upper().startswith("IVF")
    build: Callable[..., Any] = dataset.create_index if is_vector else dataset.create_scalar_index
    with staged() as progress:
        build(column, kind.upper(), name=name, replace=replace, progress_callback=progress, **told)
    printer.facts("", {"version": dataset.version, "index": title, "rows": dataset.count_rows()})


@index.command("optimize")
def optimize_index(
    table: Place,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Indices; all by default.")] = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Train vector indices anew.")] = False,
    options: Options = None,
    json: Json = False,
) -> None:
    """Have indices cover the rows that came since."""
    printer, dataset = Printer(as_json=json), open_table(table, options=options)
    for name in names or ():
        _known_index(dataset, name)
    before = dataset.version
    with counted("extending", None):
        dataset.optimize.optimize_indices(index_names=names or None, retrain=retrain)
    changed = "nothing to do" if dataset.version == before else f"version {dataset.version}"
    printer.facts("", {"result": changed}, raw={"version": dataset.version, "changed": dataset.version != before})


@index.command("drop")
def drop_index(table: Place, name: str, yes: Yes = False, options: Options = None, json: Json = False) -> None:
    """Drop an index; its files go with a later cleanup."""
    printer, dataset = Printer(as_json=json), open_table(table, options=options)
    _known_index(dataset, name)
    if _agreed(printer, yes, f"Drop the index {name}?"):
        dataset.drop_index(name)
        printer.facts("", {"version": dataset.version, "dropped": name})


def _known_index(dataset: LanceDataset, name: str) -> None:
    known = [one.name for one in dataset.describe_indices()]
    if name not in known:
        raise InvalidInput(f"{dataset.uri} has no index {name!r}; it has: {', '.join(known) or 'none'}")


@tag.command("list")
def list_tags(table: Place, options: Options = None, json: Json = False) -> None:
    """All tags."""
    found: Any = open_table(table, options=options).tags.list()
    rows = [(name, one["version"], one.get("branch")) for name, one in sorted(found.items())]
    Printer(as_json=json).rows(("tag", "version", "branch"), rows, empty="no tags")


@tag.command("create")
def create_tag(table: Place, name: str, version: str, options: Options = None, json: Json = False) -> None:
    """Name a version."""
    dataset = open_table(table, options=options)
    dataset.tags.create(name, reference(dataset, version))
    _tell_tag(dataset, name, json)


@tag.command("move")
def move_tag(table: Place, name: str, version: str, options: Options = None, json: Json = False) -> None:
    """Have a tag name another version."""
    dataset = open_table(table, options=options)
    dataset.tags.update(name, reference(dataset, version))
    _tell_tag(dataset, name, json)


def _tell_tag(dataset: LanceDataset, name: str, json: bool) -> None:
    made: Any = dataset.tags.list()[name]
    Printer(as_json=json).facts("", {"tag": name, "version": made["version"], "branch": made.get("branch")})


@tag.command("delete")
def delete_tag(table: Place, name: str, options: Options = None, json: Json = False) -> None:
    """Remove a tag; the version stays until a cleanup."""
    open_table(table, options=options).tags.delete(name)
    Printer(as_json=json).facts("", {"deleted": name})


@branch.command("list")
def list_branches(table: Place, options: Options = None, json: Json = False) -> None:
    """All branches."""
    found: Any = open_table(table, options=options).branches.list()
    rows = [(name, one["parent_branch"] or "main", one["parent_version"]) for name, one in sorted(found.items())]
    Printer(as_json=json).rows(("branch", "from", "version"), rows, empty="no branches")


@branch.command("create")
def create_branch(
    table: Place,
    name: str,
    version: Annotated[str | None, typer.Argument()] = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """Begin a branch at a version; at the newest by default."""
    dataset = open_table(table, options=options)
    made = dataset.create_branch(name, None if version is None else reference(dataset, version))
    Printer(as_json=json).facts("", {"branch": name, "version": made.version, "rows": made.count_rows()})


@branch.command("delete")
def delete_branch(table: Place, name: str, yes: Yes = False, options: Options = None, json: Json = False) -> None:
    """Remove a branch with its versions."""
    printer, dataset = Printer(as_json=json), open_table(table, options=options)
    if _agreed(printer, yes, f"Remove the branch {name} with its versions?"):
        dataset.branches.delete(name)
        printer.facts("", {"deleted": name})


@app.command()
def restore(
    table: Place,
    version: Annotated[str, typer.Argument(help="A version or tag.")],
    options: Options = None,
    json: Json = False,
) -> None:
    """Make an old version the newest again, as a new version."""
    dataset = open_table(table, version, None, options)
    dataset.restore()
    Printer(as_json=json).facts("", {"version": dataset.version})


@app.command()
def clone(
    table: Place,
    target: Annotated[str, typer.Argument(help="The new table's path or URI.")],
    deep: Annotated[
        bool, typer.Option("--deep", help="Copy the files; otherwise the clone reads them where they are.")
    ] = False,
    at: At = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """Make a table of a version that goes its own way."""
    dataset = open_table(table, options=options)
    version = dataset.version if at is None else reference(dataset, at)
    make = dataset.deep_clone if deep else dataset.shallow_clone
    with counted("cloning", None):
        made = make(target, version, storage_options(options))
    Printer(as_json=json).facts("", {"table": made.uri, "version": made.version, "rows": made.count_rows()})


@app.command()
def drop(table: Place, yes: Yes = False, options: Options = None, json: Json = False) -> None:
    """Remove a table with everything in its folder."""
    printer = Printer(as_json=json)
    dataset = open_table(table, options=options)
    question = f"Remove {dataset.uri} with {dataset.count_rows():,} rows and all its versions?"
    if _agreed(printer, yes, question):
        named = in_namespace(table, options)
        if named is not None:
            named[0].drop(named[1])
        else:
            LanceDataset.drop(dataset.uri, storage_options(options))
        printer.facts("", {"dropped": dataset.uri})


def age(text: str) -> timedelta:
    """A length of time as users write it.

    Examples
    --------
    >>> age("2d")
    datetime.timedelta(days=2)
    """
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"an age is a number and one of s, m, h, d, w, for example 7d, not {text!r}")
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise InvalidInput(f"nothing is as old as {text!r}") from None


def _agreed(printer: Printer, yes: bool, question: str) -> bool:
    """Whether the user wants it; without a terminal to ask, only ``--yes`` says so, and the command ends with 1."""
    if yes:
        return True
    if printer.as_json or not Console(stderr=True).is_terminal:
        printer.say("nothing was done: --yes does it without asking")
        raise typer.Exit(1)
    return typer.confirm(safe_lines(question), default=False, err=True)


def _setting(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise InvalidInput(f"an option of an index is KEY=VALUE, not {text!r}")
    try:
        return key, json_texts.loads(value)
    except ValueError:
        return key, value
