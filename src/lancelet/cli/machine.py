"""What this machine has for Lancelet: the command ``doctor``."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final

import typer

from lancelet._api.processor import simd_info
from lancelet.cli.keep import FOUND
from lancelet.cli.places import Json
from lancelet.cli.printing import Printer
from lancelet.spark.java import find_java

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
    "jieba": "jieba",
    "PyStemmer": "text",
    "pillow": "images",
    "ml_dtypes": "bfloat16",
    "pydantic": "pydantic",
    "opentelemetry-sdk": "otel",
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
    facts["instructions"] = simd_info()["tier"]
    java = find_java()
    facts["java"] = java.problem if java.program is None else f"{java.title}, {java.program}"
    problems = [java.problem] if java.problem is not None and _version("pyspark") is not None else []
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
