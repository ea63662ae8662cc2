"""Extension modules; everything else about the package is in pyproject.toml.

Every ``.pyx`` under ``src/lancelet`` becomes a module of the same dotted name.
``LANCELET_SANITIZE=1`` builds with AddressSanitizer for the soak run;
``LANCELET_KERNELS=0`` leaves the kernels out, for an editable install that is
about to compile them in place anyway.
"""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")
KERNELS = os.environ.get("LANCELET_KERNELS") != "0"
SANITIZE = os.environ.get("LANCELET_SANITIZE") == "1"

if SANITIZE:
    COMPILE = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address"]
    LINK = ["-fsanitize=address"]
else:
    COMPILE = ["-O3"]
    LINK = []

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
}


def extensions() -> list[Extension]:
    """One extension for each .pyx file, named after its place in the package."""
    return [
        Extension(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts),
            [str(path)],
            extra_compile_args=COMPILE,
            extra_link_args=LINK,
        )
        for path in sorted(SOURCE.rglob("*.pyx"))
    ]


setup(ext_modules=cythonize(extensions(), compiler_directives=DIRECTIVES, build_dir="build/cython") if KERNELS else [])
