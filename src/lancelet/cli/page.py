"""The command ``inspect``: a table in the browser."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from lancelet.cli.places import AsOf, At, Json, Options, Place, open_table
from lancelet.cli.printing import Printer
from lancelet.inspector.server import Inspector

app = typer.Typer()


@app.command("inspect")
def inspect_table(
    table: Place,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="On the loopback address; 0: any.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    at: At = None,
    as_of: AsOf = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """A page that shows what a table is made of, in a browser on this machine. It only reads."""
    opened = open_table(table, at, as_of, options)
    follow = as_of is None and (at is None or at == "main" or at in opened.branches.list())
    page = Inspector(opened, port, follow=follow)
    Printer(as_json=json).address(page.address)
    typer.echo("whoever has this address can read the table; Ctrl-C ends it", err=True)
    if browser:
        webbrowser.open(page.address)
    page.serve()
