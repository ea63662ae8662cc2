"""What the logger tells at the level DEBUG, and that it is silent otherwise."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lancelet


def test_a_program_can_follow_what_happens(caplog: pytest.LogCaptureFixture) -> None:
    uri = "memory://logged/t"
    with caplog.at_level(logging.DEBUG, "lancelet"):
        lancelet.write_dataset({"x": range(10)}, uri)
        dataset = lancelet.dataset(uri)
        dataset.create_scalar_index("x", "BTREE")
        stale = lancelet.dataset(uri, version=1)
        assert dataset.to_table(["x"], filter="x = 3").num_rows == 1
        stale.insert({"x": [11]})
        stale.insert({"x": [12]})
        stale.optimize.compact_files()
        stale.cleanup_old_versions(retain_versions=1)
    text = caplog.text
    for told in (
        "opened version 1 of memory://logged/t",
        "committed version 2 of memory://logged/t: CreateIndex",
        "came first; the change is tried on it",
        "a scan of memory://logged/t gives x",
        "x = 3 on memory://logged/t is told by indices",
        "wrote 2 rows of 2 fragments of memory://logged/t anew, as 1",
        "old versions of memory://logged/t: ",
    ):
        assert told in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "lines"), [("debug", True), ("warn,lance=debug", False), ("odd", False), (None, False)]
)
@pytest.mark.spread(0.5, each=False)
def test_the_environment_says_how_much(tmp_path: Path, level: str | None, lines: bool) -> None:
    program = f"import lancelet; lancelet.write_dataset({{'x': [1]}}, {str(tmp_path / 't')!r})"
    known = {name: value for name, value in os.environ.items() if name != "LANCE_LOG"}
    environment = known if level is None else {**known, "LANCE_LOG": level}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert ("committed version 1 of" in done.stderr) == lines
    assert lines or not done.stderr
