"""Without Spark, or without a Java for it, one sentence says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lancelet.spark.java import find_java


def _java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "fits"), [("17.0.15", True), ("21", True), ("11.0.2", False), ("1.8.0_442", False)]
)
def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: bool) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "jdk", version)))
    found = find_java()
    assert version in (found.title or "")
    assert (found.problem is None) == fits
    assert fits or "version 17 or later" in (found.problem or "")


def test_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no java on the path" in (find_java().problem or "")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME is {tmp_path}" in (find_java().problem or "")


def test_spark_is_not_installed() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import lancelet.spark; lancelet.spark.local_session()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "MissingPackage: Spark as the engine needs the package pyspark: pip install 'lancelet[spark]'" in done.stderr
