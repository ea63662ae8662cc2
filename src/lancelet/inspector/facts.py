"""What the page asks for, as JSON: each question is a function of the table and of the words after ``?``."""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lancelet._naming.plain_values import rows_of
from lancelet.dataset import LanceDataset
from lancelet.errors import CorruptFile, InvalidInput, LanceletError, MissingFile
from lancelet.inspect.layout import (
    PageFacts,
    columns_of,
    data_files,
    file_facts,
    fragment_facts,
    page_facts,
    written_times,
)
from lancelet.inspect.overview import overview
from lancelet.inspect.past import past_versions
from lancelet.optimize import Compaction
from lancelet.table.refs.read import list_branches

if TYPE_CHECKING:
    from lancelet.inspect.layout import Files
    from lancelet.table.manifest.snapshot import Snapshot

Words = Mapping[str, str]
_MOST_ROWS: Final = 100
_MOST_FRAGMENTS: Final = 5_000
_MOST_LISTED: Final = 200_000
_MOST_FILES: Final = 256
"""Each is opened for its footer: requests, where the store is far away."""
_MOST_PAGES: Final = 5_000
_MOST_VERSIONS: Final = 500
_MOST_BRANCHES: Final = 20
_MOST_BRANCH_VERSIONS: Final = 100
_MOST_STEPS: Final = 100
MAIN: Final = "main"
"""What the versions that are on no branch are called."""
_LONGEST_TEXT: Final = 2_000
_LARGEST_PICTURE: Final = 4 << 20
_MOST_NUMBERS: Final = 512
_LARGEST_NUMBER: Final = (1 << 53) - 1
"""Browsers round larger ones."""
_PICTURES: Final = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"))


def _overview(table: LanceDataset, _: Words) -> Any:
    schema = [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in table.schema]
    return {**asdict(overview(table.table.snapshot)), "schema": schema, "config": table.config()}


def _history(table: LanceDataset, _: Words) -> Any:
    return [asdict(one) for one in past_versions(table.table.snapshot, _MOST_VERSIONS)]


def _lines(table: LanceDataset, _: Words) -> Any:
    """The table's own versions and those of its branches, each as a line that begins at a version of another."""
    snapshot = table.table.snapshot
    branches = sorted(list_branches(snapshot.root), key=lambda one: (one.created_at, one.name))
    lines: list[Any] = [{"branch": MAIN, "from": None, "at": None, "versions": _dots(table, None, _MOST_VERSIONS)}]
    for one in branches[:_MOST_BRANCHES]:
        dots = _dots(table, one.name, _MOST_BRANCH_VERSIONS)
        # The first of a branch is the version that it begins with.
        kept = [dot for dot in dots if dot["version"] > one.parent_version]
        lines.append(
            {"branch": one.name, "from": one.parent_branch or MAIN, "at": one.parent_version, "versions": kept}
        )
    return {"lines": lines, "branches": len(branches), "here": snapshot.manifest.branch or MAIN}


def _dots(table: LanceDataset, branch: str | None, most: int) -> list[Any]:
    try:
        snapshot = table.checkout_version((branch, None)).table.snapshot
    except (LanceletError, OSError) as error:
        return [{"version": 0, "problem": str(error), "tags": [], "operation": None, "rows": None, "committed": None}]
    names = ("version", "problem", "tags", "operation", "rows", "committed")
    return [{name: getattr(one, name) for name in names} for one in past_versions(snapshot, most)]


def _fragments(table: LanceDataset, words: Words) -> Any:
    offset, limit = _page(words, _MOST_FRAGMENTS)
    snapshot, part = table.table.snapshot, slice(offset, offset + limit)
    times = written_times(snapshot, _MOST_LISTED)
    written: dict[int, Any] = {}
    for file in file_facts(snapshot, part):
        at = times.get(file.path) if file.base is None else None
        written[file.fragment] = max(filter(None, (written.get(file.fragment), at)), default=None)
    found = [{**asdict(one), "written": written.get(one.id)} for one in fragment_facts(snapshot, part)]
    return {"fragments": found, "offset": offset, "all": len(snapshot.manifest.fragments)}


def _fragment(table: LanceDataset, words: Words) -> Any:
    position = _number(words, "position", 0)
    return [asdict(one) for one in file_facts(table.table.snapshot, slice(position, position + 1))]


def _columns(table: LanceDataset, words: Words) -> Any:
    offset, limit = _page(words, _MOST_FILES)
    snapshot = table.table.snapshot
    files = data_files(snapshot)
    pages, problems = _readable_pages(snapshot, None, files[offset : offset + limit])
    found = [asdict(one) for one in columns_of(snapshot, pages)]
    return {"columns": found, "read": min(offset + limit, len(files)), "files": len(files), "problems": problems}


def _pages(table: LanceDataset, words: Words) -> Any:
    offset, limit = _page(words, _MOST_FILES)
    snapshot = table.table.snapshot
    found: list[Any] = []
    problems: list[str] = []
    files = data_files(snapshot)
    read = min(offset, len(files))
    while read < min(offset + limit, len(files)) and len(found) < _MOST_PAGES:
        pages, damages = _readable_pages(snapshot, words.get("column"), files[read : read + 1])
        found += map(asdict, pages)
        problems += damages
        read += 1
    return {"pages": found, "read": read, "files": len(files), "problems": problems}


def _readable_pages(snapshot: Snapshot, column: str | None, files: Files) -> tuple[list[PageFacts], list[str]]:
    """Pages, and what is wrong with files that have none to tell of: one that is damaged hides no other."""
    pages: list[PageFacts] = []
    problems = []
    for file in files:
        try:
            pages += page_facts(snapshot, column, [file])
        except (LanceletError, OSError) as error:
            problems.append(str(error))
    return pages, problems


def _indices(table: LanceDataset, _: Words) -> Any:
    total = table.count_rows()
    fragments = [fragment.id for fragment in table.table.snapshot.manifest.fragments]
    return [
        {
            "name": one.name,
            "type": one.index_type,
            "columns": one.field_names,
            "rows_indexed": one.num_rows_indexed,
            "rows": total,
            "bytes": one.total_size_bytes,
            "segments": len(one.segments),
            "details": one.details,
            "strip": _strip(fragments, {number for segment in one.segments for number in segment.fragment_ids}),
        }
        for one in table.describe_indices()
    ]


def _strip(fragments: Sequence[int], known: Set[int]) -> list[float]:
    """Which share of fragments an index knows, from the first to the last, in a number of steps that can be drawn."""
    steps = min(len(fragments), _MOST_STEPS)
    borders = [len(fragments) * step // steps for step in range(steps + 1)] if steps else [0]
    parts = (fragments[start:stop] for start, stop in itertools.pairwise(borders))
    return [sum(number in known for number in part) / len(part) for part in parts]


def _rows(table: LanceDataset, words: Words) -> Any:
    offset, limit = _number(words, "offset", 0), min(_number(words, "limit", 20), _MOST_ROWS)
    where = words.get("where") or None
    problems: list[str] = []
    try:
        found = table.scanner(filter=where, offset=offset, limit=limit, blob_handling="all_binary").to_table()
        count = table.count_rows(where)
    except (CorruptFile, MissingFile):
        found, count, problems = _readable_rows(table, where, offset, limit)
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in found.schema],
        "rows": [[_cell(value) for value in row.values()] for row in rows_of(found)],
        "count": count,
        "problems": problems,
    }


def _readable_rows(table: LanceDataset, where: str | None, offset: int, limit: int) -> tuple[pa.Table, int, list[str]]:
    """Some of the rows of fragments that can be read, how many rows there are, and what is wrong with the other fragments."""
    parts = [table.scanner(limit=0, blob_handling="all_binary").to_table()]
    problems, count = [], 0
    for fragment in table.get_fragments():
        first = count
        try:
            count += fragment.count_rows(where)
            wanted = range(max(offset - first, 0), min(offset + limit, count) - first)
            if wanted:
                scanner = fragment.scanner(
                    filter=where, offset=wanted.start, limit=len(wanted), blob_handling="all_binary"
                )
                parts.append(scanner.to_table())
        except (CorruptFile, MissingFile) as error:
            problems.append(f"fragment {fragment.fragment_id}: {error}")
    return pa.concat_tables(parts), count, problems


def _upkeep(table: LanceDataset, _: Words) -> Any:
    plan = Compaction.plan(table, {})
    explained = table.explain_cleanup_old_versions(error_if_tagged_old_versions=False)
    return {
        "compaction": [[fragment.id for fragment in task.fragments] for task in plan.tasks],
        "compaction_text": str(plan),
        "cleanup_text": str(explained),
        "cleanup_bytes": explained.stats.bytes_removed,
        "cleanup_versions": explained.stats.old_versions,
    }


FACTS: Final[Mapping[str, Callable[[LanceDataset, Words], Any]]] = {
    "overview": _overview,
    "history": _history,
    "lines": _lines,
    "fragments": _fragments,
    "fragment": _fragment,
    "columns": _columns,
    "pages": _pages,
    "indices": _indices,
    "rows": _rows,
    "upkeep": _upkeep,
}


def _page(words: Words, most: int) -> tuple[int, int]:
    """Where a part of a list begins, and how long it is."""
    return _number(words, "offset", 0), min(_number(words, "limit", most), most)


def _number(words: Words, name: str, default: int) -> int:
    text = words.get(name, str(default))
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput(f"{name} is a number that is not negative, not {text!r}")
    return int(text)


def _cell(value: Any) -> Any:
    """A value to look at: pictures as pictures, vectors as numbers, long texts cut, numbers that JavaScript lacks as texts."""
    if isinstance(value, bytes):
        kind = _picture_kind(value)
        if kind is not None and len(value) <= _LARGEST_PICTURE:
            return {"picture": f"data:image/{kind};base64,{base64.b64encode(value).decode()}", "bytes": len(value)}
        return {"bytes": len(value)}
    if isinstance(value, list) and len(value) > 3 and all(isinstance(item, (int, float)) for item in value):
        return {"vector": value[:_MOST_NUMBERS], "length": len(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"text": str(value)}
    if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
        return {"text": str(value)}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    if len(text) > _LONGEST_TEXT:
        return {"text": text[:_LONGEST_TEXT], "length": len(text)}
    return text if isinstance(value, str) else {"text": text}


def _picture_kind(data: bytes) -> str | None:
    if data.startswith(b"RIFF"):
        return "webp" if data[8:12] == b"WEBP" else None
    return next((kind for magic, kind in _PICTURES if data.startswith(magic)), None)
