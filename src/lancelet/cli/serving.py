"""The command ``serve``: the tables of a folder for clients of ``lance-namespace``, in any language."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from lancelet.cli.places import TOKEN, Json, Options, storage_options
from lancelet.cli.printing import Printer

app = typer.Typer()


@app.command("serve")
def serve_tables(
    root: Annotated[str, typer.Argument(help="The folder or URI of a namespace.")],
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; others than the loopback address need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any.")] = 2333,
    token: Annotated[
        str | None,
        typer.Option("--token", envvar=TOKEN, help="What clients show; better in LANCELET_TOKEN than here."),
    ] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="A certificate.")] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its key.")] = None,
    options: Options = None,
    json: Json = False,
) -> None:
    """Serve the tables of a folder over HTTP, by the REST specification of lance-namespace."""
    from lancelet.namespace import serve

    def tell(address: str) -> None:
        # One line, so that whoever started it need not wait for more.
        Printer(as_json=json).address(address)

    given: dict[str, Any] = {"tls_cert": tls_cert, "tls_key": tls_key, "storage_options": storage_options(options)}
    serve(os.fspath(root), host, port, token=token, ready=tell, **given)
