"""What the page asks for, as JSON: each question is a function of the table and of the words after ``?``."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from lancelet._naming.plain_values import rows_of
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput
from lancelet.inspect.layout import column_facts, file_facts, fragment_facts, page_facts
from lancelet.inspect.overview import overview
from lancelet.inspect.past import past_versions
from lancelet.optimize import Compaction

Words = Mapping[str, str]
_MOST_ROWS: Final = 100
_MOST_FRAGMENTS: Final = 20_000
_MOST_PAGES: Final = 5_000
_MOST_VERSIONS: Final = 500
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


def _fragments(table: LanceDataset, _: Words) -> Any:
    files: dict[int, list[Any]] = {}
    for one in file_facts(table.table.snapshot):
        files.setdefault(one.fragment, []).append(asdict(one))
    found = []
    for fragment in fragment_facts(table.table.snapshot):
        found.append({**asdict(fragment), "data_files": files.get(fragment.id, [])})
        if len(found) == _MOST_FRAGMENTS:
            break
    return {"fragments": found, "all": len(table.table.snapshot.manifest.fragments)}


def _columns(table: LanceDataset, _: Words) -> Any:
    return [asdict(one) for one in column_facts(table.table.snapshot)]


def _pages(table: LanceDataset, words: Words) -> Any:
    found = []
    for page in page_facts(table.table.snapshot, words.get("column")):
        found.append(asdict(page))
        if len(found) == _MOST_PAGES:
            break
    return found


def _indices(table: LanceDataset, _: Words) -> Any:
    total = table.count_rows()
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
        }
        for one in table.describe_indices()
    ]


def _rows(table: LanceDataset, words: Words) -> Any:
    offset, limit = _number(words, "offset", 0), min(_number(words, "limit", 20), _MOST_ROWS)
    where = words.get("where") or None
    scanner = table.scanner(filter=where, offset=offset, limit=limit, blob_handling="all_binary")
    found = scanner.to_table()
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in found.schema],
        "rows": [[_cell(value) for value in row.values()] for row in rows_of(found)],
        "count": table.count_rows(where),
    }


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
    "fragments": _fragments,
    "columns": _columns,
    "pages": _pages,
    "indices": _indices,
    "rows": _rows,
    "upkeep": _upkeep,
}


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
