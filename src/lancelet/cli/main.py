"""The command ``lancelet``, put together of its parts.

Exit codes: 0 done, 1 a mistake or a failure (and differences that ``diff`` found), 2 words that the command does not know,
3 a check that found something, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Final

import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from lancelet.cli import keep, look, machine, move, page, serving
from lancelet.cli.printing import safe_lines
from lancelet.errors import LanceletError

app = typer.Typer(
    name="lancelet",
    help="Lance tables from a terminal: look at them, ask them, keep them in order, move them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for part in (look, page, keep, move, serving, machine):
    app.add_typer(part.app)


_TOLD: Final = (
    *(OSError, ValueError, TypeError, LookupError, ImportError, RuntimeError, ArithmeticError, EOFError, UnicodeError),
    LanceletError,
    pa.ArrowException,
)
"""What mistakes of users, stores and files end in; anything else is a mistake of ours, and is shown whole."""


_OF_OTHERS: Final = (("lance_namespace", "LanceNamespaceError"), ("pyspark.errors", "PySparkException"))
"""What namespaces and Spark raise, if a command asked one."""


def _told() -> tuple[type[Exception], ...]:
    """Those, and those of others that are loaded."""
    loaded = ((sys.modules.get(module), name) for module, name in _OF_OTHERS)
    return (*_TOLD, *(getattr(module, name) for module, name in loaded if module is not None))


def _print_version(wanted: bool) -> None:
    if wanted:
        import lancelet

        typer.echo(f"lancelet {lancelet.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """The program: errors are sentences, never tracebacks; with ``LANCELET_TRACEBACK=1`` both."""
    for stream in (sys.stdout, sys.stderr):
        # A letter that a terminal does not have is written out, and ends no command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except _told() as error:
        if os.environ.get("LANCELET_TRACEBACK"):
            raise
        if isinstance(error, BrokenPipeError):
            # Whoever reads has enough; Python would say so once more at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        said = safe_lines(str(error) or type(error).__name__)
        Console(stderr=True, highlight=False, soft_wrap=True).print(Text.assemble(("error:", "red"), " ", said))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
