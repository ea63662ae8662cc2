"""A disk that fills up in the middle of any operation: an error, and nothing that is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faults.full_disk import WRITERS

QUICK = ("btree", "sort_on_disk", "merge_spilled")


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(QUICK, id="some"),
        pytest.param(tuple(name for name in WRITERS if name not in QUICK), id="others", marks=pytest.mark.soak),
    ],
)
def test_nothing_is_left_behind(tmp_path: Path, names: tuple[str, ...]) -> None:
    """No descriptors, no temporary files, no empty folders, no files without a version."""
    mount = f'mount -t tmpfs -o size=3m none {tmp_path} && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("a file system of its own size cannot be mounted here")
    done = subprocess.run(
        [*command, sys.executable, "-m", "faults.full_disk", tmp_path, *names],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stderr == ""
    refused = dict(line.split() for line in done.stdout.splitlines())
    assert list(refused) == list(names)
    assert all(int(count) for count in refused.values()), refused
