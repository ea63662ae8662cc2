"""Programs that import lance run unchanged, once they are told to take this library for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import lancelet
lancelet.enable_as_lance()
lancelet.enable_as_lance()
import lance, lance.vector
from lance.query import MatchQuery
from lance.dataset import LanceDataset
import lancelet.query
assert lance is lancelet and MatchQuery is lancelet.query.MatchQuery and LanceDataset is lancelet.LanceDataset
assert lance.__name__ == lancelet.__spec__.name == "lancelet" and lance.vector.__spec__.name == "lancelet.vector"
try:
    import lance.nothing
except ModuleNotFoundError as error:
    assert error.name == "lance.nothing", error.name
else:
    raise AssertionError
print(lance.write_dataset({"a": [1, 2]}, "memory://alias").count_rows())
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (PROGRAM, "2\n"),
        (
            "import lance, lancelet\ntry:\n    lancelet.enable_as_lance()\nexcept ImportError as error:\n    print(str(error)[:27])",
            "lance is imported already, \n",
        ),
    ],
    ids=["before", "after"],
)
def test_lance_is_this_library(program: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
