"""Extension modules; everything else about the package is in pyproject.toml.

Every ``.pyx`` under ``src/lancelet`` becomes a module of the same dotted name.
They are compiled side by side, without debug information and stripped. What Cython
has to say about memoryviews stands in a module of its own, which they share.
``LANCELET_SANITIZE=1`` builds with AddressSanitizer for the soak run;
``LANCELET_KERNELS=0`` leaves the kernels out, for an editable install that is
about to compile them in place anyway.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

SOURCE = Path("src")
KERNELS = os.environ.get("LANCELET_KERNELS") != "0"
SANITIZE = os.environ.get("LANCELET_SANITIZE") == "1"
CORES = os.cpu_count() or 1
SHARED = "lancelet.runtime.memoryviews"

if SANITIZE:
    COMPILE = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address"]
    LINK = ["-fsanitize=address"]
else:
    COMPILE = ["-O3", "-g0"]
    # ld64 has no -s of its own; without debug information little is left to strip there.
    LINK = [] if sys.platform == "darwin" else ["-Wl,-s"]

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
}


class BuildKernels(build_ext):
    """Compiles, or says in one sentence what is missing."""

    def build_extensions(self) -> None:
        headers = Path(sysconfig.get_path("include"), "Python.h")
        if not headers.exists():
            sys.exit(
                f"lancelet compiles kernels, and Python's C headers are not there ({headers}): install them "
                "(python3-dev on Debian, python3-devel on Fedora), or use a wheel"
            )
        command = getattr(self.compiler, "compiler_so", None)
        if command and shutil.which(command[0]) is None:
            sys.exit(
                f"lancelet compiles kernels, and there is no C compiler {command[0]!r}: install one "
                "(build-essential on Debian, xcode-select --install on macOS) or name yours in CC, or use a wheel"
            )
        try:
            super().build_extensions()
        except (CompileError, LinkError) as error:
            sys.exit(f"lancelet's kernels could not be compiled; what the compiler says is above ({error})")


def extensions() -> list[Extension]:
    """One extension for each .pyx file, named after its place in the package, and the one that they share."""
    sources = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in sorted(SOURCE.rglob("*.pyx"))}
    sources[SHARED] = SOURCE.joinpath(*SHARED.split(".")).with_suffix(".c")  # Cython writes it, below build_dir
    return [
        Extension(name, [str(path)], extra_compile_args=COMPILE, extra_link_args=LINK) for name, path in sources.items()
    ]


def translated() -> list[Extension]:
    """The extensions with their C files."""
    return cythonize(
        extensions(),
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
        nthreads=CORES,
        shared_utility_qualified_name=SHARED,
    )


# Processes that translate side by side import this file anew where they are not forked.
if __name__ == "__main__":
    setup(
        ext_modules=translated() if KERNELS else [],
        cmdclass={"build_ext": BuildKernels},
        options={"build_ext": {"parallel": CORES}},
    )
