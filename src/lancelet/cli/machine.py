"""What this machine has for Lancelet: the command ``doctor``."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final

import typer

from lancelet._api.processor import simd_info
from lancelet.cli.keep import FOUND
from lancelet.cli.places import Json
from lancelet.cli.printing import Printer

app = typer.Typer()
_NEEDED: Final = ("lancelet", "pyarrow", "numpy", "protobuf", "obstore")
_EXTRAS: Final = {
    "pyspark": "spark",
    "lance-namespace": "namespace",
    "datafusion": "sql",
    "torch": "torch",
    "boto3": "dynamodb",
    "shapely": "geo",
    "icu4py": "icu",
}


@app.command()
def doctor(
    spark: Annotated[bool, typer.Option("--spark", help="Also start a local Spark, and try it.")] = False,
    json: Json = False,
) -> None:
    """What is installed here, and what is missing for Spark and the extras. Ends with 3 if something is wrong."""
    facts: dict[str, Any] = {"python": f"{platform.python_version()}, {sys.executable}", "system": platform.platform()}
    facts |= {name: _version(name) for name in _NEEDED}
    facts |= {
        name: _version(name) or f"not installed: pip install 'lancelet[{extra}]'" for name, extra in _EXTRAS.items()
    }
    facts["instructions"] = simd_info()
    facts["java"], problems = _java()
    if _version("pyspark") is None:
        problems = []
    if spark:
        from lancelet.spark import doctor as examine
        from lancelet.spark import local_session

        found = examine(local_session())
        problems += found.problems
        facts |= {f"spark {number}": fact for number, fact in enumerate(found.facts, 1)}
    printer = Printer(as_json=json)
    printer.facts("", facts, raw={"facts": facts, "problems": problems})
    for problem in problems:
        printer.say(f"problem: {problem}")
    if problems:
        raise typer.Exit(FOUND)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java() -> tuple[str | None, list[str]]:
    """The Java that Spark would take, and what is wrong with it."""
    program = shutil.which("java")
    if program is None:
        return None, ["there is no java on the path, which Spark needs: install a JDK of version 17 or later"]
    done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    line = (done.stderr or done.stdout).strip().splitlines()
    return f"{line[0] if line else 'unknown'}, {program}", []
