"""The Java that Spark takes: where it is, and what is wrong with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LEAST: Final = 17
"""The oldest version that Spark runs on."""
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Java:
    """A Java, if there is one."""

    program: str | None
    title: str | None
    """As it calls itself."""
    problem: str | None
    """What keeps Spark from using it, and what to do about that."""


def find_java() -> Java:
    """The one that Spark would start: of ``JAVA_HOME``, else on the path."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None:
        text = f"there is no java on the path, which Spark needs: install a JDK of version {LEAST} or later"
        return Java(None, None, f"{text}, or name its folder in JAVA_HOME")
    if not os.access(program, os.X_OK):
        return Java(
            None,
            None,
            f"JAVA_HOME is {home}, where there is no Java: name the folder of one of version {LEAST} or later",
        )
    done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    told = done.stderr or done.stdout
    title, found = (told.strip().splitlines() or ["unknown"])[0], _VERSION.search(told)
    if found is not None and int(found[1]) < LEAST:
        text = f"{program} is {title}, but Spark needs version {LEAST} or later: install one"
        return Java(program, title, f"{text}, and name its folder in JAVA_HOME")
    return Java(program, title, None)
