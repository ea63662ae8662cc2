"""Without torch, what needs it says how to install it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HIDDEN = "import sys; sys.modules['torch'] = None\n"


@pytest.mark.parametrize("what", ["lancelet.torch", "lancelet.torch.data", "lancelet.torch.kmeans"])
def test_the_extra_is_named(what: str) -> None:
    script = (
        f"{HIDDEN}import lancelet.errors\n"
        f"try:\n    import {what}\nexcept lancelet.errors.MissingPackage as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "lancelet.torch needs the package torch: pip install 'lancelet[torch]'\n"


def test_all_else_is_there() -> None:
    script = f"{HIDDEN}import lancelet, lancelet.sampler, lancelet.indices\nprint(lancelet.dataset.__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "dataset\n"
