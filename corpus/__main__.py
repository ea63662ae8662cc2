"""``python -m corpus FOLDER``: write the corpus, then have pylance read it and list where it differs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus.cases import Case, cases
from corpus.values import rows_of, schema_of


def write(folder: Path, wanted: Iterator[Case] | None = None) -> list[dict[str, Any]]:
    """Write cases, all by default, with what is in them; gives the index."""
    import lancelet

    index = []
    for case in wanted or cases():
        home = folder / case.name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        case.write(home / "table.lance")
        expected = {"refused": case.shows} if case.refused else contents(lancelet, home / "table.lance")
        (home / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
        index.append({"name": case.name, "shows": case.shows, "refused": case.refused})
    (folder / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n")
    return index


def contents(library: Any, path: Path) -> dict[str, Any]:
    """What a library finds in a table: every version, tag and branch."""
    newest = library.dataset(str(path))
    references: dict[str, Any] = {str(one["version"]): one["version"] for one in newest.versions()}
    references |= {f"tag {name}": name for name in newest.tags.list()}
    references |= {f"branch {name}": (name, None) for name in newest.branches.list()}
    return {name: _version(newest.checkout_version(reference)) for name, reference in sorted(references.items())}


def _version(dataset: Any) -> dict[str, Any]:
    blobs = any((field.metadata or {}).get(b"lance-encoding:blob") == b"true" for field in dataset.schema)
    options = {"blob_handling": "all_binary"} if blobs else {}
    table = dataset.scanner(**options).to_table()
    return {"schema": schema_of(dataset.schema), "num_rows": dataset.count_rows(), "rows": rows_of(table)}


def check(library: Any, folder: Path, name: str) -> str | None:
    """What a library makes of a case: None if all is as expected, else what is different."""
    expected = json.loads((folder / name / "expected.json").read_text())
    try:
        found = json.loads(json.dumps(contents(library, folder / name / "table.lance")))
    except (OSError, ValueError, RuntimeError, NotImplementedError) as error:
        return None if "refused" in expected else f"refused: {error}"
    if "refused" in expected:
        return f"read, although it has {expected['refused']}"
    if found == expected:
        return None
    versions = [version for version in expected if found.get(version) != expected[version]]
    return f"other contents in version {versions[0]}" if versions else "other versions"


def main() -> None:
    """Write, and compare with pylance."""
    import lance

    if len(sys.argv) != 2:
        sys.exit("usage: python -m corpus FOLDER")
    folder = Path(sys.argv[1])
    index = write(folder)
    print(f"{len(index)} cases in {folder}")
    differences = {case["name"]: check(lance, folder, case["name"]) for case in index}
    for name, difference in differences.items():
        if difference is not None:
            print(f"pylance: {name}: {difference.splitlines()[0][:200]}")
    print(f"pylance agrees on {sum(found is None for found in differences.values())} of {len(index)}")


if __name__ == "__main__":
    main()
