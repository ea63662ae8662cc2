"""Compile the bridge against the jars inside the installed pyspark; the same sources give the same bytes.

The jar carries a digest of its sources, so that a stale one is told without a compiler.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
JAR = HERE.parent / "src" / "lancelet" / "spark" / "jars" / "lancelet-bridge.jar"
SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
DIGEST = "META-INF/lancelet-sources.sha256"
MANIFEST = "META-INF/MANIFEST.MF"
_TIME = (2020, 1, 1, 0, 0, 0)
_RELEASE = "17"


def sources() -> list[Path]:
    """The Java files."""
    return sorted(HERE.glob("**/*.java"))


def digest() -> str:
    """Of all sources and of this script."""
    found = hashlib.sha256()
    for path in [*sources(), Path(__file__)]:
        found.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def compiled(folder: Path) -> dict[str, bytes]:
    """Class files by their path in the jar."""
    javac = shutil.which("javac")
    if javac is None:
        sys.exit(
            "javac is missing; install a JDK of Java 17 or later, on Debian: apt-get install openjdk-17-jdk-headless"
        )
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        sys.exit("pyspark is missing; install it with: pip install 'lancelet[spark]'")
    classpath = str(Path(spec.origin).parent / "jars" / "*")
    command = [javac, "--release", _RELEASE, "-g:none", "-proc:none", "-Xlint:-options", "-classpath", classpath]
    subprocess.run([*command, "-d", str(folder), *map(str, sources())], check=True)  # noqa: S603 - a compiler and our own files
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.glob("**/*.class"))}


def build(target: Path) -> None:
    """Write the jar."""
    with tempfile.TemporaryDirectory() as folder:
        entries = compiled(Path(folder))
    head = {
        MANIFEST: b"Manifest-Version: 1.0\r\n\r\n",
        DIGEST: digest().encode(),
        SERVICE: b"io.lancelet.spark.read.LanceProvider\n",
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    # A session that runs keeps the jar that it has opened.
    beside = target.with_suffix(".new")
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, data in {**head, **entries}.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            jar.writestr(entry, data)
    beside.replace(target)


def is_fresh() -> bool:
    """Whether the jar that is there was made from these sources."""
    if not JAR.exists():
        return False
    with zipfile.ZipFile(JAR) as jar:
        return jar.read(DIGEST).decode() == digest()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the jar is not the one that these sources give")
    if not parser.parse_args().check:
        build(JAR)
    elif not is_fresh():
        sys.exit(f"{JAR} is stale; run: make jar")
