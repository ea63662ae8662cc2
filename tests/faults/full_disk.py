"""A program for a small disk of its own: operations with room for one page more each time, until they succeed.

``python -m faults.full_disk FOLDER NAME...`` prints how often each was refused. Whatever is refused leaves no open files, no empty folders
and no file that no version refers to.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from lance_namespace.errors import InternalError

from faults.operations import OPERATIONS, check_table, prepare, rows
from lancelet.index.scalar.external_sort import sorted_rows

PAGE = 4096
ROWS = 60


READERS = ("abandon", "cleanup", "count", "nearest", "scan", "sort", "take", "verify")
"""Operations that write nothing of their own."""
WRITERS = ("sort_on_disk", *(name for name in OPERATIONS if name not in READERS))


def sorted_on_disk(uri: str, count: int) -> None:
    """Runs of a few rows, all of which go to temporary files."""
    whole = rows(0, 10 * count)
    numbered = pa.table({"value": whole["t"], "row": pa.array(range(whole.num_rows), pa.uint64())})
    for _ in sorted_rows(numbered.to_batches(max_chunksize=100), run_bytes=4000, kept_bytes=0):
        pass


def open_files() -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return sorted(name for name in found if name.endswith("(deleted)") or "lancelet" in Path(name).name)


def fill(ballast: Path, left: int) -> None:
    """Leave room for so many pages."""
    with ballast.open("wb", buffering=0) as file:
        free = os.statvfs(ballast).f_bavail
        os.posix_fallocate(file.fileno(), 0, max(free - left, 1) * PAGE)


def check(folder: Path, before: list[str]) -> None:
    assert open_files() == before, open_files()
    assert [path for path in folder.rglob("*") if path.is_dir() and not any(path.iterdir())] == []
    tables = [path.parent for path in folder.rglob("_versions")]
    assert [path for path in folder.rglob("*.*") if path.is_file() and not set(path.parents) & set(tables)] == []
    for where in tables:
        check_table(where)


def main(disk: Path, names: list[str]) -> None:
    temporary, template, ballast = disk / "temporary", disk / "template", disk / "ballast"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    prepare(str(template), ROWS)
    # What failed must be let go by itself, not by a collector that may come much later.
    gc.disable()
    for name in names:
        operation = sorted_on_disk if name == "sort_on_disk" else OPERATIONS[name]
        refused = 0
        while True:
            folder = disk / "tables"
            shutil.copytree(template, folder / "t")
            fill(ballast, refused)
            before = open_files()
            done = True
            try:
                operation(str(folder / "t"), ROWS)
            except (OSError, InternalError):
                done = False
            ballast.unlink()
            assert list(temporary.iterdir()) == []
            if not list(folder.glob("*.checkpoint*")):
                check(folder, before)
            shutil.rmtree(folder)
            if done:
                break
            refused += 1
        print(name, refused)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
